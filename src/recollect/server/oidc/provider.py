"""One identity provider over HTTP: what it offers, its keys, tokens for codes.

Redirects are not followed, answers are bounded, and addresses that it names are https or this machine's. Documents
are kept for an hour; keys are fetched again, once for a sign-in, where one is unknown.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
from msgspec import Struct

from recollect.server.oidc.id_token import Claims, IdTokenRefused, UnknownKey, check_claims, verified
from recollect.server.oidc.settings import ProviderSettings, is_safe_address
from recollect.sync.wire import DeviceSignIn

_SECONDS, _LARGEST = 10.0, 1 << 20
_KEPT_SECONDS = 3_600.0
_FORM = "application/x-www-form-urlencoded"


class ProviderFailed(Exception):
    """The provider did not answer, or not as it should; the text has no secrets."""


class CodeRefused(Exception):
    """The provider's answer to a code: ``error`` is its word of RFC 6749 or 8628."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


class _Discovery(Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    device_authorization_endpoint: str | None = None


class TokenAnswer(NamedTuple):
    """Tokens that a code was exchanged for."""

    id_token: str
    access_token: str


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
        self._keys: tuple[float, list[dict[str, Any]]] | None = None

    async def offer(self) -> _Discovery:
        """The endpoints, all of them safe to ask."""
        known = self._offer
        if known is not None and time.monotonic() - known[0] < _KEPT_SECONDS:
            return known[1]
        address = self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
        try:
            found = msgspec.convert(await self._asked("GET", address), _Discovery)
        except msgspec.ValidationError as problem:
            raise ProviderFailed(f"its description is not valid: {problem}") from None
        if found.issuer != self.settings.issuer:
            raise ProviderFailed("it names another issuer than the settings")
        named = (
            found.authorization_endpoint,
            found.token_endpoint,
            found.jwks_uri,
            found.userinfo_endpoint,
            found.device_authorization_endpoint,
        )
        if not all(one is None or is_safe_address(one) for one in named):
            raise ProviderFailed("it names an address that is not https")
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

    async def redeemed(self, code: str, redirect: str, verifier: str) -> TokenAnswer:
        """Tokens for an authorization code."""
        return await self._tokens(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": redirect,
                "code_verifier": verifier,
            }
        )

    async def device(self) -> DeviceSignIn:
        """A code for a machine without a browser."""
        endpoint = (await self.offer()).device_authorization_endpoint
        if endpoint is None:
            raise ProviderFailed("it has no device codes (RFC 8628)")
        answer = await self._asked("POST", endpoint, self._form({"scope": " ".join(self.settings.scopes)}))
        try:
            found = msgspec.convert({"interval": 5, **answer}, DeviceSignIn)
        except msgspec.ValidationError as problem:
            raise ProviderFailed(f"its device code is not valid: {problem}") from None
        shown = (found.verification_uri, found.verification_uri_complete)
        if not all(one is None or is_safe_address(one) for one in shown):
            raise ProviderFailed("it sends people to an address that is not https")
        return found

    async def device_tokens(self, device_code: str) -> TokenAnswer:
        """Tokens for a device code; ``CodeRefused`` with ``authorization_pending`` until the person has agreed."""
        return await self._tokens(
            {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": device_code}
        )

    async def claims(self, answer: TokenAnswer, nonce: str | None) -> tuple[str, Claims]:
        """The subject and claims of verified tokens. Claims that the id token lacks come from the userinfo endpoint."""
        token = answer.id_token
        try:
            claims = verified(token, await self._published())
        except UnknownKey:
            # A new key: the provider published it since. Asked once.
            self._keys = None
            claims = verified(token, await self._published())
        subject = check_claims(
            claims,
            issuer=self.settings.issuer,
            client_id=self.settings.client_id,
            nonce=nonce,
            now=self._clock(),
        )
        wanted = {self.settings.name_claim, self.settings.groups_claim}
        endpoint = (await self.offer()).userinfo_endpoint
        if wanted <= set(claims) or endpoint is None or not answer.access_token:
            return subject, claims
        more = await self._asked("GET", endpoint, bearer=answer.access_token)
        if more.get("sub") != subject:
            raise IdTokenRefused("the userinfo of the provider is about another person")
        return subject, {**more, **claims}

    async def _published(self) -> list[dict[str, Any]]:
        known = self._keys
        if known is not None and time.monotonic() - known[0] < _KEPT_SECONDS:
            return known[1]
        keys = (await self._asked("GET", (await self.offer()).jwks_uri)).get("keys")
        if not isinstance(keys, list):
            raise ProviderFailed("its keys are not valid")
        found = [key for key in keys if isinstance(key, dict)]
        self._keys = time.monotonic(), found
        return found

    async def _tokens(self, form: Mapping[str, str]) -> TokenAnswer:
        endpoint = (await self.offer()).token_endpoint
        answer = await self._asked("POST", endpoint, self._form(form), is_code=True)
        token, access = answer.get("id_token"), answer.get("access_token")
        if not isinstance(token, str):
            raise ProviderFailed("it sent no id token")
        return TokenAnswer(token, access if isinstance(access, str) else "")

    def _form(self, form: Mapping[str, str]) -> dict[str, str]:
        return {**form, "client_id": self.settings.client_id}

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
        body = None if form is None else urlencode(form).encode()
        try:
            status, data = await asyncio.to_thread(_exchange, method, url, body, headers)
        except (OSError, http.client.HTTPException) as problem:
            raise ProviderFailed(f"it does not answer ({type(problem).__name__})") from None
        try:
            document = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ProviderFailed(f"it answered {status} without a JSON document") from None
        if not isinstance(document, dict):
            raise ProviderFailed("its answer is not a JSON object")
        if is_code and status in (400, 401, 403) and isinstance(document.get("error"), str):
            raise CodeRefused(document["error"][:100])
        if status != 200:
            raise ProviderFailed(f"it answered {status}")
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
