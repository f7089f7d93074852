"""A line as a row of a table: who speaks, how many blocks there are, which calls begin and end.

Without a way to the codec: a log with a line that these decoders refuse (``REFUSED``) is read by the codec as a whole.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from recollect.model.line_views.links import LineKey


class PlainBlock(Struct, gc=False):
    """A content block: what it says of a call, and its text unread."""

    type: str
    id: str | None = None
    name: str | None = None
    tool_use_id: str | None = None
    is_error: bool | None = None
    content: Raw | UnsetType = UNSET
    input: Raw | UnsetType = UNSET
    text: Raw | UnsetType = UNSET


class PlainMessage(Struct, gc=False):
    """What was sent or answered."""

    id: str | None = None
    model: str | None = None
    content: str | list[PlainBlock] | None = None


class CallOutcome(Struct, rename="camel", gc=False):
    """How a call went, as the client adds it to the line of its result."""

    is_async: bool | None = None
    background_task_id: Raw | UnsetType = UNSET
    interrupted: bool | None = None
    total_duration_ms: Raw | UnsetType = UNSET
    duration_ms: Raw | UnsetType = UNSET
    duration_seconds: Raw | UnsetType = UNSET


class PlainLine(LineKey, rename="camel", frozen=True, gc=False):
    """A line of a log in which nothing is odd."""

    session_id: str | None = None
    subtype: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    message: PlainMessage | None = None
    content: Raw | UnsetType = UNSET
    tool_use_result: CallOutcome | str | float | bool | list[Raw] | None = None
    permission_decision: Raw | UnsetType = UNSET
    tool_denial_kind: Raw | UnsetType = UNSET


plain_line = msgspec.json.Decoder(PlainLine).decode
plain_text = msgspec.json.Decoder(str).decode
plain_number = msgspec.json.Decoder(float | int).decode
plain_parts = msgspec.json.Decoder(list[PlainBlock]).decode
