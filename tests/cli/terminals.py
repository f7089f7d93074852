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
import time
from pathlib import Path
from types import TracebackType

import pexpect  # type: ignore[import-untyped]
import pyte

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


class InteractiveProgram:
    """A program in a terminal, what its screen shows, and every byte it wrote."""

    def __init__(self, words: list[str], columns: int = 80, rows: int = 24, cwd: Path | None = None) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        self._child = pexpect.spawn(
            words[0],
            words[1:],
            dimensions=(rows, columns),
            env=environment(),
            cwd=cwd and str(cwd),
            timeout=60,
        )

    def __enter__(self) -> InteractiveProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close(force=True)

    def _read(self) -> bool:
        try:
            data = self._child.read_nonblocking(1 << 16, 0.2)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.written += data
        self._stream.feed(data)
        return True

    @property
    def rows(self) -> list[str]:
        return [row.rstrip() for row in self.screen.display]

    def wait_for(self, text: str, *, gone: bool = False, seconds: float = 60) -> list[str]:
        """The screen as soon as it shows a text (or no longer does); fails loudly after a minute."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            is_open = self._read()
            if (text in "\n".join(self.rows)) is not gone:
                return self.rows
            assert is_open, "the program ended:\n" + "\n".join(self.rows)
        raise AssertionError(f"no {text!r} on the screen:\n" + "\n".join(self.rows))

    def send(self, keys: str) -> None:
        self._child.send(keys)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self._child.setwinsize(rows, columns)

    def end(self) -> int:
        """The exit code, once it has ended."""
        while self._read():
            pass
        self._child.close()
        return int(self._child.exitstatus if self._child.exitstatus is not None else -1)
