"""What client and server exchange: positions, documents, names of headers.

A position is a count of lines and a chained hash over all of them. Two logs at one position have the
same bytes, so an append at a position is decided by comparing 40 bytes, and a repeated request is
recognised by the hash after its lines.

Nothing here opens a connection or a file. Numbers and names are validated once, when they are received.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple, Self
from urllib.parse import quote, unquote
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from recollect.errors import InvalidId, UsageError
from recollect.model.lines.blocks import Tokens

POSITION = "X-Recollect-Position"
LAST_UUID = "Last-Uuid"
ORGANIZATION = "X-Organization-Uuid"
PROJECT = "X-Recollect-Project"
REPOSITORY = "X-Recollect-Repository"
MACHINE = "X-Recollect-Machine"
ENCRYPTED = "X-Recollect-Encrypted"
REQUEST_ID = "X-Request-Id"
NDJSON = "application/x-ndjson"
TOKEN_PREFIX = "rcl_"  # noqa: S105 - the mark by which scanners know a token of ours, not a token

EMPTY_HASH = bytes(32)
MOST_LINES = (1 << 53) - 1
_KEY_PART = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_POSITION = re.compile(r"(0|[1-9][0-9]{0,15}):([0-9a-f]{64})", re.ASCII)
_LONGEST_KEY, _MOST_PARTS = 240, 8
_LONGEST_DESCRIPTION = 1_024


class Position(NamedTuple):
    """The end of a log: the number of lines, and the chained hash over them."""

    lines: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.lines}:{self.hash.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """A position from a header."""
        found = _POSITION.fullmatch(text)
        lines = int(found[1]) if found is not None else MOST_LINES + 1
        if found is None or lines > MOST_LINES:
            raise UsageError(
                f"position {text[:80]!a}: not understood", hint="write it as <lines>:<64 hex digits>"
            )
        return cls(lines, bytes.fromhex(found[2]))

    def after(self, lines: Iterable[bytes]) -> Position:
        """The position after these further lines, each with its newline."""
        count, running = self.lines, self.hash
        for line in lines:
            running = sha256(running + line).digest()
            count += 1
        return Position(count, running)


START = Position(0, EMPTY_HASH)


def checked_key(key: str) -> str:
    """The validated key of a log or file within its session. Empty: the session's own log."""
    if not key:
        return key
    parts = key.split("/")
    if len(key) > _LONGEST_KEY or len(parts) > _MOST_PARTS:
        raise InvalidId("key", key, f"is longer than {_LONGEST_KEY} characters or {_MOST_PARTS} parts")
    for part in parts:
        if not _KEY_PART.fullmatch(part) or part.endswith(".") or ".." in part:
            raise InvalidId("key", key, "has a part that would not be safe as a file name")
    return key


def made_name(*parts: str) -> str:
    """A session's id made from texts: the same at every attempt."""
    digest = sha256("\0".join(parts).encode("utf-8", "surrogateescape")).digest()
    return str(UUID(bytes=digest[:16], version=4))


def described(text: str) -> str:
    """A description (project, repository, machine) encoded for a header."""
    return quote(text, safe="/:@ ~")


def description(text: str) -> str:
    """A description from a header; characters that a database refuses are replaced."""
    return plain_text(unquote(text, errors="replace"), _LONGEST_DESCRIPTION)


def plain_text(text: str, longest: int) -> str:
    """A text that every database accepts: no NUL, no lone surrogate, not longer than allowed."""
    if len(text) <= longest and text.isascii() and "\0" not in text:
        return text
    return text[:longest].replace("\0", "\ufffd").encode(errors="replace").decode()


# --- documents --------------------------------------------------------------------------------------


class Head(Struct, frozen=True):
    """The end of a log in documents."""

    lines: int
    bytes: int
    hash: str
    last_uuid: str | None = None

    @property
    def position(self) -> Position:
        return Position(self.lines, bytes.fromhex(self.hash))


class AppendReply(Struct, frozen=True):
    """The answer to an append: the position after these lines."""

    position: Head
    stored: int
    repeated: bool = False


class Fault(Struct, frozen=True):
    """An error: a code for programs, a sentence for people, and a next step."""

    code: str
    message: str
    hint: str


class Problem(Struct, frozen=True):
    """Every unsuccessful answer. ``position``: the server's, where the client's differs."""

    error: Fault
    position: Head | UnsetType = UNSET


class LogHead(Head, frozen=True, kw_only=True):
    """One log of a list of all logs; ``changed`` in milliseconds since 1970."""

    session: str
    key: str
    changed: int


class LogHeads(Struct, frozen=True):
    """A page of heads; ``next`` is the cursor of the next page."""

    heads: list[LogHead]
    next: str | None = None


class SideFile(Struct, frozen=True):
    """A side file without its bytes."""

    key: str
    bytes: int
    sha256: str
    changed: int


class RemoteSession(Struct, frozen=True):
    """A session in a list. Times are milliseconds since 1970; ``created`` and ``changed`` are the
    server's."""

    id: str
    project: str | None
    repository: str | None
    machine: str | None
    person: str | None
    title: str | None
    branch: str | None
    cwd: str | None
    created: int
    changed: int
    first_at: int | None
    last_at: int | None
    lines: int
    bytes: int
    held: bool
    encrypted: bool
    # Who sees it: private, team or organisation; null as the organisation says.
    visibility: str | None = None


