"""Tokens, scopes and roles, and the only place where a request gets its organisation.

A token is 256 random bits after a prefix that leak scanners recognise. It is shown once and stored as
its SHA-256: for a secret of that length a fast hash is enough, and a database dump cannot be used.
Missing, malformed, unknown, revoked and expired tokens get the same answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
import uuid
from collections import OrderedDict
from hashlib import sha256
from typing import Literal, get_args

from msgspec import Struct

from recollect.server.database.records import Author, Org, OrgUser, SessionReader, now_ms
from recollect.server.database.sql import Database
from recollect.server.refusals import SideNotes
from recollect.share.sync.wire import FOR_PAGE, TOKEN_PREFIX, ApiToken

READ, WRITE, DELETE, ADMIN, METRICS = "read", "write", "delete", "admin", "metrics"
# Only the caller's own sessions and cost; and the cost of all without any text.
READ_OWN, COST = "read:own", "cost"
# Of a route that every valid token may use.
ANY = "any"
SCOPES = (READ, READ_OWN, COST, WRITE, DELETE, ADMIN, METRICS)
# Scopes that an organisation's admin may grant; the server's metrics are for the operator.
Grantable = Literal["read", "read:own", "cost", "write", "delete", "admin"]
GRANTABLE: tuple[str, ...] = get_args(Grantable)
Role = Literal["totals", "contributor", "viewer", "member", "admin"]
ROLES: dict[str, frozenset[str]] = {
    "totals": frozenset((COST,)),
    "contributor": frozenset((READ_OWN, WRITE, DELETE)),
    "viewer": frozenset((READ, READ_OWN, COST, METRICS)),
    "member": frozenset((READ, READ_OWN, COST, WRITE, DELETE, METRICS)),
    "admin": frozenset(SCOPES),
}
# What a scope of a token includes, and by which a route's scope is satisfied; what the caller then sees is narrowed.
_INCLUDED = {READ: frozenset((READ_OWN, COST))}
_SATISFIED_BY = {
    READ: frozenset((READ, READ_OWN)),
    COST: frozenset((COST, READ_OWN)),
    ANY: frozenset(SCOPES),
}
# Tolerance for clocks that are slightly off.
SKEW_MS = 300_000
# The session of a browser has another prefix, and a scheme that no header is accepted with.
PAGE_PREFIX, PAGE_SCHEME = "rcp_", "Page"
_BEARER = re.compile(
    rf"(?:[Bb]earer +({TOKEN_PREFIX}[A-Za-z0-9_-]{{43}})|{PAGE_SCHEME} ({PAGE_PREFIX}[A-Za-z0-9_-]{{43}}))",
    re.ASCII,
)
_MOST_KNOWN = 4_096
_USED_EVERY = 60.0
_PREFIX_LENGTH = 8


class Caller(Struct, frozen=True):
    """An authenticated caller. ``author``: for the audit log."""

    org: Org
    user: OrgUser
    token: ApiToken
    scopes: frozenset[str]
    author: Author

    def may(self, scope: str) -> bool:
        """Whether a route with this scope is open to the caller."""
        return not self.scopes.isdisjoint(_SATISFIED_BY.get(scope, (scope,)))

    @property
    def reader(self) -> SessionReader:
        """What the caller may read."""
        return SessionReader(self.user.id, READ in self.scopes)

    @property
    def writer(self) -> SessionReader:
        """What the caller may add to: what the member may see, whatever this token may read."""
        return SessionReader(self.user.id, READ in ROLES.get(self.user.role, frozenset()))

    @property
    def own_scopes(self) -> list[str]:
        """The scopes without those that another one includes."""
        included = {scope for known in self.scopes for scope in _INCLUDED.get(known, ())}
        return sorted(self.scopes - included)


def new_secret(prefix: str = TOKEN_PREFIX) -> tuple[str, bytes]:
    """A new token, to be shown once, and the hash to store."""
    secret = prefix + secrets.token_urlsafe(32)
    return secret, secret_hash(secret)


def secret_hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def new_id() -> str:
    return str(uuid.uuid4())


def is_current(token: ApiToken, now: int) -> bool:
    """Whether a token has neither expired nor been replaced for long enough."""
    if token.retires is not None and now >= token.retires:
        return False
    return token.expires is None or now < token.expires + SKEW_MS


class CallerAuthenticator:
    """Turns an Authorization header into a caller. Every request is looked up: a revocation holds with the next one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Hashes of the headers that were admitted: no secret.
        self._admitted: OrderedDict[bytes, None] = OrderedDict()
        # When the use of a token was noted last, by a clock that no one sets.
        self._noted: dict[str, float] = {}
        # Referenced, or they could be collected while they run.
        self._notes = SideNotes()
        # Tokens that were never admitted here are looked up two at a time: guessing cannot take all
        # connections to the database from those who are known.
        self._strangers = asyncio.Semaphore(2)

    async def caller(self, authorization: str) -> tuple[Caller | None, bool]:
        """Whose token it is, None where there never was one, and whether it is valid."""
        place = secret_hash(authorization)
        async with contextlib.nullcontext() if place in self._admitted else self._strangers:
            found = _BEARER.fullmatch(authorization)
            # Looked up by hash: a timing attack on the comparison would need the hash's preimage.
            grant = None if found is None else await self._database.grant(secret_hash(found[1] or found[2]))
        if grant is None:
            self._admitted.pop(place, None)
            return None, False
        token, user, org = grant
        given = {scope for known in token.scopes for scope in (known, *_INCLUDED.get(known, ()))}
        # A valid token's permissions: those in both its scopes and its user's role.
        scopes = ROLES.get(user.role, frozenset()) & given
        caller = Caller(org, user, token, scopes, Author(user.id, token.id, token.machine))
        if token.revoked is not None or user.disabled or not is_current(token, now_ms()):
            self._admitted.pop(place, None)
            return caller, False
        self._admitted[place] = None
        self._admitted.move_to_end(place)
        if len(self._admitted) > _MOST_KNOWN:
            self._admitted.popitem(last=False)
        await self._note(token)
        return caller, True

    async def _note(self, token: ApiToken) -> None:
        now, ago = time.monotonic(), (now_ms() - (token.last_used or 0)) / 1_000
        if ago < _USED_EVERY or now - self._noted.get(token.id, now - _USED_EVERY) < _USED_EVERY:
            return
        if len(self._noted) > _MOST_KNOWN:
            self._noted.clear()
        self._noted[token.id] = now
        await self._notes.write("token use", self._database.used(token, now_ms()))


