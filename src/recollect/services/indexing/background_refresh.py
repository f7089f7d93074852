"""Refresh the index in a detached background process.

The process inherits nothing: no terminal, no open files, the root as working directory, its own
session, and a low priority. It does not wait for the lock of the index, so a process that
comes too late exits at once. ``storage.refresh_turn`` decides whether and by whom it is started.

Imported only if a refresh is due, so that a status line with a fresh index does not pay for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from recollect.storage.refresh_turn import take_turn

# Least seconds between two starts.
PAUSE_SECONDS = 15.0
_LOWEST_PRIORITY = 19
_MODULE = "recollect.services.indexing.refresh_once"
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
        _start(arguments, niceness=niceness)
    except (OSError, ValueError):  # process limit reached, or an invalid file name
        return False
    return True


def start_detached(module: str, arguments: Sequence[str]) -> None:
    """Run another module of ours in the background; ``OSError`` where no process can be started."""
    _start(list(arguments), module)


def _start(arguments: list[str], module: str = _MODULE, niceness: int = _LOWEST_PRIORITY) -> None:
    # -P: the working directory is the user's. A file there with the name of one of our modules
    # must not be run instead (E03).
    if not hasattr(os, "posix_spawn"):
        _start_elsewhere([sys.executable, "-P", "-m", module, *arguments])
        return
    nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    command = [sys.executable, "-P", "-c", _PROGRAM.format(module=module, niceness=niceness), *arguments]
    os.posix_spawn(sys.executable, command, os.environ, file_actions=nothing)


def _start_elsewhere(command: list[str]) -> None:
    import subprocess

    detached = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "IDLE_PRIORITY_CLASS", 0)
    nothing = subprocess.DEVNULL
    subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, creationflags=detached)
