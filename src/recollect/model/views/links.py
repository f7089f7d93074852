"""Fields that several views share: what a line is, its id, its parent, its time, where it was written."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from recollect.model.lines.blocks import Usage
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.entry import Entry, ForeignRecord
from recollect.model.lines.json_text import loose_object, loose_value

REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
Shape = TypeVar("Shape", bound=msgspec.Struct)


class LineView(Generic[Shape]):
    """Reads lines as one struct. ``of_entry`` makes the struct from what the codec says."""

    __slots__ = ("_decode", "_of_entry")

    def __init__(self, shape: type[Shape], of_entry: Callable[[Entry], Shape]) -> None:
        self._decode: Callable[[bytes], Shape] = msgspec.json.Decoder(shape).decode
        self._of_entry = of_entry

    def __call__(self, data: bytes) -> Shape | None:
        """What a line says; by the codec where it is odd."""
        try:
            return self._decode(data)
        except REFUSED:
            return self.by_codec(data)

    def narrowly(self, data: bytes) -> Shape | None:
        """What a line says, byte for byte; None where the decoder refuses it."""
        try:
            return self._decode(data)
        except REFUSED:
            return None

    def sound(self, data: bytes) -> Shape | None:
        """What a line says; None where it is damaged."""
        try:
            return self._decode(data)
        except REFUSED:
            return self.by_codec(data, with_damage=False)

    def by_codec(self, data: bytes, *, with_damage: bool = True) -> Shape | None:
        """What a line says according to the codec."""
        entry = readable_entry(data, with_damage=with_damage)
        return None if entry is None else self._of_entry(entry)


class SessionView(LineView[Shape]):
    """A view with a ``session_id``, which other dialects write elsewhere: there the codec is asked."""

    __slots__ = ()

    def __call__(self, data: bytes) -> Shape | None:
        """What a line says; by the codec where it is odd or of another dialect."""
        seen = self.narrowly(data)
        if seen is None or (seen.session_id is None and is_of_other_dialect(data)):  # type: ignore[attr-defined]
            return self.by_codec(data)
        return seen


def is_of_other_dialect(data: bytes) -> bool:
    """Whether a line without ``sessionId`` may name its session in another place."""
    return b'"session_id"' in data or b'"metadata"' in data


def readable_entry(data: bytes, *, with_damage: bool = True) -> Entry | None:
    """A line as the codec reads it, or what could be saved of it."""

    item = decode(Line(data))
    if isinstance(item, Damage):
        return item.readable if with_damage else None
    return item


def raw_of(value: object) -> Raw:
    """A plain value as JSON again, numbers beyond 64 bits included."""
    try:
        return Raw(msgspec.json.encode(value))
    except OverflowError:
        return Raw(json.dumps(value).encode())


def text_of(fields: Any, name: str) -> str | None:
    """A field that is text, of something that may not even be an object."""
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if isinstance(value, str) else None


class LineLinks(Struct, rename="camel", frozen=True, gc=False):
    """What a line is, its place in the chain, and where it was written."""

    type: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    session_id: str | None = None
    agent_id: str | None = None
    is_meta: bool | None = None
    cwd: str | None = None


def links_of(entry: Entry) -> dict[str, Any]:
    """The fields of ``LineLinks`` as the codec says them."""
    fields, chain = entry.fields(), entry.chain
    found: dict[str, Any] = {"type": type_of(entry)}
    names = zip(LineLinks.__struct_fields__, LineLinks.__struct_encode_fields__, strict=True)
    for name, key in itertools.islice(names, 1, None):
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


line_links = SessionView(LineLinks, lambda entry: LineLinks(**links_of(entry)))


class FactMessage(Struct, frozen=True, gc=False):
    """A message, its content undecoded. All lines of one answer share its id."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    content: Raw | UnsetType = UNSET


class FactLine(LineLinks, frozen=True, rename="camel", gc=False):
    """A line decoded once: for the index, the graph, and what is sent and shown."""

    git_branch: str | None = None
    version: str | None = None
    request_id: str | None = None
    model: str | None = None
    forked_from: Raw | UnsetType = UNSET
    message: FactMessage | None = None
    content: Raw | UnsetType = UNSET
    attachment: Raw | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    cost_usd: Raw | UnsetType = field(default=UNSET, name="costUSD")
    duration_ms: float | int | None = None
    subtype: str | None = None
    is_compact_summary: bool | None = None
    compact_metadata: Raw | UnsetType = UNSET
    leaf_uuid: str | None = None
    explicit: bool | None = None
    origin: Raw | UnsetType = UNSET

    @property
    def message_content(self) -> Raw | None:
        """What the message holds; None where there is no message, or no content in it."""
        content = UNSET if self.message is None else self.message.content
        return None if isinstance(content, UnsetType) else content

    @property
    def origin_kind(self) -> str | None:
        """Who speaks in the user's name, if the client says so."""
        return None if isinstance(self.origin, UnsetType) else text_of(loose_value(self.origin), "kind")


def _graph_line_of(entry: Entry) -> FactLine:
    """What the graph and the list of messages need of an odd line, with ids as the client compares them."""
    fields = entry.fields()
    message = fields.get("message")
    links = {
        **links_of(entry),
        "uuid": key_text(fields.get("uuid")),
        "parent_uuid": parent_text(fields.get("parentUuid")),
    }
    for name, key in (("is_compact_summary", "isCompactSummary"), ("is_meta", "isMeta"), ("explicit",) * 2):
        flag = fields.get(key)
        links[name] = flag if isinstance(flag, bool) else None
    return FactLine(
        **links,
        subtype=text_of(fields, "subtype"),
        message=FactMessage(text_of(message, "id"), content=_raw(message, "content"))
        if isinstance(message, dict)
        else None,
        compact_metadata=_raw(fields, "compactMetadata"),
        leaf_uuid=key_text(fields.get("leafUuid")),
        origin=_raw(fields, "origin"),
    )


def _raw(fields: Mapping[str, object], name: str) -> Raw | UnsetType:
    return raw_of(fields[name]) if name in fields else UNSET


graph_line = LineView(FactLine, _graph_line_of)


WORKTREE = "worktree-state"


def origin_of(data: bytes) -> str | None:
    """The directory that a session's worktree was made from; None where a line says none."""
    fields = loose_object(data)
    if fields.get("type") != WORKTREE:
        return None
    return text_of(fields.get("worktreeSession"), "originalCwd") or None


def goes_on_from(entry: Entry) -> str | None:
    """The session of Codex whose history a fork without a copy goes on from, as the fork's first record names it."""
    body = entry.body
    if not isinstance(body, ForeignRecord) or body.record_type != "session_meta" or body.original is None:
        return None
    line = loose_value(body.original.encode("utf-8", "replace"))
    meta = line.get("payload") if isinstance(line, dict) else None
    base = meta.get("history_base") if isinstance(meta, dict) else None
    if not isinstance(base, dict) or base.get("end_ordinal_exclusive") == 0:
        return None
    name = base.get("thread_id")
    return name if isinstance(name, str) and name else None
