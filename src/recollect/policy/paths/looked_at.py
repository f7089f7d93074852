"""Which paths a read-only command accesses, so that reading without a rule stays in the workspace (R10).

``commands.file_operands`` covers programs that read files; programs that only list (``ls``, ``find``,
``git``) are covered here. An unknown word is a path that cannot be checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recollect.policy import commands
from recollect.policy.analysis import Command, Word
from recollect.policy.commands.copying import bare_name
from recollect.policy.commands.options import names

UNKNOWN = "\x01"
"""Stands for a path that cannot be known."""

_LISTERS = frozenset(
    {
        "df",
        "dir",
        "du",
        "exa",
        "eza",
        "fd",
        "file",
        "find",
        "getfacl",
        "ls",
        "lsattr",
        "readlink",
        "realpath",
        "stat",
    }
    | {"tree"}
)
_GIT_SHOWS = frozenset(
    {"show", "diff", "log", "blame", "grep", "cat-file", "archive", "annotate", "whatchanged"}
)
_ALWAYS_DEEP = frozenset({"rg", "ag", "ack", "rgrep", "tar", "rsync"})
_DEEP_BY_FLAG = frozenset({"grep", "egrep", "fgrep", "zgrep", "cp", "scp", "zip", "diff"})
_RECURSIVE = re.compile(r"-[A-Za-z]*[rRad]|--rec|--dereference-r|--arc|--di")
"""Also ``-d recurse`` of grep in every spelling; that ``-d`` may say something else costs a question."""
_SHOWS_FILES = names(
    "cat head tail grep egrep fgrep rg sed awk sort cut tac nl less more strings jq diff xxd od"
)
_GIT_LISTS = frozenset({"ls-files", "--name-only", "-l", "--files-with-matches"})
_MATCHING_NAMES = frozenset({"-l", "-rl", "-lr", "-Rl", "-ril", "-rli", "--files", "--files-with-matches"})
_FILTERS = names("head tail sort uniq grep egrep tac rev")
_TAKES_WORD = re.compile(r"-[A-Za-z]*[defmABC]|--(?:dir|reg|fil|max|aft|bef|con|inc|exc)[\w-]*")
_HEREDOC = re.compile(r'"\$\(\s*cat\s+<<(-?)\s*([\'"])(\w+)\2[ \t]*\n(.*)\n(\t*)\3[ \t]*\n\s*\)"', re.DOTALL)


def listed(command: Command) -> list[str]:
    """Words of a listing or git command that may be files it shows; Read denies apply to them too."""
    name = bare_name(command)
    words = [word.text for word in command.words[1:] if word.text and not word.text.startswith("-")]
    if name in _LISTERS:
        return words
    if name == "git" and words and words[0] in _GIT_SHOWS:
        return [path for word in words[1:] for path in (word, word.partition(":")[2]) if path]
    return []


def swept(command: Command) -> list[str]:
    """The directories that the command reads recursively."""
    name = bare_name(command)
    if name == "git":
        return _swept_by_git(command)
    if name == "xargs":
        return ["."] if any(word.text in _SHOWS_FILES for word in command.words[1:]) else []
    flags = [word.text or "" for word in command.words[1:] if (word.text or "").startswith("-")]
    if name not in _ALWAYS_DEEP and not (name in _DEEP_BY_FLAG and any(map(_RECURSIVE.match, flags))):
        return []
    words = [word.text for word in command.words[1:] if word.text and not word.text.startswith("-")]
    searches = name not in ("cp", "scp", "zip", "diff", "tar", "rsync")
    # A value of an option counts as a word here; without a place behind the pattern it is the working directory.
    values = sum("=" not in flag and _TAKES_WORD.fullmatch(flag) is not None for flag in flags)
    return [*words, "."] if len(words) <= searches + values else words


def _swept_by_git(command: Command) -> list[str]:
    """``git grep`` searches files, with ``--untracked`` and ``--no-index`` also those that git does not know."""
    texts = [word.text or "" for word in command.words[1:]]
    words = [text for text in texts if text and not text.startswith("-")]
    if words[:1] == ["diff"] and "--no-index" in texts:
        return words[1:]
    if "grep" not in words[:2]:
        return []
    words = words[words.index("grep") + 1 :]
    return [*words, "."] if len(words) <= 1 else words


def fed_with_names(before: Sequence[Command]) -> bool:
    """Whether the commands before a pipe only list names of files: then ``xargs`` hands on nothing else."""
    for command in reversed(before):
        name = bare_name(command)
        texts = {word.text or "" for word in command.words[1:]}
        if name in ("find", "ls", "fd", "fdfind") or (name == "git" and texts & _GIT_LISTS):
            return True
        if name in ("grep", "egrep", "rg") and texts & _MATCHING_NAMES:
            return True
        if name not in _FILTERS or not command.piped:
            return False
    return False


def names_unknown_file(command: Command) -> bool:
    """Whether a known file program has a word of unknown value."""
    if not command.words or command.argv is not None:
        return False
    return any(UNKNOWN in path for _, path in commands.file_operands(_marked(command)))


def with_known_heredocs(command: Command) -> Command:
    """Replace ``"$(cat <<'EOF' … EOF)"`` by its constant text: commit messages are often written this way."""
    if command.argv is not None:
        return command
    return replace(command, words=tuple(map(_known, command.words)))


def _known(word: Word) -> Word:
    found = _HEREDOC.fullmatch(word.raw) if word.text is None else None
    if not found:
        return word
    dash, _, delimiter, body, indent = found.groups()
    lines = body.split("\n")
    if dash:
        lines = [line.lstrip("\t") for line in lines]
    # A line that ends the heredoc earlier would leave the rest to the shell.
    if (indent and not dash) or any(line.rstrip() == delimiter for line in lines):
        return word
    return Word(word.raw, "\n".join(lines).rstrip("\n"))


def _marked(command: Command) -> Command:
    words = tuple(
        Word(word.raw, UNKNOWN, word.globs) if word.text is None else word for word in command.words
    )
    return replace(command, words=words)
