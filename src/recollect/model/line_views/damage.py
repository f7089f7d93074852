"""Whether a line is damaged, as the codec says it, without building the entries of sound lines."""

from __future__ import annotations

from recollect.model.damage import DEFAULT_LIMITS, Damage, Line
from recollect.model.json.text import deeper_than
from recollect.model.line_views.links import line_links


def damage_of(line: Line) -> Damage | None:
    """What is wrong with a line."""
    data = line.data
    if (
        not deeper_than(data, DEFAULT_LIMITS.depth)
        and _is_utf8(data)
        and line_links.narrowly(data) is not None
    ):
        return None
    # Imported where a line is odd: the codec's decoders take longer to make than many lines to read.
    from recollect.model.codec import decode

    item = decode(line)
    return item if isinstance(item, Damage) else None


def _is_utf8(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False
