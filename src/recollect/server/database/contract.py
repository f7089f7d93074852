"""What the server asks of a database. Three keep this contract: in memory, SQLite, PostgreSQL.

An append is decided by the database and nobody else: it compares the position and adds the lines in one step that
either happened durably or did not. Every method that takes an organisation sees that organisation only.
Every write leaves a row in the audit log within the same transaction.

A database that cannot answer now raises ``Unavailable``; the same request may always be made again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from recollect.model.search.query import WordQuery
from recollect.server.database.records import (
    ApiToken,
    AppendRequest,
    AuditRow,
    Author,
    FileBytes,
    Grant,
    LineMatch,
    LogPlace,
    Org,
    OrgUser,
    Outcome,
    Segment,
    SessionChanges,
    SessionFilter,
    UsageSum,
)
from recollect.sync.wire import Head, LogHead, RemoteSession, SessionDetail, SideFile


class Unavailable(Exception):
    """The database does not answer; nothing is known about a write that was under way."""


class Taken(Exception):
    """The name, or the file, is there already, or is not the one that was named."""


class Held(Exception):
    """Under legal hold."""


class Forbidden(Exception):
    """Not this user's to do."""


class Database(Protocol):
    """Where everything is kept."""

    async def open(self) -> None:
        """Connect. Refuses a database whose tables are not those of this version."""

    async def close(self) -> None:
        """Finish what was begun, then let go."""

    async def migrate(self) -> int:
        """Bring the tables to this version; how many steps that took. May be repeated."""

    async def ready(self) -> str | None:
        """None where reads and writes would work, else the reason."""

    # --- tenants ---------------------------------------------------------------------------------

    async def add_org(self, org: Org, author: Author) -> None:
        """A new tenant; ``Taken`` where the name is in use."""

    async def orgs(self) -> list[Org]:
        """All tenants. For the operator only; no route asks this."""

    async def set_retention(self, org: str, days: int | None, author: Author) -> None:
        """How long sessions are kept after their last change."""

    async def add_user(self, user: OrgUser, author: Author) -> None:
        """A new member; ``Taken`` where the name is in use."""

    async def users(self, org: str) -> list[OrgUser]:
        """All members."""

    async def change_user(
        self, org: str, user: str, role: str | None, disabled: bool | None, author: Author
    ) -> OrgUser | None:
        """Another role, or a member disabled; None where there is no such member."""

    async def add_token(self, token: ApiToken, secret_hash: bytes, author: Author) -> None:
        """A new token, by the hash of its secret."""

    async def tokens(self, org: str) -> list[ApiToken]:
        """All tokens, revoked ones too."""

    async def revoke_token(self, org: str, token: str, author: Author) -> bool:
        """End a token for good; False where there is none."""

    async def grant(self, secret_hash: bytes) -> Grant | None:
        """The token with this hash, its user and organisation, whatever their state."""

    async def used(self, token: ApiToken, now: int) -> None:
        """Remember that a token was used."""

    # --- logs ------------------------------------------------------------------------------------

    async def append(self, ask: AppendRequest) -> Outcome:
        """Add lines at the end of a log if it is where ``ask.expected`` says."""

    async def head(self, org: str, session: str, key: str) -> Head | None:
        """Where a log ends, from the primary; None where there is no such log."""

    async def place(self, org: str, session: str, key: str, lines: int) -> LogPlace | None:
        """The position after so many lines; None where the log is shorter."""

    def segments(self, org: str, session: str, key: str, after: int, until: int) -> AsyncIterator[Segment]:
        """The runs that hold the lines ``after`` to ``until``, in order; the first may begin before."""

    async def heads(self, org: str, after: tuple[str, str], limit: int) -> list[LogHead]:
        """All logs by session and key, from the one after ``after`` on."""

    # --- sessions and files ----------------------------------------------------------------------

    async def sessions(
        self, org: str, wanted: SessionFilter, before: tuple[int, str] | None, limit: int
    ) -> list[RemoteSession]:
        """Newest change first; ``before`` is the change and id of the last one seen."""

    async def session(self, org: str, session: str) -> SessionDetail | None:
        """One session with its logs and files; None where there is none."""

    async def describe(self, org: str, session: str, changes: SessionChanges, author: Author) -> bool:
        """Change what is said of a session; False where there is none."""

    async def delete(self, org: str, session: str, *, purge: bool, only_own: bool, author: Author) -> bool:
        """Hide a session, or remove its bytes; ``Held`` and ``Forbidden`` where it may not be."""

    async def sweep(self, now: int, grace_ms: int) -> tuple[int, int]:
        """Delete by retention, then purge what was deleted longer ago than ``grace_ms``: how many of each."""

    async def put_file(
        self, org: str, session: str, key: str, data: bytes, *, only_if: str | None, author: Author
    ) -> SideFile | None:
        """Keep a side file. ``only_if``: the sha256 it must have now, "" for none; ``Taken`` otherwise. None: deleted session."""

    async def file(self, org: str, session: str, key: str) -> FileBytes | None:
        """A side file with its bytes."""

    async def delete_file(self, org: str, session: str, key: str, author: Author) -> bool:
        """Remove a side file; ``Held`` under legal hold, False where there is none."""

    # --- the team's questions --------------------------------------------------------------------

    async def usage(self, org: str, since: int | None, until: int | None) -> Sequence[UsageSum]:
        """Counted usage, in quarters of an hour from ``since`` up to ``until`` (milliseconds)."""

    async def search(
        self,
        org: str,
        query: WordQuery,
        *,
        session: str | None,
        project: str | None,
        since: int | None,
        until: int | None,
        limit: int,
    ) -> list[LineMatch]:
        """Lines that match, newest first."""

    async def audit(self, org: str, before: int | None, limit: int) -> list[AuditRow]:
        """Who did what, newest first."""
