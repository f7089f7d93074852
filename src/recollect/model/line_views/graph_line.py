"""A line as the graph of a conversation needs it: links and marks, no content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Raw, Struct, UnsetType

from recollect.model.line_views.links import LineKey, key_of
from recollect.model.line_views.view import LineView, raw_of, text_of

if TYPE_CHECKING:
    from recollect.model.entry import Entry


class MessageId(Struct, frozen=True, gc=False):
    """The id that all lines of one answer share."""

    id: str | None = None


class GraphLine(LineKey, rename="camel", frozen=True, gc=False):
    """What decides where a conversation begins, ends and was cut."""

    subtype: str | None = None
    message: MessageId | None = None
    is_compact_summary: bool | None = None
    compact_metadata: Raw | UnsetType = UNSET
    leaf_uuid: str | None = None
    explicit: bool | None = None


def _of_entry(entry: Entry) -> GraphLine:
    fields = entry.fields()
    message = fields.get("message")
    is_summary, is_explicit = fields.get("isCompactSummary"), fields.get("explicit")
    metadata = fields.get("compactMetadata", UNSET)
    return GraphLine(
        **key_of(entry),
        subtype=text_of(fields, "subtype"),
        message=MessageId(text_of(message, "id")) if isinstance(message, dict) else None,
        is_compact_summary=is_summary if isinstance(is_summary, bool) else None,
        compact_metadata=UNSET if metadata is UNSET else raw_of(metadata),
        leaf_uuid=text_of(fields, "leafUuid"),
        explicit=is_explicit if isinstance(is_explicit, bool) else None,
    )


graph_line = LineView(GraphLine, _of_entry)
