"""Where a file was before it got its name: by ``mv`` and ``git mv`` in the commands of sessions, and by git's history.

They only name places to look at. Whether a line came from there is decided by its text, as everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from recollect.services.blame.same_file import PathMatch, SameFile
from recollect.services.blame.sessions import SessionTrail
from recollect.storage.git_commits import former_names


def former_paths(file: SameFile, trails: Iterable[SessionTrail]) -> list[str]:
    """The paths that the file had before, as far as commands that name it, or commits, say."""
    found = dict.fromkeys(map(str, former_names(file.path)))
    for trail in trails:
        for command, cwd in trail.commands():
            for old, new in moves(command, cwd):
                if file.compared(new, trail.cwds) is not PathMatch.OTHER:
                    found[old] = None
    return list(found)


def moves(text: str, cwd: str) -> Iterator[tuple[str, str]]:
    """The renames of a shell text that ran in a directory: old and new path. A target may be a directory."""
    if "mv" not in text:
        return
    from recollect.policy.shell import commands_in

    for command in commands_in(text)[0]:
        words = command.argv or ()
        if words[:1] == ("cd",) and len(words) == 2:
            cwd = _joined(cwd, words[1])
        yield from _moved(words, cwd)


def _moved(words: Sequence[str], cwd: str) -> Iterator[tuple[str, str]]:
    name, *rest = words or ("",)
    if name == "git" and rest[:1] == ["-C"]:
        cwd, rest = _joined(cwd, "".join(rest[1:2])), rest[2:]
    if name == "git":
        name, *rest = rest or [""]
    if name != "mv":
        return
    named = [word for word in rest if not word.startswith("-")]
    *sources, target = named or [""]
    for source in sources:
        old, new = _joined(cwd, source), _joined(cwd, target)
        if len(sources) == 1 and not target.endswith("/"):
            yield old, new
        yield old, _joined(new, Path(source).name)


def _joined(directory: str, name: str) -> str:
    return os.path.normpath(os.path.join(directory, name))  # noqa: PTH118 - of a log, and perhaps long gone
