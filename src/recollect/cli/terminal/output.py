"""Output of commands: answers to stdout, notes to stderr; colour, layout and a pager for a terminal only.

A row for a terminal is broken between words where it is too long; a pipe gets it as it is. Text comes here safe
(``terminal.text``), with no codes but our own colours.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

import msgspec
from msgspec import Struct

from recollect.cli.terminal.text import shortened_path, split_at, width
from recollect.model.lines.json_text import encode_json

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


_PATIENCE = 0.5  # seconds
COLOUR_CHOICES = ("auto", "always", "never")
_FORCED: list[str] = []  # the value of --color
_WRITTEN: list[bool] = []  # whether a document was begun on stdout
_GIVEN: list[str] = []  # the global options, for commands that are to be typed next


def choose_colour(choice: str) -> None:
    """What ``--color`` asks for; it beats the environment."""
    _FORCED[:] = [] if choice == "auto" else [choice]


def choose_options(words: Sequence[str]) -> None:
    """The global options of this command line: ``--home``, ``--data`` and ``--agent`` with their values."""
    _GIVEN[:] = words
    _WRITTEN.clear()


def has_written() -> bool:
    """Whether a document was begun on stdout by this command: a second one would make both unreadable."""
    return bool(_WRITTEN)


def typed(text: str) -> str:
    """A sentence of ours, with the global options in the commands that it names: without them they would not work."""
    if not _GIVEN or "recollect " not in text:
        return text

    from recollect.cli.main import WORDS

    names = "|".join(WORDS)
    given = shlex.join(_GIVEN)
    return re.sub(
        rf"(?<![/\w])recollect (?=(?:{names})\b(?!:| --help))", lambda _: f"recollect {given} ", text
    )


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


def say(text: str = "", style: str | None = None) -> None:
    """Print a row of the answer; on a terminal, one that is too long is broken between words."""
    print(_fitted(text if style is None else styled(text, style), sys.stdout))


def note(text: str) -> None:
    """Print a remark on stderr, outside the answer; commands in it are as they are to be typed."""
    print(_fitted(typed(text), sys.stderr), file=sys.stderr)


def _fitted(text: str, stream: TextIO, *, is_text: bool = False) -> str:
    """Broken between words where the terminal would break it anywhere. A pipe gets it as it is."""
    if not stream.isatty():
        return text
    room = terminal_size()[0]
    return "\n".join(row for line in text.split("\n") for row in fitted(line, room, is_text=is_text))


def write_json(pieces: Iterable[bytes]) -> None:
    """Write pieces of one document to stdout. On a terminal, control characters are escaped."""
    _WRITTEN[:] = [True]
    on_terminal = sys.stdout.isatty()
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(_escaped(piece) if on_terminal else piece)
    sys.stdout.buffer.flush()


def print_json(document: Struct | Mapping[str, object]) -> int:
    """An answer as JSON; returns the exit status 0."""
    write_json([msgspec.json.format(encode_json(document), indent=2), b"\n"])
    return 0


def _escaped(piece: bytes) -> bytes:
    """JSON with control, override and invisible characters escaped."""
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


@contextmanager
def paged(*, enabled: bool = True) -> Iterator[Callable[[str], None]]:
    """A function that writes text: to a pager on a terminal, else to stdout."""
    command = _command() if enabled and sys.stdout.isatty() else []
    if not command:
        yield _straight
        return

    import subprocess

    environment = {**os.environ, "LESS": os.environ.get("LESS", "FRX")}
    sys.stdout.flush()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, env=environment, text=True, encoding="utf-8", errors="replace"
    ) as pager:
        pipe = pager.stdin
        if pipe is None:
            raise AssertionError("stdin was asked for")

        def write(text: str) -> None:
            pipe.write(_fitted(text, sys.stdout, is_text=True) + "\n")
            pipe.flush()

        try:
            yield write
            pipe.close()
        except (BrokenPipeError, KeyboardInterrupt) as ended:
            with contextlib.suppress(
                BrokenPipeError
            ):  # closing flushes once more into a pipe without a reader
                pipe.close()
            if isinstance(ended, KeyboardInterrupt):
                # The pager keeps showing what it has until the user quits it; only the writing ends.
                before = signal.signal(signal.SIGINT, signal.SIG_IGN)
                pager.wait()
                signal.signal(signal.SIGINT, before)
                raise


def _straight(text: str) -> None:
    # Flush at once, so that a reader of the pipe does not wait for a long session.
    sys.stdout.write(_fitted(text, sys.stdout, is_text=True) + "\n")
    sys.stdout.flush()


def _command() -> list[str]:
    import shutil

    try:
        words = shlex.split(os.environ.get("PAGER") or "less")
    except ValueError:
        return []
    if not words or words[0] == "cat" or shutil.which(words[0]) is None:
        return []
    is_less = Path(words[0]).name == "less"
    return [*words, "-R"] if is_less else words


_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_RESET = "\x1b[0m"
_PIECES = re.compile(r"(\x1b\[[0-9;]*m| +)")
# A word of a command line: a quoted part may hold spaces.
_SHELL_WORD = re.compile(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+")
# A command line to copy, after nothing or after words that lead to it.
_TO_COPY = re.compile(
    r"(?P<before> *|.*(?:[Nn]ext: |with: |type: |-> ))(?P<command>(?:recollect|cd|chmod|claude) .+)"
)
_DEEPEST = 24


def plain(text: str) -> str:
    """A text without its colours."""
    return _COLOUR.sub("", text)


def plain_width(text: str) -> int:
    """Columns of a text without its colours."""
    return width(plain(text))


def fitted(line: str, columns: int, *, is_text: bool = False) -> list[str]:
    """One line as rows. A path that is longer than a row loses its middle; in ``is_text`` nothing is left out.

    A command line to copy stays one for the shell: its rows end with backslashes.
    """
    if plain_width(line.expandtabs() if "\t" in line else line) <= columns:
        return [line]
    line = line.expandtabs()
    to_copy = None if is_text else _TO_COPY.fullmatch(plain(line))
    if to_copy is not None:
        return _rows_to_copy(line, to_copy["before"], to_copy["command"], columns)
    indent = " " * min(len(line) - len(line.lstrip(" ")) + (0 if is_text else 2), _DEEPEST, columns // 3)
    rows = _Rows(columns, indent)
    for piece in _PIECES.split(line):
        if not piece:
            continue
        if piece.startswith("\x1b"):
            rows.style(piece)
        elif piece.isspace():
            rows.space(piece)
        else:
            rows.word(piece, is_text=is_text)
    return rows.done()


class _Rows:
    """Rows as they fill up. A colour that is on at the end of a row goes on in the next."""

    def __init__(self, columns: int, indent: str) -> None:
        self._columns, self._indent = columns, indent
        self._rows: list[str] = []
        self._row, self._used, self._gap, self._style = "", 0, "", ""

    def style(self, code: str) -> None:
        self._row += self._gap + code
        self._used += len(self._gap)
        self._gap = ""
        self._style = "" if code == _RESET else code

    def space(self, gap: str) -> None:
        self._gap += gap

    def word(self, word: str, *, is_text: bool) -> None:
        room = self._columns - len(self._indent)
        if not is_text and "/" in word and width(word) > room:
            word = shortened_path(word, room)
        if self._used + len(self._gap) + width(word) > self._columns and self._can_break(word):
            self._break()
        while self._used + len(self._gap) + width(word) > self._columns:
            head, word = split_at(word, self._columns - self._used - len(self._gap))
            self._add(head)
            self._break()
        self._add(word)

    def _can_break(self, word: str) -> bool:
        """Chinese text has no spaces: it goes on in the row, and breaks where the row ends."""
        return self._used > len(self._indent) and not (width(word) > len(word) * 1.5 and len(word) > 4)

    def _add(self, text: str) -> None:
        self._row += self._gap + text
        self._used += len(self._gap) + width(text)
        self._gap = ""

    def _break(self) -> None:
        self._rows.append(self._row + (_RESET if self._style else ""))
        self._row, self._used, self._gap = self._indent + self._style, len(self._indent), ""

    def done(self) -> list[str]:
        return [*self._rows, self._row]


def _rows_to_copy(line: str, before: str, command: str, columns: int) -> list[str]:
    indent = " " * (len(before) - len(before.lstrip()))
    rows = fitted(before.rstrip(), columns) if before.strip() else []
    rows += command_rows(command, columns, indent + "  " if before.strip() else indent)
    colour = _COLOUR.match(line)
    return [f"{colour[0]}{row}{_RESET}" for row in rows] if colour else rows


def command_rows(command: str, columns: int, indent: str = "") -> list[str]:
    """A command line as rows that a shell reads as one. A word that is longer than a row stays whole."""
    rows, row = [], ""
    for word in _SHELL_WORD.findall(command):
        if row and len(indent) + width(row) + width(word) + 3 > columns:
            rows.append(f"{indent}{row} \\")
            row = word
        else:
            row = f"{row} {word}" if row else word
    return [*rows, indent + row]


def shares(room: int, wanted: Sequence[int], least: Sequence[int]) -> list[int]:
    """How many columns each gets: what it wants, or else the widest give up most, down to their least."""
    given = list(wanted)
    for _ in range(sum(given) - room):
        able = [place for place in range(len(given)) if given[place] > least[place]]
        if not able:
            break
        given[max(able, key=lambda place: given[place])] -= 1
    return given


def labelled(label: str, text: str, columns: int | None, indent: int = 10) -> Iterator[str]:
    """``Home      text``; where it is too long, the rest stands below the text."""
    head = label + " " * max(indent - plain_width(label), 1)
    if columns is None or plain_width(text) + indent <= columns:
        yield head + text
        return
    for number, row in enumerate(fitted(text, columns - indent)):
        yield (head if number == 0 else " " * indent) + (row if number == 0 else row.removeprefix("  "))


def reflowed(text: str, columns: int) -> str:
    """Paragraphs filled again for a narrower terminal; indented lines (tables, examples) keep their own rows."""
    rows: list[str] = []
    words: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line and not line.startswith(" "):
            words.append(line)
            continue
        if words:
            rows += fitted(" ".join(words), columns, is_text=True)
            words = []
        rows += _reflowed_row(line, columns)
    return "\n".join(rows[:-1])


def _reflowed_row(line: str, columns: int) -> list[str]:
    """``  name   about``: what does not fit stands below the about."""
    parts = re.match(r"( +\S+(?: \S+)*? {2,})(\S.*)", line)
    if parts is None or plain_width(line) <= columns:
        return fitted(line, columns)
    return list(labelled(parts[1].rstrip(), parts[2], columns, len(parts[1])))
