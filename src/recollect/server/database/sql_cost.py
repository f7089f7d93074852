"""Usage in SQL, summed as far as a report needs it: by its keys, and by what prices depend on.

Whole weeks and days come from ``rollup_named``, which has no sessions, or where those are asked for days from ``rollup_day``; whole
quarters of an hour at both ends from ``rollup``, and what is left from the responses themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from recollect.index.schema import QUARTER_MS
from recollect.model.cost.copies import BOTH, MAIN
from recollect.model.cost.prices import CLAUDE_NAME
from recollect.server.database.records import PRIVATE, SessionReader
from recollect.server.database.sql_visibility import named_to, seen_by
from recollect.server.database.tables.named_sums import TOLD
from recollect.server.database.tables.steps import COUNTS
from recollect.server.database.tables.usage_months import NO_MONTH, month_of

_QUARTERS, _WEEK = 96, 672  # of a day, of a week
HIDDEN = "(private)"
_OF_SESSIONS = ("project", "repository", "machine")
_COUNTS = ", ".join(COUNTS)
_SUMS = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("messages", *COUNTS))
_CLASSES = " + ".join(f"CASE WHEN {name} > 0 THEN {1 << bit} ELSE 0 END" for bit, name in enumerate(COUNTS))
_ROLLED = f"session, person, model, branch, variant, messages, {_COUNTS}"
_DAY = f"(quarter - ((quarter % {_QUARTERS}) + {_QUARTERS}) % {_QUARTERS})"
# Units of sums, the largest first, and their quarters of an hour. The first unit since 1970 is read by smaller ones: the
# first quarter has what has no time.
_UNITS = (("week", _WEEK), ("day", _QUARTERS), ("quarter", 1))
# Asked for once, and not for each sum.
_CHOSEN = "coalesce(visibility, (SELECT orgs.visibility FROM orgs WHERE orgs.id = $1))"
# The same on both databases, and by the case of letters.
_IS_OTHER = f"replace(model, '{CLAUDE_NAME}', '') = model"
Span = tuple[int | None, int | None]


class UsageQuestion(NamedTuple):
    """What sums are asked for, within ``times`` (milliseconds).

    ``by``: the keys of the report, None for every key and quarter. ``changes``: quarters at which prices change; sums
    never reach over one of them, and only those of Claude models over one of ``other_changes``. ``reader``: for whom names of
    sessions that they may not see are hidden. ``person``: only the usage of that member. ``models``: only these, in sums of responses
    that use the same classes of tokens; before ``held``, where the responses were dropped, by what roll-ups say.
    """

    times: Span
    by: Sequence[str] | None
    changes: Sequence[int]
    other_changes: Sequence[int] = ()
    reader: SessionReader | None = None
    person: str | None = None
    models: Sequence[str] = ()
    held: int = 0


def usage_query(asked: UsageQuestion) -> tuple[str, list[str]]:
    """The query, and its values after ``$1``, the organisation."""
    times, by, reader, person = asked.times, asked.by, asked.reader, asked.person
    keys = (*_OF_SESSIONS, "session", "person", "branch") if by is None else tuple(by)
    changes, other_changes = _inside(asked.changes, times), _inside(asked.other_changes, times)
    if not any(name in keys for name in ("session", "branch", *_OF_SESSIONS)):
        reader = None  # no session is named
    values = [*([] if reader is None else [reader.user]), *([] if person is None else [person])]
    only = "" if person is None else f" AND {{}}person = ${len(values) + 1}"
    of_models = ", ".join(
        f"${number}" for number in range(len(values) + 2, len(values) + 2 + len(asked.models))
    )
    values += asked.models
    time = "quarter" if by is None else _epoch(changes, other_changes, is_daily="day" in by)
    told = [*(["user_id", "visibility"] if reader is not None else []), *_of(keys, _OF_SESSIONS)]
    kept = [*told, *_of(keys, ("session", "person", "branch")), "model", "variant"]
    units = _UNITS[2 if by is None else 1 if {"session", "day"} & set(by) else 0 :]
    both = sorted({*changes, *other_changes})
    parts = " UNION ALL ".join(
        _by_class(times, asked.held, both, only, kept, units, of_models)
        if of_models
        else _parts(times, both, only, kept, units)
    )
    time += ", classes" if of_models else ""
    # First by what is in the tables: what a reader may see is decided for few rows then.
    inner = (
        f"SELECT min(quarter) AS quarter, CAST($1 AS TEXT) AS org, {', '.join(kept)}, {_SUMS}{', classes' * bool(of_models)}"  # noqa: S608 - constants
        f" FROM ({parts}) AS every"
        f" GROUP BY {', '.join(kept)}, {time}"
    )
    names = _names(keys, reader)
    joins = " LEFT JOIN users ON users.id = sessions.person" if "person" in keys else ""
    found = f"FROM ({inner}) AS sessions{joins}"
    if {"branch", "session"} & set(keys):  # hardly any two become one: not worth a second look at each
        return f"SELECT quarter, {', '.join(names)}, messages, {_COUNTS} {found}", values
    # By number: an expression with a subquery cannot be repeated.
    grouped = ", ".join(str(place) for place, name in enumerate(names, 2) if name != "NULL")
    sql = f"SELECT min(quarter), {', '.join(names)}, {_SUMS} {found} GROUP BY {grouped}, {time}"
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


def _parts(
    times: Span, changes: Sequence[int], only: str, kept: Sequence[str], units: Sequence[tuple[str, int]]
) -> Iterator[str]:
    """The selects that together give usage from ``since`` up to ``until``."""
    since, until = times
    first = None if since is None else -(-since // QUARTER_MS)
    last = None if until is None else until // QUARTER_MS
    if first is not None and last is not None and first > last:
        yield _named(_responses(last, since or 0, until or 0, only), kept)
        return
    # Usage without a time is neither before nor after anything.
    is_timed = first is not None or last is not None
    for span in pairwise((first, *changes, last)):
        for unit, *bounds in _covered(span, units):
            yield _rolled(
                unit,
                (bounds[0], bounds[1]),
                only.format(""),
                kept,
                is_timed=is_timed,
                is_exact=len(units) == 1,
            )
    if since is not None and first is not None and first * QUARTER_MS > since:
        yield _named(_responses(first - 1, since, first * QUARTER_MS, only), kept)
    if until is not None and last is not None and until > last * QUARTER_MS:
        yield _named(_responses(last, last * QUARTER_MS, until, only), kept)


def _by_class(  # noqa: PLR0917 - the parts of one query
    times: Span,
    held: int,
    changes: Sequence[int],
    only: str,
    kept: Sequence[str],
    units: Sequence[tuple[str, int]],
    models: str,
) -> Iterator[str]:
    """The selects for some models: from the responses as far as they are held, else from sums, of one class as a whole."""
    since, until = times
    if held and (since is None or since < held):
        end = held if until is None else min(until, held)
        before = [change for change in changes if change * QUARTER_MS < end]
        for part in _parts((since, end), before, f"{only} AND {{}}model IN ({models})", kept, units):
            yield f"SELECT one.*, 0 AS classes FROM ({part}) AS one"  # noqa: S608 - constants
        since = held
    if until is not None and since is not None and since >= until:
        return
    is_timed = times != (None, None)
    at = "coalesce(own.at, 0)"
    quarter = f"({at} - (({at} % {QUARTER_MS}) + {QUARTER_MS}) % {QUARTER_MS}) / {QUARTER_MS}"
    span = _within("own.at", (since, until))
    if not is_timed and since is not None:  # what has no time is never dropped
        span = f" AND (own.at IS NULL OR own.at >= {int(since)})"
    if is_timed:
        span += f" AND (own.at < 0 OR own.at >= {QUARTER_MS})"
    said = _said(quarter, span + only.format("own."), models)
    yield f"SELECT one.*, {_CLASSES} AS classes FROM ({_named(said, kept)}) AS one"  # noqa: S608 - constants


def _covered(span: Span, units: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int | None, int | None]]:
    """The units that together are a span of quarters: as many of the largest as there are, and smaller ones at its ends."""
    first, last = span
    (unit, size), *smaller = units
    if size == 1:
        yield unit, first, last
        return
    start = None if first is None else -(-first // size)
    end = None if last is None else last // size
    if start is not None and end is not None and start >= end:
        yield from _covered(span, smaller)
        return
    for before, after in (
        (start, 0 if end is None else min(end, 0)),
        (1 if start is None else max(start, 1), end),
    ):
        if before is None or after is None or before < after:
            yield unit, before, after
    if (start is None or start <= 0) and (end is None or end > 0):
        yield from _covered((0, size), smaller)
    if start is not None and first is not None and start * size > first:
        yield from _covered((first, start * size), smaller)
    if end is not None and last is not None and last > end * size:
        yield from _covered((end * size, last), smaller)


def _rolled(unit: str, span: Span, only: str, kept: Sequence[str], *, is_timed: bool, is_exact: bool) -> str:
    """The sums of a span. A session is told of once for its quarters of a day, unless each of them is asked for."""
    if unit != "quarter" and "session" not in kept:
        days = _WEEK // _QUARTERS if unit == "week" else 1
        names = ", ".join(f"{_CHOSEN} AS visibility" if name == "visibility" else name for name in kept)
        return (
            f"SELECT period * {days * _QUARTERS} AS quarter, {names}, messages, {_COUNTS} FROM rollup_named"  # noqa: S608 - constants
            f" WHERE org = $1 AND days = {days} AND messages <> 0{_within('period', span)}{only}"
        )
    if unit == "day":
        days_of = f"SELECT day * {_QUARTERS} AS quarter, {_ROLLED} FROM rollup_day WHERE org = $1"  # noqa: S608 - constants
        return _named(f"{days_of}{_within('day', span)}{only}", kept)
    timed = " AND quarter <> 0" if is_timed else ""
    quarters = f"SELECT quarter, {_ROLLED} FROM rollup WHERE org = $1{timed}{_within('quarter', span)}{only}"  # noqa: S608 - constants
    if not is_exact and not set(TOLD).isdisjoint(kept):
        quarters = (
            f"SELECT min(quarter) AS quarter, session, person, model, branch, variant, {_SUMS} FROM ({quarters}) AS one"  # noqa: S608 - constants
            f" GROUP BY session, person, model, branch, variant, {_epoch((), is_daily=True)}"
        )
    return _named(quarters, kept)


def _named(sums: str, kept: Sequence[str]) -> str:
    """Sums by session, with what is told of the sessions where that is needed."""
    told = {name: f"named.{name}" for name in TOLD}
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


def _responses(quarter: int, since: int, until: int, only: str) -> str:
    """Usage within a quarter of an hour, response by response."""
    month = month_of(quarter * QUARTER_MS, quarter * QUARTER_MS)
    span = f" AND own.said IN ({month}, {NO_MONTH}){_within('own.at', (since, until))}"
    return _said(str(int(quarter)), span + only.format("own."))


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
