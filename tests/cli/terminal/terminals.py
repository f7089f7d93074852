"""A real terminal for tests: a pseudo-terminal of a given width, and what a command wrote to it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def environment(columns: int | None = None, **changes: str) -> dict[str, str]:
    """Without what would decide about colour or width; HOME and the XDG directories are the test's."""
    left_out = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PAGER", "LESS")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    size = {} if columns is None else {"COLUMNS": str(columns)}
    return {**kept, "TERM": "xterm-256color", "PAGER": "cat", "PYTHONIOENCODING": "utf-8", **size, **changes}


def resize(terminal: int, columns: int, rows: int = 24) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def on_terminal(words: list[str], columns: int, env: dict[str, str] | None = None) -> tuple[str, int]:
    """Everything a program writes to a terminal of that width, and its exit code."""
    ours, theirs = pty.openpty()
    resize(theirs, columns)
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=env or environment(), start_new_session=True
    ) as program:
        os.close(theirs)
        pieces = []
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # Linux reports the end of a terminal so
                break
            if not piece:
                break
            pieces.append(piece)
    os.close(ours)
    return b"".join(pieces).decode().replace("\r\n", "\n"), program.returncode


def recollect(*words: str) -> list[str]:
    return [sys.executable, "-m", "recollect", *words]
