"""What goes to a database and comes back, and how its queries and transactions run: what each database implements, and all
that is shared builds on."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, get_args

from msgspec import UNSET, Struct, UnsetType

from recollect.index.frame import UsageRow
from recollect.model.text.query import WordQuery
from recollect.share.sync.wire import ApiToken, Head, Position, SessionDescription, lines_of

LIVE, DELETED, PURGED = 0, 1, 2
# Who sees a session: its creator, members who share a team with the creator, every member.
Visibility = Literal["private", "team", "organisation"]
PRIVATE: Visibility = "private"
TEAM: Visibility = "team"
ORGANISATION: Visibility = "organisation"
VISIBILITIES: tuple[str, ...] = get_args(Visibility)
# The act of an attempt that was refused, in the audit log.
REFUSED = "refused"


# A month of responses goes as a whole, and what comes later than that is counted with less certainty.
LEAST_USAGE_DAYS = 62


class Org(Struct, frozen=True):
    """A tenant. ``retention_days``: for how many days it keeps sessions after their last change, None for ever;
    ``audit_days`` the same of the audit log, ``usage_days``, by the month, of what is known of each response.
    ``visibility``: that of sessions for which no one chose another."""

    id: str
    name: str
    created: int
    retention_days: int | None = None
    audit_days: int | None = None
    visibility: Visibility = ORGANISATION
    usage_days: int | None = None


class OrgTeam(Struct, frozen=True):
    """Members who see each other's sessions of visibility ``team``; ``members`` are ids."""

    id: str
    org: str
    name: str
    created: int
    members: tuple[str, ...] = ()


class SessionReader(NamedTuple):
    """Who looks: their own sessions, and with ``others`` those that are visible to them."""

    user: str
    others: bool = True


class SessionAccess(NamedTuple):
    """Who created a session, whether the one who asks may see it, and whether it was deleted (its bytes are still there)."""

    creator: str | None
    is_visible: bool
    is_deleted: bool


class OrgUser(Struct, frozen=True):
    """A member of an organisation."""

    id: str
    org: str
    name: str
    role: str
    disabled: bool
    created: int


class Author(NamedTuple):
    """The author of a write: for the audit log and for usage per person."""

    user: str
    token: str
    machine: str | None = None


class TextRow(NamedTuple):
    """The words of one line; ``line`` counts from 1 in its log."""

    line: int
    at: int | None
    type: str
    text: str


class PreparedLines(Struct, frozen=True):
    """Lines to append, with everything that was read from them. ``about``: what they say of their session, by column;
    a part of the title is empty where one was removed."""

    data: bytes
    lines: int
    after: Position
    last_uuid: str | None = None
    about: dict[str, str | int] = {}
    usage: tuple[UsageRow, ...] = ()
    texts: tuple[TextRow, ...] = ()


class AppendRequest(Struct, frozen=True):
    """Lines to append to one log, if it is at the client's expected position."""

    org: str
    session: str
    key: str
    expected: Position
    prepared: PreparedLines
    author: Author
    description: SessionDescription = SessionDescription()


class Segment(Struct, frozen=True):
    """Lines as they were sent together; ``before`` is the hash before the first."""

    first_line: int
    lines: int
    first_byte: int
    before: bytes
    hash: bytes
    data: bytes

    def between(self, after: int, until: int) -> bytes:
        """Its lines after so many of the log, up to so many."""
        first = self.first_line
        if first >= after and first + self.lines <= until:
            return self.data
        return b"".join(list(lines_of(self.data))[max(after - first, 0) : max(until - first, 0)])


class SessionFilter(NamedTuple):
    """Which sessions are listed. Times in milliseconds, by last change. ``id``: how their ids begin."""

    project: str | None = None
    repository: str | None = None
    machine: str | None = None
    person: str | None = None
    since: int | None = None
    until: int | None = None
    id: str | None = None


class SessionChanges(Struct, forbid_unknown_fields=True):
    """Changes to a session; what is not set stays as it is. ``visibility`` null: as the organisation says."""

    project: str | UnsetType = UNSET
    repository: str | UnsetType = UNSET
    machine: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    held: bool | UnsetType = UNSET
    visibility: Visibility | UnsetType | None = UNSET


Span = tuple[int | None, int | None]


class UsageQuestion(NamedTuple):
    """What sums of usage are asked for, within ``times`` (milliseconds), summed as far as a report by these keys needs it.

    ``changes``: quarters at which prices change; sums never reach over one of them, and only those of Claude models over one
    of ``other_changes``. ``reader``: for whom names of sessions that they may not see are hidden. ``person``: only the usage
    of that member. ``models``: only these, in sums of responses that use the same classes of tokens; before ``held``, where
    the responses were dropped, by what roll-ups say.
    """

    times: Span = (None, None)
    by: Sequence[str] = ()
    changes: Sequence[int] = ()
    other_changes: Sequence[int] = ()
    reader: SessionReader | None = None
    person: str | None = None
    models: Sequence[str] = ()
    held: int = 0


class UsageSum(NamedTuple):
    """Usage summed over all columns that a report may group by."""

    quarter: int
    session: str
    project: str | None
    repository: str | None
    machine: str | None
    person: str | None
    model: str | None
    branch: str | None
    variant: int
    messages: int
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_searches: int


class LineSearch(NamedTuple):
    """What is searched for, and where. With ``reader`` in the sessions that are visible to them."""

    query: WordQuery
    limit: int
    session: str | None = None
    project: str | None = None
    since: int | None = None
    until: int | None = None
    reader: SessionReader | None = None


class SweepResult(NamedTuple):
    """What a sweep did, and how many sessions are still overdue."""

    deleted: int = 0
    purged: int = 0
    audit_rows: int = 0
    backlog: int = 0
    usage_rows: int = 0


class AuditRow(Struct, frozen=True):
    """Who did what, when."""

    id: int
    at: int
    user: str
    token: str
    act: str
    target: str
    detail: str


class Unavailable(Exception):
    """The database does not answer; a write under way may or may not have happened."""


class BodyUnavailable(Unavailable):
    """Lines that were moved to the object store cannot be read now: it does not answer."""


class BodyLost(Exception):
    """An object with lines is missing, or is not what was written: these lines cannot be read until it is restored."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"the object {name} {what}")
        self.name, self.what = name, what


class Taken(Exception):
    """The name already exists."""


class Held(Exception):
    """Under legal hold."""


class Forbidden(Exception):
    """The user may not do this."""


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
