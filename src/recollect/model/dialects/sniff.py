"""Which dialect a line is written in, decided from the line alone.

The claude decoder has already read the line. Its answer is right for nearly every line; only lines that it
could not place, or that carry ``session_id`` instead of ``sessionId``, are examined again.
"""

from __future__ import annotations

from recollect.model.dialects import events, flat
from recollect.model.dialects.lenient import raw_fields
from recollect.model.entry import Assistant, Body, Dialect, System, UnknownBody, UnknownShapeBody, User

_NAMED, _UNPLACED = (User, Assistant, System), (UnknownBody, UnknownShapeBody)


def settled(text: bytes, body: Body) -> tuple[Dialect, Body]:
    """The dialect of a line and its meaning in that dialect."""
    if isinstance(body, _NAMED):
        # The client always writes sessionId, even if another program's session_id is on the line.
        if body.session_id is not None or b'"session_id"' not in text:
            return Dialect.CLAUDE, body
    elif not isinstance(body, _UNPLACED):
        return Dialect.CLAUDE, body
    fields = raw_fields(text)
    if events.fits(fields):
        return Dialect.EVENTS, events.body_of(fields) or body
    if flat.fits(fields):
        return Dialect.FLAT, flat.body_of(fields) or body
    return Dialect.CLAUDE, body
