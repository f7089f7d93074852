"""Lines that cannot be read, or only with replacements.

The codec reports what is wrong with a line; this module turns that into a finding. It also judges the end of
the log, which no reader does: half an entry at the end may be a write in progress (S3).
"""

from __future__ import annotations

from collections.abc import Iterator

from recollect.model.checks import RuleViolation
from recollect.model.damage import Damage, DamageCode, Line, Notice
from recollect.model.entry import Entry, UnknownBody, UnknownShapeBody

_ODD = {Notice.LONE_SURROGATE, Notice.BOM, Notice.CRLF}


def line_faults(item: Entry | Damage) -> Iterator[RuleViolation]:
    if isinstance(item, Damage):
        yield RuleViolation(item.code.value, item.detail, item.offset)
        return
    for notice in item.notices:
        if notice in _ODD:
            yield RuleViolation(
                notice.value, f"a line with {notice.value.replace('-', ' ')}", item.offset, item.uuid
            )
    body = item.body
    if isinstance(body, UnknownShapeBody):
        what = f"type {body.type_name!r}: {body.problem}"
        yield RuleViolation("unknown-shape", what, item.offset, item.uuid)
    elif isinstance(body, UnknownBody):
        if not body.type_name and "message" in item.fields():
            yield RuleViolation("unknown-shape", "a message without type", item.offset, item.uuid)
        else:
            yield RuleViolation("unknown-type", f"type {body.type_name!r}", item.offset, item.uuid)


def tail_fault(tail: Line, item: Entry | Damage | None, *, is_open: bool) -> RuleViolation | None:
    """What is wrong with the bytes after the last newline, given how they decode."""
    size = len(tail.data)
    if isinstance(item, Entry):
        return RuleViolation(
            "missing-final-newline", f"the last line, {size} bytes, has no newline", tail.offset, item.uuid
        )
    if item is None:
        return None
    if is_open:
        return RuleViolation("being-written", f"{size} bytes without newline so far", tail.offset)
    if item.code == DamageCode.NUL_RUN:
        return RuleViolation("nul-run", f"{item.detail} at the end of the log", tail.offset)
    return RuleViolation("torn-tail", f"the last {size} bytes are half an entry: {item.detail}", tail.offset)
