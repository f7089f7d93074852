"""Read-only programs, with the options that keep them so (R10). Data, no logic.

An option is harmless only because it is listed here, and every row is one that client 2.1.325 runs without asking. A
program in ``LOOKERS`` has no option that writes or reaches the network, so unquoted globs and unknown words cannot
make it dangerous. For programs in ``TABLES`` such a word could become one of the options left out on purpose.
"""

from __future__ import annotations

from recollect.policy.commands.options import Options, options, table

_HELP = "--help --version"

FREE = frozenset({"echo", "expr", "false", "test", "true"})
"""They print or compare their words, whatever these are."""

LOOKERS: dict[str, Options] = {
    "basename": options("-a -z --multiple --zero " + _HELP, "-s --suffix"),
    "cal": options("-3 -y"),
    "cat": options(
        "-A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs"
        " --show-nonprinting " + _HELP
    ),
    "cmp": options(
        "-b -l -s --print-bytes --verbose --quiet --silent " + _HELP, "-i -n --ignore-initial --bytes"
    ),
    "column": options("-t -x -n --table", "-c -s -o --separator --output-separator --output-width"),
    "comm": options("-1 -2 -3 -z --check-order --nocheck-order --total --zero-terminated " + _HELP),
    "cut": options(
        "-n -s -z --only-delimited --complement --zero-terminated " + _HELP,
        "-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter",
    ),
    "df": options(
        "-a -h -H -i -k -l -P -T --all --human-readable --si --inodes --local --portability --print-type "
        + _HELP,
        "-B -t -x --block-size --type --exclude-type",
        "--output",
    ),
    # diff: -l starts pr, --to-file and --from-file are left out.
    "diff": options(
        "-q -s -c -u -e -n -y -p -t -T -r -N -a -b -B -w -i -E -Z -d --brief --report-identical-files --context"
        " --unified --ed --rcs --side-by-side --show-c-function --expand-tabs --initial-tab --recursive --new-file"
        " --text --ignore-case --ignore-all-space --ignore-space-change --ignore-blank-lines --minimal"
        " --suppress-common-lines --left-column --strip-trailing-cr --no-dereference " + _HELP,
        "-C -U -W -x -X -I -L -S -F --width --exclude --exclude-from --ignore-matching-lines --label --tabsize",
        "--color",
    ),
    "dirname": options("-z --zero " + _HELP),
    "du": options(
        "-0 -a -b -c -D -h -H -k -l -L -m -P -s -S -x --all --apparent-size --bytes --total --human-readable --si"
        " --summarize --one-file-system --dereference --separate-dirs --inodes " + _HELP,
        "-B -d -t -X --block-size --max-depth --threshold --exclude --exclude-from",
        "--time",
    ),
    "expand": options("-i", "-t"),
    "fold": options("-b -s --bytes --spaces " + _HELP, "-w --width"),
    "free": options("-b -k -m -g -h -w -t", "-s -c"),
    "groups": options(_HELP),
    "head": options(
        "-q -v -z --quiet --silent --verbose --zero-terminated " + _HELP,
        "-c -n --bytes --lines",
        numeric=True,
    ),
    "hexdump": options("-b -c -C -d -o -v -x", "-e -n -s"),
    "id": options("-g -G -n -r -u -z --group --groups --name --real --user " + _HELP),
    "locale": options("-a -m"),
    "ls": options(
        "-a -A -b -B -c -C -d -f -F -g -G -h -H -i -k -l -L -m -n -N -o -p -q -Q -r -R -s -S -t -u -U -v -x -X -Z -1"
        " --all --almost-all --escape --ignore-backups --directory --dired --group-directories-first --human-readable"
        " --inode --no-group --numeric-uid-gid --literal --reverse --recursive --size --full-time --si --dereference "
        + _HELP,
        "-I -T -w --ignore --hide --tabsize --width --block-size --format --quoting-style --sort --time"
        " --time-style --indicator-style",
        "--color --classify --hyperlink",
    ),
    "nl": options("-p", "-b -d -f -h -i -l -n -s -v -w"),
    "nproc": options("--all " + _HELP, "--ignore"),
    "od": options("-a -b -c -d -f -i -l -o -s -v -x " + _HELP, "-A -j -N -t -w"),
    "paste": options("-s -z --serial --zero-terminated " + _HELP, "-d --delimiters"),
    "pr": options("-t -n -d"),
    "readlink": options(
        "-f -e -m -n -q -s -v -z --canonicalize --canonicalize-existing --no-newline " + _HELP
    ),
    "realpath": options(
        "-e -m -L -P -q -s -z --canonicalize-existing --canonicalize-missing --logical --physical --quiet --strip"
        " --no-symlinks --zero " + _HELP,
        "--relative-to --relative-base",
    ),
    "rev": options(),
    "seq": options("-w --equal-width " + _HELP, "-f -s --format --separator"),
    "sleep": options(_HELP),
    "stat": options("-L -f -t -x --dereference --file-system --terse " + _HELP, "-c --format --printf"),
    "strings": options("-a -f -o -w --all " + _HELP, "-n -t -e --bytes --radix --encoding"),
    "tac": options("-b -r --before --regex " + _HELP, "-s --separator"),
    "tail": options(
        "-f -F -q -v -z -r --quiet --silent --verbose --zero-terminated --retry " + _HELP,
        "-c -n -s --bytes --lines --sleep-interval --pid",
        "--follow",
        numeric=True,
    ),
    "tr": options("-c -C -d -s -t --complement --delete --squeeze-repeats --truncate-set1 " + _HELP),
    "tsort": options(),
    "type": options("-a -t -p -P -f"),
    "uname": options("-a -s -n -r -v -m -p -i -o --all " + _HELP),
    "unexpand": options("-a", "-t"),
    "uptime": options("-p -s"),
    "wc": options(
        "-c -m -l -L -w --bytes --chars --lines --max-line-length --words " + _HELP, "--files0-from --total"
    ),
    "which": options("-a -s --all"),
}

