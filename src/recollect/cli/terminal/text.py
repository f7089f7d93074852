"""Text for a terminal. Transcript text is hostile and must not control the terminal.

Control characters (C0 and C1), bidirectional overrides, zero-width and other
invisible characters are shown as visible escapes. Only tab and newline
survive, and only if the caller asks for more than one line.
"""

from __future__ import annotations

import datetime as dt
import unicodedata

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def visible(text: str) -> str:
    """One line, with control and invisible characters escaped."""
    return "".join(map(_shown, text)) if not (text.isascii() and text.isprintable()) else text


def visible_lines(text: str) -> str:
    """Several lines: tab and newline stay, other control and invisible characters are escaped."""
    return "".join(c if c in "\t\n" else _shown(c) for c in text)


def _shown(character: str) -> str:
    if character == "\n":
        return " "
    if character == "\t":
        return " "
    if unicodedata.category(character) not in _INVISIBLE:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def width(text: str) -> int:
    """Terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shortened(text: str, columns: int) -> str:
    """Text cut to a number of columns, with an ellipsis if something was cut."""
    if width(text) <= columns:
        return text
    kept, used = [], 1
    for character in text:
        used += _columns(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


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


def counted(number: int, noun: str) -> str:
    """``1 session``, ``12,345 sessions``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
