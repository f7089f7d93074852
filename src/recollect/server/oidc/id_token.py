"""Whether an id token is to be believed: its signature, and what it says. Pure but for the keys it is given."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from joserfc import jwk, jwt
from joserfc.errors import JoseError

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
# Clocks of two machines may differ by this much.
SKEW_SECONDS = 60
_LONGEST, _LONGEST_SUBJECT = 64 * 1024, 255
_LATEST = 1e12
Claims = Mapping[str, Any]


class IdTokenRefused(Exception):
    """An id token that is not believed; the text says why, without the token."""


class UnknownKey(IdTokenRefused):
    """Signed with a key that is not among those known: perhaps a new one."""


def verified(token: str, keys: Sequence[Mapping[str, Any]]) -> Claims:
    """The claims of a token that one of these keys signed."""
    algorithm, kid = _header(token)
    if algorithm not in ALGORITHMS:
        raise IdTokenRefused(f"it is signed with {str(algorithm)[:20]!a}, which is not accepted")
    fitting = [key for key in keys if kid in (None, key.get("kid")) and key.get("use", "sig") == "sig"]
    if not fitting:
        raise UnknownKey("it is signed with a key that the provider does not publish")
    if kid is None and len(fitting) > 1:
        raise IdTokenRefused("it does not say which key signed it")
    try:
        found = jwt.decode(token, jwk.import_key(dict(fitting[0])), algorithms=[str(algorithm)])
    except (JoseError, ValueError, TypeError, KeyError) as problem:
        raise IdTokenRefused(f"its signature is not valid ({type(problem).__name__})") from None
    claims: Claims = found.claims
    return claims


def _header(token: str) -> tuple[object, str | None]:
    if len(token) > _LONGEST or token.count(".") != 2:
        raise IdTokenRefused("it is not a signed token")
    part = token.partition(".")[0]
    try:
        header = msgspec.json.decode(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, msgspec.DecodeError):
        raise IdTokenRefused("it is not a signed token") from None
    if not isinstance(header, dict):
        raise IdTokenRefused("it is not a signed token")
    kid = header.get("kid")
    return header.get("alg"), kid if isinstance(kid, str) else None


def check_claims(claims: Claims, *, issuer: str, client_id: str, nonce: str | None, now: float) -> str:
    """The subject, if the claims are for us, of this sign-in, and current. ``nonce`` None: none was sent."""
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    party = claims.get("azp")
    said = claims.get("nonce")
    if claims.get("iss") != issuer:
        raise IdTokenRefused("it is from another issuer")
    if client_id not in audiences or (len(audiences) > 1 and party is None) or party not in (None, client_id):
        raise IdTokenRefused("it is for another application")
    _check_times(claims, now)
    if nonce is not None and not (
        isinstance(said, str) and hmac.compare_digest(said.encode(), nonce.encode())
    ):
        raise IdTokenRefused("it belongs to another sign-in")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT or "\0" in subject:
        raise IdTokenRefused("it does not say who signed in")
    return subject


def _check_times(claims: Claims, now: float) -> None:
    """Within the time of validity, give or take the difference of two clocks."""
    expires, issued = _time(claims.get("exp")), _time(claims.get("iat"))
    starts = _time(claims["nbf"]) if "nbf" in claims else issued
    if now >= expires + SKEW_SECONDS:
        raise IdTokenRefused("it has expired; compare the clocks of both servers")
    if max(issued, starts) > now + SKEW_SECONDS:
        raise IdTokenRefused("it is from the future; compare the clocks of both servers")


def _time(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LATEST:
        raise IdTokenRefused("it does not say when it is valid")
    return value
