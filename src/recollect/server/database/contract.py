"""What the server needs of a database; SQLite and PostgreSQL implement it.

The database decides an append: it compares the position and adds the lines in one durable step. A
method that takes an organisation sees that organisation only. Every write adds a row to the audit log
in the same transaction.

A database that cannot answer raises ``Unavailable``; every request may be repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from recollect.server.database.records import (
    ApiToken,
    AppendOutcome,
    AppendRequest,
    AuditRow,
    Author,
    FileBytes,
    Grant,
    LineMatches,
    LineSearch,
    LogPlace,
    Moved,
    Org,
    OrgTeam,
    OrgUser,
    PersonCounts,
    PersonFile,
    PersonLog,
    Retention,
    Segment,
    SessionAccess,
    SessionChanges,
    SessionFilter,
    SessionReader,
    SweepResult,
    UsageSum,
    UsageTaker,
)
from recollect.sync.wire import Head, LogHead, RemoteSession, SessionDetail, SideFile


class Unavailable(Exception):
    """The database does not answer; a write under way may or may not have happened."""


class OrgElsewhere(Unavailable):
    """The organisation is not in this database: it moved to the cluster ``other``, or (``is_arriving``) has not arrived
    from there."""

    def __init__(self, org: str, other: str, *, is_arriving: bool = False) -> None:
        super().__init__(f"the organisation is in the cluster {other!a}: start the server with --clusters")
        self.org, self.other, self.is_arriving = org, other, is_arriving


class BodyUnavailable(Unavailable):
    """Lines that were moved to the object store cannot be read now: it does not answer."""


class BodyLost(Exception):
    """An object with lines is missing, or is not what was written: these lines cannot be read until it is restored."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"the object {name} {what}")
        self.name, self.what = name, what


class Taken(Exception):
    """The name or file already exists, or differs from the expected version."""


class Held(Exception):
    """Under legal hold."""


class Forbidden(Exception):
    """The user may not do this."""


class AppendWaiter(Protocol):
    """Is told how an append ended: a future, or what does with less. Called on the event loop, once."""

    def done(self) -> bool:
        """True where it need not be told any more."""

    def set_result(self, result: Moved | None, /) -> None:
        """The end of the log, durable; None where the log is at another position."""

    def set_exception(self, exception: BaseException, /) -> None:
        """It is not known whether the append was made."""


