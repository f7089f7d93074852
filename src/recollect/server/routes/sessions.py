"""Sessions and their side files over HTTP: list, describe, store, delete."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from recollect.server.bodies import read_body
from recollect.server.database.contract import Forbidden, Held, Taken
from recollect.server.database.records import PRIVATE, VISIBILITIES, SessionChanges, SessionFilter
from recollect.server.outgoing import OutgoingBuffer, TimedStreamingResponse, TooSlow, fetched, pieces_of
from recollect.server.refusals import RequestRefused, busy, forbidden, invalid, not_found
from recollect.server.service import ServerRequest, answer, cursor_of, parts_of
from recollect.server.tenancy import ADMIN
from recollect.sync.wire import RemoteSessions, plain_text

_MOST_AT_ONCE = 1_000
_LONGEST = 1_024
_ETAG = re.compile(r'"([0-9a-f]{64})"', re.ASCII)
_BEGINNING = re.compile(r"[A-Za-z0-9_.-]{4,128}", re.ASCII)
_MOST = 1 << 62


async def sessions(ask: ServerRequest) -> Response:
    """GET /v1/sessions."""
    ask.only("project", "repository", "machine", "person", "id", "since", "until", "limit", "cursor")
    filters = SessionFilter(
        ask.one("project"),
        ask.one("repository"),
        ask.one("machine"),
        ask.one("person"),
        *ask.bounds(),
        id=_beginning(ask.one("id")),
    )
    limit = ask.number("limit", 100, 1, _MOST_AT_ONCE)
    cursor = ask.one("cursor")
    before = None if cursor is None else parts_of(cursor, tuple[int, str])
    if before is not None and (abs(before[0]) > _MOST or "\0" in before[1]):
        raise invalid("cursor: not valid")
    found = await ask.service.database.sessions(ask.org, filters, before, limit + 1, ask.caller.reader)
    page = found[:limit]
    more = cursor_of(page[-1].changed, page[-1].id) if len(found) > limit else None
    return answer(RemoteSessions(page, more))


def _beginning(text: str | None) -> str | None:
    """The beginning of an id: as many characters as tell most sessions apart."""
    if text is not None and not _BEGINNING.fullmatch(text):
        raise invalid("id: not the beginning of an id", "give 4 or more of its characters")
    return text


async def session(ask: ServerRequest) -> Response:
    """GET /v1/sessions/{session_id}."""
    ask.only()
    detail = await ask.service.database.session(ask.org, await ask.readable())
    if detail is None:
        raise not_found()
    return answer(detail)


class _SessionChange(Struct, forbid_unknown_fields=True):
    project: str | UnsetType = UNSET
    repository: str | UnsetType = UNSET
    machine: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    held: bool | UnsetType = UNSET
    visibility: Annotated[str, Meta(extra_json_schema={"enum": list(VISIBILITIES)})] | UnsetType | None = (
        UNSET
    )


async def describe(ask: ServerRequest) -> Response:
    """PATCH /v1/sessions/{session_id}."""
    ask.only()
    name, is_admin = await ask.writable(), ADMIN in ask.caller.scopes
    body = await ask.document(_SessionChange)
    if body.held is not UNSET and not is_admin:
        raise forbidden("only an admin may put a session under legal hold, or end it")
    if body.visibility not in (UNSET, None, *VISIBILITIES):
        raise invalid("visibility: not valid", f"write one of {', '.join(VISIBILITIES)}, or null")
    access = await ask.service.database.access(ask.org, name, ask.caller.reader)
    if (
        body.visibility is not UNSET
        and access is not None
        and access.creator != ask.caller.user.id
        # An admin who could show a session to more people could read a private one.
        and not (is_admin and body.visibility == PRIVATE)
    ):
        raise forbidden("only the creator of a session decides who sees it; an admin may make it private")
    changes = SessionChanges(
        _said(body.project),
        _said(body.repository),
        _said(body.machine),
        _said(body.title),
        None if isinstance(body.held, UnsetType) else body.held,
        None if isinstance(body.visibility, UnsetType) else body.visibility or "",
    )
    if not await ask.service.database.describe(ask.org, name, changes, ask.caller.author):
        raise not_found()
    after = await ask.service.database.access(ask.org, name, ask.caller.reader)
    detail = await ask.service.database.session(ask.org, name)
    if detail is None or after is None:
        raise not_found()
    return answer(detail) if after.is_visible else Response(status_code=204)


def _said(text: str | UnsetType) -> str | None:
    return None if isinstance(text, UnsetType) else plain_text(text, _LONGEST)


async def delete(ask: ServerRequest) -> Response:
    """DELETE /v1/sessions/{session_id}."""
    ask.only("purge")
    purge, is_admin = ask.flag("purge"), ADMIN in ask.caller.scopes
    if purge and not is_admin:
        raise forbidden("only an admin may remove a session's bytes at once")
    session_id = await ask.writable()
    try:
        done = await ask.service.database.delete(
            ask.org, session_id, purge=purge, only_own=not is_admin, author=ask.caller.author
        )
    except Held:
        raise held() from None
    except Forbidden:
        raise forbidden("only an admin may delete a session of another member") from None
    if not done:
        raise not_found()
    return Response(status_code=204)


def held() -> RequestRefused:
    return RequestRefused(409, "held", "the session is under legal hold", "an admin can end the hold")


async def put_file(ask: ServerRequest) -> Response:
    """PUT /v1/sessions/{session_id}/file."""
    ask.only("key")
    session_id, key, only_if = await ask.writable(), ask.key(is_needed=True), _only_if(ask)
    service = ask.service
    with service.budget.share() as share:
        data = await read_body(ask, share)
        try:
            stored = await service.database.put_file(
                ask.org,
                session_id,
                key,
                data,
                only_if=only_if,
                only_own=ADMIN not in ask.caller.scopes,
                author=ask.caller.author,
            )
        except Held:
            raise held() from None
        except Taken as problem:
            raise RequestRefused(
                409, "changed", str(problem), "read it first, then name its ETag in If-Match"
            ) from None
    if stored is None:
        raise RequestRefused(
            410, "gone", "the session was deleted", "use another id, or wait until it is purged"
        )
    return answer(stored, headers={"ETag": f'"{stored.sha256}"'})


def _only_if(ask: ServerRequest) -> str | None:
    """The expected sha256 of the file; "" where it must not exist, None for no condition."""
    new, known = ask.header(b"if-none-match"), ask.header(b"if-match")
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


async def read_file(ask: ServerRequest) -> Response:
    """GET /v1/sessions/{session_id}/file."""
    ask.only("key")
    session_id, key, service = await ask.readable(), ask.key(is_needed=True), ask.service
    outlet = OutgoingBuffer(service.budget, service.limits)
    try:
        found = await fetched(outlet, lambda: service.database.file(ask.org, session_id, key))
    except TooSlow:
        raise busy("too many large answers at once", 3) from None
    if found is None:
        raise not_found()
    headers = {"ETag": f'"{found.sha256}"', "Content-Length": str(len(found.data))}
    pieces = outlet.pieces(pieces_of(found.data), len(found.data))
    return TimedStreamingResponse(pieces, outlet, headers, "application/octet-stream")


async def delete_file(ask: ServerRequest) -> Response:
    """DELETE /v1/sessions/{session_id}/file."""
    ask.only("key")
    session_id = await ask.writable()
    try:
        gone = await ask.service.database.delete_file(
            ask.org,
            session_id,
            ask.key(is_needed=True),
            only_own=ADMIN not in ask.caller.scopes,
            author=ask.caller.author,
        )
    except Held:
        raise held() from None
    except Forbidden:
        raise forbidden("only an admin may delete a side file of another member") from None
    if not gone:
        raise not_found()
    return Response(status_code=204)
