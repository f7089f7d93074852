"""One identity provider over HTTP: what it offers, its keys, tokens for codes.

Redirects are not followed, answers are bounded, and addresses that it names are https or this machine's. Documents
are kept for an hour; keys are fetched again, once for a sign-in, where one is unknown.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import os
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
from joserfc import jwk, jwt
from joserfc.errors import ClaimError, ExpiredTokenError, InvalidKeyIdError, JoseError
from msgspec import Meta, Struct
from msgspec.structs import astuple

from recollect.errors import StorageError, UsageError
from recollect.server.refusals import RequestRefused
from recollect.server.tenancy import GRANTABLE, READ, ROLES, WRITE
from recollect.share.sync.wire import DeviceSignIn

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
# Clocks of two machines may differ by this much.
SKEW_SECONDS = 60
_LONGEST, _LONGEST_SUBJECT = 64 * 1024, 255
Claims = Mapping[str, Any]


def denied(message: str) -> RequestRefused:
    """A sign-in that is not believed; the text has no secrets."""
    return RequestRefused("forbidden", message, "start again from the page")


def provider_failed(problem: str) -> RequestRefused:
    """The provider did not answer, or not as it should."""
    hint = "try again in a moment; a token still works"
    return RequestRefused("busy", f"the identity provider: {problem}", hint, wait=5)


def _refused(why: str) -> RequestRefused:
    return denied(f"the id token is not accepted: {why}")


def _verified(token: str, keys: jwk.KeySet) -> Claims:
    """The claims of a token that one of these keys signed; ``InvalidKeyIdError`` where it is another key, perhaps a new one."""
    if len(token) > _LONGEST:
        raise _refused("it is too long")
    try:
        claims: Claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
    except InvalidKeyIdError:
        raise
    except (JoseError, ValueError, TypeError, KeyError) as problem:
        raise _refused(f"its signature is not valid ({type(problem).__name__})") from None
    return claims


_WRONG = {
    "iss": "it is from another issuer",
    "aud": "it is for another application",
    "azp": "it is for another application",
    "nonce": "it belongs to another sign-in",
    "sub": "it does not say who signed in",
    "exp": "it does not say when it is valid",
    "iat": "it is from the future; compare the clocks of both servers",
    "nbf": "it is from the future; compare the clocks of both servers",
}


def _subject(claims: Claims, issuer: str, client_id: str, nonce: str | None, now: float) -> str:
    """The subject, if the claims are for us, of this sign-in, and current. ``nonce`` None: none was sent."""
    wanted: dict[str, Any] = {"iss": issuer, "aud": client_id, "azp": client_id}
    if nonce is not None:
        wanted["nonce"] = nonce
    essential = {"iss", "aud", "nonce", "sub", "exp", "iat"} & {*wanted, "sub", "exp", "iat"}
    if isinstance(claims.get("aud"), list) and len(claims["aud"]) > 1:
        essential.add("azp")
    options: dict[str, Any] = {
        name: {"essential": name in essential, "value": wanted.get(name)} for name in {*wanted, *essential}
    }
    try:
        jwt.JWTClaimsRegistry(int(now), SKEW_SECONDS, **options).validate(dict(claims))
    except ExpiredTokenError:
        raise _refused("it has expired; compare the clocks of both servers") from None
    except ClaimError as problem:
        raise _refused(_WRONG[problem.claim.partition(",")[0]]) from None
    subject = str(claims["sub"])
    if len(subject) > _LONGEST_SUBJECT or "\0" in subject:
        raise _refused(_WRONG["sub"])
    return subject


_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_HINT = "see docs/guides/sign-in.md"
Hours = Annotated[int, Meta(ge=1, le=720)]
_Days = Annotated[int, Meta(ge=1, le=3_650)]
_Word = Annotated[str, Meta(min_length=1, max_length=500)]


class ProviderSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One provider and the organisation whose members it knows."""

    organisation: _Word
    issuer: _Word
    client_id: _Word
    client_secret_file: str = ""
    client_secret_env: str = ""
    scopes: tuple[str, ...] = ("openid", "profile")
    name_claim: _Word = "preferred_username"
    groups_claim: _Word = "groups"
    roles: dict[str, str] = {}
    teams: dict[str, str] = {}
    default_role: str = ""
    # A member of the same name who never signed in this way becomes the person who does.
    adopt_members: bool = False
    session_hours: Hours = 8
    token_days: _Days = 30
    token_scopes: tuple[str, ...] = (READ, WRITE)

    def secret(self, environ: Mapping[str, str] = os.environ) -> str | None:
        """The client secret; None for a public client."""
        if self.client_secret_env:
            value = environ.get(self.client_secret_env, "").strip()
            if not value:
                raise UsageError(f"${self.client_secret_env}: is empty", hint="set it to the client secret")
            return value
        if not self.client_secret_file:
            return None
        try:
            return Path(self.client_secret_file).read_text(encoding="utf-8").strip()
        except OSError as cause:
            raise StorageError("read", Path(self.client_secret_file), cause, hint=_HINT) from cause


