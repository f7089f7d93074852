"""A server's text as plain data that cannot control a terminal, reorder text or hide characters.

Controls (except tab and newline), bidirectional overrides, zero-width characters and invisible "tag"
letters become visible escapes. Letters of every language stay. Text that is too long is cut, and says
so.
"""

from __future__ import annotations

import re
import unicodedata

_KEPT = frozenset("\t\n")
_UNUSUAL = re.compile(r"[^\t\n\x20-\x7e]+")
# Joins the parts of emoji and of several scripts; it reorders and hides nothing.
_JOINERS = frozenset("\u200c\u200d")


def plain(text: str, most: int) -> str:
    """At most ``most`` characters, each of them visible."""
    cut = text[:most]
    if not (cut.isascii() and cut.isprintable()):
        cut = _UNUSUAL.sub(lambda run: "".join(map(_shown, run[0])), cut.replace("\r\n", "\n"))
    return cut if len(text) <= most else f"{cut}\n[cut by recollect: {len(text):,} characters]"


def _shown(character: str) -> str:
    if character in _KEPT or character in _JOINERS:
        return character
    if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"
