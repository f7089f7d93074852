"""Texts that are not analysed: too long, or not what they look like on a screen.

A person must be shown what the shell is given. A carriage return, a zero-width space or a long run of
blanks makes the two differ.
"""

from __future__ import annotations

import re

LONGEST = 10_000
"""Characters. Longer texts are still searched for denied words, never allowed (A04)."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_BLANK_LOOKALIKE = re.compile("[\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_HIDING = re.compile(r"[ \t]{100,}|(?:[ \t]*\n){30,}")
_UNPAIRED = re.compile("[\ud800-\udfff]")

QUOTE_LOOKALIKES = frozenset("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2032\u2033\uff02\uff07\u00b4")
"""Harmless inside quotes; outside them a person sees quotes where the shell reads a word."""


def doubts(text: str) -> list[str]:
    """Why this text is not analysed; empty when it may be."""
    found = []
    if len(text) > LONGEST:
        found.append(f"longer than {LONGEST:,} characters")
    if _CONTROL.search(text):
        found.append("control character")
    if _HIDING.search(text):
        found.append("long run of blanks that can hide the rest")
    if not text.isascii():
        if _INVISIBLE.search(text):
            found.append("invisible or direction-changing character")
        if _BLANK_LOOKALIKE.search(text):
            found.append("character that looks like a blank but is not one")
        if _UNPAIRED.search(text):
            found.append("unpaired surrogate")
    return found
