"""Text for a terminal. Transcript text is hostile and must not control the terminal.

Control characters (C0 and C1), bidirectional overrides, zero-width and other
invisible characters are shown as visible escapes. Only tab and newline
survive, and only if the caller asks for more than one line.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
import unicodedata
from collections.abc import Iterable

from recollect.model.lines.ids import short_id

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def visible(text: str) -> str:
    """One line, with control and invisible characters escaped."""
    return "".join(map(_shown, text)) if not (text.isascii() and text.isprintable()) else text


def visible_lines(text: str) -> str:
    """Several lines: tab and newline stay, other control and invisible characters are escaped."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c in "\t\n" else _shown(c) for c in text)


def _shown(character: str) -> str:
    if character in "\n\t":
        return " "
    if character.isprintable():
        return character
    if unicodedata.category(character) not in _INVISIBLE:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def width(text: str) -> int:
    """Terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(columns_of, text))


@functools.lru_cache(maxsize=4096)
def columns_of(character: str) -> int:
    """Columns of one character: marks take none, Chinese characters and most emoji two."""
    code = ord(character)
    if code < 0x300 or 0x2010 <= code <= 0x2027:  # letters of Europe; dashes, quotes, the ellipsis
        return 1
    if unicodedata.category(character) in ("Mn", "Me"):
        # A selector turns a narrow sign into an emoji of two columns.
        return 1 if code == 0xFE0F else 0
    if 0x1160 <= code < 0x1200:  # vowels and finals of Korean syllables
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shortened(text: str, columns: int) -> str:
    """Text cut to a number of columns, with an ellipsis if something was cut."""
    return text if width(text) <= columns else _head(text, columns - 1).rstrip() + "…"


def shortened_path(path: str, columns: int) -> str:
    """A path without its middle: where it begins, and above all its last names, are what people look for."""
    if width(path) <= columns:
        return path
    if columns < 8:
        return "…" + _tail(path, columns - 1)
    tail = _tail(path, (columns - 1) * 2 // 3)
    place = tail.find("/")
    if 0 <= place < len(tail) // 2:
        tail = tail[place:]
    return _head(path, columns - 1 - width(tail)) + "…" + tail


def _head(text: str, columns: int) -> str:
    """As many characters from the start as fit, with the marks that belong to the last."""
    used = 0
    for place, character in enumerate(text):
        used += columns_of(character)
        if used > columns:
            return text[:place]
    return text


def _tail(text: str, columns: int) -> str:
    """As many from the end as fit; never begins with a mark of a character that was cut."""
    used, start = 0, len(text)
    for place in range(len(text) - 1, -1, -1):
        used += columns_of(text[place])
        if used > columns:
            break
        if columns_of(text[place]):
            start = place
    return text[start:]


def split_at(text: str, columns: int) -> tuple[str, str]:
    """What fits, and the rest; at least one character fits."""
    head = _head(text, columns) or text[:1]
    return head, text[len(head) :]


def wrapped(text: str, first: str = "", rest: str = "", columns: int = 80) -> list[str]:
    """Lines broken between words to fit the columns; a longer word stays whole."""
    lines: list[str] = []
    line = first
    for word in text.split():
        gap = "" if line == (rest if lines else first) else " "
        if gap and width(line) + 1 + width(word) > columns:
            lines.append(line)
            line, gap = rest, ""
        line += gap + word
    return [*lines, line]


def padded(text: str, columns: int) -> str:
    return text + " " * max(columns - width(text), 0)


def session_names(sessions: Iterable[str]) -> list[str]:
    """What people call these sessions, as a column: ids of Codex are longer than those of other agents."""
    names = [visible(short_id(one)) for one in sessions]
    columns = max(map(width, names), default=0)
    return [padded(one, columns) for one in names]


def size(count: int) -> str:
    """Bytes in decimal units: kB, MB, GB."""
    if count < 1000:
        return f"{count} B"
    amount = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= 1000
        if amount < 999.5 or unit == "TB":
            return f"{amount:.1f} {unit}" if amount < 99.95 else f"{amount:.0f} {unit}"
    raise AssertionError("unreachable")


def ago(moment: dt.datetime, now: dt.datetime) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = int((now - moment).total_seconds())
    if seconds < 0:
        return "in the future" if seconds < -60 else "just now"
    for name, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {name} ago"
    return "just now"


def when(moment: dt.datetime | None) -> str:
    """Local date and time, to the minute."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M") if moment is not None else ""


def counted(number: int, noun: str) -> str:
    """``1 session``, ``12,345 sessions``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


_MODEL = re.compile(r"claude-(?:(\d)-(?:(\d)-)?)?([a-z]+)(?:-(\d{1,2})(?:-(\d{1,2}))?)?(?:-\d{8})?")


def model_name(model: str) -> str:
    """``claude-sonnet-4-5-20250929`` as people say it: ``sonnet 4.5``; other names as they are."""
    found = _MODEL.fullmatch(model)
    if found is None:
        return model
    number = ".".join(part for part in (found[4] or found[1], found[5] or found[2]) if part)
    return f"{found[3]} {number}".rstrip()


def near_miss(given: str, known: Iterable[str]) -> str:
    """``: did you mean list?`` for a word that is nearly one of the known; else nothing."""
    import difflib

    bare = {name.lstrip("-"): name for name in known}
    near = difflib.get_close_matches(given.lstrip("-"), list(bare), 1)
    return f": did you mean {bare[near[0]]}?" if near else ""
