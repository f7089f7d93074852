"""Roll-ups maintained by appends: which copies of a response count, decided again whenever one arrives.

The rules are those of model/cost/copies.py, so the sums equal those of one machine that holds all these
logs, in any order of arrival. A response's rows are locked before they are read: of two servers that
receive one response at the same time, the second sees what the first wrote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from recollect.index.frame import UsageRow
from recollect.index.schema import QUARTER_MS
from recollect.model.cost.copies import AMOUNTS, BELONGS, BOTH, MAIN, ResponseCopy, line_rank, marks
from recollect.server.database.records import AppendRequest, Moved, SessionAppend
from recollect.server.database.tables.steps import COUNTS
from recollect.server.database.tables.usage_months import month_of, response_ref

Row = Sequence[Any]


class BulkStatement(NamedTuple):
    """Rows for a table: ``{rows}`` is their place in the statement, ``columns`` are their names and types."""

    sql: str
    columns: tuple[str, ...]


class ToldResponse(NamedTuple):
    """A response of which a row comes, its id in ``responses``, and the month of that row."""

    message: str
    ref: str
    said: int


class Transaction(Protocol):
    """A transaction on either database. Values are ``$1``, ``$2`` … in the text."""

    async def rows(self, sql: str, *values: object) -> Sequence[Row]: ...

    async def many(self, sql: str, values: Sequence[tuple[object, ...]]) -> Sequence[Row]:
        """One statement for many values; all resulting rows, in order."""

    async def put(self, put: BulkStatement, rows: Sequence[tuple[object, ...]]) -> None:
        """Many rows in few statements; in this order."""

    async def usage(self, org: str, asked: Sequence[ToldResponse]) -> Sequence[Row]:
        """The rows of ``usage`` about these responses, with the columns ``USAGE``; and one without a session for each month
        in which there were some. Responses that were not known are from now on."""

    async def lock_responses(self, org: str, messages: Iterable[str] | None) -> None:
        """Keep others from deciding about these responses until this transaction ends; None: about any."""

    async def move(self, org: str, asks: Sequence[SessionAppend], now: int) -> list[Moved | None]:
        """Make appends to different logs of one organisation, ordered by log, without their usage.

        None for those at another position; they change nothing.
        """


_Place = tuple[str, str, str, int]


class UsageTableRow(NamedTuple):
    """A row of ``usage`` without its organisation."""

    message: str
    session: str
    key: str
    request: str
    counted: int
    speaker: int
    has_stop: int
    forked: int
    at: int | None
    person: str
    model: str
    branch: str
    variant: int
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_searches: int
    said: int

    @property
    def place(self) -> _Place:
        return self.session, self.key, self.request, self.speaker

    def copy(self) -> ResponseCopy:
        return ResponseCopy(
            self.request,
            self.speaker,
            self.output,
            bool(self.has_stop),
            self.at or 0,
            bool(self.forked),
            f"{self.session}/{self.key}",
        )


USAGE = ", ".join(UsageTableRow._fields)
_UPDATES = ", ".join(f"{name} = excluded.{name}" for name in UsageTableRow._fields[4:-1])
_TEXTS = ("org", "message", "session", "key", "request", "person", "model", "branch")


def _typed(*names: str) -> tuple[str, ...]:
    return tuple(f"{name} {'TEXT' if name in _TEXTS else 'BIGINT'}" for name in names)


_UPSERT = BulkStatement(
    f"INSERT INTO usage(org, {USAGE}) {{rows}}"
    f" ON CONFLICT (org, message, session, key, request, speaker, said) DO UPDATE SET {_UPDATES}",
    _typed("org", *UsageTableRow._fields),
)
_REMOVE = "DELETE FROM usage WHERE org = $1 AND message = $2 AND session = $3 AND key = $4 AND request = $5 AND speaker = $6 AND said = $7"
_KNOW = "INSERT INTO responses(ref, said, org) VALUES($1, $2, $3)"
_UNKNOW = "DELETE FROM responses WHERE ref = $1 AND said = $2"
_KEYS = ("session", "person", "model", "branch", "variant")
_SUMS = ("messages", *COUNTS)


def _adding(table: str, *keys: str) -> BulkStatement:
    return BulkStatement(
        f"INSERT INTO {table}({', '.join((*keys, *_SUMS))}) {{rows}} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET "
        + ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in _SUMS),
        _typed(*keys, *_SUMS),
    )


def _dropping(table: str, *keys: str) -> str:
    same = " AND ".join(f"{name} = ${number}" for number, name in enumerate(keys, 1))
    return f"DELETE FROM {table} WHERE {same} AND messages = 0"  # noqa: S608 - names of columns


# By quarter of an hour, and by day.
_ADD, _ADD_DAY = _adding("rollup", "org", "quarter", *_KEYS), _adding("rollup_day", "org", "day", *_KEYS)
_DROP, _DROP_DAY = (
    _dropping("rollup", "org", "quarter", *_KEYS),
    _dropping("rollup_day", "org", "day", *_KEYS),
)
_RollupKey = tuple[int, str, str, str, str, int]


async def count_usage(tx: Transaction, org: str, appends: Iterable[AppendRequest], now: int) -> None:
    """Add the usage in these appends; the sums are right when this returns."""
    new: dict[str, list[UsageTableRow]] = defaultdict(list)
    for ask in appends:
        for row in ask.prepared.usage:
            new[row.message or ""].append(_known(ask, row, now))
    if not new:
        return
    await tx.lock_responses(org, new)
    refs = {message: response_ref(org, message) for message in sorted(new)}
    asked = [ToldResponse(message, ref, row.said) for message, ref in refs.items() for row in new[message]]
    found: dict[str, dict[_Place, UsageTableRow]] = defaultdict(dict)
    months: set[tuple[str, int]] = set()
    for values in await tx.usage(org, asked):
        if values[1] is None:
            months.add((values[0], values[-1]))
            continue
        known = UsageTableRow(*values)
        found[known.message][known.place] = known
    dropped = {
        message for message, month in months if not any(row.said == month for row in found[message].values())
    }
    changed: list[UsageTableRow] = []
    sums: dict[_RollupKey, list[int]] = {}
    for message in refs:
        if message not in dropped:  # otherwise it was counted, and what decided it is gone
            _settle(found[message], new[message], changed, sums)
    await _move_months(tx, org, refs, found, changed)
    await tx.put(_UPSERT, [(org, *row) for row in sorted(changed, key=lambda row: (row.message, row.place))])
    await _write_sums(tx, org, sums)


async def _move_months(
    tx: Transaction,
    org: str,
    refs: Mapping[str, str],
    found: Mapping[str, Mapping[_Place, UsageTableRow]],
    changed: Sequence[UsageTableRow],
) -> None:
    """Responses of which rows are in other months than before: a later line of a log may be of the next month."""
    now: dict[str, dict[_Place, UsageTableRow]] = {}
    for row in changed:
        if found.get(row.message):
            now.setdefault(row.message, dict(found[row.message]))[row.place] = row
    left, come, gone = list[tuple[object, ...]](), list[tuple[object, ...]](), list[tuple[object, ...]]()
    for message, rows in now.items():
        before = found[message]
        left += [
            (org, message, *place, row.said) for place, row in before.items() if rows[place].said != row.said
        ]
        old, new = ({row.said for row in some.values()} for some in (before, rows))
        come += [(refs[message], month, org) for month in sorted(new - old)]
        gone += [(refs[message], month) for month in sorted(old - new)]
    for sql, values in ((_REMOVE, left), (_KNOW, come), (_UNKNOW, gone)):
        if values:
            await tx.many(sql, values)


def _known(ask: AppendRequest, row: UsageRow, now: int) -> UsageTableRow:
    return UsageTableRow(
        row.message or "",
        ask.session,
        ask.key,
        row.request,
        0,
        row.speaker,
        int(row.has_stop),
        int(row.forked),
        row.at,
        ask.author.user,
        row.model or "",
        row.branch or "",
        row.variant,
        *row[11:17],
        month_of(row.at, now),
    )


def _settle(
    before: dict[_Place, UsageTableRow],
    new: list[UsageTableRow],
    changed: list[UsageTableRow],
    sums: dict[_RollupKey, list[int]],
) -> None:
    """Merge the rows of one response, choose the counted ones, and record the difference."""
    if not before and len(new) == 1:  # the usual case: the only copy counts
        changed.append(new[0]._replace(counted=BOTH))
        _add(sums, changed[-1], changed[-1], 1)
        return
    now = dict(before)
    for row in new:
        known = now.get(row.place)
        # Within one log the later line wins, unless it knows less (as within one append).
        if known is None or line_rank(row.copy()) >= line_rank(known.copy()):
            now[row.place] = row
    chosen = marks([row.copy() for row in now.values()])
    after = [row._replace(counted=mark) for row, mark in zip(now.values(), chosen, strict=True)]
    changed += [row for row in after if row != before.get(row.place)]
    for sign, rows in ((-1, before.values()), (1, after)):
        for row in rows:
            if row.counted & BELONGS:
                _add(sums, row, _with_amounts(row, rows), sign)


def told_rows(copies: Sequence[UsageTableRow]) -> Iterator[tuple[UsageTableRow, UsageTableRow | None]]:
    """The rows of one response, each with the one whose amounts count for it; None where it does not count."""
    for row in copies:
        yield row, _with_amounts(row, copies) if row.counted & BELONGS else None


def _with_amounts(row: UsageTableRow, copies: Iterable[UsageTableRow]) -> UsageTableRow:
    """The copy whose counts are those of a response that belongs with ``row``."""
    return next(
        one for one in copies if one.counted & AMOUNTS and (row.speaker != MAIN or one.request == row.request)
    )


def _add(sums: dict[_RollupKey, list[int]], row: UsageTableRow, said: UsageTableRow, sign: int) -> None:
    key = ((row.at or 0) // QUARTER_MS, row.session, row.person, said.model, row.branch, said.variant)
    amounts = sums.setdefault(key, [0] * len(_SUMS))
    for index, amount in enumerate((1, *said[13:19])):
        amounts[index] += sign * amount


async def _write_sums(tx: Transaction, org: str, sums: dict[_RollupKey, list[int]]) -> None:
    days: dict[_RollupKey, list[int]] = {}
    for (quarter, *rest), amounts in sums.items():
        day: Any = (quarter // 96, *rest)
        known = days.get(day)
        days[day] = amounts if known is None else [a + b for a, b in zip(known, amounts, strict=True)]
    for add, drop, table in ((_ADD, _DROP, sums), (_ADD_DAY, _DROP_DAY, days)):
        # The same order everywhere: two transactions on the same sums wait instead of deadlocking.
        ordered = sorted(table.items())
        await tx.put(add, [(org, *key, *amounts) for key, amounts in ordered if any(amounts)])
        fewer = [(org, *key) for key, amounts in ordered if amounts[0] < 0]
        if fewer:
            await tx.many(drop, fewer)
