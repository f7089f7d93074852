"""The content of a message as it stands in the line, undecoded, and who the client says it is from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import UNSET, Raw, Struct, UnsetType

from recollect.model.json.text import loose_value
from recollect.model.line_views.view import LineView, raw_of, text_of

if TYPE_CHECKING:
    from recollect.model.entry import Entry


class RawContent(Struct, frozen=True, gc=False):
    """Content with every field of its blocks."""

    content: Raw | UnsetType = UNSET


class ContentLine(Struct, frozen=True, gc=False):
    """A message, and what the client notes of where it came from."""

    message: RawContent | None = None
    origin: Raw | UnsetType = UNSET

    @property
    def content(self) -> Raw | None:
        """What the message holds; None where there is no message, or no content in it."""
        held = UNSET if self.message is None else self.message.content
        return None if isinstance(held, UnsetType) else held

    @property
    def origin_kind(self) -> str | None:
        """Who speaks in the user's name, if the client says so."""
        return None if isinstance(self.origin, UnsetType) else text_of(loose_value(self.origin), "kind")


def _of_entry(entry: Entry) -> ContentLine:
    fields = entry.fields()
    message = fields.get("message")
    held = RawContent(_raw(message, "content")) if isinstance(message, dict) else None
    return ContentLine(held, _raw(fields, "origin"))


def _raw(fields: Mapping[str, object], name: str) -> Raw | UnsetType:
    return raw_of(fields[name]) if name in fields else UNSET


content_line = LineView(ContentLine, _of_entry)
