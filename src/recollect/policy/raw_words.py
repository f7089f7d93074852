"""The words of a shell text that nobody could parse, read in every way that matters to a deny rule.

Not a parser: it makes no claim about structure. It only has to keep every word a rule could name,
with quotes taken out, with quotes as borders, and with expansions left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from recollect.policy.paths import PathBase

_BORDER = re.compile(r"[\s;|&()<>{}`$,=\"']+")
_EXPANSION = re.compile(r"\$\([^()]*\)|\$\{[^{}]*\}|`[^`]*`|\$\w+|\$[@*#?!-]")
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Readings:
    """``texts`` are whole readings, words one space apart; ``words`` all words of all of them."""

    texts: tuple[str, ...]
    words: set[str]


def readings_of(text: str, place: PathBase) -> Readings:
    """The text read plainly, with quoting removed, and with expansions gone."""
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


def _variable(name: str, value: str, text: str) -> str:
    return text.replace(f"${{{name}}}", value).replace(f"${name}", value)