class Database(Protocol):
    """Stores all data of the server."""

    async def open(self) -> None:
        """Connect; refuses tables of another version."""

    async def close(self) -> None:
        """Finish pending work, then disconnect."""

    async def migrate(self) -> int:
        """Bring the tables to this version; returns the number of steps. May be repeated."""

    async def ready(self) -> str | None:
        """None where reads and writes would work, else the reason."""

    def connections(self) -> Mapping[str, int]:
        """The state of the connections, for metrics."""

    # --- tenants ---------------------------------------------------------------------------------

    async def add_org(self, org: Org, author: Author) -> None:
        """A new tenant; ``Taken`` where the name is in use."""

    async def orgs(self) -> list[Org]:
        """All tenants. For the operator only; no route uses this."""

    async def set_retention(self, org: str, kept: Retention, author: Author) -> None:
        """How long sessions, the audit log and the rows of responses are kept."""

    async def set_visibility(self, org: str, visibility: str, author: Author) -> None:
        """Who sees sessions for which no one chose otherwise."""

    async def add_team(self, team: OrgTeam, author: Author) -> None:
        """A new team without members; ``Taken`` where the name is in use."""

    async def teams(self, org: str) -> list[OrgTeam]:
        """All teams with their members."""

    async def set_team(self, org: str, team: str, members: Sequence[str], author: Author) -> bool:
        """Who belongs to a team; False where there is none, ``Forbidden`` for one who is no member of the
        organisation."""

    async def remove_team(self, org: str, team: str, author: Author) -> bool:
        """Remove a team; False where there is none."""

    async def add_user(self, user: OrgUser, author: Author) -> None:
        """A new member; ``Taken`` where the name is in use."""

    async def users(self, org: str) -> list[OrgUser]:
        """All members."""

    async def change_user(
        self, org: str, user: str, role: str | None, disabled: bool | None, author: Author
    ) -> OrgUser | None:
        """Change a member's role or disable it; None where there is no such member."""

    async def add_token(self, token: ApiToken, secret_hash: bytes, author: Author) -> None:
        """A new token, by the hash of its secret."""

    async def tokens(self, org: str) -> list[ApiToken]:
        """All tokens, including revoked ones."""

    async def token(self, org: str, token: str) -> ApiToken | None:
        """One token, in any state."""

    async def revoke_token(self, org: str, token: str, author: Author) -> bool:
        """Revoke a token and the browser sessions it opened, permanently; False where there is none."""

    async def rotate_token(
        self, old: ApiToken, new: ApiToken, secret_hash: bytes, until: int, author: Author
    ) -> bool:
        """Replace a token by a new one; the old one works until ``until``. False where it was revoked or replaced already; a
        replacement that was never used is replaced itself."""

    async def identity(self, org: str, issuer: str, subject: str) -> str | None:
        """The member whom an identity provider knows by this name."""

    async def add_identity(self, org: str, issuer: str, subject: str, user: str, author: Author) -> None:
        """Who a member is at an identity provider; the first one stays."""

    async def identified(self, org: str) -> set[str]:
        """The members whom some identity provider knows."""

    async def first_use(self, org: str, used: bytes, now: int) -> bool:
        """Note that a sign-in was used; False where it was used before."""

    async def grant(self, secret_hash: bytes) -> Grant | None:
        """The token with this hash, its user and organisation, in any state."""

    async def used(self, token: ApiToken, now: int) -> None:
        """Record that a token was used. Tried once: nothing but a date depends on it."""

    # --- logs ------------------------------------------------------------------------------------

    async def append(self, ask: AppendRequest) -> AppendOutcome:
        """Append lines to a log if it is at ``ask.expected``."""

    def begin_append(self, ask: AppendRequest, waiter: AppendWaiter) -> bool:
        """Begin to append, for one who does not wait as a task; False where only ``append`` can."""

    async def head(self, org: str, session: str, key: str) -> Head | None:
        """Where a log ends, from the primary; None where there is no such log."""

    async def place(self, org: str, session: str, key: str, lines: int) -> LogPlace | None:
        """The position after this many lines; None where the log is shorter."""

    def segments(self, org: str, session: str, key: str, after: int, until: int) -> AsyncIterator[Segment]:
        """The segments with the lines ``after`` to ``until``, in order; the first may begin earlier."""

    async def reach(self, org: str, session: str, key: str, after: int) -> None:
        """Raises ``BodyUnavailable`` or ``BodyLost`` where the line after this many cannot be read now."""

    async def access(self, org: str, session: str, reader: SessionReader) -> SessionAccess | None:
        """Whether a session is visible to a reader; None where there is none, or only its cost."""

    async def heads(
        self, org: str, after: tuple[str, str], limit: int, reader: SessionReader | None = None
    ) -> list[LogHead]:
        """All logs by session and key, starting after ``after``; with ``reader`` those of visible sessions."""

    # --- sessions and files ----------------------------------------------------------------------

    async def sessions(
        self,
        org: str,
        filters: SessionFilter,
        before: tuple[int, str] | None,
        limit: int,
        reader: SessionReader | None = None,
    ) -> list[RemoteSession]:
        """Newest change first; ``before`` is the change and id of the last one returned. With ``reader`` the visible
        ones."""

    async def session(self, org: str, session: str) -> SessionDetail | None:
        """One session with its logs and files; None where there is none."""

    async def describe(self, org: str, session: str, changes: SessionChanges, author: Author) -> bool:
        """Change the description of a session; False where there is none."""

    async def delete(self, org: str, session: str, *, purge: bool, only_own: bool, author: Author) -> bool:
        """Hide a session, or remove its bytes; raises ``Held`` or ``Forbidden``."""

    async def sweep(self, now: int, grace_ms: int) -> SweepResult:
        """Purge what was deleted more than ``grace_ms`` ago, delete by retention and remove old rows of the audit
        log and old months of responses, whose sums stay, until nothing is left to do."""

    async def put_file(
        self,
        org: str,
        session: str,
        key: str,
        data: bytes,
        *,
        only_if: str | None,
        only_own: bool,
        author: Author,
    ) -> SideFile | None:
        """Store a side file. ``only_if``: its expected sha256, "" for none, else ``Taken``. ``only_own``:
        a file of another member in another member's session is not replaced, but ``Taken``; nor is any
        under legal hold (``Held``). None: deleted session."""

    async def file(self, org: str, session: str, key: str) -> FileBytes | None:
        """A side file with its bytes."""

    async def delete_file(self, org: str, session: str, key: str, *, only_own: bool, author: Author) -> bool:
        """Remove a side file; raises ``Held``, or ``Forbidden`` with ``only_own``; False where there is
        none."""

    # --- one person ------------------------------------------------------------------------------

    async def person_counts(self, org: str, user: str) -> PersonCounts:
        """How much is held of a member."""

    async def person_sessions(self, org: str, user: str) -> list[tuple[str, bool]]:
        """The sessions that a member created, in any state, and whether each is under legal hold."""

    async def person_tokens(self, org: str, user: str) -> list[ApiToken]:
        """The tokens of a member."""

    async def person_identities(self, org: str, user: str) -> list[tuple[str, str]]:
        """Issuer and subject of a member at identity providers."""

    async def person_logs(self, org: str, user: str) -> list[PersonLog]:
        """The logs of a member's sessions, in any state."""

    async def person_lines_elsewhere(self, org: str, user: str) -> list[PersonLog]:
        """The lines that a member added to sessions of others."""

    async def person_files(self, org: str, user: str) -> list[PersonFile]:
        """The side files of a member's sessions, and those that the member stored elsewhere."""

    async def person_file(self, org: str, session: str, key: str) -> FileBytes | None:
        """A side file, whatever the state of its session."""

    async def person_usage(self, org: str, user: str) -> list[dict[str, object]]:
        """The responses that are counted for a member."""

    async def person_audit(self, org: str, user: str) -> list[AuditRow]:
        """What a member did, oldest first."""

    async def forget_person(self, org: str, user: str, author: Author, erasure: str) -> bool:
        """Remove what names a member, but for sessions under legal hold; False where there is none. The bytes of the
        sessions are purged before. ``erasure``: how the audit log names it."""

    # --- the team's questions --------------------------------------------------------------------

    async def usage(
        self,
        org: str,
        since: int | None,
        until: int | None,
        *,
        by: Sequence[str] | None = None,
        changes: Sequence[int] = (),
        other_changes: Sequence[int] = (),
        reader: SessionReader | None = None,
        person: str | None = None,
        models: Sequence[str] = (),
        into: UsageTaker | None = None,
    ) -> Sequence[UsageSum]:
        """Usage from ``since`` up to ``until`` (milliseconds), summed as far as a report by these keys needs it, but
        never over one of ``changes`` (quarters of an hour at which prices change), and only of Claude models over one of
        ``other_changes``; without keys by quarter. Names of sessions that ``reader`` may not see are hidden. ``person``: the usage of that
        member only. ``models``: of these only, in sums of responses that use the same classes of tokens, where those are held. ``into``: takes the sums, some at a time; none are returned then."""

    async def search(self, org: str, wanted: LineSearch) -> LineMatches:
        """Lines that match, newest first, and how far back was searched if that was not all of time."""

    async def note_refusal(self, org: str, author: Author, target: str, detail: str) -> None:
        """Add a refused attempt to the audit log."""

    async def audit(self, org: str, before: int | None, limit: int) -> list[AuditRow]:
        """Audit rows, newest first."""
