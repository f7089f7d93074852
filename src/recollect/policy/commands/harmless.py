"""Read-only programs, with the options that keep them so (R10). Data, no logic.

The tables hold what client 2.1.325 runs without asking, option by option. A program in ``FREE`` has no option that
writes, starts something or reaches the network, so unquoted globs cannot make it dangerous. For programs in
``TABLES`` a glob could become one of the options left out on purpose.
"""

from __future__ import annotations

from recollect.policy.commands.options import Options, table

FREE = frozenset(
    [
        "basename",
        "cal",
        "cat",
        "cmp",
        "column",
        "comm",
        "cut",
        "df",
        "diff",
        "dirname",
        "du",
        "echo",
        "expand",
        "expr",
        "false",
        "fold",
        "free",
        "groups",
        "head",
        "hexdump",
        "id",
        "locale",
        "ls",
        "nl",
        "nproc",
        "od",
        "paste",
        "pr",
        "readlink",
        "realpath",
        "rev",
        "seq",
        "sleep",
        "stat",
        "strings",
        "tac",
        "tail",
        "test",
        "tr",
        "true",
        "tsort",
        "type",
        "uname",
        "unexpand",
        "uptime",
        "wc",
        "which",
    ]
)
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
    "help": table(),
    "lsof": table("-i", "-p"),
    "man": table("-k"),
    "numfmt": table("", "--to --from"),
    "pgrep": table("-f -l"),
    "printf": table(),
}

OPERANDS: dict[str, int] = {"hostname": 0, "uniq": 0}
"""The most operands these take before one of them is written to or set."""

FIND_CHANGES = ("-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from")
"""Beginnings of the words that make find run, write or remove."""
