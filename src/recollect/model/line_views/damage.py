"""Whether a line is damaged, as the codec says it, without building the entries of sound lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from recollect.model.damage import DEFAULT_LIMITS, RECORD_DAMAGE, Damage, Line
from recollect.model.json.text import deeper_than
from recollect.model.line_views.links import line_links
from recollect.model.line_views.mirrored_damage import RecordGenerations, record_code


def damage_in(lines: Iterable[Line | Damage]) -> Counter[str]:
    """The damaged lines of a log, by code, for overview, list and page; `check` says more about each."""
    found, generations = Counter[str](), RecordGenerations()
    for line in lines:
        code = damage_code(line)
        if code is not None:
            found[code] += 1
        found[RECORD_DAMAGE] -= len(generations.take(line))
    return +found


def damage_code(line: Line | Damage) -> str | None:
    """Why a line counts as damaged, unless a later one stops that (``RecordGenerations``)."""
    return code_of(line if isinstance(line, Damage) else damage_of(line), line.data)


def code_of(damage: Damage | None, data: bytes) -> str | None:
    """The code that a line is counted by, from what ``damage_of`` says of it."""
    return record_code(data) if damage is None else damage.code.value


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
