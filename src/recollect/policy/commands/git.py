"""The git sub-commands that are read-only.

A command line is read-only only when the sub-command and all its options are listed; the lists hold what client
2.1.325 runs without asking. Options before the sub-command are refused, because ``-c``, ``--exec-path`` and
``--git-dir`` decide what git runs. Abbreviated long options are refused because they are not listed (B07).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recollect.policy.analysis import Word
from recollect.policy.commands.options import CommandLine, Options, table, take_apart

_FORMATS = ("--format", "--pretty")
_FORMAT = re.compile(r"[A-Za-z%].*", re.DOTALL)

_ANY_OPERANDS: dict[str, Options] = {
    "log": table(
        "--abbrev-commit --all --author-date-order --boundary --branches --cherry-mark --cherry-pick --color "
        "--date-order --decorate --first-parent --follow --full-history --graph --left-right --merges "
        "--name-only --name-status --no-color --no-decorate --no-ext-diff --no-merges --no-patch --no-walk "
        "--numstat --oneline --patch --pickaxe-all --relative-date --remotes --reverse --shortstat --source "
        "--sparse --stat --tags --topo-order --walk-reflogs -p -s",
        "--after --author --before --committer --date --diff-filter --format --grep --pretty --since --until -G "
        "-S",
        numbers="--max-count --skip -n",
        numeric=True,
    ),
    "show": table(
        "--abbrev-commit --color --color-words --decorate --first-parent --graph --name-only --name-status "
        "--no-color --no-decorate --no-ext-diff --no-patch --numstat --oneline --patch --quiet --raw "
        "--relative-date --shortstat --stat --word-diff -m -p -s",
        "--date --diff-filter --format --pretty",
        numeric=True,
    ),
    "rev-list": table(
        "--abbrev-commit --all --branches --count --first-parent --full-history --graph --merges --no-merges "
        "--oneline --remotes --reverse --source --sparse --tags --walk-reflogs",
        "--after --author --before --committer --grep --since --until",
        numbers="--max-count --max-parents --min-parents --skip -n",
        numeric=True,
    ),
    "diff": table(
        "--binary --cached --check --color --color-words --dirstat --exit-code --find-copies --find-renames "
        "--full-index --function-context --histogram --ignore-all-space --ignore-blank-lines "
        "--ignore-space-at-eol --ignore-space-change --minimal --name-only --name-status --no-color "
        "--no-ext-diff --no-index --no-renames --numstat --patch-with-stat --patience --pickaxe-all --quiet "
        "--shortstat --staged --stat --summary --word-diff -B -C -D -M -R -p -s -u",
        "--diff-algorithm --diff-filter -G -O -S -l",
        numbers="--inter-hunk-context",
        numeric=True,
    ),
    "shortlog": table(
        "--all --email --no-merges --numbered --summary -c -e -n -s",
        "--author --since --until",
    ),
    "status": table(
        "--ahead-behind --branch --column --ignored --long --no-ahead-behind --no-renames --porcelain --renames "
        "--short --verbose -b -s -v",
    ),
    "rev-parse": table(
        "--abbrev-ref --absolute-git-dir --git-common-dir --git-dir --is-bare-repository --is-inside-git-dir "
        "--is-inside-work-tree --is-shallow-repository --show-cdup --show-prefix --show-toplevel --symbolic "
        "--symbolic-full-name --verify",
        "--short",
    ),
    "ls-files": table(
        "--cached --deleted --directory --eol --error-unmatch --exclude-standard --full-name --ignored "
        "--modified --no-empty-directory --others --stage --unmerged -c -d -i -k -m -o -s -t -u -v -z",
        "--exclude --exclude-from -X -x",
    ),
    "blame": table(
        "--line-porcelain --porcelain --root --show-email --show-name --show-stats -C -M -e -f -l -n -p -s -t "
        "-w",
        "--date --ignore-rev -L",
    ),
    "describe": table(
        "--always --broken --contains --dirty --exact-match --long --tags",
        "--exclude --match",
        numbers="--candidates",
    ),
    "merge-base": table(
        "--all --fork-point --independent --is-ancestor --octopus",
    ),
    "for-each-ref": table(
        "",
        "--contains --format --no-contains --points-at --sort",
        numbers="--count",
    ),
    "cat-file": table(
        "--batch-check -e -p -s -t",
    ),
    # -O and --open-files-in-pager start a program.
    "grep": table(
        "--break --cached --color --count --extended-regexp --files-with-matches --fixed-strings --full-name "
        "--heading --ignore-case --invert-match --line-number --no-index --perl-regexp --quiet --untracked "
        "--word-regexp -E -F -G -H -L -P -c -h -i -l -n -o -q -v -w",
        "-e",
        numbers="--after-context --before-context --context --max-depth --threads -A -B -C",
        numeric=True,
    ),
    "stash show": table("-p"),
    "reflog show": table(),
}

_LISTING: dict[str, Options] = {
    # An operand would create something unless the line says --list or names a filter.
    "branch": table(
        "--all --color --column --ignore-case --list --merged --no-color --no-column --no-merged --remotes "
        "--show-current --verbose -a -i -l -r -v -vv",
        "--contains --no-contains --points-at --sort",
    ),
    "tag": table(
        "--column --ignore-case --list --no-column -i -l",
        "--contains --format --no-contains --points-at --sort",
    ),
}
_LIST_WORDS = ("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_NO_OPERANDS: dict[str, Options] = {
    "reflog": table("", numeric=True),
    "ls-remote": table("--tags --heads -h"),
    "remote": table("-v --verbose"),
    "stash list": table(),
    "worktree list": table("--porcelain"),
}


def looks_only(words: Sequence[Word]) -> bool:
    """Whether the words after ``git`` are a read-only sub-command that starts no other program."""
    texts = [word.text for word in words]
    if not texts or any(word.globs for word in words):
        return False
    two = f"{texts[0]} {texts[1]}" if len(texts) > 1 else ""
    if texts[0] == "config":
        line = take_apart(words[1:], table("", "--get --default"))
        return line is not None and line.has("--get") and not line.operands
    for name, rest in ((two, words[2:]), (texts[0] or "", words[1:])):
        if name in _ANY_OPERANDS:
            return _formats_known(take_apart(rest, _ANY_OPERANDS[name]))
        if name in _LISTING:
            line = take_apart(rest, _LISTING[name])
            return _formats_known(line) and line is not None and (not line.operands or line.has(*_LIST_WORDS))
        if name in _NO_OPERANDS:
            line = take_apart(rest, _NO_OPERANDS[name])
            return line is not None and not line.operands
    return False


def _formats_known(line: CommandLine | None) -> bool:
    return line is not None and all(_FORMAT.fullmatch(value) for value in line.values(*_FORMATS))
