"""Which dialect a line is written in, told from the line alone.

The claude decoder has already read the line when this is asked. Its answer
stands for nearly every line; only what it could not place, or what carries
``session_id`` where the client writes ``sessionId``, is looked at again.
"""

from __future__ import annotations

from recollect.model.dialects import events, flat
from recollect.model.dialects.lenient import raw_fields
from recollect.model.entry import Assistant, Body, Dialect, System, UnknownBody, UnknownShapeBody, User


def settled(text: bytes, body: Body) -> tuple[Dialect, Body]:
    """The dialect of a line and what it means in it."""
    if isinstance(body, User | Assistant | System):
        # The client never leaves sessionId out beside a session_id of somebody else's making.
        if body.session_id is not None or b'"session_id"' not in text:
            return Dialect.CLAUDE, body
    elif not isinstance(body, UnknownBody | UnknownShapeBody):
        return Dialect.CLAUDE, body
    fields = raw_fields(text)
    if events.fits(fields):
        return Dialect.EVENTS, events.body_of(fields) or body
    if flat.fits(fields):
        return Dialect.FLAT, flat.body_of(fields) or body
    return Dialect.CLAUDE, body