def for_programs(authorization: bytes | None) -> str:
    """The header of a request to a route; "" where it names the session of a browser, which opens the page only."""
    header = "" if authorization is None else str(authorization, "latin-1")
    return "" if header.startswith(PAGE_SCHEME) else header


def token_prefix(authorization: str) -> str:
    """The first characters of a token, for counting refusals: those of one token are not another's."""
    found = _BEARER.fullmatch(authorization)
    return "" if found is None else (found[1] or found[2])[: len(TOKEN_PREFIX) + _PREFIX_LENGTH]


async def issued(
    database: Database,
    user: OrgUser,
    scopes: tuple[str, ...],
    author: Author,
    *,
    machine: str | None = None,
    lasting_ms: int | None = None,
) -> tuple[str, ApiToken]:
    """A new token of a member: the secret, to be shown once, and the stored record."""
    now = now_ms()
    expires = None if lasting_ms is None else now + lasting_ms
    token = ApiToken(new_id(), user.org, user.id, scopes, machine, now, expires)
    secret, hashed = new_secret()
    await database.add_token(token, hashed, author)
    return secret, token


async def opened_page(
    database: Database, user: OrgUser, author: Author, lasting_ms: int, parent: ApiToken | None = None
) -> str:
    """A new session of a browser; returns the secret for its cookie. It ends with the token that opened it."""
    now = now_ms()
    end, opener = (None, None) if parent is None else (parent.end, parent.id)
    expires = now + lasting_ms if end is None else min(now + lasting_ms, end)
    own = new_id(), user.org, user.id, (READ,), None, now, expires
    token = ApiToken(*own, kind=FOR_PAGE, parent=opener)
    secret, hashed = new_secret(PAGE_PREFIX)
    await database.add_token(token, hashed, author)
    return secret


async def rotated(database: Database, caller: Caller, overlap_ms: int) -> tuple[str, ApiToken, int] | None:
    """A new token in place of the caller's, with the same rights and duration, while the old one works for
    ``overlap_ms`` more, and until when that is; None where it was replaced before."""
    old, now = caller.token, now_ms()
    expires = None if old.expires is None else now + old.expires - old.created
    new = ApiToken(new_id(), old.org, old.user, old.scopes, old.machine, now, expires)
    secret, hashed = new_secret()
    until = min(now + overlap_ms, old.end or now + overlap_ms)
    is_done = await database.rotate_token(old, new, hashed, until, caller.author)
    return (secret, new, until) if is_done else None


async def founded(database: Database, org_name: str, user_name: str, scopes: tuple[str, ...]) -> str:
    """A new organisation with one admin; returns the secret of the admin's token."""
    author = Author("operator", "command line")
    org = Org(new_id(), org_name, now_ms())
    await database.add_org(org, author)
    user = OrgUser(new_id(), org.id, user_name, "admin", False, now_ms())
    await database.add_user(user, author)
    return (await issued(database, user, scopes, author))[0]
