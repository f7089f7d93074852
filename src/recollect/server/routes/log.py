"""Logs over HTTP: append, read, follow, and the ends of all logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from recollect.model.lines.json_text import deeper_than
from recollect.server.bodies import (
    SMALL,
    LineRange,
    TimedStreamingResponse,
    event_pieces,
    lines_within,
    pieces_of,
    read_body,
    timed,
)
from recollect.server.database.records import (
    AppendRequest,
    PreparedLines,
    Segment,
)
from recollect.server.facts import prepare
from recollect.server.refusals import (
    RequestRefused,
    busy,
    invalid,
    not_found,
    too_large,
)
from recollect.server.service import (
    BudgetShare,
    Cursor,
    LogKey,
    ServerLimits,
    ServerRequest,
    SessionName,
    cursor_of,
    parts_of,
)
from recollect.server.tenancy import READ
from recollect.share.sync.wire import (
    ENCRYPTED,
    LAST_UUID,
    MACHINE,
    NDJSON,
    POSITION,
    PROJECT,
    REPOSITORY,
    START,
    AppendReply,
    Event,
    Head,
    LogHeads,
    Position,
    PositionConflict,
    SessionDescription,
    checked_key,
    description,
    lines_of,
)
from recollect.share.typed_http import Header, Media, answer

_HEADS_AT_ONCE = 5_000
_LOOK_EVERY, _SIGN_OF_LIFE = 1.0, 15.0
_MOST_LINES = 1 << 53
_POSITION = r"^(0|[1-9][0-9]{0,14}):[0-9a-f]{64}$"
_VISIBLE = {"maxLength": 1_024, "pattern": "^[!-~]*$"}
_After = Annotated[str, Meta(extra_json_schema={"pattern": rf"{_POSITION}|^[0-9]{{1,15}}$"})]
# One event of a stream: before OpenAPI 3.2 the schema of a stream is that of its events.
_EVENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": _POSITION},
        "event": {"type": "string", "enum": ["lines", "gone"]},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {
                "anyOf": [
                    msgspec.json.schema(Event)["$defs"]["Event"],
                    {"type": "object", "maxProperties": 0},
                ]
            },
        },
    },
    "required": ["event", "data"],
    "additionalProperties": False,
}


async def append(
    ask: ServerRequest,
    *,
    session_id: SessionName,
    key: LogKey = "",
    position: Annotated[str | None, Header(POSITION), Meta(extra_json_schema={"pattern": _POSITION})] = None,
    last_uuid: Annotated[str | None, Header(LAST_UUID), Meta(extra_json_schema=_VISIBLE)] = None,
    encrypted: Annotated[Literal["0", "1"] | None, Header(ENCRYPTED)] = None,
    project: Annotated[str | None, Header(PROJECT), Meta(extra_json_schema=_VISIBLE)] = None,
    repository: Annotated[str | None, Header(REPOSITORY), Meta(extra_json_schema=_VISIBLE)] = None,
    machine: Annotated[str | None, Header(MACHINE), Meta(extra_json_schema=_VISIBLE)] = None,
) -> Annotated[Response, Media("application/json", AppendReply)]:
    """Append lines to a log."""
    session, key = await ask.writable(session_id), checked_key(key)
    given = None if position is None else Position.parse(position)
    if given is None and last_uuid is None:
        raise RequestRefused("precondition", "an append needs the expected end of the log")
    service = ask.service
    with BudgetShare(service.budget) as share:
        data = await read_body(ask, share)
        _check_lines(data, service.limits)
        if given is None or last_uuid is not None:
            given = await _agreed(ask, (session, key), given, last_uuid or "", data)
        said = SessionDescription(
            _description(project), _description(repository), _description(machine), encrypted == "1"
        )
        prepared = await _prepared(ask, data, given, f"{session}/{key}", said.encrypted)
        reply = await service.database.append(
            AppendRequest(ask.org, session, key, given, prepared, ask.caller.author, said)
        )
    service.metrics.count("appended_lines", reply.stored)
    service.metrics.count("appended_bytes", 0 if reply.repeated else len(data))
    return answer(reply, headers={POSITION: str(reply.position.position)})


def _description(text: str | None) -> str | None:
    return (description(text) or None) if text else None


def _check_lines(data: bytes, limits: ServerLimits) -> None:
    if not data.endswith(b"\n"):
        raise invalid("the body is empty, or its last line has no newline", "send whole lines")
    # Counting takes longer than the rest.
    if len(data) > limits.lines and data.count(b"\n") > limits.lines:
        raise too_large("number of lines", limits.lines)
    if len(data) > limits.line_bytes and max(map(len, lines_of(data))) > limits.line_bytes:
        raise too_large("line", limits.line_bytes)


def _check_depth(data: bytes, most: int, *, is_opaque: bool) -> None:
    """Most bodies have fewer brackets than the allowed depth, and are not checked further."""
    if is_opaque or data.count(b"{") + data.count(b"[") <= most:
        return
    # A single line is not copied.
    lines = lines_of(data) if data.count(b"\n") > 1 else (data,)
    if any(deeper_than(line, most) for line in lines):
        raise RequestRefused("too_deep", f"a line is nested more than {most} levels deep")


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
            raise PositionConflict(head)
        return given
    # These lines may be stored already: then the uuid before them is the one that was named.
    before = head.lines - data.count(b"\n")
    known = await ask.service.database.place(ask.org, *place, before) if before >= 0 else None
    if known is not None and known.position.after(lines_of(data)) == head.position:
        return known.position
    raise PositionConflict(head)


async def _prepared(
    ask: ServerRequest, data: bytes, expected: Position, path: str, is_opaque: bool
) -> PreparedLines:
    """One large body at a time: what is read from it takes several times its size."""

    def work() -> PreparedLines:
        _check_depth(data, ask.service.limits.line_depth, is_opaque=is_opaque)
        return prepare(data, expected, path=path, is_opaque=is_opaque)

    if len(data) < SMALL:
        return work()
    async with ask.service.large:
        return await asyncio.to_thread(work)


async def read(
    ask: ServerRequest, session_id: SessionName, key: LogKey = "", after: _After = "0"
) -> Annotated[Response, Media(NDJSON)]:
    """The bytes after a position; HEAD tells where a log ends."""
    session, key = await ask.readable(session_id), checked_key(key)
    head = await ask.service.database.head(ask.org, session, key)
    if head is None:
        raise not_found()
    start = await _place(ask, session, key, head, after)
    headers = {POSITION: str(head.position), "Content-Length": str(head.bytes - start.bytes)}
    if ask.scope["method"] == "HEAD":
        return Response(headers=headers, media_type=NDJSON)
    share, limits = BudgetShare(ask.service.budget), ask.service.limits
    span = LineRange(start.lines, head.lines, head.bytes - start.bytes, head.bytes)
    if span.bytes:
        await ask.service.database.reach(ask.org, session, key, start.lines)
    # While a status can still be sent: later the answer can only break off.
    if not await share.hold(min(span.bytes, limits.body_bytes)):
        raise busy("too many large answers at once", 3)
    return TimedStreamingResponse(_lines(ask, session, key, span, share), share, limits, headers, NDJSON)


async def _place(ask: ServerRequest, session: str, key: str, head: Head, text: str) -> Head:
    """Where a reader continues: after a number of lines, or at a former position of the log."""
    wanted = Position.parse(text) if ":" in text else None
    if wanted is None and not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise invalid("after: neither a number of lines nor a position")
    lines = int(text) if wanted is None else wanted.lines
    place = None
    if lines <= min(head.lines, _MOST_LINES):
        place = await ask.service.database.place(ask.org, session, key, lines)
    if place is None or (wanted is not None and place.position != wanted):
        raise PositionConflict(head)
    return place


async def _lines(
    ask: ServerRequest, session: str, key: str, span: LineRange, share: BudgetShare
) -> AsyncGenerator[bytes, None]:
    limits = ask.service.limits
    async for data in lines_within(share, limits, span, _from(ask, session, key, span.until)):
        async for piece in timed(pieces_of(data), len(data), limits):
            yield piece


def _from(ask: ServerRequest, session: str, key: str, until: int) -> Callable[[int], AsyncIterator[Segment]]:
    return lambda line: ask.service.database.segments(ask.org, session, key, line, until)


async def follow(
    ask: ServerRequest,
    session_id: SessionName,
    key: LogKey = "",
    after: _After = "0",
    last_event_id: Annotated[_After | None, Header("Last-Event-ID")] = None,
) -> Annotated[Response, Media("text/event-stream", _EVENT)]:
    """New lines as they arrive."""
    service = ask.service
    session, key = await ask.readable(session_id), checked_key(key)
    head = await service.database.head(ask.org, session, key)
    if head is None:
        raise not_found()
    start = await _place(ask, session, key, head, last_event_id or after)
    if head.lines > start.lines:
        await service.database.reach(ask.org, session, key, start.lines)
    # Nothing is awaited between the limits and taking a place: others would pass in between.
    # First the token's own limit: waiting, as a full server asks for, would not help it.
    if service.streams.has_its_share(ask.caller.token.id):
        message = f"this token already follows {service.streams.most_each} logs"
        raise RequestRefused("streams", message, wait=5)
    if service.streams.is_full():
        raise busy("too many followers", 5)
    give_back = service.streams.taken(ask.caller.token.id)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    share = BudgetShare(service.budget)
    events = _events(ask, session, key, start, share)
    return TimedStreamingResponse(
        events, share, service.limits, headers, "text/event-stream", at_end=give_back
    )


async def _events(
    ask: ServerRequest, session: str, key: str, after: Head, share: BudgetShare
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
                lines = _from(ask, session, key, head.lines)
                async for data in lines_within(share, service.limits, span, lines):
                    seen, seen_bytes = seen.after(lines_of(data)), seen_bytes + len(data)
                    async for piece in timed(event_pieces(str(seen), data), len(data), service.limits):
                        yield piece
                share.keep(0)
                last_sign = loop.time()
            if loop.time() >= end:
                return
            if is_behind:
                continue
            if loop.time() - last_sign > _SIGN_OF_LIFE:
                last_sign = loop.time()
                yield b": still here\n\n"
            await asyncio.sleep(_LOOK_EVERY)
    finally:
        service.metrics.move("followers", -1)


async def heads(
    ask: ServerRequest,
    cursor: Cursor = None,
    limit: Annotated[int, Meta(ge=1, le=_HEADS_AT_ONCE)] = _HEADS_AT_ONCE,
) -> LogHeads:
    """The ends of all logs."""
    # Before every session id: no id is empty.
    after = ("", "") if cursor is None else parts_of(cursor, tuple[str, str])
    if any("\0" in part for part in after):
        raise invalid("cursor: not valid")
    rows = await ask.service.database.heads(ask.org, after, limit + 1, ask.caller.reader)
    page = rows[:limit]
    return LogHeads(page, cursor_of(page[-1].session, page[-1].key) if len(rows) > limit else None)
