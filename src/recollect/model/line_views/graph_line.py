"""A line as the graph of a conversation needs it: links and marks, no content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Raw, Struct, UnsetType

from recollect.model.line_views.links import LineKey, key_of, key_text, parent_text
from recollect.model.line_views.view import LineView, raw_of, text_of

if TYPE_CHECKING:
    from recollect.model.entry import Entry


class MessageId(Struct, frozen=True, gc=False):
    """The id that all lines of one answer share, and the content, undecoded."""

    id: str | None = None
    content: Raw | UnsetType = UNSET


class GraphLine(LineKey, rename="camel", frozen=True, gc=False):
    """What decides where a conversation begins, ends and was cut."""

    subtype: str | None = None
    message: MessageId | None = None
    is_compact_summary: bool | None = None
    is_meta: bool | None = None
    compact_metadata: Raw | UnsetType = UNSET
    leaf_uuid: str | None = None
    explicit: bool | None = None


def _of_entry(entry: Entry) -> GraphLine:
    fields = entry.fields()
    message = fields.get("message")
    links = {**key_of(entry), "uuid": key_text(fields.get("uuid"))}
    links["parent_uuid"] = parent_text(fields.get("parentUuid"))
    is_summary, is_explicit = fields.get("isCompactSummary"), fields.get("explicit")
    is_meta = fields.get("isMeta")
    metadata = fields.get("compactMetadata", UNSET)
    return GraphLine(
        **links,
        subtype=text_of(fields, "subtype"),
        message=_message(message) if isinstance(message, dict) else None,
        is_compact_summary=is_summary if isinstance(is_summary, bool) else None,
        is_meta=is_meta if isinstance(is_meta, bool) else None,
        compact_metadata=UNSET if metadata is UNSET else raw_of(metadata),
        leaf_uuid=key_text(fields.get("leafUuid")),
        explicit=is_explicit if isinstance(is_explicit, bool) else None,
    )


def _message(fields: dict[str, object]) -> MessageId:
    content = fields.get("content", UNSET)
    return MessageId(text_of(fields, "id"), UNSET if content is UNSET else raw_of(content))


graph_line = LineView(GraphLine, _of_entry)