def load_providers(path: Path) -> tuple[ProviderSettings, ...]:
    """The providers of a file, checked."""
    try:
        kind = dict[Literal["provider"], tuple[ProviderSettings, ...]]
        found = msgspec.toml.decode(path.read_bytes(), type=kind).get("provider", ())
    except OSError as cause:
        raise StorageError("read", path, cause, hint=_HINT) from cause
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise UsageError(f"{path}: {cause}", hint=_HINT) from None
    for one in found:
        _check(path, one)
    names = [one.organisation for one in found]
    if len(set(names)) != len(names):
        raise UsageError(f"{path}: an organisation has two providers", hint="give it one")
    return found


def _check(path: Path, one: ProviderSettings) -> None:
    problem = ""
    if not is_safe_address(one.issuer):
        problem = f"issuer {one.issuer!a}: not an https:// address"
    elif "openid" not in one.scopes:
        problem = "scopes: openid is missing"
    elif wrong := [role for role in (*one.roles.values(), one.default_role or "member") if role not in ROLES]:
        problem = f"role {wrong[0]!a}: not one of {', '.join(ROLES)}"
    elif not set(one.token_scopes) <= set(GRANTABLE):
        problem = f"token_scopes: not all of {', '.join(GRANTABLE)}"
    elif one.client_secret_env and one.client_secret_file:
        problem = "two client secrets"
    if problem:
        raise UsageError(f"{path}: {problem}", hint=_HINT)


def is_safe_address(url: str) -> bool:
    """Whether an address may be asked: https, or this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    return is_safe and bool(host) and parts.username is None


_SECONDS, _LARGEST = 10.0, 1 << 20
_KEPT_SECONDS = 3_600.0
_FORM = "application/x-www-form-urlencoded"


class CodeRefused(RequestRefused):
    """The provider's answer to a code: ``error`` is its word of RFC 6749 or 8628."""

    def __init__(self, error: str) -> None:
        message = f"the provider does not accept the code: {error!a}"
        super().__init__("forbidden", message, "start again from the page")
        self.error = error


