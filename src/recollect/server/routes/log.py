"""Logs over HTTP: append, read, follow, and the ends of all logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from functools import lru_cache

import msgspec
from starlette.responses import Response
from starlette.types import Scope

from recollect.errors import UsageError
from recollect.model.json.text import deeper_than
from recollect.server.bodies import SMALL, read_body
from recollect.server.database.records import (
    AppendConflict,
    AppendRequest,
    ClientDescription,
    DeletedSession,
    LogPlace,
    PreparedLines,
    Segment,
)
from recollect.server.facts import prepare
from recollect.server.limits import ServerLimits
from recollect.server.outgoing import (
    LineRange,
    OutgoingBuffer,
    TimedStreamingResponse,
    event_pieces,
    lines_within,
    pieces_of,
)
from recollect.server.refusals import (
    RequestRefused,
    busy,
    invalid,
    not_found,
    too_deep,
    too_large,
    too_many_streams,
)
from recollect.server.service import PreparedResponse, ServerRequest, Service, answer, cursor_of, parts_of
from recollect.server.tenancy import READ
from recollect.sync.remote import lines_of
from recollect.sync.wire import (
    ENCRYPTED,
    LAST_UUID,
    MACHINE,
    NDJSON,
    POSITION,
    PROJECT,
    REPOSITORY,
    START,
    AppendReply,
    Head,
    LogHeads,
    Position,
    description,
)

ROUTE = "/v1/sessions/{session_id}/log"
_BEFORE, _AFTER = ROUTE.split("{session_id}")
_HEADS_AT_ONCE = 5_000
_LOOK_EVERY, _SIGN_OF_LIFE = 1.0, 15.0
_MOST_LINES = 1 << 53
POSITION_HEADER, LAST_UUID_HEADER, _PROJECT, _REPOSITORY, _MACHINE, _ENCRYPTED = (
    name.lower().encode() for name in (POSITION, LAST_UUID, PROJECT, REPOSITORY, MACHINE, ENCRYPTED)
)
_JSON = (b"content-type", b"application/json")
_DESCRIBING, _NOTHING_SAID = frozenset((_PROJECT, _REPOSITORY, _MACHINE, _ENCRYPTED)), ClientDescription()
_encode = msgspec.json.Encoder().encode


def appended_to(scope: Scope) -> str | None:
    """The session of an append; None for any other request."""
    path: str = scope["path"]
    if scope["method"] != "PUT" or not path.startswith(_BEFORE) or not path.endswith(_AFTER):
        return None
    session = path[len(_BEFORE) : -len(_AFTER)]
    return session if session and "/" not in session else None


async def append(ask: ServerRequest) -> Response:
    """PUT /v1/sessions/{session_id}/log."""
    ask.only("key")
    session, key = await ask.writable(), ask.key()
    given = _expected(ask)
    last_uuid = ask.header(LAST_UUID_HEADER)
    if given is None and last_uuid is None:
        raise RequestRefused(
            428,
            "precondition",
            "an append needs the expected end of the log",
            f"send {POSITION} or {LAST_UUID}",
        )
    service = ask.service
    with service.budget.share() as share:
        data = await read_body(ask, share)
        check_lines(data, service.limits)
        if given is None or last_uuid is not None:
            given = await _agreed(ask, (session, key), given, last_uuid or "", data)
        told, path = described(ask.headers), f"{session}/{key}"
        if len(data) < SMALL:
            check_depth(data, service.limits.line_depth, is_opaque=told.encrypted)
            prepared = prepare(data, given, path=path, is_opaque=told.encrypted)
        else:
            prepared = await _prepared(ask, data, given, path, told.encrypted)
        new = AppendRequest(ask.org, session, key, given, prepared, ask.caller.author, told)
        outcome = await service.database.append(new)
    if isinstance(outcome, DeletedSession):
        raise RequestRefused(
            410, "gone", "the session was deleted", "append to another id, or wait until it is purged"
        )
    if isinstance(outcome, AppendConflict):
        raise elsewhere(outcome.head)
    if outcome.repeated:
        return _appended(AppendReply(outcome.head, 0, repeated=True))
    return stored(service, new, outcome.head)


def stored(service: Service, new: AppendRequest, head: Head) -> PreparedResponse:
    """The answer to an append that is durable now; it is counted, and followers are woken."""
    service.metrics.count("appended_lines", new.prepared.lines)
    service.metrics.count("appended_bytes", len(new.prepared.data))
    if service.metrics.gauges["followers"]:
        service.wakeups.wake((new.org, new.session, new.key))
    return _appended(AppendReply(head, new.prepared.lines))


def _appended(reply: AppendReply) -> PreparedResponse:
    body, head = _encode(reply), reply.position
    position = b"%d:%b" % (head.lines, head.hash.encode())
    return PreparedResponse(
        body, [_JSON, (b"content-length", b"%d" % len(body)), (POSITION_HEADER, position)]
    )


def elsewhere(head: Head) -> RequestRefused:
    """The log does not end, or never was, at the client's position."""
    hint = "compare with your own chain: continue from the server's position, or branch off"
    return RequestRefused(409, "position", "the log is at another position", hint, head=head)


