"""Output of commands: answers to stdout, notes to stderr; colour and layout for a terminal only.

Whether there is colour, and how wide a row may be, is decided here for all commands. A row for a
terminal is broken between words where it is too long; a pipe gets it as it is.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from msgspec import Struct

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


_PATIENCE = 0.5  # seconds
COLOUR_CHOICES = ("auto", "always", "never")
_FORCED: list[str] = []  # the value of --color
_GIVEN: list[str] = []  # the global options, for commands that are to be typed next


def choose_colour(choice: str) -> None:
    """What ``--color`` asks for; it beats the environment."""
    _FORCED[:] = [] if choice == "auto" else [choice]


def choose_options(words: Sequence[str]) -> None:
    """The global options of this command line: ``--home``, ``--data`` and ``--agent`` with their values."""
    _GIVEN[:] = words


def typed(text: str) -> str:
    """A sentence of ours, with the global options in the commands that it names: without them they would not work."""
    if not _GIVEN or "recollect " not in text:
        return text
    import re
    import shlex

    from recollect.cli.main import ALIASES, COMMANDS

    names = "|".join({*COMMANDS, *ALIASES})
    given = shlex.join(_GIVEN)
    return re.sub(rf"\brecollect (?=(?:{names})\b(?!:| --help))", lambda _: f"recollect {given} ", text)


def coloured() -> bool:
    """``--color``, else ``NO_COLOR``, else ``FORCE_COLOR``, else whether stdout is a terminal that knows colours."""
    if _FORCED:
        return _FORCED[0] == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str) -> str:
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if coloured() else text


def columns() -> int | None:
    """Columns of the terminal that stdout is; None if it is none: a pipe gets whole rows."""
    return terminal_size()[0] if sys.stdout.isatty() else None


def terminal_size() -> tuple[int, int]:
    """Columns and rows: ``COLUMNS`` and ``LINES``, else what the terminal says, else 80 and 24."""
    try:
        known = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    except (ValueError, OSError):
        known = os.terminal_size((80, 24))
    given = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    wide, high = (int(text) if text.isdecimal() else 0 for text in given)
    return max(wide or known.columns or 80, 20), max(high or known.lines or 24, 5)


def say(text: str = "") -> None:
    """Print a row of the answer; on a terminal, one that is too long is broken between words."""
    print(_fitted(text, sys.stdout))


def note(text: str) -> None:
    """Print a remark on stderr, outside the answer; commands in it are as they are to be typed."""
    print(_fitted(typed(text), sys.stderr), file=sys.stderr)


def _fitted(text: str, stream: TextIO) -> str:
    if not stream.isatty():
        return text
    room = terminal_size()[0]
    if len(text) * 2 <= room:  # no character is wider than two columns
        return text
    from recollect.cli.terminal.layout import fitted

    return "\n".join(row for line in text.split("\n") for row in fitted(line, room))


def json_bytes(value: object) -> bytes:
    """A value as JSON. Text that UTF-8 cannot encode (half a surrogate pair in a file name) is escaped."""
    from recollect.services.documents.encoding import encoded

    return encoded(value)


def write_json(pieces: Iterable[bytes]) -> None:
    """Write pieces of one document to stdout. On a terminal, control characters are escaped."""
    on_terminal = sys.stdout.isatty()
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(_escaped(piece) if on_terminal else piece)
    sys.stdout.buffer.flush()


def print_json(document: Struct) -> None:
    """A document of ``services/documents``, so that its keys are written down once."""
    import msgspec

    write_json([msgspec.json.format(json_bytes(document), indent=2), b"\n"])


def _escaped(piece: bytes) -> bytes:
    """JSON with control, override and invisible characters escaped."""
    import unicodedata

    hidden = ("Cc", "Cf", "Co", "Zl", "Zp")
    return "".join(
        _json_escape(c) if ord(c) > 0x7E and unicodedata.category(c) in hidden else c
        for c in piece.decode("utf-8", "replace")
    ).encode()


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal's stderr, fed with (done, total) in bytes; None if stderr is no terminal.

    Created when it is fed after half a second: most work is over before a bar would help.
    """
    if not sys.stderr.isatty():
        yield None
        return
    with ExitStack() as stack:
        bars: list[Callable[[int, int], None]] = []
        started = time.monotonic()

        def feed(done: int, total: int) -> None:
            if not bars:
                if time.monotonic() - started < _PATIENCE:
                    return
                bars.append(stack.enter_context(_bar(label)))
            bars[0](done, total)

        yield feed


@contextmanager
def _bar(label: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True, no_color=not coloured()), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
