"""Signing in over HTTP without a token: a machine asks for a code, a person agrees elsewhere, the machine gets a token.

Also how a token is replaced by its owner.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from recollect.server.refusals import RequestRefused, not_found, too_many
from recollect.server.service import ServerRequest, answer
from recollect.server.tenancy import rotated
from recollect.sync.wire import IssuedToken, SignInOffer, plain_text

_HOUR_MS = 3_600_000
OVERLAP_HOURS = 24
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class _DeviceStart(Struct, forbid_unknown_fields=True):
    organisation: Name


class _DeviceResult(Struct, forbid_unknown_fields=True):
    organisation: Name
    device_code: Annotated[str, Meta(min_length=1, max_length=2_000)]
    machine: Name | None = None


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
