"""Sessions and their side files over HTTP: list, describe, store, delete."""

import re
from typing import Annotated

from msgspec import UNSET, Meta
from starlette.responses import Response

from recollect.server.bodies import TimedStreamingResponse, pieces_of, read_body, timed
from recollect.server.database.records import PRIVATE, SessionChanges, SessionFilter
from recollect.server.refusals import RequestRefused, busy, invalid, not_found
from recollect.server.service import (
    BudgetShare,
    Cursor,
    FileKey,
    ServerRequest,
    SessionName,
    Text,
    Time,
    bounds,
    cursor_of,
    parts_of,
)
from recollect.server.tenancy import ADMIN
from recollect.share.sync.wire import RemoteSessions, SessionDetail, SideFile, checked_key
from recollect.share.typed_http import Header, Media, answer

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
    rows = await ask.service.database.sessions(ask.org, filters, before, limit + 1, ask.caller.reader)
    page = rows[:limit]
    return RemoteSessions(page, cursor_of(page[-1].changed, page[-1].id) if len(rows) > limit else None)


async def session(ask: ServerRequest, session_id: SessionName) -> SessionDetail:
    """One session."""
    detail = await ask.service.database.session(ask.org, await ask.readable(session_id))
    if detail is None:
        raise not_found()
    return detail


async def describe(ask: ServerRequest, session_id: SessionName, body: SessionChanges) -> SessionDetail | None:
    """Change the description of a session; nothing is shown to an admin who may change it and not read it."""
    name, is_admin = await ask.writable(session_id), ADMIN in ask.caller.scopes
    if body.held is not UNSET and not is_admin:
        raise RequestRefused("forbidden", "only an admin may put a session under legal hold, or end it")
    access = await ask.service.database.access(ask.org, name, ask.caller.reader)
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
    if not await ask.service.database.describe(ask.org, name, body, ask.caller.author):
        raise not_found()
    after = await ask.service.database.access(ask.org, name, ask.caller.reader)
    detail = await ask.service.database.session(ask.org, name)
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
    done = await ask.service.database.delete(
        ask.org, name, purge=purge, only_own=only_own, author=ask.caller.author
    )
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
            author=ask.caller.author,
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
    gone = await ask.service.database.delete_file(
        ask.org, name, checked_key(key), only_own=only_own, author=ask.caller.author
    )
    if not gone:
        raise not_found()
