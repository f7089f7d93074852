"""A whole terminal to draw on: its alternate screen, in raw mode, and its keys by name.

Drawn by hand: a library for this takes longer to import than the first paint may take. Only rows that
changed are written. Text must be safe before it comes here (``terminal.text``).
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import select
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from recollect.cli.terminal import output
from recollect.errors import UsageError

_ENTER, _LEAVE = "\x1b[?1049h\x1b[2J", "\x1b[?25h\x1b[?1049l"
# After this many seconds, an escape character is a key of its own and not the start of a sequence.
_ESCAPE_SECONDS = 0.03
_SEQUENCES = {
    b"[A": "up",
    b"[B": "down",
    b"[C": "right",
    b"[D": "left",
    b"[H": "home",
    b"[F": "end",
    b"[1~": "home",
    b"[4~": "end",
    b"[5~": "page-up",
    b"[6~": "page-down",
    b"[3~": "delete",
    b"[Z": "shift-tab",
}
_CONTROLS = {13: "enter", 10: "enter", 9: "tab", 27: "esc", 127: "backspace", 8: "backspace"}


class Screen:
    """Use it as a context. ``RESIZED`` comes as a key when the terminal has another size."""

    RESIZED = "resized"
    WOKEN = "woken"

    def __init__(self) -> None:
        self._in = sys.stdin.fileno()
        self._bytes = bytearray()
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._keys: deque[str] = deque()
        self._rows: list[str] = []
        self._wake_read, writing = os.pipe()
        self._waker = io.FileIO(writing, "wb")

    def __enter__(self) -> Screen:
        import termios
        import tty

        self._before = termios.tcgetattr(self._in)
        self._signals = {
            number: signal.signal(number, self._signalled)
            for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP)
        }
        tty.setraw(self._in)
        self._write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        import termios

        self._write(_LEAVE)
        termios.tcsetattr(self._in, termios.TCSAFLUSH, self._before)
        for number, handler in self._signals.items():
            signal.signal(number, handler)
        os.close(self._wake_read)
        self._waker.close()

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGWINCH:
            raise SystemExit(128 + number)
        self._keys.append(self.RESIZED)
        self.wake()

    def wake(self) -> None:
        """Make a waiting ``key`` return. May be called from another thread."""
        with contextlib.suppress(OSError, ValueError):  # closed: the user has left
            self._waker.write(b"\0")

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return output.terminal_size()

    def paint(self, rows: Sequence[str], cursor: tuple[int, int] | None = None) -> None:
        """Show these rows from the top; ``cursor`` is a row and a column, counted from 0."""
        changes = ["\x1b[?25l"]
        for place in range(max(len(rows), len(self._rows))):
            row = rows[place] if place < len(rows) else ""
            if place >= len(self._rows) or self._rows[place] != row:
                changes.append(f"\x1b[{place + 1};1H{row}\x1b[0m\x1b[K")
        if cursor is not None:
            changes.append(f"\x1b[{cursor[0] + 1};{cursor[1] + 1}H\x1b[?25h")
        self._rows = list(rows)
        self._write("".join(changes))

    def forget(self) -> None:
        """The next paint writes every row: the terminal has another size."""
        self._rows = []
        self._write("\x1b[2J")

    def copy(self, text: str) -> None:
        """Put text into the clipboard of the terminal (OSC 52), also over ssh. It is encoded: nothing in it is obeyed."""
        import base64

        self._write(f"\x1b]52;c;{base64.b64encode(text.encode('utf-8', 'replace')).decode()}\x07")

    def is_key_waiting(self) -> bool:
        return bool(self._keys) or bool(select.select([self._in], [], [], 0)[0])

    def key(self, seconds: float | None = None) -> str | None:
        """The next key: a character, or a name such as ``up`` or ``ctrl-y``; None when the time is up."""
        while not self._keys:
            ready = select.select([self._in, self._wake_read], [], [], seconds)[0]
            if not ready:
                return None
            if self._wake_read in ready:
                os.read(self._wake_read, 1024)
                return self._keys.popleft() if self._keys else self.WOKEN
            data = os.read(self._in, 4096)
            if not data:
                raise SystemExit(129)  # the terminal is gone
            self._bytes += data
            self._keys.extend(self._decoded())
        return self._keys.popleft()

    def _decoded(self) -> Iterator[str]:
        while self._bytes:
            first = self._bytes[0]
            if first == 27:
                yield self._sequence()
            elif first < 32 or first == 127:
                del self._bytes[0]
                yield _CONTROLS.get(first) or f"ctrl-{chr(first + 96)}"
            else:
                end = next((at for at, byte in enumerate(self._bytes) if byte < 32 or byte == 127), None)
                piece = bytes(self._bytes[:end])
                del self._bytes[:end]
                yield from self._text.decode(piece)

    def _sequence(self) -> str:
        if len(self._bytes) == 1 and select.select([self._in], [], [], _ESCAPE_SECONDS)[0]:
            self._bytes += os.read(self._in, 4096)
        kind = bytes(self._bytes[1:2])
        if kind not in (b"[", b"O"):
            del self._bytes[0]
            return "esc"
        end = next((at for at in range(2, len(self._bytes)) if 0x40 <= self._bytes[at] <= 0x7E), None)
        sequence = b"[" + bytes(self._bytes[2 : len(self._bytes) if end is None else end + 1])
        del self._bytes[: len(self._bytes) if end is None else end + 1]
        return _SEQUENCES.get(sequence, "unknown")

    def _write(self, text: str) -> None:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


@contextlib.contextmanager
def whole_screen(otherwise: str) -> Iterator[Screen]:
    """The terminal to draw on; ``UsageError`` with a hint where there is none."""
    has_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if not has_terminal or os.name != "posix" or os.environ.get("TERM") == "dumb":
        raise UsageError("this needs a terminal for input and output", hint=otherwise)
    sys.stdout.flush()
    with Screen() as screen:
        yield screen


def edited(text: str, key: str) -> str:
    """A line of input after a key."""
    if len(key) == 1:
        return text + key
    edits: dict[str, Callable[[], str]] = {
        "backspace": lambda: text[:-1],
        "ctrl-u": lambda: "",
        "ctrl-w": lambda: re.sub(r"\S+\s*$", "", text),
    }
    return edits.get(key, lambda: text)()
