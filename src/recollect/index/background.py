"""Refresh the index in a detached background process.

The process inherits nothing: no terminal, no open files, the root as working directory, its own
session, and a low priority. It does not wait for the lock of the index, so a process that
comes too late exits at once. ``store.turns`` decides whether and by whom it is started.

Imported only if a refresh is due, so that a status line with a fresh index does not pay for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from recollect.store.turns import take_turn

# Least seconds between two starts.
PAUSE_SECONDS = 15.0
_LOWEST_PRIORITY = 19
_MODULE = "recollect.index.background"
# Detach first, then import. Popen cannot do this from outside.
_PROGRAM = """
import os, runpy
os.setsid()
os.nice({niceness})
os.chdir(os.sep)
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


def marker_of(index: str) -> str:
    """The file whose time says when a refresh was last started."""
    return index.removesuffix(".sqlite") + ".asked"


def start_refresh(index: str, homes: Sequence[str], *, niceness: int = _LOWEST_PRIORITY) -> bool:
    """Start a refresh unless one was started a moment ago; returns whether it did."""
    if not homes or not sys.executable or not take_turn(marker_of(index), PAUSE_SECONDS):
        return False
    arguments = ["--cache", os.path.dirname(index), *homes]  # noqa: PTH120 - pathlib is slow to import
    try:
        _start(arguments, niceness)
    except (OSError, ValueError):  # process limit reached, or an invalid file name
        return False
    return True


def _start(arguments: list[str], niceness: int) -> None:
    # -P: the working directory is the user's. A file there with the name of one of our modules
    # must not be run instead (E03).
    if not hasattr(os, "posix_spawn"):
        import subprocess

        detached = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "IDLE_PRIORITY_CLASS", 0)
        null = subprocess.DEVNULL
        command = [sys.executable, "-P", "-m", _MODULE, *arguments]
        subprocess.Popen(command, stdin=null, stdout=null, stderr=null, creationflags=detached)
        return
    nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    command = [sys.executable, "-P", "-c", _PROGRAM.format(module=_MODULE, niceness=niceness), *arguments]
    os.posix_spawn(sys.executable, command, os.environ, file_actions=nothing)


USAGE = "usage: python -m recollect.index.background [--cache DIR] HOME..."


def main(arguments: Sequence[str]) -> int:
    cache, homes = None, list(arguments)
    if homes[:1] == ["--cache"]:
        cache, homes = (Path(homes[1]) if len(homes) > 1 else None), homes[2:]
    if not homes or any(home.startswith("-") for home in homes):
        print(USAGE, file=sys.stderr)  # noqa: T201 - only a programmer sees a wrong call
        return 2
    try:
        from recollect.index.access import update_index

        update_index([Path(home) for home in homes], cache, patience=0.0)
        return 0
    except Exception:  # noqa: BLE001 - no one would see it, and the next query reports it
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
