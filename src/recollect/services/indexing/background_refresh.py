"""Bring the index up to date behind the scenes: started and forgotten, never waited for.

The process it starts has nothing of ours: no terminal, no open file, the root as its directory, a
session of its own and the lowest claim on the processor. It takes the lock of the index without
waiting for it, so one that comes too late ends at once. Whether it is needed, and whose turn it is
to start it, is ``storage.refresh_turn``'s business.

Imported only where a refresh is due: a status line that finds a fresh index does not pay for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from recollect.storage.refresh_turn import take_turn

# How often a refresh is started at most.
PAUSE_SECONDS = 15.0
_MODULE = "recollect.services.indexing.refresh_once"
# Detached first, loaded then. Written out because a process cannot be told to do this from outside.
_PROGRAM = f"""
import os, runpy
os.setsid()
os.nice(19)
os.chdir(os.sep)
runpy.run_module({_MODULE!r}, run_name="__main__", alter_sys=True)
"""


def start_refresh(index: str, homes: Sequence[str]) -> bool:
    """Start a refresh unless one was started a moment ago; whether it was."""
    marker = index.removesuffix(".sqlite") + ".asked"
    if not homes or not sys.executable or not take_turn(marker, PAUSE_SECONDS):
        return False
    arguments = ["--cache", os.path.dirname(index), *homes]  # noqa: PTH120 - pathlib is slow to import
    try:
        _start(arguments)
    except (OSError, ValueError):  # no more processes, or a name no process can be given
        return False
    return True


def _start(arguments: list[str]) -> None:
    # -P: the client runs us in the directory somebody works in. A file there that is called like a
    # module of ours must not be run in its place (E03).
    if not hasattr(os, "posix_spawn"):
        _start_elsewhere([sys.executable, "-P", "-m", _MODULE, *arguments])
        return
    nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    command = [sys.executable, "-P", "-c", _PROGRAM, *arguments]
    os.posix_spawn(sys.executable, command, os.environ, file_actions=nothing)


def _start_elsewhere(command: list[str]) -> None:
    import subprocess

    detached = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "IDLE_PRIORITY_CLASS", 0)
    nothing = subprocess.DEVNULL
    subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, creationflags=detached)
