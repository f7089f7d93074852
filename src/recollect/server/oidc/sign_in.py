"""The two ways to sign in, and what they give: a browser gets a session of the page, a machine a token.

A browser carries state, nonce and PKCE verifier of its own sign-in in a cookie, so that any server can finish what
another began, and nothing is stored before it succeeds. Each sign-in works once: the nonce, or the id token of a
device, is noted with the first use.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from recollect.server.database.contract import Database
from recollect.server.database.records import ApiToken, Author, Org, OrgUser
from recollect.server.database.sql_base import now_ms
from recollect.server.oidc.id_token import IdTokenRefused
from recollect.server.oidc.membership import AUTHOR, member_of
from recollect.server.oidc.provider import CodeRefused, IdentityProvider, ProviderFailed, TokenAnswer
from recollect.server.refusals import RequestRefused, invalid, not_found
from recollect.server.tenancy import issued, opened_page
from recollect.sync.wire import DeviceSignIn, SignInOffer

PENDING_SECONDS = 600
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_PLACE = re.compile(r"#/[A-Za-z0-9/?=&_.%~:+-]{0,500}", re.ASCII)
_AGAIN = "start again from the page"
# Answers to a device code that are not failures (RFC 8628, section 3.5).
WAITING = ("authorization_pending", "slow_down")


class PendingSignIn(Struct, frozen=True):
    """A sign-in that a browser began, as its cookie has it."""

    organisation: str
    state: str
    nonce: str
    verifier: str
    place: str
    at: int


class SignIns:
    """Sign-in for organisations that have a provider."""

    def __init__(
        self,
        database: Database,
        providers: Sequence[IdentityProvider],
        origin: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database, self._origin, self._clock = database, origin, clock
        self._providers = {one.settings.organisation: one for one in providers}

    def offer(self) -> SignInOffer:
        """What is told to strangers: of several organisations none is named."""
        names = list(self._providers)
        return SignInOffer(bool(names), names[0] if len(names) == 1 else None)

    @property
    def redirect(self) -> str:
        return f"{self._origin}/oidc/callback"

    # --- browsers --------------------------------------------------------------------------------

    async def begin(self, organisation: str, place: str) -> tuple[str, str]:
        """The provider's address, and the value of the cookie that the browser returns with."""
        provider, _ = await self._chosen(organisation)
        pending = PendingSignIn(
            organisation,
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(48),
            place if _PLACE.fullmatch(place) else "#/",
            int(self._clock()),
        )
        challenge = urlsafe_b64encode(sha256(pending.verifier.encode()).digest()).decode().rstrip("=")
        try:
            address = await provider.authorization(self.redirect, pending.state, pending.nonce, challenge)
        except ProviderFailed as problem:
            raise _no_provider(problem) from None
        return address, urlsafe_b64encode(msgspec.json.encode(pending)).decode()

    async def finish(self, cookie: str, query: dict[str, str]) -> tuple[str, str]:
        """The secret of a new session of the page, and where on the page the person was."""
        pending = self._pending(cookie, query.get("state", ""))
        provider, org = await self._chosen(pending.organisation)
        try:
            if "error" in query:
                raise _denied(f"the provider refused: {query['error'][:100]!a}")
            if query.get("iss", provider.settings.issuer) != provider.settings.issuer:
                raise _denied("the answer is from another provider")
            try:
                tokens = await provider.redeemed(query.get("code", ""), self.redirect, pending.verifier)
            except CodeRefused as refused:
                raise _denied(f"the provider does not accept the code: {refused.error!a}") from None
            except ProviderFailed as problem:
                raise _no_provider(problem) from None
            user = await self._signed_in(provider, org, tokens, pending.nonce)
        except RequestRefused as refused:
            raise refused.attributed(org.id, AUTHOR) from None
        lasting = provider.settings.session_hours * _HOUR_MS
        author = Author(user.id, AUTHOR.token)
        return await opened_page(self._database, user, author, lasting), pending.place

    def _pending(self, cookie: str, state: str) -> PendingSignIn:
        try:
            pending = msgspec.json.decode(urlsafe_b64decode(cookie.encode("ascii")), type=PendingSignIn)
        except (ValueError, msgspec.DecodeError):
            raise invalid("this browser began no sign-in, or too long ago", _AGAIN) from None
        # The cookie ends by itself; a clock that was set back must not prolong it.
        if not 0 <= self._clock() - pending.at + 60 <= PENDING_SECONDS + 60:
            raise invalid("the sign-in took too long, or a clock was changed", _AGAIN)
        if not hmac.compare_digest(pending.state.encode(), state.encode()):
            raise invalid("the answer belongs to another sign-in", _AGAIN)
        return pending

    # --- machines --------------------------------------------------------------------------------

    async def begin_device(self, organisation: str) -> DeviceSignIn:
        provider, _ = await self._chosen(organisation)
        try:
            return await provider.device()
        except ProviderFailed as problem:
            raise _no_provider(problem) from None

    async def finish_device(
        self, organisation: str, device_code: str, machine: str | None
    ) -> tuple[str, ApiToken] | str:
        """A token for the machine, or a word of ``WAITING``."""
        provider, org = await self._chosen(organisation)
        try:
            tokens = await provider.device_tokens(device_code)
        except CodeRefused as refused:
            if refused.error in WAITING:
                return refused.error
            raise _denied(f"the provider does not accept the code: {refused.error!a}") from None
        except ProviderFailed as problem:
            raise _no_provider(problem) from None
        try:
            user = await self._signed_in(provider, org, tokens, None)
        except RequestRefused as refused:
            raise refused.attributed(org.id, AUTHOR) from None
        author = Author(user.id, AUTHOR.token)
        lasting = provider.settings.token_days * _DAY_MS
        scopes = provider.settings.token_scopes
        return await issued(self._database, user, scopes, author, machine=machine, lasting_ms=lasting)

    # --- both ------------------------------------------------------------------------------------

    async def _chosen(self, organisation: str) -> tuple[IdentityProvider, Org]:
        provider = self._providers.get(organisation)
        org = next((org for org in await self._database.orgs() if org.name == organisation), None)
        if provider is None or org is None:
            raise not_found()
        return provider, org

    async def _signed_in(
        self, provider: IdentityProvider, org: Org, tokens: TokenAnswer, nonce: str | None
    ) -> OrgUser:
        """The member that verified tokens are about; each sign-in once."""
        try:
            subject, claims = await provider.claims(tokens, nonce)
        except IdTokenRefused as problem:
            raise _denied(f"the id token is not accepted: {problem}") from None
        except ProviderFailed as problem:
            raise _no_provider(problem) from None
        once = sha256(f"{provider.settings.issuer}\0{nonce or tokens.id_token}".encode()).digest()
        if not await self._database.first_use(org.id, once, now_ms()):
            raise _denied("this sign-in was used before")
        return await member_of(self._database, org, provider.settings, subject, claims)


def _denied(message: str) -> RequestRefused:
    return RequestRefused(403, "forbidden", message, _AGAIN)


def _no_provider(problem: ProviderFailed) -> RequestRefused:
    return RequestRefused(
        503,
        "busy",
        f"the identity provider: {problem}",
        "try again in a moment; a token still works",
        headers={"Retry-After": "5"},
    )