def _expected(ask: ServerRequest) -> Position | None:
    text = ask.header(POSITION_HEADER)
    try:
        return None if text is None else Position.parse(text)
    except UsageError as problem:
        raise invalid(problem.message, problem.hint) from None


def check_lines(data: bytes, limits: ServerLimits) -> None:
    if not data.endswith(b"\n"):
        raise invalid("the body is empty, or its last line has no newline", "send whole lines")
    # Counting takes longer than the rest.
    if len(data) > limits.lines and data.count(b"\n") > limits.lines:
        raise too_large("number of lines", limits.lines)
    if len(data) > limits.line_bytes and max(map(len, lines_of(data))) > limits.line_bytes:
        raise too_large("line", limits.line_bytes)


def check_depth(data: bytes, most: int, *, is_opaque: bool) -> None:
    """Most bodies have fewer brackets than the allowed depth, and are not checked further."""
    if is_opaque or data.count(b"{") + data.count(b"[") <= most:
        return
    # A single line is not copied.
    lines = lines_of(data) if data.count(b"\n") > 1 else (data,)
    if any(deeper_than(line, most) for line in lines):
        raise too_deep(most)


async def _agreed(
    ask: ServerRequest, place: tuple[str, str], given: Position | None, last_uuid: str, data: bytes
) -> Position:
    """The position the append depends on. With ``Last-Uuid`` alone: the log's end, if its last uuid
    matches."""
    head = await ask.service.database.head(ask.org, *place) or Head(0, 0, START.hash.hex())
    if (head.last_uuid or "") == last_uuid.strip():
        return given or head.position
    if given is not None:
        if head.position == given:
            raise elsewhere(head)
        return given
    # These lines may be stored already: then the uuid before them is the one that was named.
    before = head.lines - data.count(b"\n")
    known = await ask.service.database.place(ask.org, *place, before) if before >= 0 else None
    if known is not None and known.position.after(lines_of(data)) == head.position:
        return known.position
    raise elsewhere(head)


def described(headers: Mapping[bytes, bytes]) -> ClientDescription:
    """What the client says about the session."""
    if _DESCRIBING.isdisjoint(headers):
        return _NOTHING_SAID
    return _description(*map(headers.get, (_PROJECT, _REPOSITORY, _MACHINE, _ENCRYPTED)))


@lru_cache(maxsize=1_024)
def _description(*values: bytes | None) -> ClientDescription:
    """Clients say the same with every append to a session."""
    *texts, encrypted = (None if value is None else str(value, "latin-1") for value in values)
    project, repository, machine = (description(text) if text else None for text in texts)
    if encrypted not in ("0", "1", None):
        raise invalid(f"{ENCRYPTED}: write 1 or leave it out")
    return ClientDescription(project or None, repository or None, machine or None, encrypted == "1")


async def _prepared(
    ask: ServerRequest, data: bytes, expected: Position, path: str, is_opaque: bool
) -> PreparedLines:
    """One large body at a time: what is read from it takes several times its size."""
    most = ask.service.limits.line_depth

    def work() -> PreparedLines:
        check_depth(data, most, is_opaque=is_opaque)
        return prepare(data, expected, path=path, is_opaque=is_opaque)

    async with ask.service.large:
        return await asyncio.to_thread(work)


async def read(ask: ServerRequest) -> Response:
    """GET and HEAD /v1/sessions/{session_id}/log."""
    ask.only("key", "after")
    session, key = await ask.readable(), ask.key()
    head = await ask.service.database.head(ask.org, session, key)
    if head is None:
        raise not_found()
    after = await _place(ask, session, key, head)
    headers = {POSITION: str(head.position), "Content-Length": str(head.bytes - after.bytes)}
    if ask.scope["method"] == "HEAD":
        return Response(headers=headers, media_type=NDJSON)
    outlet = OutgoingBuffer(ask.service.budget, ask.service.limits)
    span = LineRange(after.position.lines, head.lines, head.bytes - after.bytes, head.bytes)
    # While a status can still be sent: later the answer can only break off.
    if not await outlet.has_room(min(span.bytes, ask.service.limits.body_bytes)):
        raise busy("too many large answers at once", 3)
    if span.bytes:
        await ask.service.database.reach(ask.org, session, key, after.position.lines)
    return TimedStreamingResponse(_lines(ask, session, key, span, outlet), outlet, headers, NDJSON)


