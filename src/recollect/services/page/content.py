"""Blocks of a message for a page: unchanged, except for what is too large to send.

Base64 sources become references that are fetched separately. Overlong strings are cut and marked. A
block without either passes through undecoded, byte for byte, with all its unknown fields.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, UnsetType

from recollect.model.blocks import Block, ToolResultBlock, UnknownBlock
from recollect.model.conversation.conversation import Message
from recollect.model.conversation.written_blocks import as_json, content_of, is_said, made_of, text_block
from recollect.model.entry import Entry, User
from recollect.model.line_views.view import REFUSED
from recollect.services.documents.encoding import encoded

LONGEST = 100_000
_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_DEEPEST = 60


class Blob(NamedTuple):
    """Bytes from a transcript, with a content type that is safe to show."""

    data: bytes
    media_type: str


class BlockRenderer:
    """Turns blocks into what is sent, and records whether something was cut.

    ``url`` makes the address of the n-th base64 source of an entry.
    """

    def __init__(self, url: Callable[[str, int], str], longest: int | None = LONGEST) -> None:
        self._url, self._longest = url, longest
        self.is_cut = False

    def message(self, source: Message) -> list[object]:
        """All blocks of a message, as in ``show --json``."""
        if not is_said(source):
            return [self._typed(block) for block in source.blocks]
        return [block for entry in source.entries for block in self.entry(entry)]

    def entry(self, entry: Entry) -> list[object]:
        """The blocks of one line; of an irregular line, what could be read."""
        content, counter = content_of(entry), _SourceCounter()
        if content is None:
            return [self._typed(block) for block in made_of(entry)]
        if isinstance(content, str):
            return [self._shown(text_block(content), entry.uuid or "", counter)]
        return [self._raw(raw, entry.uuid or "", counter) for raw in content]

    def result(self, entry: Entry, call: str) -> list[object]:
        """The result of one call. Its references count the sources of the whole line."""
        counter = _SourceCounter()
        for block in made_of(entry):
            if not isinstance(block, ToolResultBlock) or block.tool_use_id != call:
                counter.passed += _sources_in(block)
                continue
            return [self._raw(Raw(part), entry.uuid or "", counter) for part in _parts(block)]
        return []

    def structured(self, entry: Entry) -> object:
        """The client's structured form of a result; None if there is none or it is too long."""
        body = entry.body
        raw = body.tool_use_result if isinstance(body, User) else None
        if raw is None or isinstance(raw, UnsetType) or not isinstance(raw, Raw):
            return None
        data = bytes(raw)
        if len(data) > (self._longest or LONGEST) or b'"base64"' in data:
            return None
        return raw if _is_sound(data) else None

    def _raw(self, raw: Raw, uuid: str, counter: _SourceCounter) -> object:
        data = bytes(raw)
        is_short = self._longest is None or len(data) <= self._longest
        if is_short and b"base64" not in data:
            return raw
        try:
            return self._shown(msgspec.json.decode(data), uuid, counter)
        except REFUSED:
            self.is_cut = True
            return {"type": "unreadable", "bytes": len(data)}

    def _typed(self, block: Block) -> object:
        ready = as_json(block)
        return self._raw(ready if isinstance(ready, Raw) else Raw(encoded(ready)), "", _SourceCounter())

    def _shown(self, value: object, uuid: str, counter: _SourceCounter, depth: int = 0) -> object:
        if isinstance(value, str):
            return value
        if depth > _DEEPEST:
            self.is_cut = True
            return None
        if isinstance(value, list):
            return [self._within(one, uuid, counter, depth) for one in value]
        if isinstance(value, dict):
            if _is_source(value):
                return self._reference(value, uuid, counter)
            return self._object(value, uuid, counter, depth)
        return value

    def _within(self, value: object, uuid: str, counter: _SourceCounter, depth: int) -> object:
        """An item of a list. An overlong string is cut without a mark, because there is no place for one."""
        if isinstance(value, str) and self._is_long(value):
            self.is_cut = True
            return value[: self._longest]
        return self._shown(value, uuid, counter, depth + 1)

    def _object(
        self, value: dict[str, Any], uuid: str, counter: _SourceCounter, depth: int
    ) -> dict[str, object]:
        shown: dict[str, object] = {}
        for name, inner in value.items():
            if isinstance(inner, str) and self._is_long(inner):
                self.is_cut = True
                shown[name] = inner[: self._longest]
                shown["cut_characters"] = len(inner)
            else:
                shown[name] = self._shown(inner, uuid, counter, depth + 1)
        return shown

    def _is_long(self, text: str) -> bool:
        return self._longest is not None and len(text) > self._longest

    def _reference(self, source: dict[str, Any], uuid: str, counter: _SourceCounter) -> dict[str, object]:
        number, counter.passed = counter.passed, counter.passed + 1
        kind = source.get("media_type")
        return {
            "type": "blob",
            "media_type": kind[:100] if isinstance(kind, str) else None,
            "bytes": len(source["data"]) * 3 // 4,
            "url": self._url(uuid, number) if uuid else None,
        }


class _SourceCounter:
    """Counts the sources of a line."""

    def __init__(self) -> None:
        self.passed = 0


def _is_source(value: dict[str, Any]) -> bool:
    return value.get("type") == "base64" and isinstance(value.get("data"), str)


def _sources(value: object, depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for one in value:
            yield from _sources(one, depth + 1)
    elif isinstance(value, dict):
        if _is_source(value):
            yield value
            return
        for inner in value.values():
            yield from _sources(inner, depth + 1)


def _sources_in(block: Block) -> int:
    data = block.json if isinstance(block, UnknownBlock) else encoded(block)
    if b"base64" not in data:
        return 0
    return sum(1 for _ in _sources(msgspec.json.decode(data)))


def _parts(block: ToolResultBlock) -> list[bytes]:
    """The parts of a result as JSON; plain text is one text block."""
    if isinstance(block.content, UnsetType):
        return []
    try:
        parts = msgspec.json.decode(block.content, type=str | list[Raw] | None)
    except REFUSED:
        return [bytes(block.content)]
    if isinstance(parts, str):
        return [encoded(text_block(parts))]
    return [bytes(part) for part in parts or ()]


def _is_sound(data: bytes) -> bool:
    try:
        data.decode()
        msgspec.json.decode(data, type=Raw)
    except REFUSED:
        return False
    return True


def blob_of(entry: Entry, number: int) -> Blob | None:
    """The n-th base64 source of a line; None if there is no readable one."""
    content = content_of(entry)
    try:
        parts = [msgspec.json.decode(raw) for raw in content] if isinstance(content, list) else []
    except REFUSED:
        return None
    for place, source in enumerate(_sources(parts)):
        if place == number:
            try:
                data = base64.b64decode(source["data"], validate=False)
            except (binascii.Error, ValueError):
                return None
            return Blob(data, media_type_of(data))
    return None


def media_type_of(data: bytes) -> str:
    """The media type by content: one of four image types, else a type that no browser displays."""
    for start, kind in _PICTURES:
        if data.startswith(start):
            return kind
    is_webp = data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    return "image/webp" if is_webp else "application/octet-stream"
