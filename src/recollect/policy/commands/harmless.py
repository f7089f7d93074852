"""Read-only programs, with the options that keep them so (R10). Data, no logic.

An option is harmless only because it is listed here. A program in ``LOOKERS`` has no option that
writes, starts something or reaches the network, so unquoted globs and unknown words cannot make it
dangerous. For programs in ``CAREFUL`` such a word could become one of the options left out on purpose.
"""

from __future__ import annotations

from recollect.policy.commands.options import Options, options

_HELP = "--help --version"

LOOKERS: dict[str, Options] = {
    "ls": options(
        "-a -A -b -B -c -C -d -f -F -g -G -h -H -i -k -l -L -m -n -N -o -p -q -Q -r -R -s -S -t -u -U -v -x -X -Z -1"
        " --all --almost-all --escape --ignore-backups --directory --dired --group-directories-first --human-readable"
        " --inode --no-group --numeric-uid-gid --literal --reverse --recursive --size --full-time --si --dereference "
        + _HELP,
        "-I -T -w --ignore --hide --tabsize --width --block-size --format --quoting-style --sort --time"
        " --time-style --indicator-style",
        "--color --classify --hyperlink",
    ),
    "cat": options(
        "-A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs"
        " --show-nonprinting " + _HELP
    ),
    "head": options(
        "-q -v -z --quiet --silent --verbose --zero-terminated " + _HELP,
        "-c -n --bytes --lines",
        numeric=True,
    ),
    "tail": options(
        "-f -F -q -v -z -r --quiet --silent --verbose --zero-terminated --retry " + _HELP,
        "-c -n -s --bytes --lines --sleep-interval --pid",
        "--follow",
        numeric=True,
    ),
    "wc": options(
        "-c -m -l -L -w --bytes --chars --lines --max-line-length --words " + _HELP, "--files0-from --total"
    ),
    "echo": options("-n -e -E"),
    "pwd": options("-L -P"),
    "true": options(),
    "false": options(),
    ":": options(),
    "which": options("-a -s --all"),
    "basename": options("-a -z --multiple --zero " + _HELP, "-s --suffix"),
    "dirname": options("-z --zero " + _HELP),
    "realpath": options(
        "-e -m -L -P -q -s -z --canonicalize-existing --canonicalize-missing --logical --physical --quiet --strip"
        " --no-symlinks --zero " + _HELP,
        "--relative-to --relative-base",
    ),
    "readlink": options(
        "-f -e -m -n -q -s -v -z --canonicalize --canonicalize-existing --no-newline " + _HELP
    ),
    "stat": options("-L -f -t -x --dereference --file-system --terse " + _HELP, "-c --format --printf"),
    "du": options(
        "-0 -a -b -c -D -h -H -k -l -L -m -P -s -S -x --all --apparent-size --bytes --total --human-readable --si"
        " --summarize --one-file-system --dereference --separate-dirs --inodes " + _HELP,
        "-B -d -t -X --block-size --max-depth --threshold --exclude --exclude-from",
        "--time",
    ),
    "df": options(
        "-a -h -H -i -k -l -P -T --all --human-readable --si --inodes --local --portability --print-type "
        + _HELP,
        "-B -t -x --block-size --type --exclude-type",
        "--output",
    ),
    "grep": options(
        "-E -F -G -P -i -y -v -w -x -c -L -l -o -q -s -b -H -h -n -T -Z -z -a -I -r -R -U --extended-regexp"
        " --fixed-strings --basic-regexp --perl-regexp --ignore-case --no-ignore-case --invert-match --word-regexp"
        " --line-regexp --count --files-without-match --files-with-matches --only-matching --quiet --silent"
        " --no-messages --byte-offset --with-filename --no-filename --line-number --initial-tab --null --null-data"
        " --text --recursive --dereference-recursive --line-buffered --binary " + _HELP,
        "-e -f -m -A -B -C -d -D --regexp --file --max-count --after-context --before-context --context"
        " --binary-files --directories --devices --include --exclude --exclude-from --exclude-dir --label",
        "--color --colour",
        numeric=True,
    ),
    "cut": options(
        "-n -s -z --only-delimited --complement --zero-terminated " + _HELP,
        "-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter",
    ),
    "tr": options("-c -C -d -s -t --complement --delete --squeeze-repeats --truncate-set1 " + _HELP),
    "nl": options("-p", "-b -d -f -h -i -l -n -s -v -w"),
    "tac": options("-b -r --before --regex " + _HELP, "-s --separator"),
    "rev": options(),
    "fold": options("-b -s --bytes --spaces " + _HELP, "-w --width"),
    "paste": options("-s -z --serial --zero-terminated " + _HELP, "-d --delimiters"),
    "comm": options("-1 -2 -3 -z --check-order --nocheck-order --total --zero-terminated " + _HELP),
    "cmp": options(
        "-b -l -s --print-bytes --verbose --quiet --silent " + _HELP, "-i -n --ignore-initial --bytes"
    ),
    "md5sum": options("-b -t -z --binary --text --tag --zero " + _HELP),
    "sha1sum": options("-b -t -z --binary --text --tag --zero " + _HELP),
    "sha256sum": options("-b -t -z --binary --text --tag --zero " + _HELP),
    "sha512sum": options("-b -t -z --binary --text --tag --zero " + _HELP),
    "cksum": options(_HELP),
    "od": options("-a -b -c -d -f -i -l -o -s -v -x " + _HELP, "-A -j -N -t -w"),
    "hexdump": options("-b -c -C -d -o -v -x", "-e -n -s"),
    "strings": options("-a -f -o -w --all " + _HELP, "-n -t -e --bytes --radix --encoding"),
    "seq": options("-w --equal-width " + _HELP, "-f -s --format --separator"),
    "sleep": options(_HELP),
    "uname": options("-a -s -n -r -v -m -p -i -o --all " + _HELP),
    "whoami": options(_HELP),
    "id": options("-g -G -n -r -u -z --group --groups --name --real --user " + _HELP),
    "groups": options(_HELP),
    "nproc": options("--all " + _HELP, "--ignore"),
    "arch": options(_HELP),
    "tty": options("-s"),
    "uptime": options("-p -s"),
    "free": options("-b -k -m -g -h -w -t", "-s -c"),
    "test": options(),
    "expr": options(),
}

