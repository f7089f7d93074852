"""Output of commands: answers to stdout, notes to stderr, colour only on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def coloured() -> bool:
    """Whether stdout is a terminal and colour is not turned off (``NO_COLOR``, ``TERM=dumb``)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str) -> str:
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if coloured() else text


def say(text: str = "") -> None:
    """Print a line of the answer."""
    print(text)


def note(text: str) -> None:
    """Print a remark on stderr, outside the answer."""
    print(text, file=sys.stderr)


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


def print_json(document: object) -> None:
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

    Created when it is first fed: most work is over before a bar would help.
    """
    if not sys.stderr.isatty():
        yield None
        return
    with ExitStack() as stack:
        bars: list[Callable[[int, int], None]] = []

        def feed(done: int, total: int) -> None:
            if not bars:
                bars.append(stack.enter_context(_bar(label)))
            bars[0](done, total)

        yield feed


@contextmanager
def _bar(label: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
