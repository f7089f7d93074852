"""Sessions over HTTP: their logs (append, read, the ends of all), their side files, lists and descriptions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Literal

from msgspec import UNSET, Meta
from starlette.responses import Response

from recollect.model.lines.json_text import deeper_than
from recollect.server.bodies import (
    SMALL,
    LineRange,
    TimedStreamingResponse,
    lines_within,
    pieces_of,
    read_body,
    timed,
)
from recollect.server.database.records import (
    PRIVATE,
    AppendRequest,
    PreparedLines,
    Segment,
    SessionChanges,
    SessionFilter,
)
from recollect.server.facts import prepare
from recollect.server.refusals import RequestRefused, busy, invalid, not_found, too_large
from recollect.server.service import (
    BudgetShare,
    Cursor,
    FileKey,
    LogKey,
    ServerLimits,
    ServerRequest,
    SessionName,
    Text,
    Time,
    bounds,
    cursor_of,
    parts_of,
)
from recollect.server.tenancy import ADMIN
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
    Head,
    LogHeads,
    Position,
    PositionConflict,
    RemoteSessions,
    SessionDescription,
    SessionDetail,
    SideFile,
    checked_key,
    description,
    lines_of,
)
from recollect.share.typed_http import Header, Media, answer

_HEADS_AT_ONCE = 5_000
_MOST_LINES = 1 << 53
_POSITION = r"^(0|[1-9][0-9]{0,14}):[0-9a-f]{64}$"
_VISIBLE = {"maxLength": 1_024, "pattern": "^[!-~]*$"}
_After = Annotated[str, Meta(extra_json_schema={"pattern": rf"{_POSITION}|^[0-9]{{1,15}}$"})]


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
            AppendRequest(ask.org, session, key, given, prepared, ask.author, said)
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
    head = await ask.database.head(ask.org, *place) or Head(0, 0, START.hash.hex())
    if (head.last_uuid or "") == last_uuid.strip():
        return given or head.position
    if given is not None:
        if head.position == given:
            raise PositionConflict(head)
        return given
    # These lines may be stored already: then the uuid before them is the one that was named.
    before = head.lines - data.count(b"\n")
    known = await ask.database.place(ask.org, *place, before) if before >= 0 else None
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
    head = await ask.database.head(ask.org, session, key)
    if head is None:
        raise not_found()
    start = await _place(ask, session, key, head, after)
    headers = {POSITION: str(head.position), "Content-Length": str(head.bytes - start.bytes)}
    if ask.scope["method"] == "HEAD":
        return Response(headers=headers, media_type=NDJSON)
    share, limits = BudgetShare(ask.service.budget), ask.service.limits
    missing = head.bytes - start.bytes
    span = start.lines, head.lines, missing, head.bytes
    if missing:
        await ask.database.reach(ask.org, session, key, start.lines)
    # While a status can still be sent: later the answer can only break off.
    if not await share.hold(min(missing, limits.body_bytes)):
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
        place = await ask.database.place(ask.org, session, key, lines)
    if place is None or (wanted is not None and place.position != wanted):
        raise PositionConflict(head)
    return place


async def _lines(
    ask: ServerRequest, session: str, key: str, span: LineRange, share: BudgetShare
) -> AsyncGenerator[bytes, None]:
    service = ask.service

    def segments(line: int) -> AsyncIterator[Segment]:
        return service.database.segments(ask.org, session, key, line, span[1])

    async for data in lines_within(share, service.limits, span, segments):
        async for piece in timed(pieces_of(data), len(data), service.limits):
            yield piece


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
    rows = await ask.database.heads(ask.org, after, limit + 1, ask.caller.reader)
    page = rows[:limit]
    return LogHeads(page, cursor_of(page[-1].session, page[-1].key) if len(rows) > limit else None)


_ETAG = re.compile(r'"([0-9a-f]{64})"', re.ASCII)
_MOST = 1 << 62


async def sessions(
    ask: ServerRequest,
    *,
    project: Text | None = None,
    repository: Text | None = None,
    machine: Text | None = None,
    person: Text | None = None,
    id_: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{4,128}$")] | None = None,
    since: Time = None,
    until: Time = None,
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100,
    cursor: Cursor = None,
) -> RemoteSessions:
    """Sessions, newest change first; ``id`` is how their ids begin."""
    filters = SessionFilter(project, repository, machine, person, *bounds(since, until), id=id_)
    before = None if cursor is None else parts_of(cursor, tuple[int, str])
    if before is not None and (abs(before[0]) > _MOST or "\0" in before[1]):
        raise invalid("cursor: not valid")
    rows = await ask.database.sessions(ask.org, filters, before, limit + 1, ask.caller.reader)
    page = rows[:limit]
    return RemoteSessions(page, cursor_of(page[-1].changed, page[-1].id) if len(rows) > limit else None)


async def session(ask: ServerRequest, session_id: SessionName) -> SessionDetail:
    """One session."""
    detail = await ask.database.session(ask.org, await ask.readable(session_id))
    if detail is None:
        raise not_found()
    return detail


async def describe(ask: ServerRequest, session_id: SessionName, body: SessionChanges) -> SessionDetail | None:
    """Change the description of a session; nothing is shown to an admin who may change it and not read it."""
    name, is_admin = await ask.writable(session_id), ADMIN in ask.caller.scopes
    if body.held is not UNSET and not is_admin:
        raise RequestRefused("forbidden", "only an admin may put a session under legal hold, or end it")
    access = await ask.database.access(ask.org, name, ask.caller.reader)
    if (
        body.visibility is not UNSET
        and access is not None
        and access.creator != ask.caller.user.id
        # An admin who could show a session to more people could read a private one.
        and not (is_admin and body.visibility == PRIVATE)
    ):
        raise RequestRefused(
            "forbidden", "only the creator of a session decides who sees it; an admin may make it private"
        )
    if not await ask.database.describe(ask.org, name, body, ask.author):
        raise not_found()
    after = await ask.database.access(ask.org, name, ask.caller.reader)
    detail = await ask.database.session(ask.org, name)
    if detail is None or after is None:
        raise not_found()
    return detail if after.is_visible else None


async def delete(ask: ServerRequest, session_id: SessionName, purge: bool = False) -> None:
    """Delete a session."""
    is_admin = ADMIN in ask.caller.scopes
    if purge and not is_admin:
        raise RequestRefused("forbidden", "only an admin may remove a session's bytes at once")
    name = await ask.writable(session_id)
    only_own = not is_admin
    done = await ask.database.delete(ask.org, name, purge=purge, only_own=only_own, author=ask.author)
    if not done:
        raise not_found()


async def put_file(
    ask: ServerRequest,
    session_id: SessionName,
    key: FileKey,
    if_match: Annotated[
        str | None, Header("If-Match"), Meta(extra_json_schema={"pattern": '^"[0-9a-f]{64}"$'})
    ] = None,
    if_none_match: Annotated[
        str | None, Header("If-None-Match"), Meta(extra_json_schema={"enum": ["*"]})
    ] = None,
) -> Annotated[Response, Media("application/json", SideFile)]:
    """Store a side file."""
    name, key, only_if = await ask.writable(session_id), checked_key(key), _only_if(if_match, if_none_match)
    service = ask.service
    with BudgetShare(service.budget) as share:
        data = await read_body(ask, share)
        stored = await service.database.put_file(
            ask.org,
            name,
            key,
            data,
            only_if=only_if,
            only_own=ADMIN not in ask.caller.scopes,
            author=ask.author,
        )
    return answer(stored, headers={"ETag": f'"{stored.sha256}"'})


def _only_if(known: str | None, new: str | None) -> str | None:
    """The expected sha256 of the file; "" where it must not exist, None for no condition."""
    if new is not None:
        if new.strip() != "*" or known is not None:
            raise invalid("If-None-Match: only * is supported, and not with If-Match")
        return ""
    if known is None:
        return None
    found = _ETAG.fullmatch(known.strip())
    if found is None:
        raise invalid('If-Match: write "<sha256>"')
    return found[1]


async def read_file(
    ask: ServerRequest, session_id: SessionName, key: FileKey
) -> Annotated[Response, Media("application/octet-stream")]:
    """A side file."""
    name, key, service = await ask.readable(session_id), checked_key(key), ask.service
    size = await service.database.file_size(ask.org, name, key)
    share = BudgetShare(service.budget)
    if not await share.hold(size):
        raise busy("too many large answers at once", 3)
    found = await service.database.file(ask.org, name, key)
    if found is None or len(found[1]) > max(
        size, service.limits.document_bytes
    ):  # replaced meanwhile, by a larger one
        share.keep(0)
        raise not_found() if found is None else busy("the side file was just replaced")
    about, data = found
    headers = {"ETag": f'"{about.sha256}"', "Content-Length": str(len(data))}
    pieces = timed(pieces_of(data), len(data), service.limits)
    return TimedStreamingResponse(pieces, share, service.limits, headers, "application/octet-stream")


async def delete_file(ask: ServerRequest, session_id: SessionName, key: FileKey) -> None:
    """Remove a side file."""
    name = await ask.writable(session_id)
    only_own = ADMIN not in ask.caller.scopes
    gone = await ask.database.delete_file(
        ask.org, name, checked_key(key), only_own=only_own, author=ask.author
    )
    if not gone:
        raise not_found()