CAREFUL: dict[str, Options] = {
    # diff: -l starts pr, --to-file and --from-file are left out.
    "diff": options(
        "-q -s -c -u -e -n -y -p -t -T -r -N -a -b -B -w -i -E -Z -d --brief --report-identical-files --context"
        " --unified --ed --rcs --side-by-side --show-c-function --expand-tabs --initial-tab --recursive --new-file"
        " --text --ignore-case --ignore-all-space --ignore-space-change --ignore-blank-lines --minimal"
        " --suppress-common-lines --left-column --strip-trailing-cr --no-dereference " + _HELP,
        "-C -U -W -x -X -I -L -S -F --width --exclude --exclude-from --ignore-matching-lines --label --tabsize",
        "--color",
    ),
    # sort: -o writes, --compress-program runs, -T writes elsewhere.
    "sort": options(
        "-b -c -C -d -f -g -h -i -M -m -n -R -r -s -u -V -z --ignore-leading-blanks --dictionary-order --ignore-case"
        " --general-numeric-sort --human-numeric-sort --ignore-nonprinting --month-sort --merge --numeric-sort"
        " --reverse --stable --unique --version-sort --zero-terminated " + _HELP,
        "-k -t --key --field-separator --sort",
        "--check",
    ),
    # rg: --pre and --hostname-bin run, -z starts decompressors.
    "rg": options(
        "-a -b -c -F -h -H -i -I -l -L -n -N -o -p -q -s -S -u -U -v -w -x -P --text --count --count-matches"
        " --fixed-strings --files --files-with-matches --files-without-match --follow --glob-case-insensitive"
        " --heading --no-heading --hidden --ignore-case --json --line-number --no-line-number --multiline"
        " --multiline-dotall --no-filename --no-ignore --no-ignore-vcs --only-matching --pretty --quiet"
        " --smart-case --case-sensitive --stats --trim --type-list --unrestricted --vimgrep --with-filename"
        " --word-regexp --line-regexp --invert-match --no-messages --no-config --pcre2 --sort-files --null "
        + _HELP,
        "-A -B -C -d -e -f -g -j -m -M -r -t -T --after-context --before-context --context --color --colors"
        " --context-separator --encoding --file --glob --iglob --max-columns --max-count --max-depth --max-filesize"
        " --regexp --replace --sort --sortr --threads --type --type-not",
    ),
    # uniq and xxd write to a second operand, tree -o to a file: see OPERANDS.
    "uniq": options(
        "-c -d -D -i -u -z --count --repeated --unique --ignore-case --zero-terminated " + _HELP,
        "-f -s -w --skip-fields --skip-chars --check-chars",
    ),
    "xxd": options("-a -b -C -e -E -i -p -u -ps", "-c -g -l -o -s"),
    "tree": options(
        "-a -d -l -f -x -p -u -g -s -h -D -F -q -N -Q -r -t -c -U -v -i -n -C --du --si --inodes --device --dirsfirst"
        " --noreport --gitignore --prune --help --version",
        "-L -P -I --filelimit --timefmt --sort",
    ),
    "file": options(
        "-b -h -i -k -L -N -p -r -s -0 --brief --mime --mime-type --mime-encoding --dereference", "-F -e"
    ),
    "jq": options(
        "-a -c -C -e -j -M -n -r -R -s -S --ascii-output --compact-output --color-output --exit-status --join-output"
        " --monochrome-output --null-input --raw-output --raw-input --slurp --sort-keys --stream --tab",
        "--indent",
    ),
    "column": options("-t -x -n --table", "-c -s -o --separator --output-separator --output-width"),
    "base64": options("-d -D -i --decode --ignore-garbage " + _HELP, "-w --wrap"),
    "date": options(
        "-u -R --utc --universal --rfc-email " + _HELP, "-d -r --date --reference", "-I --iso-8601"
    ),
    "ps": options(
        "-A -a -d -e -f -F -j -l -L -M -w -x -y aux ax auxww axo",
        "-C -G -g -o -p -q -s -t -u -U --pid --ppid --sort",
    ),
    "hostname": options("-s -f -i -I -d --fqdn --short"),
    "type": options("-a -t -p -P -f"),
    "command": options("-v -V", interspersed=False),
    "printf": options(),
    "cd": options("-L -P"),
}

