"""Narrow looks at a line that never build its text.

A cost report over gigabytes needs five numbers a line; a list of sessions needs
ids, links and times. They are read here by decoders that skip everything else,
several times faster than ``codec.decode``. A line whose narrow look fails is read
again by the codec, so nothing is left out because it is odd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from recollect.model.cost.usage import Usage
from recollect.model.damage import DEFAULT_LIMITS, Damage, Line
from recollect.model.json_text import deeper_than

if TYPE_CHECKING:
    from recollect.model.entry import Entry


class UsageRecord(Struct, frozen=True):
    """What one line says about one response. Several lines may speak of the same response."""

    usage: Usage
    message_id: str | None = None
    request_id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    is_sidechain: bool = False
    version: str | None = None
    # As written, undecoded: what old clients recorded as the cost.
    cost_usd: bytes | None = None


class _UsageMessage(Struct):
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None


class _UsageLine(Struct, rename="camel"):
    type: str
    message: _UsageMessage | None = None
    request_id: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    is_sidechain: bool | None = None
    version: str | None = None
    cost_usd: Raw | UnsetType = field(default=UNSET, name="costUSD")


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


_usage_line = msgspec.json.Decoder(_UsageLine)
_envelope = msgspec.json.Decoder(Envelope)
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def usage_of(data: bytes) -> UsageRecord | None:
    """The usage a line carries, or None. Damaged lines carry none; the reader reports them."""
    if b'"usage"' not in data:
        return None
    try:
        line = _usage_line.decode(data)
    except _REFUSED:
        return _usage_by_codec(data)
    message = line.message
    if line.type != "assistant" or message is None:
        # Only an answer has usage of its own; the flat dialect keeps it outside the message.
        return _usage_by_codec(data) if line.type == "assistant" else None
    if message.usage is None:
        return None
    return UsageRecord(
        message.usage,
        message.id,
        line.request_id,
        message.model,
        message.stop_reason,
        line.timestamp,
        line.session_id,
        line.agent_id,
        line.is_sidechain is True,
        line.version,
        None if isinstance(line.cost_usd, UnsetType) else bytes(line.cost_usd),
    )


def envelope_of(data: bytes) -> Envelope | None:
    """Ids, links and times of a line, or None where it is blank or damaged."""
    try:
        return _envelope.decode(data)
    except _REFUSED:
        return _envelope_by_codec(data)


def _usage_by_codec(data: bytes) -> UsageRecord | None:
    from recollect.model.entry import Assistant

    item = _decoded(Line(data))
    entry = item.readable if isinstance(item, Damage) else item
    if entry is None or not isinstance(entry.body, Assistant) or entry.body.message.usage is None:
        return None
    body, message = entry.body, entry.body.message
    return UsageRecord(
        entry.body.message.usage,
        message.id,
        body.request_id,
        message.model,
        message.stop_reason,
        body.timestamp,
        body.session_id,
        body.agent_id,
        body.is_sidechain is True,
        body.version,
        None if body.cost_usd is None else msgspec.json.encode(body.cost_usd),
    )


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
