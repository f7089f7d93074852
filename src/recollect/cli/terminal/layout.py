"""Rows that fit a terminal: long ones are broken between words, columns of a table share the room.

Text comes here safe (``terminal.text``), with no codes but our own colours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from recollect.cli.terminal.text import shortened_path, split_at, width

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
