"""Signing in over HTTP without a token: a machine asks for a code, a person agrees elsewhere, the machine gets a token.

Also what owners do with their tokens: replace, list and revoke them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from recollect.server.database.records import ApiToken
from recollect.server.refusals import RequestRefused, not_found, too_many
from recollect.server.service import ServerRequest, answer
from recollect.server.tenancy import end_of, rotated
from recollect.sync.wire import IssuedToken, OwnToken, OwnTokens, SignInOffer, plain_text

_HOUR_MS = 3_600_000
OVERLAP_HOURS = 24
_Name = Annotated[str, Meta(min_length=1, max_length=200)]


class _DeviceStart(Struct, forbid_unknown_fields=True):
    organisation: _Name


class _DeviceResult(Struct, forbid_unknown_fields=True):
    organisation: _Name
    device_code: Annotated[str, Meta(min_length=1, max_length=2_000)]
    machine: _Name | None = None


class _Rotation(Struct, forbid_unknown_fields=True):
    overlap_hours: Annotated[int, Meta(ge=0, le=720)] = OVERLAP_HOURS


async def offer(ask: ServerRequest) -> Response:
    """GET /v1/sign-in."""
    ask.only()
    sign_in = ask.service.sign_in
    return answer(SignInOffer(False) if sign_in is None else sign_in.offer())


async def start_device(ask: ServerRequest) -> Response:
    """POST /v1/sign-in/device."""
    ask.only()
    _slow_down(ask)
    body = await ask.document(_DeviceStart)
    if ask.service.sign_in is None:
        raise not_found()
    return answer(await ask.service.sign_in.begin_device(body.organisation))


async def device_token(ask: ServerRequest) -> Response:
    """POST /v1/sign-in/device/token."""
    ask.only()
    _slow_down(ask)
    body = await ask.document(_DeviceResult)
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


async def rotate(ask: ServerRequest) -> Response:
    """POST /v1/token/rotate."""
    ask.only()
    body = await ask.document(_Rotation)
    overlap = body.overlap_hours * _HOUR_MS
    done = await rotated(ask.service.database, ask.caller, overlap)
    if done is None:
        raise RequestRefused(
            409,
            "exists",
            "the token was replaced before, and its replacement is in use",
            "use that one; if it is not yours, ask an admin to revoke both",
        )
    ask.service.doorkeeper.forget()
    secret, token, until = done
    return answer(IssuedToken(secret, token.id, list(token.scopes), token.expires, old_until=until), 201)


async def own_tokens(ask: ServerRequest) -> Response:
    """GET /v1/whoami/tokens."""
    ask.only()
    found = await ask.service.database.person_tokens(ask.org, ask.caller.user.id)
    return answer(OwnTokens([_own_token(one, ask.caller.token.id) for one in found]))


async def revoke_own(ask: ServerRequest) -> Response:
    """DELETE /v1/whoami/tokens/{token_id}."""
    ask.only()
    named = ask.parameter("token_id")
    own = await ask.service.database.person_tokens(ask.org, ask.caller.user.id)
    # Another member's token is answered as one that never was.
    if named not in {one.id for one in own if one.revoked is None}:
        raise not_found()
    await ask.service.database.revoke_token(ask.org, named, ask.caller.author)
    ask.service.doorkeeper.forget()
    return Response(status_code=204)


def _own_token(token: ApiToken, this: str) -> OwnToken:
    return OwnToken(
        token.id,
        token.kind,
        list(token.scopes),
        token.machine,
        token.created,
        token.last_used,
        end_of(token),
        token.revoked,
        token.id == this,
    )
