"""Administration of an organisation over HTTP: members, tokens, retention, the audit log; and the server's
state."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from recollect.server.database.contract import Forbidden, Taken
from recollect.server.database.records import (
    LEAST_USAGE_DAYS,
    VISIBILITIES,
    ApiToken,
    AuditRow,
    OrgTeam,
    OrgUser,
    Retention,
)
from recollect.server.database.sql_base import now_ms
from recollect.server.refusals import RequestRefused, invalid, not_found
from recollect.server.service import ServerRequest, answer, cursor_of, parts_of
from recollect.server.tenancy import GRANTABLE, ROLES, issued, new_id
from recollect.sync.wire import plain_text

_DAY_MS = 86_400_000
_MOST_AT_ONCE = 1_000
_MOST = 1 << 62
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Days = Annotated[int, Meta(ge=1, le=36_500)]


class _OrgChange(Struct, forbid_unknown_fields=True):
    retention_days: Days | UnsetType | None = UNSET
    audit_days: Days | UnsetType | None = UNSET
    usage_days: Annotated[int, Meta(ge=LEAST_USAGE_DAYS, le=36_500)] | UnsetType | None = UNSET
    visibility: Annotated[str, Meta(extra_json_schema={"enum": list(VISIBILITIES)})] | UnsetType = UNSET


class _NewTeam(Struct, forbid_unknown_fields=True):
    name: Name


class _TeamChange(Struct, forbid_unknown_fields=True):
    members: Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=10_000)]


class _NewUser(Struct, forbid_unknown_fields=True):
    name: Name
    role: str = "member"


class _UserChange(Struct, forbid_unknown_fields=True):
    role: str | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


# For the document only: other values are refused below, with a hint.
_Scope = Annotated[str, Meta(extra_json_schema={"enum": list(GRANTABLE)})]


class _NewToken(Struct, forbid_unknown_fields=True):
    user: str
    scopes: Annotated[list[_Scope], Meta(min_length=1, max_length=10)]
    machine: Name | None = None
    days: Days | None = None


class _TokenDocument(Struct, frozen=True):
    """A token without its secret; ``token`` is only in the answer that created it."""

    id: str
    user: str
    scopes: list[str]
    machine: str | None
    created: int
    expires: int | None
    revoked: int | None
    last_used: int | None
    kind: str
    parent: str | None
    replaced_by: str | None
    retires: int | None
    token: str | UnsetType = UNSET


class _UserDocument(Struct, frozen=True):
    id: str
    name: str
    role: str
    disabled: bool
    created: int


class _AuditPage(Struct, frozen=True):
    acts: list[AuditRow]
    next: str | None


async def org(ask: ServerRequest) -> Response:
    """GET /v1/org."""
    ask.only()
    return answer(ask.caller.org)


async def change_org(ask: ServerRequest) -> Response:
    """PATCH /v1/org."""
    ask.only()
    body = await ask.document(_OrgChange)
    known = ask.caller.org
    asked = body.retention_days, body.audit_days, body.usage_days
    kept = Retention(
        *(old if isinstance(new, UnsetType) else new for old, new in zip(known.retention, asked, strict=True))
    )
    visibility = known.visibility if isinstance(body.visibility, UnsetType) else body.visibility
    if visibility not in VISIBILITIES:
        raise invalid("visibility: not valid", f"write one of {', '.join(VISIBILITIES)}")
    await ask.service.database.set_retention(ask.org, kept, ask.caller.author)
    if visibility != known.visibility:
        await ask.service.database.set_visibility(ask.org, visibility, ask.caller.author)
    ask.service.doorkeeper.forget()
    changed = {"retention_days": kept.days, "audit_days": kept.audit_days, "usage_days": kept.usage_days}
    return answer(replace(known, **changed, visibility=visibility))


async def teams(ask: ServerRequest) -> Response:
    """GET /v1/teams."""
    ask.only()
    return answer({"teams": await ask.service.database.teams(ask.org)})


async def add_team(ask: ServerRequest) -> Response:
    """POST /v1/teams."""
    ask.only()
    body = await ask.document(_NewTeam)
    team = OrgTeam(new_id(), ask.org, plain_text(body.name, 200), now_ms())
    try:
        await ask.service.database.add_team(team, ask.caller.author)
    except Taken as problem:
        raise RequestRefused(409, "exists", str(problem), "choose another name") from None
    return answer(team, 201)


async def change_team(ask: ServerRequest) -> Response:
    """PATCH /v1/teams/{team_id}."""
    ask.only()
    body = await ask.document(_TeamChange)
    name = _path_id(ask, "team_id")
    try:
        is_known = await ask.service.database.set_team(ask.org, name, body.members, ask.caller.author)
    except Forbidden:
        raise invalid(
            "members: not all are members of the organisation", "GET /v1/users lists them"
        ) from None
    if not is_known:
        raise not_found()
    return answer(next(team for team in await ask.service.database.teams(ask.org) if team.id == name))


async def remove_team(ask: ServerRequest) -> Response:
    """DELETE /v1/teams/{team_id}."""
    ask.only()
    if not await ask.service.database.remove_team(ask.org, _path_id(ask, "team_id"), ask.caller.author):
        raise not_found()
    return Response(status_code=204)


async def users(ask: ServerRequest) -> Response:
    """GET /v1/users."""
    ask.only()
    found = await ask.service.database.users(ask.org)
    return answer({"users": [_shown_user(user) for user in found]})


async def add_user(ask: ServerRequest) -> Response:
    """POST /v1/users."""
    ask.only()
    body = await ask.document(_NewUser)
    user = OrgUser(new_id(), ask.org, plain_text(body.name, 200), _role(body.role), False, now_ms())
    try:
        await ask.service.database.add_user(user, ask.caller.author)
    except Taken as problem:
        raise RequestRefused(409, "exists", str(problem), "choose another name") from None
    return answer(_shown_user(user), 201)


async def change_user(ask: ServerRequest) -> Response:
    """PATCH /v1/users/{user_id}."""
    ask.only()
    body = await ask.document(_UserChange)
    role = None if isinstance(body.role, UnsetType) else _role(body.role)
    disabled = None if isinstance(body.disabled, UnsetType) else body.disabled
    if ask.parameter("user_id") == ask.caller.user.id and (disabled or role not in (None, "admin")):
        raise invalid("an admin cannot lower or disable themselves", "ask another admin")
    changed = await ask.service.database.change_user(
        ask.org, _path_id(ask, "user_id"), role, disabled, ask.caller.author
    )
    if changed is None:
        raise not_found()
    ask.service.doorkeeper.forget()
    return answer(_shown_user(changed))


async def tokens(ask: ServerRequest) -> Response:
    """GET /v1/tokens."""
    ask.only()
    found = await ask.service.database.tokens(ask.org)
    return answer({"tokens": [_shown_token(token) for token in found]})


async def add_token(ask: ServerRequest) -> Response:
    """POST /v1/tokens."""
    ask.only()
    body = await ask.document(_NewToken)
    scopes = tuple(dict.fromkeys(body.scopes))
    if not set(scopes) <= set(GRANTABLE):
        raise invalid("scopes: not valid", f"write some of {', '.join(GRANTABLE)}")
    known = await ask.service.database.users(ask.org)
    if body.user not in {user.id for user in known}:
        raise not_found()
    lasting = None if body.days is None else body.days * _DAY_MS
    machine = None if body.machine is None else plain_text(body.machine, 200)
    user = next(user for user in known if user.id == body.user)
    secret, token = await issued(
        ask.service.database, user, scopes, ask.caller.author, machine=machine, lasting_ms=lasting
    )
    return answer(_shown_token(token, secret), 201)


async def revoke_token(ask: ServerRequest) -> Response:
    """DELETE /v1/tokens/{token_id}."""
    ask.only()
    if not await ask.service.database.revoke_token(ask.org, _path_id(ask, "token_id"), ask.caller.author):
        raise not_found()
    ask.service.doorkeeper.forget()
    return Response(status_code=204)


async def audit(ask: ServerRequest) -> Response:
    """GET /v1/audit."""
    ask.only("cursor", "limit")
    limit = ask.number("limit", 100, 1, _MOST_AT_ONCE)
    cursor = ask.one("cursor")
    before = None if cursor is None else parts_of(cursor, tuple[int])[0]
    if before is not None and abs(before) > _MOST:
        raise invalid("cursor: not valid")
    found = await ask.service.database.audit(ask.org, before, limit + 1)
    page = found[:limit]
    more = cursor_of(page[-1].id) if len(found) > limit else None
    return answer(_AuditPage(page, more))


async def metrics(ask: ServerRequest) -> Response:
    """GET /metrics."""
    batches: tuple[int, int] = getattr(ask.service.database, "batches", (0, 0))
    reason = await ask.service.database.ready()
    more = {"database_up": float(reason is None), **ask.service.database.connections()}
    if ask.service.mover is not None and reason is None:
        more |= await ask.service.mover.gauges()
    return Response(ask.service.metrics.text(batches, more), media_type="text/plain; version=0.0.4")


async def health(_: ServerRequest) -> Response:
    """GET /healthz."""
    return answer({"status": "ok"})


async def ready(ask: ServerRequest) -> Response:
    """GET /readyz."""
    if ask.service.closing.is_set():
        return answer({"status": "closing"}, 503)
    reason = await ask.service.database.ready()
    return answer({"status": "ok"} if reason is None else {"status": reason}, 200 if reason is None else 503)


def _path_id(ask: ServerRequest, name: str) -> str:
    text = ask.parameter(name)
    if "\0" in text or len(text) > 100:
        raise not_found()
    return text.encode(errors="replace").decode()


def _role(name: str) -> str:
    if name not in ROLES:
        raise invalid("role: not valid", f"write one of {', '.join(ROLES)}")
    return name


def _shown_user(user: OrgUser) -> _UserDocument:
    return _UserDocument(user.id, user.name, user.role, user.disabled, user.created)


def _shown_token(token: ApiToken, secret: str | UnsetType = UNSET) -> _TokenDocument:
    return _TokenDocument(
        token.id,
        token.user,
        list(token.scopes),
        token.machine,
        token.created,
        token.expires,
        token.revoked,
        token.last_used,
        token.kind,
        token.parent,
        token.replaced_by,
        token.retires,
        secret,
    )
