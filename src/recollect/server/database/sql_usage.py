"""Roll-ups maintained by appends: which copies of a response count, decided again whenever one arrives.

The rules are those of model/cost/line_usage.py, so the sums equal those of one machine that holds all these
logs, in any order of arrival. A response's rows are locked before they are read: of two servers that
receive one response at the same time, the second sees what the first wrote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import json

from recollect.index.frame import UsageRow
from recollect.index.schema import QUARTER_MS
from recollect.model.cost.line_usage import AMOUNTS, BELONGS, BOTH, MAIN, ResponseCopy, line_rank, marks
from recollect.server.database.records import AppendRequest, Transaction, insert
from recollect.server.database.tables import COUNTS

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
_UPDATES = ", ".join(f"{name} = excluded.{name}" for name in UsageTableRow._fields[4:])
_KEYS = ("session", "person", "model", "branch", "variant")
_SUMS = ("messages", *COUNTS)


_UPSERT = (
    insert("usage", f"org, {USAGE}")
    + f" ON CONFLICT (org, message, session, key, request, speaker) DO UPDATE SET {_UPDATES}"
)
_KNOWN = "SELECT {names} FROM {table} WHERE org = $1 AND message IN ({each})"
_DROP = "DELETE FROM {table} WHERE {same} AND messages = 0"


def adding(table: str, *keys: str) -> str:
    """Adds sums to a table of sums."""
    sums = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in _SUMS)
    return f"{insert(table, ', '.join((*keys, *_SUMS)))} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {sums}"


_RollupKey = tuple[int, str, str, str, str, int]


async def count_usage(tx: Transaction, org: str, appends: Iterable[AppendRequest]) -> None:
    """Add the usage in these appends; the sums are right when this returns."""
    new: dict[str, list[UsageTableRow]] = defaultdict(list)
    for ask in appends:
        for row in ask.prepared.usage:
            new[row.message or ""].append(_known(ask, row))
    if not new:
        return
    await tx.lock_responses(org, new)
    names = org, json.encode(sorted(new)).decode()
    each = tx.EACH.format("$2")
    found: dict[str, dict[_Place, UsageTableRow]] = defaultdict(dict)
    for values in await tx.rows(_KNOWN.format(names=USAGE, table="usage", each=each), *names):
        known = UsageTableRow(*values)
        found[known.message][known.place] = known
    # They were counted, and what decided it is gone.
    dropped = {
        row[0] for row in await tx.rows(_KNOWN.format(names="message", table="dropped", each=each), *names)
    }
    changed: list[UsageTableRow] = []
    sums: dict[_RollupKey, list[int]] = {}
    for message in sorted(new):
        if message not in dropped:
            _settle(found[message], new[message], changed, sums)
    await tx.many(_UPSERT, [(org, *row) for row in sorted(changed, key=lambda row: (row.message, row.place))])
    await _write_sums(tx, org, sums)


def _known(ask: AppendRequest, row: UsageRow) -> UsageTableRow:
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
    for table, time, every in (("rollup", "quarter", sums), ("rollup_day", "day", days)):
        keys = ("org", time, *_KEYS)
        # The same order everywhere: two transactions on the same sums wait instead of deadlocking.
        ordered = sorted(every.items())
        await tx.many(
            adding(table, *keys), [(org, *key, *amounts) for key, amounts in ordered if any(amounts)]
        )
        same = " AND ".join(f"{name} = ${number}" for number, name in enumerate(keys, 1))
        fewer = [(org, *key) for key, amounts in ordered if amounts[0] < 0]
        await tx.many(_DROP.format(table=table, same=same), fewer)
