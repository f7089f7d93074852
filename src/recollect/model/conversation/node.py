"""A line as a node of the message graph: ids, links and time, no content.

Building the graph of a 50 MB session must not build its text, so a ``Node`` holds what the client needs to
find the conversation, and the line's offset. Entries that are shown are decoded from there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Raw, Struct, UnsetType

from recollect.model.damage import Line
from recollect.model.json.text import loose_object
from recollect.model.line_views.graph_line import graph_line
from recollect.model.moments import parsed_time

if TYPE_CHECKING:
    from recollect.model.entry import Assistant, User
    from recollect.model.line_views.facts import FactLine
    from recollect.model.line_views.graph_line import GraphLine

# Types the client treats as links of a conversation and as possible ends of one. It passes through progress
# lines; what follows a line of any other type is an orphan.
MESSAGE_TYPES = frozenset(["user", "assistant"])
LINK_TYPES = frozenset(["user", "assistant", "system", "attachment"])
# Notes of the client that are shown as messages. ERROR_NOTE is what a client of another agent noted instead of an
# answer; Claude's writes an answer of its own then.
ERROR_NOTE = "error"
SHOWN_NOTES = frozenset(["local_command", "compact_boundary", ERROR_NOTE])
_ODD_KEY = "<"
_TOOL_ID = b'"tool_use_id"'
_NAMED = re.compile(rb'\s*:\s*"([^"\\]+)"')


class Node(Struct, frozen=True, gc=False):
    """One chain entry. ``type`` is the type named in the line.

    ``uuid`` is its key for the client. Where the line has no id, or one that is not text, it is in brackets.
    """

    uuid: str
    type: str
    offset: int
    length: int
    parent: str | None = None
    subtype: str | None = None
    timestamp: str | None = None
    is_sidechain: bool = False
    message_id: str | None = None
    has_call: bool = False
    result_ids: tuple[str, ...] = ()
    is_compact_summary: bool = False
    # From a compaction boundary: what it preserved, undecoded.
    compact_metadata: bytes | None = None
    # A message without text or blocks: the client passes through it.
    is_silent: bool = False
    is_meta: bool = False

    @property
    def at_ms(self) -> int | None:
        """Its time in milliseconds, or None."""
        moment = parsed_time(self.timestamp)
        return None if moment is None else round(moment.timestamp() * 1000)

    @property
    def has_odd_key(self) -> bool:
        """Whether its id is missing or not text; several lines without one are one entry."""
        return self.uuid.startswith(_ODD_KEY)

    @property
    def is_link(self) -> bool:
        """Whether a conversation can end with it."""
        return self.type in LINK_TYPES and not self.is_silent

    @property
    def is_bridge(self) -> bool:
        """Whether the client only passes through it, to the entry it follows."""
        return self.type == "progress" or self.is_silent

    @property
    def is_message(self) -> bool:
        """Whether it is a message of the user or the model."""
        return self.type in MESSAGE_TYPES and not self.is_silent

    @property
    def is_shown(self) -> bool:
        """Whether it is shown as a message."""
        return self.is_message or (self.type == "system" and self.subtype in SHOWN_NOTES)

    @property
    def is_boundary(self) -> bool:
        """Whether a compaction cut the conversation here."""
        return self.type == "system" and self.subtype == "compact_boundary"


class LeafMark(Struct, frozen=True, gc=False):
    """A ``last-prompt`` line that names an end of the conversation, or null."""

    leaf: str | None
    explicit: bool
    offset: int


def node_of(line: Line) -> Node | LeafMark | None:
    """The point a line is in the graph; None for metadata, blank lines and damage."""
    seen = graph_line(line.data)
    return None if seen is None else point_of(seen, line)


def point_of(seen: GraphLine | FactLine, line: Line) -> Node | LeafMark | None:
    """The graph node of a decoded line."""
    data = line.data
    if seen.type == "last-prompt":
        is_mark = seen.leaf_uuid is not None or b'"leafUuid"' in data
        return LeafMark(seen.leaf_uuid, seen.explicit is True, line.offset) if is_mark else None
    if seen.type is None:
        return None
    is_silent = seen.type in MESSAGE_TYPES and not _has_content(seen)
    uuid = seen.uuid
    if uuid is None:
        # All lines without an id have one and the same key for the client.
        if seen.type not in LINK_TYPES or is_silent:
            return None
        uuid = f"{_ODD_KEY}null>" if "uuid" in loose_object(data) else f"{_ODD_KEY}no id>"
    return Node(
        uuid,
        seen.type,
        line.offset,
        line.length,
        seen.parent_uuid or None,
        seen.subtype,
        seen.timestamp,
        seen.is_sidechain is True,
        seen.message.id if seen.message else None,
        seen.type == "assistant" and b'"tool_use"' in data,
        _result_ids(data) if seen.type == "user" else (),
        seen.is_compact_summary is True,
        None if isinstance(seen.compact_metadata, UnsetType) else bytes(seen.compact_metadata),
        is_silent,
        seen.is_meta is True,
    )


def message_node(body: User | Assistant, line: Line, parent: str | None) -> Node:
    """The node of a message with an id that the codec has read without a notice, not read again.

    ``parent`` is the id it follows, as the caller has it.
    The same as ``node_of``, except for what means nothing on such a line: its subtype, what a compaction preserved,
    the summary mark of an answer, the message id of a prompt.
    """
    data, is_user = line.data, body.__struct_config__.tag == "user"
    return Node(
        body.uuid or "",
        "user" if is_user else "assistant",
        line.offset,
        len(data) + line.ended,
        parent or None,
        None,
        body.timestamp,
        body.is_sidechain is True,
        None if is_user else body.message.id,  # type: ignore[attr-defined]  # not on a prompt
        not is_user and b'"tool_use"' in data,
        _result_ids(data) if is_user else (),
        is_user and body.is_compact_summary is True,  # type: ignore[union-attr]
        is_meta=body.is_meta is True,
    )


def _has_content(seen: GraphLine | FactLine) -> bool:
    """Whether a message holds text or a list of blocks."""
    content = seen.message.content if seen.message is not None else None
    if isinstance(content, Raw):
        return memoryview(content)[0] in b'"['
    return isinstance(content, str | list)


def _result_ids(data: bytes) -> tuple[str, ...]:
    """The calls that a user's line has results for, without decoding the results."""
    if b'"tool_result"' not in data:
        return ()
    found = []
    at = data.find(_TOOL_ID)
    while at >= 0:  # faster than a search for the pattern
        named = _NAMED.match(data, at + len(_TOOL_ID))
        if named is not None:
            found.append(named[1].decode("utf-8", "replace"))
        at = data.find(_TOOL_ID, at + len(_TOOL_ID))
    return tuple(found)
