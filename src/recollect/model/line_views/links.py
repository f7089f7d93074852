"""Fields that several views share: what a line is, its id, its parent, its time, where it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from recollect.model.line_views.view import LineView, SessionView, text_of

if TYPE_CHECKING:
    from recollect.model.entry import Entry


class LineKey(Struct, rename="camel", frozen=True, gc=False):
    """What a line is, and its place in the chain."""

    type: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None


class LineLinks(LineKey, rename="camel", frozen=True, gc=False):
    """A line's place, and where it was written."""

    session_id: str | None = None
    agent_id: str | None = None
    is_meta: bool | None = None
    cwd: str | None = None


def key_of(entry: Entry) -> dict[str, Any]:
    """The fields of a ``LineKey`` as the codec says them."""
    return _as_the_codec_says(entry, LineKey)


def links_of(entry: Entry) -> dict[str, Any]:
    """The fields of ``LineLinks`` as the codec says them."""
    return _as_the_codec_says(entry, LineLinks)


def _as_the_codec_says(entry: Entry, shape: type[LineKey]) -> dict[str, Any]:
    fields, chain = entry.fields(), entry.chain
    found: dict[str, Any] = {"type": type_of(entry)}
    for name, key in zip(shape.__struct_fields__[1:], shape.__struct_encode_fields__[1:], strict=True):
        if chain is not None:
            found[name] = getattr(chain, name)
        else:
            # A title or a tag is no link to the codec, and may have an id all the same.
            value = fields.get(key)
            found[name] = value if isinstance(value, bool if name.startswith("is_") else str) else None
    return found


def key_text(value: object) -> str | None:
    """An id as the client compares it: text as it is, another simple value in brackets, as ``<5>``."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return f"<{str(value).lower()}>"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"<{value}>" if isinstance(value, int | float) else "<object>"


def parent_text(value: object) -> str | None:
    """The id of a parent. A line whose parent is 0, false or empty has none; an object names no line."""
    name = key_text(value) if value else None
    return "<no line>" if name == "<object>" else name


def type_of(entry: Entry) -> str | None:
    """The line's own word for what it is."""
    fields = entry.fields()
    # A line in a run of NUL bytes has no fields to be had; its kind is known all the same.
    return text_of(fields, "type") if fields else getattr(entry.body, "type_name", str(entry.kind)) or None


line_key = LineView(LineKey, lambda entry: LineKey(**key_of(entry)))
line_links = SessionView(LineLinks, lambda entry: LineLinks(**links_of(entry)))
