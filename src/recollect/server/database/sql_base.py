"""How queries and transactions run: what each database implements, and everything shared builds on."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from recollect.server.database.records import (
    ORGANISATION,
    PRIVATE,
    TEAM,
    AppendRequest,
    Author,
    Org,
    OrgTeam,
    OrgUser,
    Segment,
    SessionReader,
)
from recollect.share.sync.wire import ApiToken, Head

Result = TypeVar("Result")
Runner = TypeVar("Runner", bound="SqlRunner")
Subject = TypeVar("Subject", bound=str | Org | OrgUser | OrgTeam | ApiToken)
Given = ParamSpec("Given")
Row = Sequence[Any]
AUDIT_COLUMNS = "id, at, user_id, token, act, target, detail"
# The server itself, where no organisation is known yet or all are meant.
EVERY_ORG = "*"
TOKEN = "id, org, user_id, scopes, machine, created, expires, revoked, last_used, kind, parent, replaced_by, retires"  # noqa: S105 - names of columns


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Transaction(Protocol):
    """A transaction on either database. Values are ``$1``, ``$2`` … in the text."""

    # The values of a JSON array, as a subquery.
    EACH: str

    async def rows(self, sql: str, *values: object) -> Sequence[Row]: ...

    async def many(self, sql: str, values: Sequence[tuple[object, ...]]) -> None:
        """One statement for many values, in this order."""

    async def lock_responses(self, org: str, messages: Iterable[str] | None) -> None:
        """Keep others from deciding about these responses until this transaction ends; None: about any."""

    async def add_texts(self, ref: bytes, ask: AppendRequest, now: int) -> None:
        """Put the words of an append into the search index."""


class SqlRunner(ABC):
    """The parts that differ between SQLite and PostgreSQL."""

    @abstractmethod
    async def _read(self, org: str, sql: str, *values: object) -> Sequence[Row]:
        """Rows of a query; may be slightly out of date."""

    @abstractmethod
    async def _read_now(self, org: str, sql: str, *values: object) -> Sequence[Row]:
        """Rows of a query, with everything that was acknowledged."""

    @abstractmethod
    async def _write(
        self, org: str, work: Callable[[Transaction], Awaitable[Result]], *, is_retried: bool = True
    ) -> Result:
        """A transaction; durable when this returns. ``is_retried``: while the database does not answer."""

    @abstractmethod
    async def _commit(self, ask: AppendRequest) -> Head | None:
        """One append, batched with concurrent ones, and where its log ends then; None where it is at another position."""

    @abstractmethod
    async def _confirm(self, org: str) -> None:
        """Make visible data durable, before an append is reported as stored earlier."""

    @abstractmethod
    async def _delete_texts(self, tx: Transaction, ref: bytes) -> None:
        """Remove the words of a session from the search index."""

    async def _tidy(self, now: int) -> None:  # noqa: B027 - only PostgreSQL has partitions
        """Create partitions that are needed soon."""

    async def _moved_lines(self, org: str, ref: bytes, key: str, line: int) -> Segment | None:
        """The lines around this one (counted from 0) from the object store; None where they are not there."""
        return None

    async def _moved_end(self, org: str, ref: bytes, key: str, lines: int) -> Head | None:
        """The position after this many lines where an object ends there: known without reading it."""
        return None

    async def _drop_bodies(self, tx: Transaction, ref: bytes) -> None:  # noqa: B027 - only PostgreSQL has objects
        """Give up the objects of a session; a worker removes them."""

    async def _forget_derived(self, tx: Transaction) -> None:  # noqa: B027 - only SQLite has to
        """Remove what is left of rows that are gone in the search index."""


def insert(table: str, columns: str) -> str:
    """A statement that inserts one row."""
    marks = ",".join(f"${number}" for number in range(1, columns.count(",") + 2))
    return f"INSERT INTO {table}({columns}) VALUES({marks})"


AUDIT = insert("audit", "org, at, user_id, token, act, target, detail")


def in_transaction(
    work: Callable[Concatenate[Runner, Transaction, Subject, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Runner, Subject, Given], Coroutine[Any, Any, Result]]:
    """Runs a method in a transaction of an organisation: the one that its first argument is, or belongs to. A new
    organisation is added by the server itself."""

    @wraps(work)
    async def run(self: Runner, subject: Subject, /, *more: Given.args, **named: Given.kwargs) -> Result:
        org = subject if isinstance(subject, str) else getattr(subject, "org", EVERY_ORG)
        return await self._write(org, lambda tx: work(self, tx, subject, *more, **named))

    return run


async def note(tx: Transaction, org: str, author: Author, act: str, *names: str) -> None:
    """A row of the audit log; ``names``: the objects of the act."""
    target, detail = (*names, "")[:2]
    await tx.rows(AUDIT, org, now_ms(), author.user, author.token, act, target, detail)


_CHOSEN = "coalesce(sessions.visibility, (SELECT orgs.visibility FROM orgs WHERE orgs.id = sessions.org))"
_COLLEAGUE = (
    "EXISTS (SELECT 1 FROM team_members AS mine JOIN team_members AS theirs ON theirs.team = mine.team"
    " WHERE mine.user_id = {user} AND theirs.user_id = sessions.user_id)"
)


def seen_by(reader: SessionReader, user: str) -> str:
    """Whether a row of ``sessions`` is visible; ``user`` is the parameter with the reader's id."""
    own = f"sessions.user_id = {user}"
    if not reader.others:
        return own
    return (
        f"({own} OR {_CHOSEN} = '{ORGANISATION}'"
        f" OR ({_CHOSEN} = '{TEAM}' AND {_COLLEAGUE.format(user=user)}))"
    )


def named_to(user: str) -> str:
    """Whether the project and repository of a row of ``sessions`` may be told: all but those of private sessions."""
    return f"(sessions.user_id = {user} OR {_CHOSEN} <> '{PRIVATE}')"
