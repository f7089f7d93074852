"""The git sub-commands that are read-only.

A command line is read-only only when the sub-command and all its options are listed. Most options
before the sub-command are refused, because ``-c``, ``--exec-path`` and ``--git-dir`` decide what git
runs. Abbreviated long options are refused because they are not listed (B07).
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.policy.analysis import Word
from recollect.policy.commands.options import CommandLine, Options, options, take_apart

_BEFORE = frozenset({"--no-pager", "-P", "--no-optional-locks"})

_DIFF_FLAGS = (
    "-p -u -s -w -b -z -R -a -M -C -B -D --patch --no-patch --raw --minimal --patience --histogram --numstat"
    " --shortstat --summary --name-only --name-status --no-color --no-renames --check --full-index --binary --text"
    " --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines --exit-code --quiet"
    " --no-ext-diff --no-textconv --cached --staged --merge-base --pickaxe-all --compact-summary --patch-with-stat"
    " --function-context -W --no-prefix --no-index --cc -c -m --root -r -t"
)
_DIFF_VALUED = (
    "-U -S -G -O -l --unified --inter-hunk-context --diff-filter --diff-algorithm --src-prefix --dst-prefix"
)
_DIFF_MAYBE = (
    "--stat --color --color-words --word-diff --abbrev --find-renames --find-copies --dirstat --submodule"
)
_LOG_FLAGS = (
    "--oneline --graph --all --decorate --no-decorate --merges --no-merges --first-parent --reverse --follow"
    " --topo-order --date-order --author-date-order --full-history --simplify-by-decoration --left-right --cherry-pick"
    " --cherry --cherry-mark --left-only --right-only --no-abbrev-commit --abbrev-commit --show-signature --source"
    " --parents --children --boundary --walk-reflogs -g -i -E -F --all-match --invert-grep --log-size --count"
    " --no-notes --relative-date --objects --quiet --sparse --full-diff --no-walk --use-mailmap"
)
_LOG_VALUED = (
    "-n -L --max-count --skip --since --after --until --before --author --committer --grep --format --date"
    " --min-parents --max-parents --exclude"
)
_LOG_MAYBE = "--pretty --branches --tags --remotes --glob --notes --decorate --relative"
_LOG = options(
    f"{_DIFF_FLAGS} {_LOG_FLAGS}",
    f"{_DIFF_VALUED} {_LOG_VALUED}",
    f"{_DIFF_MAYBE} {_LOG_MAYBE}",
    numeric=True,
)

_ANY_OPERANDS: dict[str, Options] = {
    "log": _LOG,
    "show": _LOG,
    "whatchanged": _LOG,
    "rev-list": _LOG,
    "diff": options(_DIFF_FLAGS, _DIFF_VALUED, f"{_DIFF_MAYBE} --relative", numeric=True),
    "diff-tree": options(_DIFF_FLAGS, _DIFF_VALUED, f"{_DIFF_MAYBE} --pretty"),
    "diff-index": options(_DIFF_FLAGS, _DIFF_VALUED, _DIFF_MAYBE),
    "diff-files": options(_DIFF_FLAGS, _DIFF_VALUED, _DIFF_MAYBE),
    "shortlog": options(
        "-n -s -e -c --numbered --summary --email --no-merges --all", "--since --until --author"
    ),
    "status": options(
        "-s -b -v -z --short --branch --show-stash --long --verbose --ahead-behind --no-ahead-behind --no-renames"
        " --renames",
        "",
        "-u --porcelain --untracked-files --ignored --ignore-submodules --column",
    ),
    "rev-parse": options(
        "--verify -q --quiet --short --abbrev-ref --symbolic --symbolic-full-name --all --branches --tags --remotes"
        " --show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree"
        " --is-inside-git-dir --is-bare-repository --is-shallow-repository --sq --not --revs-only --no-revs --flags",
        "--default --since --until --git-path",
        "--short --abbrev-ref --show-object-format",
    ),
    "ls-files": options(
        "-c -d -m -o -i -s -u -k -z -t -v --cached --deleted --modified --others --ignored --stage --unmerged"
        " --directory --no-empty-directory --exclude-standard --error-unmatch --full-name --deduplicate --eol",
        "-x -X --exclude --exclude-from --format",
        "--abbrev",
    ),
    "ls-tree": options("-d -r -t -l -z --long --name-only --name-status --full-name --full-tree", "--format"),
    "blame": options(
        "-b -l -t -s -e -p -f -n -w -c --root --show-stats --porcelain --line-porcelain --show-email --show-name",
        "-L -S --since --date --ignore-rev",
        "-M -C --abbrev",
    ),
    "describe": options(
        "--all --tags --long --always --exact-match --contains --first-parent --debug",
        "--candidates --match --exclude",
        "--dirty --abbrev --broken",
    ),
    "merge-base": options("-a --all --octopus --independent --is-ancestor --fork-point"),
    "name-rev": options("--tags --all --name-only --no-undefined --always", "--refs --exclude"),
    "show-ref": options(
        "-q -d --head --tags --heads --branches --verify --quiet --dereference", "", "-s --hash --abbrev"
    ),
    "for-each-ref": options(
        "--ignore-case --omit-empty",
        "--count --sort --format --points-at --contains --no-contains --exclude",
        "--merged",
    ),
    "cat-file": options("-t -s -e -p --batch --batch-check --batch-all-objects"),
    "count-objects": options("-v -H --verbose --human-readable"),
    "check-ignore": options("-q -v -z -n --quiet --verbose --non-matching --no-index --stdin"),
    "check-attr": options("-a -z --all --cached --stdin"),
    "cherry": options("-v", "", "--abbrev"),
    # -O and --open-files-in-pager start a program.
    "grep": options(
        "-a -i -I -w -v -h -H -E -G -P -F -n -l -L -z -o -c -p -W -q --cached --untracked --text --ignore-case"
        " --word-regexp --invert-match --full-name --extended-regexp --fixed-strings --perl-regexp --line-number"
        " --files-with-matches --name-only --count --heading --break --show-function --function-context --quiet --all-match"
        " --column --recursive --no-recursive --no-index --exclude-standard",
        "-e -f -A -B -C -m --max-depth --threads --after-context --before-context --context",
        "--color",
        numeric=True,
    ),
    "version": options("--build-options"),
}

_LISTING: dict[str, Options] = {
    # An operand would create something unless the line says --list or names a filter.
    "branch": options(
        "-a -r -v -vv -l -i --all --remotes --verbose --list --show-current --no-color --no-column --ignore-case",
        "--sort --format --points-at",
        "--color --column --abbrev --contains --no-contains --merged --no-merged",
    ),
    "tag": options(
        "-l -i --list --no-column --ignore-case --omit-empty",
        "--sort --format --points-at",
        "-n --color --column --contains --no-contains --merged --no-merged",
    ),
}
_LIST_WORDS = ("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_NO_OPTIONS = options()


def looks_only(words: Sequence[Word]) -> bool:
    """Whether the words after ``git`` are a read-only sub-command that starts no other program."""
    position = 0
    while position < len(words) and words[position].text in _BEFORE:
        position += 1
    if position == len(words):
        return False
    name, rest = words[position].text, words[position + 1 :]
    if words[position].text == "--version":
        return not rest
    if name in _ANY_OPERANDS:
        return take_apart(rest, _ANY_OPERANDS[name]) is not None
    if name in _LISTING:
        line = take_apart(rest, _LISTING[name])
        return line is not None and (not line.operands or line.has(*_LIST_WORDS))
    return _looks_in_two_words(name, rest)


def _looks_in_two_words(name: str | None, rest: Sequence[Word]) -> bool:
    second = rest[0].text if rest else ""
    if name == "remote":
        return [word.text for word in rest] in ([], ["-v"], ["--verbose"]) or (
            second == "get-url" and _line(rest[1:], options("--push --all")) is not None
        )
    if name == "stash":
        return second in {"list", "show"} and take_apart(rest[1:], _LOG) is not None
    if name == "reflog":
        return not rest or (second == "show" and take_apart(rest[1:], _LOG) is not None)
    if name == "worktree":
        return second == "list" and take_apart(rest[1:], options("-v -z --porcelain --verbose")) is not None
    if name == "config":
        known = options(
            "--get --get-all --list -l --global --local --system --show-origin --show-scope --name-only -z --bool --int",
            "--type --default",
        )
        line = take_apart(rest, known)
        return line is not None and line.has("--get", "--get-all", "--list", "-l") and len(line.operands) <= 1
    return False


def _line(rest: Sequence[Word], known: Options) -> CommandLine | None:
    line = take_apart(rest, known)
    return line if line is not None and len(line.operands) == 1 else None
