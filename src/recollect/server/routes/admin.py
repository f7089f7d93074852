"""Administration of an organisation over HTTP: members, teams, tokens, retention, erasure, the audit log; what people do with
their own tokens, and signing in without one by a code; and the server's state.

An admin gets no archive of another member: it has private sessions, which an admin may delete and not read.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict, replace
from starlette.responses import Response

from recollect.server.bodies import TimedStreamingResponse, TooSlow
from recollect.server.database.records import (
    LEAST_USAGE_DAYS,
    AuditRow,
    Org,
    OrgTeam,
    OrgUser,
    Visibility,
    now_ms,
)
from recollect.server.people import ErasureReport, erased, person_archive, planned_erasure
from recollect.server.refusals import RequestRefused, invalid, not_found, too_many
from recollect.server.service import BudgetShare, Cursor, Name, PathId, ServerRequest, cursor_of, parts_of
from recollect.server.tenancy import Grantable, Role, issued, new_id, rotated
from recollect.share.sync.wire import (
    ApiToken,
    DeviceSignIn,
    IssuedToken,
    OwnTokens,
    SignInOffer,
    WhoAmI,
    plain_text,
)
from recollect.share.typed_http import Media, answer

_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
OVERLAP_HOURS = 24
_MOST = 1 << 62
_Status = dict[Literal["status"], str]
_Days = Annotated[int, Meta(ge=1, le=36_500)]


class _OrgChange(Struct, forbid_unknown_fields=True):
    retention_days: _Days | UnsetType | None = UNSET
    audit_days: _Days | UnsetType | None = UNSET
    usage_days: Annotated[int, Meta(ge=LEAST_USAGE_DAYS, le=36_500)] | UnsetType | None = UNSET
    visibility: Visibility | UnsetType = UNSET


class _NewTeam(Struct, forbid_unknown_fields=True):
    name: Name


class _TeamChange(Struct, forbid_unknown_fields=True):
    members: Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=10_000)]


class _NewUser(Struct, forbid_unknown_fields=True):
    name: Name
    role: Role = "member"


class _UserChange(Struct, forbid_unknown_fields=True):
    role: Role | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class _NewToken(Struct, forbid_unknown_fields=True):
    user: str
    scopes: Annotated[list[Grantable], Meta(min_length=1, max_length=10)]
    machine: Name | None = None
    days: _Days | None = None


class CreatedToken(ApiToken, frozen=True, kw_only=True):
    """A new token with its secret, which is shown once."""

    token: str


class _AuditPage(Struct):
    acts: list[AuditRow]
    next: str | None


class Erasure(Struct, forbid_unknown_fields=True):
    """``name``: that of the member, so that no one is erased by a wrong id."""

    name: Annotated[str, Meta(max_length=200)]


class _DeviceStart(Struct, forbid_unknown_fields=True):
    organisation: Name


class _DeviceResult(Struct, forbid_unknown_fields=True):
    organisation: Name
    device_code: Annotated[str, Meta(min_length=1, max_length=2_000)]
    machine: Name | None = None


class _Rotation(Struct, forbid_unknown_fields=True):
    overlap_hours: Annotated[int, Meta(ge=0, le=720)] = OVERLAP_HOURS


async def org(ask: ServerRequest) -> Org:
    """The organisation."""
    return ask.caller.org


async def change_org(ask: ServerRequest, body: _OrgChange) -> Org:
    """Set the retention and the visibility."""
    known = ask.caller.org
    changed = replace(
        known, **{name: value for name, value in asdict(body).items() if not isinstance(value, UnsetType)}
    )
    await ask.database.change_org(changed, ask.author)
    return changed


async def teams(ask: ServerRequest) -> dict[Literal["teams"], list[OrgTeam]]:
    """All teams."""
    return {"teams": await ask.database.teams(ask.org)}


async def add_team(ask: ServerRequest, body: _NewTeam) -> OrgTeam:
    """A new team."""
    team = OrgTeam(new_id(), ask.org, plain_text(body.name, 200), now_ms())
    await ask.database.add_team(team, ask.author)
    return team


async def change_team(ask: ServerRequest, team_id: PathId, body: _TeamChange) -> OrgTeam:
    """Set the members of a team."""
    if not await ask.database.set_team(ask.org, team_id, body.members, ask.author):
        raise not_found()
    return next(team for team in await ask.database.teams(ask.org) if team.id == team_id)


async def remove_team(ask: ServerRequest, team_id: PathId) -> None:
    """Remove a team."""
    if not await ask.database.remove_team(ask.org, team_id, ask.author):
        raise not_found()


async def users(ask: ServerRequest) -> dict[Literal["users"], list[OrgUser]]:
    """All members."""
    return {"users": await ask.database.users(ask.org)}


async def add_user(ask: ServerRequest, body: _NewUser) -> OrgUser:
    """A new member."""
    user = OrgUser(new_id(), ask.org, plain_text(body.name, 200), body.role, False, now_ms())
    await ask.database.add_user(user, ask.author)
    return user


async def change_user(ask: ServerRequest, user_id: PathId, body: _UserChange) -> OrgUser:
    """Change a member."""
    role = None if isinstance(body.role, UnsetType) else body.role
    disabled = None if isinstance(body.disabled, UnsetType) else body.disabled
    if user_id == ask.caller.user.id and (disabled or role not in (None, "admin")):
        raise invalid("an admin cannot lower or disable themselves", "ask another admin")
    changed = await ask.database.change_user(ask.org, user_id, role, disabled, ask.author)
    if changed is None:
        raise not_found()
    return changed


async def plan_erasure(ask: ServerRequest, user_id: PathId) -> ErasureReport:
    """What erasing a member would remove and keep."""
    return await planned_erasure(ask.database, await _member(ask, user_id))


async def erase(ask: ServerRequest, user_id: PathId, body: Erasure) -> ErasureReport:
    """Erase a member."""
    user = await _member(ask, user_id)
    if user.id == ask.caller.user.id:
        raise invalid("an admin cannot erase themselves", "ask another admin")
    if body.name != user.name:
        raise invalid("name: not that of the member", "repeat the name, as GET /v1/users shows it")
    return await erased(ask.database, user, ask.author)


async def _member(ask: ServerRequest, user_id: str) -> OrgUser:
    for user in await ask.database.users(ask.org):
        if user.id == user_id:
            return user
    raise not_found()


async def tokens(ask: ServerRequest) -> dict[Literal["tokens"], list[ApiToken]]:
    """All tokens, without their secrets."""
    return {"tokens": await ask.database.tokens(ask.org)}


async def add_token(ask: ServerRequest, body: _NewToken) -> CreatedToken:
    """A new token."""
    user = await _member(ask, body.user)
    lasting = None if body.days is None else body.days * _DAY_MS
    machine = None if body.machine is None else plain_text(body.machine, 200)
    scopes = tuple(dict.fromkeys(body.scopes))
    secret, token = await issued(ask.database, user, scopes, ask.author, machine=machine, lasting_ms=lasting)
    return CreatedToken(**asdict(token), token=secret)


async def revoke_token(ask: ServerRequest, token_id: PathId) -> None:
    """Revoke a token."""
    if not await ask.database.revoke_token(ask.org, token_id, ask.author):
        raise not_found()


async def audit(
    ask: ServerRequest, cursor: Cursor = None, limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
) -> _AuditPage:
    """The audit log."""
    before = None if cursor is None else parts_of(cursor, tuple[int])[0]
    if before is not None and abs(before) > _MOST:
        raise invalid("cursor: not valid")
    rows = await ask.database.audit(ask.org, before, limit + 1)
    page = rows[:limit]
    return _AuditPage(page, cursor_of(page[-1].id) if len(rows) > limit else None)


async def metrics(ask: ServerRequest) -> Annotated[Response, Media("text/plain", {"type": "string"})]:
    """Counts for Prometheus"""
    batches: tuple[int, int] = getattr(ask.database, "batches", (0, 0))
    reason = await ask.database.ready()
    more = {"database_up": float(reason is None), **ask.database.connections()}
    if ask.service.mover is not None and reason is None:
        more |= await ask.service.mover.gauges()
    return Response(ask.service.metrics.text(batches, more), media_type="text/plain; version=0.0.4")


async def health(_: ServerRequest) -> _Status:
    """Whether the process is alive."""
    return {"status": "ok"}


async def ready(ask: ServerRequest) -> Annotated[Response, Media("application/json", _Status)]:
    """Whether requests would be served"""
    reason = "closing" if ask.service.closing.is_set() else await ask.database.ready()
    return answer({"status": reason or "ok"}, 503 if reason else 200)


# --- one's own ----------------------------------------------------------------------------------------------


async def offer(ask: ServerRequest) -> SignInOffer:
    """Whether there is an identity provider."""
    return ask.service.offer()


async def start_device(ask: ServerRequest, body: _DeviceStart) -> DeviceSignIn:
    """A code with which a person lets a machine in."""
    _slow_down(ask)
    if ask.service.sign_in is None:
        raise not_found()
    return await ask.service.sign_in.begin_device(body.organisation)


async def device_token(
    ask: ServerRequest, body: _DeviceResult
) -> Annotated[Response, Media("application/json", IssuedToken)]:
    """A token, once the person has agreed."""
    _slow_down(ask)
    if ask.service.sign_in is None:
        raise not_found()
    machine = None if body.machine is None else plain_text(body.machine, 200)
    done = await ask.service.sign_in.finish_device(body.organisation, body.device_code, machine)
    if isinstance(done, str):
        return answer(IssuedToken(waiting=done), 202)
    secret, token = done
    return answer(IssuedToken(secret, token.id, list(token.scopes), token.expires), 201)


def _slow_down(ask: ServerRequest) -> None:
    """Strangers cannot make the server ask the provider without end."""
    wait = ask.service.failures.wait((ask.scope.get("client") or ("",))[0])
    if wait:
        raise too_many(wait)


async def rotate(ask: ServerRequest, body: _Rotation) -> IssuedToken:
    """A new token in place of this one."""
    overlap = body.overlap_hours * _HOUR_MS
    done = await rotated(ask.database, ask.caller, overlap)
    if done is None:
        raise RequestRefused(
            "exists",
            "the token was replaced before, and its replacement is in use",
            "use that one; if it is not yours, ask an admin to revoke both",
        )
    secret, token, until = done
    return IssuedToken(secret, token.id, list(token.scopes), token.expires, old_until=until)


async def own_tokens(ask: ServerRequest) -> OwnTokens:
    """The caller's own tokens."""
    tokens = await ask.database.tokens(ask.org, ask.caller.user.id)
    return OwnTokens(tokens, ask.caller.token.id)


