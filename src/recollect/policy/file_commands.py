"""File commands with special treatment: those that ``acceptEdits`` runs, and ``rm`` of everything."""

from __future__ import annotations

import re

from recollect.policy.analysis import Command
from recollect.policy.paths import PathBase, absolute, collapsed

_ACCEPTED = {
    "mkdir": frozenset({"-p", "-v", "-pv", "-vp", "--parents", "--verbose"}),
    "touch": frozenset({"-a", "-c", "-m", "--no-create"}),
    "cp": frozenset({"-r", "-R", "-a", "-f", "-p", "-v", "-n", "-rf", "-i", "--recursive", "--force"}),
    "mv": frozenset({"-f", "-n", "-v", "-i", "--force", "--verbose"}),
    "rm": frozenset({"-f", "-v", "-i", "--force", "--verbose"}),
    "rmdir": frozenset({"-p", "-v", "--parents", "--verbose"}),
}
"""Programs, with the flags that change nothing but the named files."""


def accepted_edit(command: Command) -> bool:
    """Whether ``acceptEdits`` runs the command and every flag is known. Its files are judged elsewhere."""
    argv = command.argv
    if not argv or argv[0] not in _ACCEPTED or len(argv) < 2:
        return False
    if any(word.globs for word in command.words):
        return False
    flags = [word for word in argv[1:] if word.startswith("-")]
    return all(flag in _ACCEPTED[argv[0]] for flag in flags)


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