async def _place(ask: ServerRequest, session: str, key: str, head: Head, text: str | None = None) -> LogPlace:
    """Where a reader continues: after a number of lines, or at a former position of the log."""
    text = text or ask.one("after") or "0"
    try:
        wanted = Position.parse(text) if ":" in text else None
    except UsageError as problem:
        raise invalid(problem.message, problem.hint) from None
    if wanted is None and not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise invalid("after: neither a number of lines nor a position")
    lines = int(text) if wanted is None else wanted.lines
    place = None
    if lines <= min(head.lines, _MOST_LINES):
        place = await ask.service.database.place(ask.org, session, key, lines)
    if place is None or (wanted is not None and place.position != wanted):
        raise elsewhere(head)
    return place


async def _lines(
    ask: ServerRequest, session: str, key: str, span: LineRange, outlet: OutgoingBuffer
) -> AsyncGenerator[bytes, None]:
    async for data in lines_within(outlet, span, _from(ask, session, key, span.until)):
        async for piece in outlet.pieces(pieces_of(data), len(data)):
            yield piece


def _from(ask: ServerRequest, session: str, key: str, until: int) -> Callable[[int], AsyncIterator[Segment]]:
    return lambda line: ask.service.database.segments(ask.org, session, key, line, until)


async def follow(ask: ServerRequest) -> Response:
    """GET /v1/sessions/{session_id}/events."""
    ask.only("key", "after")
    service = ask.service
    session, key = await ask.readable(), ask.key()
    head = await service.database.head(ask.org, session, key)
    if head is None:
        raise not_found()
    after = await _place(ask, session, key, head, ask.header(b"last-event-id"))
    if head.lines > after.position.lines:
        await service.database.reach(ask.org, session, key, after.position.lines)
    # Nothing is awaited between the limits and taking a place: others would pass in between.
    # First the token's own limit: waiting, as a full server asks for, would not help it.
    if service.streams.has_its_share(ask.caller.token.id):
        raise too_many_streams(service.streams.most_each)
    if service.streams.is_full():
        raise busy("too many followers", 5)
    give_back = service.streams.taken(ask.caller.token.id)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    outlet = OutgoingBuffer(service.budget, service.limits)
    return TimedStreamingResponse(
        _events(ask, session, key, after, outlet), outlet, headers, "text/event-stream", give_back
    )


async def _events(
    ask: ServerRequest, session: str, key: str, after: LogPlace, outlet: OutgoingBuffer
) -> AsyncGenerator[bytes, None]:
    service, seen, seen_bytes = ask.service, after.position, after.bytes
    loop = asyncio.get_running_loop()
    end, last_sign = loop.time() + service.limits.follow_seconds, loop.time()
    authorization = ask.header(b"authorization") or ""
    service.metrics.move("followers", 1)
    try:
        yield b": recollect\n\n"
        while not service.closing.is_set() and await service.doorkeeper.still(authorization, READ):
            head = await service.database.head(ask.org, session, key)
            access = await service.database.access(ask.org, session, ask.caller.reader)
            if head is None or access is None or not access.is_visible:
                yield b"event: gone\ndata: {}\n\n"
                return
            is_behind = head.lines > seen.lines
            if is_behind:
                span = LineRange(seen.lines, head.lines, head.bytes - seen_bytes, head.bytes)
                async for data in lines_within(outlet, span, _from(ask, session, key, head.lines)):
                    seen, seen_bytes = seen.after(lines_of(data)), seen_bytes + len(data)
                    async for piece in outlet.pieces(event_pieces(str(seen), data), len(data)):
                        yield piece
                outlet.keep(0)
                last_sign = loop.time()
            if loop.time() >= end:
                return
            if is_behind:
                continue
            if loop.time() - last_sign > _SIGN_OF_LIFE:
                last_sign = loop.time()
                yield b": still here\n\n"
            await service.wakeups.wait((ask.org, session, key), _LOOK_EVERY)
    finally:
        service.metrics.move("followers", -1)


async def heads(ask: ServerRequest) -> Response:
    """GET /v1/heads."""
    ask.only("cursor", "limit")
    limit = ask.number("limit", _HEADS_AT_ONCE, 1, _HEADS_AT_ONCE)
    cursor = ask.one("cursor")
    # Before every session id: no id is empty.
    after = ("", "") if cursor is None else parts_of(cursor, tuple[str, str])
    if any("\0" in part for part in after):
        raise invalid("cursor: not valid")
    found = await ask.service.database.heads(ask.org, after, limit + 1, ask.caller.reader)
    page = found[:limit]
    more = cursor_of(page[-1].session, page[-1].key) if len(found) > limit else None
    return answer(LogHeads(page, more))