class RemoteSessions(Struct, frozen=True):
    """A page of sessions, the newest change first."""

    sessions: list[RemoteSession]
    next: str | None = None


class SessionDetail(Struct, frozen=True):
    """One session with its logs and side files."""

    session: RemoteSession
    logs: list[LogHead]
    files: list[SideFile]


class WhoAmI(Struct, frozen=True):
    """Whose token this is, and the server's limits."""

    organization: str
    organization_name: str
    user: str
    user_name: str
    role: str
    scopes: list[str]
    machine: str | None
    expires: int | None
    limits: dict[str, int]


_WARNING_MS = 14 * 86_400_000


def ends_soon(end: int | None, now: int) -> bool:
    """Whether the owner of a token is to be told that it expires: two weeks before, and after."""
    return end is not None and end - now < _WARNING_MS


class SignInOffer(Struct, frozen=True):
    """Whether people can sign in through an identity provider. ``organisation``: where there is only one."""

    is_offered: bool
    organisation: str | None = None


class DeviceSignIn(Struct, frozen=True):
    """What a person types, and where; and how the machine asks for the result (RFC 8628)."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: int
    interval: int
    verification_uri_complete: str | None = None


class IssuedToken(Struct, frozen=True):
    """A token, shown once. ``waiting`` instead, while the person has not agreed yet."""

    token: str | None = None
    id: str | None = None
    scopes: list[str] = []
    expires: int | None = None
    waiting: str | None = None
    # Until when the token that it replaces works.
    old_until: int | None = None


# Kinds of tokens: for programs, and the session of a browser, which opens the page and nothing else.
FOR_PROGRAMS, FOR_PAGE = "token", "page"


class ApiToken(Struct, frozen=True):
    """A token without its secret, as it is stored and shown. Times in milliseconds. ``parent``: the token that opened this
    session of a browser, which ends with it. ``replaced_by``: the one it was rotated to; until ``retires`` both work."""

    id: str
    org: str
    user: str
    scopes: tuple[str, ...]
    machine: str | None
    created: int
    expires: int | None = None
    revoked: int | None = None
    last_used: int | None = None
    kind: str = FOR_PROGRAMS
    parent: str | None = None
    replaced_by: str | None = None
    retires: int | None = None

    @property
    def end(self) -> int | None:
        """When it ends; None for never."""
        return min((end for end in (self.expires, self.retires) if end is not None), default=None)


class OwnTokens(Struct, frozen=True):
    """The caller's tokens, oldest first. ``this``: the one with which they were asked for."""

    tokens: list[ApiToken]
    this: str


class LineHit(Struct, frozen=True):
    """A line that a search found; ``line`` counts from 1. ``snippet``: its words around those that were asked for."""

    session: str
    key: str
    line: int
    at: int | None
    type: str
    snippet: str = ""


class LineHits(Struct, frozen=True):
    """Search results, newest first; ``more`` where there were more than the limit, or may be. ``searched_to``: where the
    search ended before it had looked at everything, the time (milliseconds) after which all lines were looked at."""

    hits: list[LineHit]
    more: bool = False
    searched_to: int | None = None


class TeamCostRow(Struct, frozen=True, gc=False):
    """One line of the report. ``usd`` is exact, and null where nothing has a price; ``unpriced`` names models whose tokens are
    not in it. ``pico_usd`` is the same to be added up."""

    keys: dict[str, str]
    responses: int
    tokens: Tokens
    pico_usd: int
    usd: str | None
    unpriced: list[str]


class TeamCostReport(Struct, frozen=True):
    """Rows, the most expensive first, and the total."""

    by: list[str]
    rows: list[TeamCostRow]
    total: TeamCostRow


_NOT_KEPT = re.compile(rb"[^A-Za-z0-9_.-]|_(?=[0-9A-F]{2})|(?<=\.)\.|\.\Z")
_ESCAPE = re.compile(rb"_([0-9A-F]{2})")


def key_of(*names: str) -> str:
    """The key of a path of names; ``InvalidId`` where it would be too long."""
    return checked_key("/".join(map(_escaped, names)))


def names_of(key: str) -> list[str]:
    """The names in a key; ``InvalidId`` where one is not a valid file name."""
    names = [_plain(part) for part in checked_key(key).split("/")]
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
            raise InvalidId("key", key, "would not stay in its directory")
    return names


def _escaped(name: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    return _NOT_KEPT.sub(lambda found: b"_%02X" % found[0][0], raw).decode("ascii")


def _plain(part: str) -> str:
    raw = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), part.encode("ascii"))
    return raw.decode("utf-8", "surrogateescape")


class PositionConflict(Exception):
    """The log is not at the expected position; ``head`` is where it ends."""

    def __init__(self, head: Head) -> None:
        super().__init__(f"the log is at {head.lines} lines")
        self.head = head


class SessionGone(Exception):
    """The session was deleted on the remote."""


class SideFileChanged(Exception):
    """The side file exists and differs from the expected version."""


class SessionDescription(NamedTuple):
    """Information about a session beside its lines."""

    project: str | None = None
    repository: str | None = None
    machine: str | None = None
    encrypted: bool = False


def lines_of(data: bytes) -> Iterator[bytes]:
    """The lines of a text that ends with a newline, each with its own."""
    start = 0
    while end := data.find(b"\n", start) + 1:
        yield data[start:end]
        start = end