class _Discovery(Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    device_authorization_endpoint: str | None = None


# An id token and an access token.
Tokens = tuple[str, str]


class IdentityProvider:
    """A provider, asked from the event loop."""

    def __init__(
        self,
        settings: ProviderSettings,
        secret: str | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings, self._secret, self._clock = settings, secret, clock
        self._offer: tuple[float, _Discovery] | None = None
        self._keys: tuple[float, jwk.KeySet] | None = None

    async def offer(self) -> _Discovery:
        """The endpoints, all of them safe to ask."""
        known = self._offer
        if known is not None and time.monotonic() - known[0] < _KEPT_SECONDS:
            return known[1]
        address = self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
        try:
            found = msgspec.convert(await self._asked("GET", address), _Discovery)
        except msgspec.ValidationError as problem:
            raise provider_failed(f"its description is not valid: {problem}") from None
        if found.issuer != self.settings.issuer:
            raise provider_failed("it names another issuer than the settings")
        if not all(address is None or is_safe_address(address) for address in astuple(found)):
            raise provider_failed("it names an address that is not https")
        self._offer = time.monotonic(), found
        return found

    async def authorization(self, redirect: str, state: str, nonce: str, challenge: str) -> str:
        """Where a browser goes to sign in."""
        endpoint = (await self.offer()).authorization_endpoint
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"

    async def redeemed(self, code: str, redirect: str, verifier: str) -> Tokens:
        """Tokens for an authorization code."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect}
        return await self._tokens({**form, "code_verifier": verifier})

    async def device(self) -> DeviceSignIn:
        """A code for a machine without a browser."""
        endpoint = (await self.offer()).device_authorization_endpoint
        if endpoint is None:
            raise provider_failed("it has no device codes (RFC 8628)")
        answer = await self._asked("POST", endpoint, {"scope": " ".join(self.settings.scopes)})
        try:
            found = msgspec.convert({"interval": 5, **answer}, DeviceSignIn)
        except msgspec.ValidationError as problem:
            raise provider_failed(f"its device code is not valid: {problem}") from None
        shown = (found.verification_uri, found.verification_uri_complete)
        if not all(one is None or is_safe_address(one) for one in shown):
            raise provider_failed("it sends people to an address that is not https")
        return found

    async def device_tokens(self, device_code: str) -> Tokens:
        """Tokens for a device code; ``CodeRefused`` with ``authorization_pending`` until the person has agreed."""
        return await self._tokens(
            {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": device_code}
        )

    async def claims(self, tokens: Tokens, nonce: str | None) -> tuple[str, Claims]:
        """The subject and claims of verified tokens. Claims that the id token lacks come from the userinfo endpoint."""
        (token, access), settings = tokens, self.settings
        try:
            claims = _verified(token, await self._published())
        except InvalidKeyIdError:
            # A new key: the provider published it since. Asked once.
            self._keys = None
            try:
                claims = _verified(token, await self._published())
            except InvalidKeyIdError:
                raise _refused("it is signed with a key that the provider does not publish") from None
        subject = _subject(claims, settings.issuer, settings.client_id, nonce, self._clock())
        wanted = {settings.name_claim, settings.groups_claim}
        endpoint = (await self.offer()).userinfo_endpoint
        if wanted <= set(claims) or endpoint is None or not access:
            return subject, claims
        more = await self._asked("GET", endpoint, bearer=access)
        if more.get("sub") != subject:
            raise _refused("the userinfo of the provider is about another person")
        return subject, {**more, **claims}

    async def _published(self) -> jwk.KeySet:
        known = self._keys
        if known is not None and time.monotonic() - known[0] < _KEPT_SECONDS:
            return known[1]
        published = (await self._asked("GET", (await self.offer()).jwks_uri)).get("keys")
        if not isinstance(published, list):
            raise provider_failed("its keys are not valid")
        known_keys = []
        for key in published:
            # One that is not understood does not hide the others (RFC 7517, section 5).
            with contextlib.suppress(JoseError, ValueError, TypeError, KeyError, AttributeError):
                if key.get("use", "sig") == "sig":
                    known_keys.append(jwk.import_key(key))
        keys = jwk.KeySet(known_keys)
        self._keys = time.monotonic(), keys
        return keys

    async def _tokens(self, form: Mapping[str, str]) -> Tokens:
        endpoint = (await self.offer()).token_endpoint
        answer = await self._asked("POST", endpoint, form, is_code=True)
        token, access = answer.get("id_token"), answer.get("access_token")
        if not isinstance(token, str):
            raise provider_failed("it sent no id token")
        return token, access if isinstance(access, str) else ""

    async def _asked(
        self,
        method: str,
        url: str,
        form: Mapping[str, str] | None = None,
        *,
        bearer: str | None = None,
        is_code: bool = False,
    ) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        elif form is not None and self._secret is not None:
            pair = f"{quote_plus(self.settings.client_id)}:{quote_plus(self._secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        body = None if form is None else urlencode({**form, "client_id": self.settings.client_id}).encode()
        try:
            status, data = await asyncio.to_thread(_exchange, method, url, body, headers)
        except (OSError, http.client.HTTPException) as problem:
            raise provider_failed(f"it does not answer ({type(problem).__name__})") from None
        try:
            document = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise provider_failed(f"it answered {status} without a JSON document") from None
        if not isinstance(document, dict):
            raise provider_failed("its answer is not a JSON object")
        if is_code and status in (400, 401, 403) and isinstance(document.get("error"), str):
            raise CodeRefused(document["error"][:100])
        if status != 200:
            raise provider_failed(f"it answered {status}")
        return document


def _exchange(method: str, url: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
    parts = urlsplit(url)
    kind: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
    more: dict[str, Any] = {}
    if parts.scheme == "https":
        kind, more = http.client.HTTPSConnection, {"context": ssl.create_default_context()}
    connection = kind(parts.hostname or "", parts.port, timeout=_SECONDS, **more)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        sent = headers if body is None else {**headers, "Content-Type": _FORM}
        connection.request(method, target, body, sent)
        answer = connection.getresponse()
        data = answer.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise http.client.HTTPException("too large")
        return answer.status, data
    finally:
        connection.close()
