"""A line with its long texts shortened, for conversations that are too large to hold in memory.

The rules of ``api_400.py`` ask whether a text is empty, which ids there are and how large an image is, never
what a text says. So a line with the beginning of each text violates the same rules at the same place. An
image that the API would refuse stays whole: its length or size is what is wrong with it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from recollect.model.checks import images

# Shorter lines are not changed.
LONG_LINE = 2_048
_LONG_TEXT = 1_024
_REFUSED = (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError)


def shortened(line: bytes) -> bytes:
    """The line with only the beginnings of its texts.

    A short line, or one that is not JSON, is returned unchanged.
    """
    if len(line) <= LONG_LINE:
        return line
    try:
        return msgspec.json.encode(_short(msgspec.json.decode(line)))
    except _REFUSED:
        return line


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return _beginning(value)
    if isinstance(value, list):
        return [_short(one) for one in value]
    if isinstance(value, dict):
        is_whole = value.get("type") == "image" and images.refusal(value) is not None
        return value if is_whole else {name: _short(one) for name, one in value.items()}
    return value


def _beginning(text: str) -> str:
    # Leading white space alone would turn the text into an empty one.
    return text if len(text) <= _LONG_TEXT else text.lstrip()[:_LONG_TEXT] or text[:1]
