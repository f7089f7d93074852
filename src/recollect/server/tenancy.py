"""Who may do what: tokens, scopes, roles, and the one place where a request gets its organisation.

A token is 256 random bits behind a prefix that leak scanners know. It is shown once and stored as its SHA-256: for a
secret of that length a fast hash is right, and what a dump holds cannot be used. Missing, malformed, unknown, revoked
and expired tokens get one and the same answer.
"""

from __future__ import annotations

import re
import secrets
import uuid
from collections import OrderedDict
from hashlib import sha256

from msgspec import Struct

from recollect.server.database import Database
from recollect.server.records import Author, Grant, Org, Token, User
from recollect.server.sql import now_ms
from recollect.sync.wire import TOKEN_PREFIX

READ, WRITE, DELETE, ADMIN, METRICS = "read", "write", "delete", "admin", "metrics"
SCOPES = (READ, WRITE, DELETE, ADMIN, METRICS)
# What an organisation's own admin may give to a token; the server's metrics are the operator's.
GRANTABLE = (READ, WRITE, DELETE, ADMIN)
ROLES = {
    "viewer": frozenset((READ, METRICS)),
    "member": frozenset((READ, WRITE, DELETE, METRICS)),
    "admin": frozenset(SCOPES),
}
# A clock that is a little off must not lock anybody out.
SKEW_MS = 300_000
_BEARER = re.compile(r"[Bb]earer +(" + TOKEN_PREFIX + r"[A-Za-z0-9_-]{43})", re.ASCII)
_MOST_CACHED = 4_096
_USED_EVERY_MS = 60_000


class Caller(Struct, frozen=True):
    """Who asks, after the token was believed."""

    org: Org
    user: User
    token: Token
    scopes: frozenset[str]

    @property
    def author(self) -> Author:
        """As the audit log names them."""
        return Author(self.user.id, self.token.id, self.token.machine)


def new_secret() -> tuple[str, bytes]:
    """A token as it is shown, once, and the hash that is stored."""
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    return secret, secret_hash(secret)


def secret_hash(secret: str) -> bytes:
    """What is stored of a token."""
    return sha256(secret.encode()).digest()


def new_id() -> str:
    """An id for an organisation, user or token."""
    return str(uuid.uuid4())


def is_good(grant: Grant, now: int) -> bool:
    """Whether a token may be used at all."""
    token = grant.token
    if token.revoked is not None or grant.user.disabled:
        return False
    return token.expires is None or now < token.expires + SKEW_MS


class Doorkeeper:
    """Turns an Authorization header into a caller. Remembers tokens for a moment, so that not every request asks."""

    def __init__(self, database: Database, remember_ms: int = 5_000) -> None:
        self._database = database
        self._remember_ms = remember_ms
        self._known: OrderedDict[bytes, tuple[int, Grant]] = OrderedDict()
        self._noted: dict[str, int] = {}

    def forget(self) -> None:
        """After a change of users or tokens: ask again."""
        self._known.clear()

    async def caller(self, authorization: str | None) -> Caller | None:
        """Who it is; None for everything that is not a good token."""
        found = _BEARER.fullmatch(authorization or "")
        if found is None:
            return None
        now = now_ms()
        grant = await self._grant(secret_hash(found[1]), now)
        if grant is None or not is_good(grant, now):
            return None
        scopes = frozenset(grant.token.scopes) & ROLES.get(grant.user.role, frozenset())
        await self._note(grant.token, now)
        return Caller(grant.org, grant.user, grant.token, scopes)

    async def _grant(self, hashed: bytes, now: int) -> Grant | None:
        known = self._known.get(hashed)
        if known is not None and now - known[0] < self._remember_ms:
            return known[1]
        # Looked up by the hash: comparing secrets in time that depends on them would need the hash's preimage.
        grant = await self._database.grant(hashed)
        if grant is None:
            self._known.pop(hashed, None)
            return None
        self._known[hashed] = now, grant
        if len(self._known) > _MOST_CACHED:
            self._known.popitem(last=False)
        return grant

    async def _note(self, token: Token, now: int) -> None:
        if now - self._noted.get(token.id, token.last_used or 0) < _USED_EVERY_MS:
            return
        if len(self._noted) > _MOST_CACHED:
            self._noted.clear()
        self._noted[token.id] = now
        await self._database.used(token, now)


async def issued(
    database: Database,
    user: User,
    scopes: tuple[str, ...],
    author: Author,
    *,
    machine: str | None = None,
    lasting_ms: int | None = None,
) -> tuple[str, Token]:
    """A new token of a member: the secret, to be shown once, and what was stored."""
    now = now_ms()
    expires = None if lasting_ms is None else now + lasting_ms
    token = Token(new_id(), user.org, user.id, scopes, machine, now, expires)
    secret, hashed = new_secret()
    await database.add_token(token, hashed, author)
    return secret, token


async def founded(database: Database, org_name: str, user_name: str, scopes: tuple[str, ...]) -> str:
    """A new organisation with one admin; the secret of that admin's token."""
    author = Author("operator", "command line")
    org = Org(new_id(), org_name, now_ms())
    await database.add_org(org, author)
    user = User(new_id(), org.id, user_name, "admin", False, now_ms())
    await database.add_user(user, author)
    return (await issued(database, user, scopes, author))[0]
