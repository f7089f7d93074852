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

from recollect.server.database.records import Author, Org, OrgTeam, OrgUser, Taken, now_ms
from recollect.server.database.sql import Database
from recollect.server.identity_provider import (
    Claims,
    CodeRefused,
    IdentityProvider,
    ProviderSettings,
    Tokens,
    denied,
)
from recollect.server.refusals import RequestRefused, invalid, not_found
from recollect.server.tenancy import ROLES, issued, new_id, opened_page
from recollect.share.sync.wire import ApiToken, DeviceSignIn, SignInOffer, plain_text

AUTHOR = Author("identity provider", "sign-in")
_MOST_GROUPS = 10_000
_HINT = "ask an admin of your organisation"


def _groups(value: object) -> set[str]:
    if isinstance(value, str):
        return {value}
    return {one for one in value[:_MOST_GROUPS] if isinstance(one, str)} if isinstance(value, list) else set()


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
        address = await provider.authorization(self.redirect, pending.state, pending.nonce, challenge)
        return address, urlsafe_b64encode(msgspec.json.encode(pending)).decode()

    async def finish(self, cookie: str, query: dict[str, str]) -> tuple[str, str]:
        """The secret of a new session of the page, and where on the page the person was."""
        pending = self._pending(cookie, query.get("state", ""))
        provider, org = await self._chosen(pending.organisation)
        try:
            if "error" in query:
                raise denied(f"the provider refused: {query['error'][:100]!a}")
            if query.get("iss", provider.settings.issuer) != provider.settings.issuer:
                raise denied("the answer is from another provider")
            tokens = await provider.redeemed(query.get("code", ""), self.redirect, pending.verifier)
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
        return await provider.device()

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
            raise
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
        self, provider: IdentityProvider, org: Org, tokens: Tokens, nonce: str | None
    ) -> OrgUser:
        """The member that verified tokens are about; each sign-in once."""
        subject, claims = await provider.claims(tokens, nonce)
        once = sha256(f"{provider.settings.issuer}\0{nonce or tokens[0]}".encode()).digest()
        if not await self._database.first_use(org.id, once, now_ms()):
            raise denied("this sign-in was used before")
        return await self._member(org, provider.settings, subject, claims)

    async def _member(self, org: Org, settings: ProviderSettings, subject: str, claims: Claims) -> OrgUser:
        """The member, added or changed as the claims say; ``RequestRefused`` where they give no access."""
        groups = _groups(claims.get(settings.groups_claim))
        given = [settings.roles[group] for group in settings.roles if group in groups]
        # The order of ROLES is that of their rights.
        role = max(given, key=list(ROLES).index) if given else settings.default_role
        if not role:
            raise RequestRefused("forbidden", "none of your groups may use this server", _HINT)
        said = claims.get(settings.name_claim)
        name = plain_text(said.strip(), 200) if isinstance(said, str) else ""
        user = await self._known(
            org, settings, subject, OrgUser(new_id(), org.id, name, role, False, now_ms())
        )
        if user.disabled:
            raise RequestRefused("forbidden", "the member is disabled", _HINT)
        if user.role != role:
            user = await self._database.change_user(org.id, user.id, role, None, AUTHOR) or user
        await self._join(org, settings, user, groups)
        return user

    async def _known(self, org: Org, settings: ProviderSettings, subject: str, new: OrgUser) -> OrgUser:
        """The member whom the provider knows by this subject, or ``new``."""
        users = await self._database.users(org.id)
        number = await self._database.identity(org.id, settings.issuer, subject)
        for user in users:
            if user.id == number:
                return user
        if not new.name:
            raise RequestRefused(
                "forbidden",
                f"the provider does not say {settings.name_claim!a}",
                "set name_claim in the settings",
            )
        same = next((user for user in users if user.name == new.name), None)
        if same is not None and (
            not settings.adopt_members or same.id in await self._database.identified(org.id)
        ):
            raise RequestRefused(
                "forbidden",
                f"another member has the name {new.name!a}",
                "ask an admin: adopt_members in the settings joins the two, or one of them gets another name",
            )
        if same is None:
            try:
                await self._database.add_user(new, AUTHOR)
            except Taken:
                raise RequestRefused(
                    "forbidden", f"another member has the name {new.name!a}", "sign in again"
                ) from None
        user = same or new
        await self._database.add_identity(org.id, settings.issuer, subject, user.id, AUTHOR)
        return user

    async def _join(self, org: Org, settings: ProviderSettings, user: OrgUser, groups: set[str]) -> None:
        wanted = {team for group, team in settings.teams.items() if group in groups}
        known = {team.name: team for team in await self._database.teams(org.id)}
        for name in sorted(set(settings.teams.values())):
            team = known.get(name)
            if team is None:
                if name not in wanted:
                    continue
                team = OrgTeam(new_id(), org.id, name, now_ms())
                await self._database.add_team(team, AUTHOR)
            members = set(team.members)
            after = members | {user.id} if name in wanted else members - {user.id}
            if after != members:
                await self._database.set_team(org.id, team.id, sorted(after), AUTHOR)