OPERANDS: dict[str, int] = {"uniq": 1, "xxd": 1, "hostname": 0, "date": 1, "cd": 1}
"""The most operands these take before one of them is written to or set."""

VERSION_ONLY = frozenset(
    {
        "python",
        "python3",
        "node",
        "ruby",
        "rustc",
        "java",
        "gcc",
        "clang",
        "go",
        "deno",
        "bun",
        "perl",
        "bash",
        "make",
    }
)
"""Interpreters and compilers that only print their version when ``--version`` is the sole argument."""


def _taking(number: int, names: str) -> dict[str, int]:
    return dict.fromkeys(names.split(), number)


FIND_TESTS: dict[str, int] = {
    **_taking(
        0,
        "-L -H -P -follow -xdev -mount -depth -daystart -noleaf -print -print0 -prune -empty -not ! -o -or -a -and ( )"
        " -true -false -readable -writable -executable -ls -quit -nouser -nogroup",
    ),
    **_taking(
        1,
        "-maxdepth -mindepth -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype"
        " -size -mtime -atime -ctime -mmin -amin -cmin -newer -anewer -cnewer -newermt -newerct -perm -user -group"
        " -uid -gid -links -inum -samefile -lname -ilname -fstype -printf -used",
    ),
}
"""Read-only tests of find, with the number of words each takes."""
