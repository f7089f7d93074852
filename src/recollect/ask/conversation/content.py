"""What a page has of a session: its blocks, the index under it, the session at one moment.

Blocks are unchanged, except for what is too large to send: base64 sources become references that are fetched separately,
overlong strings are cut and marked. A block without either passes through undecoded, with all its unknown fields.
``IndexKeeper`` keeps an index fresh in a thread.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime as dt
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec import Raw, UnsetType

from recollect.ask.sessions.session import Session
from recollect.errors import NotFound, RecollectError, StorageError
from recollect.index.access import OpenIndex, empty_index, index_path, is_built, open_index, update_index
from recollect.model.conversation.conversation import (
    Message,
    as_json,
    content_of,
    is_said,
    made_of,
    text_block,
)
from recollect.model.lines.blocks import Block, ToolResultBlock, UnknownBlock
from recollect.model.lines.entry import Entry, User
from recollect.model.lines.json_text import encode_json
from recollect.model.views.fact_line import REFUSED
from recollect.store.home import AgentFile
from recollect.store.logs.conversation_cache import LogGraph

LONGEST = 100_000
_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_DEEPEST = 60
_VIEWS_KEPT = 6
_T = TypeVar("_T")


PictureAddress = Callable[[str, int, str], str | None]


class BlockRenderer:
    """Turns blocks into what is sent, and records whether something was cut.

    ``url`` makes the address of the n-th base64 source of an entry, of which it is given the text.
    """

    def __init__(self, url: PictureAddress, longest: int | None = LONGEST) -> None:
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
        return self._raw(ready if isinstance(ready, Raw) else Raw(encode_json(ready)), "", _SourceCounter())

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
            "url": self._url(uuid, number, source["data"]) if uuid else None,
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
    data = block.json if isinstance(block, UnknownBlock) else encode_json(block)
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
        return [encode_json(text_block(parts))]
    return [bytes(part) for part in parts or ()]


def _is_sound(data: bytes) -> bool:
    try:
        data.decode()
        msgspec.json.decode(data, type=Raw)
    except REFUSED:
        return False
    return True


def blob_of(entry: Entry, number: int) -> tuple[bytes, str] | None:
    """The n-th base64 source of a line, with a content type that is safe to show; None if there is no readable one."""
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
            return data, media_type_of(data)
    return None


def media_type_of(data: bytes) -> str:
    """The media type by content: one of four image types, else a type that no browser displays."""
    for start, kind in _PICTURES:
        if data.startswith(start):
            return kind
    is_webp = data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    return "image/webp" if is_webp else "application/octet-stream"


IndexState = Literal["ready", "building", "none"]
_REST_SECONDS = 1.5
_LONGEST_REST = 30.0
WAIT_SECONDS = 0.25


class IndexKeeper:
    """Refreshes one index as long as requests come."""

    def __init__(self, homes: Sequence[Path], cache: Path) -> None:
        self.homes, self._cache = tuple(homes), cache
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._rests_until = 0.0
        self.refreshed_at: dt.datetime | None = None
        self.done = self.total = 0
        self.notes: list[str] = []
        self.refused = ""  # why there can be no index in this place
        self.unread: list[tuple[str, str]] = []  # what the last refresh could not read, each with the reason

    @property
    def is_refreshing(self) -> bool:
        """Whether an answer of now may lack what was written last."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def state(self) -> IndexState:
        if self._built():
            return "ready"
        return "building" if self.is_refreshing else "none"

    def _built(self) -> bool:
        """Checked each time: another process, or damage, may have removed the file."""
        return is_built(index_path(self.homes, self._cache))

    def refresh(self) -> None:
        """Start a refresh, unless one runs or has just ended."""
        with self._lock:
            if not self.homes or self.is_refreshing or time.monotonic() < self._rests_until:
                return
            thread = threading.Thread(target=self._refresh, name="recollect-index", daemon=True)
            thread.start()
            self._thread = thread  # only now: a waiting request must find it started

    def hurry(self) -> None:
        """Let the next refresh start at once: a log that is being read has grown."""
        self._rests_until = 0.0

    def wait(self, seconds: float) -> None:
        """Wait for a running refresh."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    @contextlib.contextmanager
    def opened(self, wait: float = WAIT_SECONDS) -> Iterator[OpenIndex]:
        """The index, after waiting for a refresh at most ``wait`` seconds; an empty one until it was built."""
        self.refresh()
        self.wait(wait)
        is_built = self._built()
        with (
            open_index(self.homes, cache=self._cache, is_refreshed=False)
            if is_built
            else empty_index(self.homes, self._cache)
        ) as opened:
            if is_built:
                opened.database.map_file()  # screens visit much more of it than a command does
            yield opened

    def _refresh(self) -> None:
        begun = time.monotonic()
        try:
            updated = update_index(self.homes, self._cache, progress=self._progress)
            self.notes, self.refused = list(updated.notes), updated.refused
            self.unread = [] if updated.refreshed is None else updated.refreshed.problems
            self.refreshed_at = dt.datetime.now(dt.UTC)
        except (RecollectError, OSError) as problem:
            self.notes = [str(problem)]
        finally:
            now = time.monotonic()
            # A slow refresh runs less often, so that most time is left for answers.
            rest = _LONGEST_REST if self.refused else min(5 * (now - begun), _LONGEST_REST)
            self._rests_until = now + max(_REST_SECONDS, rest)

    def _progress(self, done: int, total: int) -> None:
        self.done, self.total = done, total


class Cache:
    """The newest answers, each with the state of what it was made from."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[object, tuple[object, Any]] = OrderedDict()

    def get(self, key: object, state: object, make: Callable[[], _T]) -> _T:
        """The answer for a key, made again when the state is another."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry[0] == state:
                self._entries.move_to_end(key)
                return cast("_T", entry[1])
        value = make()
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is not None and entry[0] == state:
                value = entry[1]  # another thread was first
            self._entries[key] = state, value
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return value


class PageSession(Session):
    """A session at one moment. ``agents`` says which sub-agents it has; by default they are looked for each time."""

    def __init__(
        self,
        session: Session,
        log: LogGraph | None = None,
        agents: Callable[[], list[AgentFile]] | None = None,
    ) -> None:
        super().__init__(session.home, session.file)
        self._costs, self._is_shared = session._costs, session._is_shared  # noqa: SLF001 - of the same class
        self._name, self._is_archived = session.id, session.is_archived
        self._agents = agents or session.agents
        self.log = LogGraph(session.path) if log is None else log
        self.lock = threading.RLock()
        self.views = Cache(_VIEWS_KEPT)
        self.senders: dict[str, str] | None = None

    @property
    def id(self) -> str:
        """Its id, even if the archive stores it under another name."""
        return self._name

    @property
    def is_archived(self) -> bool:
        return self._is_archived

    def agents(self) -> list[AgentFile]:
        """The logs of its sub-agents; for an archived session, those in the archive."""
        return self._agents()


def signature_of(path: Path) -> tuple[int, int, int]:
    """Size, time and file of a log: changes when the log changes."""
    try:
        seen = path.stat()
    except FileNotFoundError as cause:
        raise NotFound(f"no log at {path}", hint="it may have been moved or deleted") from cause
    except OSError as cause:
        raise StorageError("read", path, cause, hint="check its permissions") from cause
    return seen.st_size, seen.st_mtime_ns, seen.st_ino