async def revoke_own(ask: ServerRequest, token_id: PathId) -> None:
    """Revoke a token of one's own."""
    own = await ask.database.tokens(ask.org, ask.caller.user.id)
    # Another member's token is answered as one that never was.
    if token_id not in {token.id for token in own if token.revoked is None}:
        raise not_found()
    await ask.database.revoke_token(ask.org, token_id, ask.author)


async def export_own(ask: ServerRequest) -> Annotated[Response, Media("application/gzip")]:
    """Everything that is held of the caller, as one archive."""
    share, limits = BudgetShare(ask.service.budget), ask.service.limits

    async def room(size: int) -> None:
        share.keep(0)
        if not await share.hold(min(size, limits.body_bytes)):
            raise TooSlow

    pieces = person_archive(ask.database, ask.caller.user, room)
    headers = {"Content-Disposition": 'attachment; filename="recollect-export.tar.gz"'}
    return TimedStreamingResponse(pieces, share, limits, headers, "application/gzip")


async def whoami(ask: ServerRequest) -> WhoAmI:
    """Whose token this is."""
    caller = ask.caller
    return WhoAmI(
        caller.org.id,
        caller.org.name,
        caller.user.id,
        caller.user.name,
        caller.user.role,
        caller.own_scopes,
        caller.token.machine,
        caller.token.end,
        ask.service.limits.for_clients(),
    )
