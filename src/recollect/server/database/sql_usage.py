"""Usage in SQL: roll-ups maintained by appends, and sums of them as far as a report needs.

Which copies of a response count is decided again whenever one arrives, by the rules of model/cost/line_usage.py: the sums
equal those of one machine that holds all these logs, in any order of arrival. A response's rows are locked before they are
read: of two servers that receive one response at the same time, the second sees what the first wrote. In a report whole
days come from ``rollup_day``, whole quarters of an hour at both ends from ``rollup``, and what is left from the responses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec import json

from recollect.index.frame import UsageRow
from recollect.index.schema import QUARTER_MS
from recollect.model.cost.line_usage import AMOUNTS, BELONGS, BOTH, MAIN, ResponseCopy, line_rank, marks
from recollect.model.cost.prices import CLAUDE_NAME
from recollect.server.database.records import (
    PRIVATE,
    AppendRequest,
    SessionReader,
    Span,
    Transaction,
    UsageQuestion,
    insert,
    named_to,
    seen_by,
)
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


_QUARTERS = 96  # of a day
# What is told of a session; one that does not exist is private, and no one's.
_TOLD = ("user_id", "visibility", "project", "repository", "machine")
HIDDEN = "(private)"
_OF_SESSIONS = ("project", "repository", "machine")
_COUNTS = ", ".join(COUNTS)
_SUMMED = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("messages", *COUNTS))
_CLASSES = " + ".join(f"CASE WHEN {name} > 0 THEN {1 << bit} ELSE 0 END" for bit, name in enumerate(COUNTS))
_ROLLED = f"session, person, model, branch, variant, messages, {_COUNTS}"
_DAY = f"(quarter - ((quarter % {_QUARTERS}) + {_QUARTERS}) % {_QUARTERS})"
# Asked for once, and not for each sum.
_CHOSEN = "coalesce(visibility, (SELECT orgs.visibility FROM orgs WHERE orgs.id = $1))"
# The same on both databases, and by the case of letters.
_IS_OTHER = f"replace(model, '{CLAUDE_NAME}', '') = model"


def usage_query(asked: UsageQuestion) -> tuple[str, list[str]]:
    """The query, and its values after ``$1``, the organisation."""
    times, keys, reader, person = asked.times, asked.by, asked.reader, asked.person
    changes, other_changes = _inside(asked.changes, times), _inside(asked.other_changes, times)
    if not any(name in keys for name in ("session", "branch", *_OF_SESSIONS)):
        reader = None  # no session is named
    values = [*([] if reader is None else [reader.user]), *([] if person is None else [person])]
    only = "" if person is None else f" AND {{}}person = ${len(values) + 1}"
    of_models = ", ".join(
        f"${number}" for number in range(len(values) + 2, len(values) + 2 + len(asked.models))
    )
    values += asked.models
    time = _epoch(changes, other_changes, is_daily="day" in keys)
    told = [*(["user_id", "visibility"] if reader is not None else []), *_of(keys, _OF_SESSIONS)]
    kept = [*told, *_of(keys, ("session", "person", "branch")), "model", "variant"]
    both = sorted({*changes, *other_changes})
    parts = " UNION ALL ".join(
        _by_class(times, asked.held, both, only, kept, of_models)
        if of_models
        else _parts(times, both, only, kept)
    )
    time += ", classes" if of_models else ""
    # First by what is in the tables: what a reader may see is decided for few rows then.
    inner = (
        f"SELECT min(quarter) AS quarter, CAST($1 AS TEXT) AS org, {', '.join(kept)}, {_SUMMED}{', classes' * bool(of_models)}"  # noqa: S608 - constants
        f" FROM ({parts}) AS every"
        f" GROUP BY {', '.join(kept)}, {time}"
    )
    names = _names(keys, reader)
    joins = " LEFT JOIN users ON users.id = sessions.person" if "person" in keys else ""
    found = f"FROM ({inner}) AS sessions{joins}"
    # By number: an expression with a subquery cannot be repeated.
    grouped = ", ".join(str(place) for place, name in enumerate(names, 2) if name != "NULL")
    sql = f"SELECT min(quarter), {', '.join(names)}, {_SUMMED} {found} GROUP BY {grouped}, {time}"
    return sql, values


def _of(keys: Sequence[str], names: Sequence[str]) -> list[str]:
    return [name for name in names if name in keys]


def _inside(changes: Sequence[int], times: Span) -> list[int]:
    """The changes of prices that divide a span: each is compared with every row."""
    since, until = times
    return [
        change
        for change in changes
        if (since is None or change * QUARTER_MS > since) and (until is None or change * QUARTER_MS < until)
    ]


def _names(keys: Sequence[str], reader: SessionReader | None) -> list[str]:
    """The columns of the report; ``NULL`` for keys that were not asked for."""
    shown = {name: f"sessions.{name}" for name in ("session", *_OF_SESSIONS, "branch")}
    if reader is not None:
        for name, text in shown.items():
            is_told = named_to("$2") if name in ("project", "repository") else seen_by(reader, "$2")
            shown[name] = f"CASE WHEN {is_told} THEN {text} ELSE '{HIDDEN}' END"
    chosen = {name: text if name in keys else "NULL" for name, text in shown.items()}
    person = "users.name" if "person" in keys else "NULL"
    sessions = [chosen[name] for name in ("session", *_OF_SESSIONS)]
    return [*sessions, person, "model", chosen["branch"], "variant"]


def _epoch(changes: Sequence[int], other_changes: Sequence[int] = (), *, is_daily: bool) -> str:
    """What sums of different prices, and with ``is_daily`` of different days, differ in. Usage without a time is in
    quarter 0."""
    epoch = f"CASE WHEN quarter = 0 THEN 0 ELSE 1 END{_passed(changes)}"
    if other_changes:
        # Otherwise a report has many times the rows that Claude models need.
        epoch += f" + CASE WHEN {_IS_OTHER} THEN 0{_passed(other_changes)} ELSE 0 END"
    return f"{_DAY}, {epoch}" if is_daily else epoch


def _passed(changes: Sequence[int]) -> str:
    return "".join(f" + CASE WHEN quarter >= {int(change)} THEN 1 ELSE 0 END" for change in changes)


def _parts(times: Span, changes: Sequence[int], only: str, kept: Sequence[str]) -> Iterator[str]:
    """The selects that together give usage from ``since`` up to ``until``."""
    since, until = times
    first = None if since is None else -(-since // QUARTER_MS)
    last = None if until is None else until // QUARTER_MS
    if first is not None and last is not None and first > last:
        yield _named(_responses(last, (since, until), only), kept)
        return
    # Usage without a time is neither before nor after anything.
    timed = " AND quarter <> 0" if first is not None or last is not None else ""
    for span in pairwise((first, *changes, last)):
        for unit, *bounds in _covered(*span):
            within = _within(unit, (bounds[0], bounds[1]))
            quarter = f"day * {_QUARTERS} AS quarter" if unit == "day" else "quarter"
            table, more = ("rollup_day", " AND day <> 0") if unit == "day" else ("rollup", timed)
            yield _named(
                f"SELECT {quarter}, {_ROLLED} FROM {table} WHERE org = $1{more}{within}{only.format('')}",  # noqa: S608 - constants
                kept,
            )
    if since is not None and first is not None and first * QUARTER_MS > since:
        yield _named(_responses(first - 1, (since, first * QUARTER_MS), only), kept)
    if until is not None and last is not None and until > last * QUARTER_MS:
        yield _named(_responses(last, (last * QUARTER_MS, until), only), kept)


def _by_class(  # noqa: PLR0917 - the parts of one query
    times: Span, held: int, changes: Sequence[int], only: str, kept: Sequence[str], models: str
) -> Iterator[str]:
    """The selects for some models: from the responses as far as they are held, else from sums, of one class as a whole."""
    since, until = times
    if held and (since is None or since < held):
        end = held if until is None else min(until, held)
        before = [change for change in changes if change * QUARTER_MS < end]
        for part in _parts((since, end), before, f"{only} AND {{}}model IN ({models})", kept):
            yield f"SELECT one.*, 0 AS classes FROM ({part}) AS one"  # noqa: S608 - constants
        since = held
    if until is not None and since is not None and since >= until:
        return
    at = "coalesce(own.at, 0)"
    quarter = f"({at} - (({at} % {QUARTER_MS}) + {QUARTER_MS}) % {QUARTER_MS}) / {QUARTER_MS}"
    span = _within("own.at", (since, until))
    if times == (None, None):  # what has no time is never dropped
        span = "" if since is None else f" AND (own.at IS NULL OR own.at >= {int(since)})"
    else:
        span += f" AND (own.at < 0 OR own.at >= {QUARTER_MS})"
    said = _said(quarter, span + only.format("own."), models)
    yield f"SELECT one.*, {_CLASSES} AS classes FROM ({_named(said, kept)}) AS one"  # noqa: S608 - constants


def _covered(first: int | None, last: int | None) -> list[tuple[str, int | None, int | None]]:
    """A span of quarters as whole days, and quarters at its ends. The first day since 1970 is read by its quarters: the
    first one has what has no time."""
    start = None if first is None else -(-first // _QUARTERS)
    end = None if last is None else last // _QUARTERS
    if start is not None and end is not None and start >= end:
        return [("quarter", first, last)]
    spans: list[tuple[str, int | None, int | None]] = [("day", start, end)]
    if (start is None or start <= 0) and (end is None or end > 0):
        spans.append(("quarter", 0, _QUARTERS))
    if start is not None and first is not None and start * _QUARTERS > first:
        spans.append(("quarter", first, start * _QUARTERS))
    if end is not None and last is not None and last > end * _QUARTERS:
        spans.append(("quarter", end * _QUARTERS, last))
    return spans


def _named(sums: str, kept: Sequence[str]) -> str:
    """Sums by session, with what is told of the sessions where that is needed."""
    told = {name: f"named.{name}" for name in _TOLD}
    told["visibility"] = (
        f"CASE WHEN named.ref IS NULL THEN '{PRIVATE}' ELSE {_CHOSEN.replace('(visibility', '(named.visibility')} END"
    )
    columns = ", ".join(f"{told[name]} AS {name}" if name in told else f"own.{name}" for name in kept)
    join = (
        " LEFT JOIN sessions AS named ON named.org = $1 AND named.id = own.session"
        if any(name in told for name in kept)
        else ""
    )
    return f"SELECT quarter, {columns}, messages, {_COUNTS} FROM ({sums}) AS own{join}"  # noqa: S608 - constants


def _within(name: str, span: Span) -> str:
    first, last = span
    text = "" if first is None else f" AND {name} >= {int(first)}"
    return text if last is None else f"{text} AND {name} < {int(last)}"


def _responses(quarter: int, span: Span, only: str) -> str:
    """Usage within a quarter of an hour, response by response."""
    return _said(str(int(quarter)), _within("own.at", span) + only.format("own."))


def _said(quarter: str, which: str, models: str = "") -> str:
    """Responses one by one: most have their own amounts, others those of another copy."""

    def told(table: str, more: str) -> str:
        counts = ", ".join(f"{table}.{name}" for name in COUNTS)
        of_models = f" AND {table}.model IN ({models})" if models else ""
        return (
            f"SELECT {quarter} AS quarter, own.session, own.person, {table}.model, own.branch, {table}.variant,"  # noqa: S608 - constants
            f" 1 AS messages, {counts} FROM usage AS own{more} AND own.counted % 2 = 1{which}{of_models}"
        )

    own = told("own", f" WHERE own.org = $1 AND own.counted = {BOTH}")
    other = told(
        "other",
        " JOIN usage AS other ON other.org = own.org AND other.message = own.message AND other.counted >= 2"
        f" AND (own.speaker <> {MAIN} OR other.request = own.request) WHERE own.org = $1 AND own.counted <> {BOTH}",
    )
    return f"{own} UNION ALL {other}"