ALONE = frozenset({"arch", "history", "pwd", "whoami"})
"""Read-only without any word behind them."""
EXACT = frozenset(
    {
        ("ip", "addr"),
        ("tput", "cols"),
        ("tput", "colors"),
        ("docker", "images"),
        ("docker", "ps"),
        ("netstat", "-an"),
    }
    | {(name, "--version") for name in ("node", "python", "python3")}
    | {("node", "-v"), ("netstat",), ("ss",), ("ifconfig",), ("docker", "ps", "-a")}
)
"""Whole command lines."""

TABLES: dict[str, Options] = {
    "base64": table(
        "--decode --help --ignore-garbage --version -D -d -i",
        "",
        numbers="--wrap -w",
    ),
    "date": table(
        "--help --rfc-email --universal --utc --version -I -R -u",
        "--date --reference -d -r",
    ),
    "file": table(
        "--brief --dereference --mime --mime-encoding --mime-type -0 -L -b -h -i -k -p -r -s",
        "-F",
    ),
    "grep": table(
        "--basic-regexp --binary --byte-offset --count --dereference-recursive --extended-regexp "
        "--files-with-matches --files-without-match --fixed-strings --help --ignore-case --initial-tab "
        "--invert-match --line-buffered --line-number --line-regexp --no-filename --no-ignore-case "
        "--no-messages --null --null-data --only-matching --perl-regexp --quiet --recursive --silent --text "
        "--version --with-filename --word-regexp -E -F -G -H -I -L -P -R -T -U -Z -a -b -c -h -i -l -n -o -q -r "
        "-s -v -w -x -z",
        "--binary-files --devices --directories --exclude --exclude-dir --exclude-from --file --include --label "
        "--regexp -D -d -e -f",
        "--color --colour",
        numbers="--after-context --before-context --context --max-count -A -B -C -m",
        attached="-e -f -m -A -B -C -d -D",
    ),
    "hostname": table(
        "--fqdn --short -I -d -f -i -s",
    ),
    "jq": table(
        "--ascii-output --color-output --compact-output --exit-status --join-output --monochrome-output "
        "--null-input --raw-input --raw-output --slurp --sort-keys --stream --tab -C -M -R -S -a -c -e -j -n -r "
        "-s",
        "--indent",
    ),
    "md5sum": table(
        "--binary --check --help --tag --text --version --zero -b -c -t -z",
    ),
    "ps": table(
        "--forest -A -F -L -a -d -e -f -j -l -w -y",
        "--pid --sort -C -G -U -g -p -q -s -t -u",
    ),
    "rg": table(
        "--count --files-with-matches --files-without-match --fixed-strings --follow --heading --help --hidden "
        "--ignore-case --invert-match --json --line-number --no-heading --no-ignore --only-matching --quiet "
        "--smart-case --stats --text --type-list --version --word-regexp -F -H -L -S -a -c -h -i -l -n -o -q -u "
        "-v -w",
        "--color --glob --regexp --type --type-not -T -e -f -g -t",
        numbers="--after-context --before-context --context --max-count --max-depth -A -B -C -d -m",
        attached="-A -B -C -m",
    ),
    "sha1sum": table(
        "--binary --check --help --tag --text --version --zero -b -c -t -z",
    ),
    "sha256sum": table(
        "--binary --check --help --tag --text --version --zero -b -c -t -z",
    ),
    "sort": table(
        "--check --dictionary-order --general-numeric-sort --help --human-numeric-sort --ignore-case "
        "--ignore-leading-blanks --ignore-nonprinting --merge --month-sort --numeric-sort --reverse --stable "
        "--unique --version --version-sort --zero-terminated -C -M -R -V -b -c -d -f -g -h -i -m -n -r -s -u -z",
        "--field-separator --key --parallel --sort -S -k -t",
    ),
    "tree": table(
        "--device --dirsfirst --du --gitignore --help --inodes --noreport --prune --si --version -C -D -F -J -N "
        "-Q -U -a -c -d -f -g -h -i -l -n -p -q -r -s -t -u -v -x",
        "--sort --timefmt -I -P",
        numbers="--filelimit -L",
    ),
    "uniq": table(
        "--count --help --ignore-case --repeated --unique --version --zero-terminated -D -c -d -i -u -z",
        "",
        numbers="-f -s -w",
    ),
    "fd": table("-H --hidden", "-e -t"),
    "fdfind": table("-H --hidden", "-e -t"),
    "fmt": table("", "-w"),
    "lsof": table("-i", "-p"),
    "man": table("-k"),
    "numfmt": table("", "--to --from"),
    "pgrep": table("-f -l"),
    "printf": table(),
}

GLOBS_PASS = frozenset(
    [
        "basename",
        "cat",
        "cmp",
        "column",
        "cut",
        "df",
        "diff",
        "dirname",
        "du",
        "echo",
        "egrep",
        "fgrep",
        "grep",
        "head",
        "hexdump",
        "ls",
        "md5sum",
        "nl",
        "od",
        "readlink",
        "realpath",
        "rev",
        "sha1sum",
        "sha256sum",
        "stat",
        "strings",
        "tac",
        "tail",
        "tr",
        "wc",
    ]
)
"""The programs to which the client lets the shell hand the names that a pattern stands for."""

OPERANDS: dict[str, int] = {"hostname": 0, "uniq": 0}
"""The most operands these take before one of them is written to or set."""

FIND_CHANGES = ("-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from")
"""Beginnings of the words that make find run, write or remove."""
