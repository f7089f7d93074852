"""Text in base64: where a run of its letters begins that may decode to text.

One expression for the whole would cost the scan engine as much as all other needles together, as it has no letter of
its own to look for. A run of any letters takes the engine half of that, and few are long enough to be examined here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# The shortest run that is examined.
LONG_BASE64 = 27
_LETTER = rb"[0-9A-Za-z+/]"
# Letters of base64 whose bytes are ASCII: the first three of four; the last is any.
_FIRST, _SECOND, _THIRD = b"[A-Za-f]", b"[A-HQ-Xg-nw-z0-3]", b"[ABEFIJMNQRUVYZcdghklopstwx014589]"
# What the engine looks for; once in a scan, as it would name every further letter of a run.
LONG_RUN = rb"%s{%d}" % (_LETTER, LONG_BASE64)
_REST = re.compile(rb"%s*" % _LETTER)
# A plus may be the mark of a line in a patch.
TEXT = re.compile(rb"\+?(?:%s%s%s%s){6}%s{3}" % (_FIRST, _SECOND, _THIRD, _LETTER, _LETTER))

# Returns where the first long run reaches its length; None if there is no more.
_FirstRun = Callable[[memoryview], int | None]


def ends_of_text(block: bytes, first_run: _FirstRun) -> list[int]:
    """The ends of the first letters of each run that may decode to text."""
    ends: list[int] = []
    at, view = 0, memoryview(block)
    while (behind := first_run(view[at:])) is not None:
        start = at + behind - LONG_BASE64
        # The first letter may be that of an escape.
        is_escape = block[start - 1 : start] == b"\\" and block[start] in b"nrt"
        for place in (start, start + 1) if is_escape else (start,):
            text = TEXT.match(block, place)
            if text is not None:
                ends.append(text.end())
        rest = _REST.match(block, at + behind)
        at = len(block) if rest is None else rest.end()
    return ends
