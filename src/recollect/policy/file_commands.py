"""File commands with special treatment: those that ``acceptEdits`` runs, and ``rm`` of everything."""

from __future__ import annotations

import re

from recollect.policy.analysis import Command
from recollect.policy.paths.spelling import PathBase, absolute, collapsed

_ACCEPTED = frozenset({"mkdir", "touch", "cp", "mv", "rm", "rmdir", "sed"})
_SED_OPTIONS = frozenset({"-i", "--in-place", "-E"})
_SED_EDIT = re.compile(r"s/[^/\\\n]+/[^/\\\n]*/[gi0-9]?")


def accepted_edit(command: Command) -> bool:
    """Whether ``acceptEdits`` runs the command. Its files are checked elsewhere (``path_gate``)."""
    argv = command.argv
    if not argv or argv[0] not in _ACCEPTED or command.words[0].raw != argv[0] or "--" in argv:
        return False
    flags = [word for word in argv[1:] if word.startswith("-")]
    if argv[0] == "touch":
        return not flags
    if argv[0] != "sed":
        return True
    operands = [word for word in argv[1:] if not word.startswith("-")]
    return len(operands) > 1 and set(flags) <= _SED_OPTIONS and _SED_EDIT.fullmatch(operands[0]) is not None


def removes_everything(command: Command, place: PathBase) -> bool:
    """Whether it is ``rm -r`` of the root, home, a directory just below the root, or an unknown path
    (R18)."""
    if not command.words or (command.words[0].text or "").rsplit("/", 1)[-1] != "rm":
        return False
    rest = command.words[1:]
    if not any(word.text is None or _recursive(word.text) for word in rest):
        return False
    for word in rest:
        if word.text is None:
            return True
        if not word.text.startswith("-") and _everything(word.text, place):
            return True
    return False


def _recursive(flag: str) -> bool:
    return re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r\w*", flag) is not None


def _everything(path: str, place: PathBase) -> bool:
    full = collapsed(absolute(re.sub(r"/\*+$", "/", path), place))
    above_home = place.home == full or place.home.startswith(full.rstrip("/") + "/")
    return above_home or (full.count("/") == 1 and path.startswith("/"))
