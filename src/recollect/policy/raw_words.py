"""The words of a shell text that could not be parsed, in every reading that matters to a deny rule.

This is not a parser. It keeps every word a rule could name: with quotes removed, with quotes as
boundaries, and with expansions removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from recollect.policy.paths.spelling import PathBase

_BORDER = re.compile(r"[\s;|&()<>{}`$,=\"']+")
_EXPANSION = re.compile(r"\$\([^()]*\)|\$\{[^{}]*\}|`[^`]*`|\$\w+|\$[@*#?!-]")
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Readings:
    """``texts`` are whole readings with words one space apart; ``words`` are all their words."""

    texts: tuple[str, ...]
    words: set[str]


def readings_of(text: str, place: PathBase) -> Readings:
    """The text as written, with quoting removed, and with expansions removed."""
    joined = text.replace("\\\n", "")
    unquoted = re.sub(r"[\"'\\]", "", joined)
    visible = _INVISIBLE.sub("", unquoted)
    bare = re.sub(r"[\"'\\]", "", _EXPANSION.sub(" ", joined))
    spaced = re.sub(r"\$\{?IFS\}?", " ", unquoted)
    texts = dict.fromkeys(
        " ".join(_BORDER.split(each)).strip() for each in (text, unquoted, visible, bare, spaced)
    )
    words = {word for each in texts for word in each.split(" ") if word}
    return Readings(tuple(texts), words)
