"""Narrow looks at a line that never build its text.

A list of sessions needs ids, links and times. They are read here by a decoder that skips
everything else, several times faster than ``codec.decode``. A line whose narrow look fails is
read again by the codec, so nothing is left out because it is odd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from recollect.model.damage import DEFAULT_LIMITS, Damage, Line
from recollect.model.json_text import deeper_than

if TYPE_CHECKING:
    from recollect.model.entry import Entry


class Envelope(Struct, frozen=True, rename="camel"):
    """Ids, links and times of a line; its message stays undecoded."""

    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    cwd: str | None = None
    message: Raw | UnsetType = UNSET


_envelope = msgspec.json.Decoder(Envelope)
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def envelope_of(data: bytes) -> Envelope | None:
    """Ids, links and times of a line, or None where it is blank or damaged."""
    try:
        return _envelope.decode(data)
    except _REFUSED:
        return _envelope_by_codec(data)


def _envelope_by_codec(data: bytes) -> Envelope | None:
    from recollect.model.entry import ChainBody

    item = _decoded(Line(data))
    entry = item.readable if isinstance(item, Damage) else item
    if entry is None:
        return None
    links = entry.chain or ChainBody(session_id=entry.session_id, timestamp=entry.body.timestamp)
    return Envelope(
        type=str(entry.fields().get("type", "")),
        uuid=links.uuid,
        parent_uuid=links.parent_uuid,
        timestamp=links.timestamp,
        session_id=links.session_id,
        agent_id=links.agent_id,
        is_sidechain=links.is_sidechain,
        is_meta=links.is_meta,
        cwd=links.cwd,
    )


def damage_of(line: Line) -> Damage | None:
    """What is wrong with a line, as the codec says it, without building sound ones."""
    data = line.data
    if deeper_than(data, DEFAULT_LIMITS.depth):
        return _damage_by_codec(line)
    try:
        _envelope.decode(data)
        if not data.isascii():
            data.decode()
    except _REFUSED:
        return _damage_by_codec(line)
    return None


def _damage_by_codec(line: Line) -> Damage | None:
    item = _decoded(line)
    return item if isinstance(item, Damage) else None


def _decoded(line: Line) -> Entry | Damage | None:
    # Imported where a line is odd: the codec's decoders take longer to make than many lines to read.
    from recollect.model.codec import decode

    return decode(line)
