"""Usage in SQL, summed as far as a report needs it: by its keys, and by what prices depend on.

Whole days come from ``rollup_day``, whole quarters of an hour at both ends from ``rollup``, and what is left from
the responses themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.index.schema import QUARTER_MS
from recollect.model.cost.copies import MAIN
from recollect.server.database.records import SessionReader
from recollect.server.database.sql_tables import COUNTS
from recollect.server.database.sql_visibility import named_to, seen_by

_QUARTERS = 96  # of a day
HIDDEN = "(private)"
_OF_SESSIONS = ("project", "repository", "machine")
_COUNTS = ", ".join(COUNTS)
_SUMS = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("messages", *COUNTS))
_ROLLED = f"session, person, model, branch, variant, messages, {_COUNTS}"
_DAY = f"(quarter - ((quarter % {_QUARTERS}) + {_QUARTERS}) % {_QUARTERS})"
Span = tuple[int | None, int | None]


def usage_query(
    times: Span,
    by: Sequence[str] | None,
    changes: Sequence[int],
    reader: SessionReader | None = None,
    person: str | None = None,
) -> tuple[str, list[str]]:
    """The query for sums within ``times`` (milliseconds), and its values after ``$1``, the organisation.

    ``by``: the keys of the report, None for every key and quarter. ``changes``: quarters at which prices change; sums
    never reach over one of them. ``reader``: for whom names of sessions that they may not see are hidden.
    ``person``: only the usage of that member.
    """
    keys = (*_OF_SESSIONS, "session", "person", "branch") if by is None else tuple(by)
    changes = _inside(changes, times)
    if not any(name in keys for name in ("session", "branch", *_OF_SESSIONS)):
        reader = None  # no session is named
    values = [*([] if reader is None else [reader.user]), *([] if person is None else [person])]
    is_joined = reader is not None or any(name in keys for name in _OF_SESSIONS)
    is_coarse = by is not None and not any(change % _QUARTERS for change in changes)
    time = "quarter" if by is None else _epoch(changes, is_daily="day" in by)
    kept = [
        name if is_kept else f"NULL AS {name}"
        for name, is_kept in (
            ("session", is_joined or "session" in keys),
            ("person", "person" in keys),
            ("branch", "branch" in keys),
        )
    ]
    inner_keys = ", ".join(name for name in (*kept, "model", "variant") if not name.startswith("NULL"))
    only = "" if person is None else f" AND {{}}person = ${len(values) + 1}"
    parts = " UNION ALL ".join(_parts(*times, only, is_coarse=is_coarse))
    # Sums by session are summed again after the join: those of quarters first, of days only once.
    inner = (
        f"SELECT quarter, {', '.join(kept)}, model, variant, messages, {_COUNTS} FROM ({parts}) AS every"  # noqa: S608 - constants
        if is_joined and is_coarse and " FROM rollup WHERE" not in parts
        else f"SELECT min(quarter) AS quarter, {', '.join(kept)}, model, variant, {_SUMS} FROM ({parts}) AS every"  # noqa: S608 - constants
        f" GROUP BY {inner_keys}, {time}"
    )
    names = _names(keys, reader)
    joins = " LEFT JOIN sessions ON sessions.org = $1 AND sessions.id = sums.session" if is_joined else ""
    joins += " LEFT JOIN users ON users.id = sums.person" if "person" in keys else ""
    # By number: an expression with a subquery cannot be repeated.
    grouped = ", ".join(str(place) for place, name in enumerate(names, 2) if name != "NULL")
    sql = (
        f"SELECT min(quarter), {', '.join(names)}, {_SUMS} FROM ({inner}) AS sums{joins}"  # noqa: S608 - constants
        f" GROUP BY {grouped}, {time}"
    )
    return sql, values


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
    shown = {name: name if name == "session" else f"sessions.{name}" for name in ("session", *_OF_SESSIONS)}
    shown["branch"] = "sums.branch"
    if reader is not None:
        for name, text in shown.items():
            is_told = named_to("$2") if name in ("project", "repository") else seen_by(reader, "$2")
            shown[name] = f"CASE WHEN {is_told} THEN {text} ELSE '{HIDDEN}' END"
    chosen = {name: text if name in keys else "NULL" for name, text in shown.items()}
    person = "users.name" if "person" in keys else "NULL"
    sessions = [chosen[name] for name in ("session", *_OF_SESSIONS)]
    return [*sessions, person, "model", chosen["branch"], "variant"]


def _epoch(changes: Sequence[int], *, is_daily: bool) -> str:
    """What sums of different prices, and with ``is_daily`` of different days, differ in. Usage without a time is in
    quarter 0."""
    if is_daily:
        return f"{_DAY}, CASE WHEN quarter = 0 THEN 0 ELSE 1 END{_passed(changes)}"
    return f"CASE WHEN quarter = 0 THEN 0 ELSE 1 END{_passed(changes)}"


def _passed(changes: Sequence[int]) -> str:
    return "".join(f" + CASE WHEN quarter >= {int(change)} THEN 1 ELSE 0 END" for change in changes)


def _parts(since: int | None, until: int | None, only: str, *, is_coarse: bool) -> list[str]:
    """The selects that together give usage from ``since`` up to ``until``."""
    first = None if since is None else -(-since // QUARTER_MS)
    last = None if until is None else until // QUARTER_MS
    # Usage without a time is neither before nor after anything.
    is_timed = first is not None or last is not None
    if first is not None and last is not None and first > last:
        return [_responses(last, since or 0, until or 0, only)]
    parts = [
        part + only.format("") for part in _rolled((first, last), is_timed=is_timed, is_coarse=is_coarse)
    ]
    if since is not None and first is not None and first * QUARTER_MS > since:
        parts.append(_responses(first - 1, since, first * QUARTER_MS, only))
    if until is not None and last is not None and until > last * QUARTER_MS:
        parts.append(_responses(last, last * QUARTER_MS, until, only))
    return parts


def _rolled(span: Span, *, is_timed: bool, is_coarse: bool) -> list[str]:
    first, last = span
    days: Span = (
        None if first is None else -(-first // _QUARTERS),
        None if last is None else last // _QUARTERS,
    )
    if not is_coarse or (days[0] is not None and days[1] is not None and days[0] >= days[1]):
        return [_quarters(span, is_timed=is_timed)]
    # The first day of 1970 is read by quarters: its first has what has no time.
    parts = [
        f"SELECT day * {_QUARTERS} AS quarter, {_ROLLED} FROM rollup_day WHERE org = $1 AND day <> 0{_within('day', days)}"  # noqa: S608 - constants
    ]
    if (days[0] is None or days[0] <= 0) and (days[1] is None or days[1] > 0):
        parts.append(_quarters((0, _QUARTERS), is_timed=is_timed))
    if days[0] is not None and first is not None and days[0] * _QUARTERS > first:
        parts.append(_quarters((first, days[0] * _QUARTERS), is_timed=is_timed))
    if days[1] is not None and last is not None and last > days[1] * _QUARTERS:
        parts.append(_quarters((days[1] * _QUARTERS, last), is_timed=is_timed))
    return parts


def _quarters(span: Span, *, is_timed: bool) -> str:
    timed = " AND quarter <> 0" if is_timed else ""
    return f"SELECT quarter, {_ROLLED} FROM rollup WHERE org = $1{timed}{_within('quarter', span)}"  # noqa: S608 - constants


def _within(name: str, span: Span) -> str:
    first, last = span
    text = "" if first is None else f" AND {name} >= {int(first)}"
    return text if last is None else f"{text} AND {name} < {int(last)}"


def _responses(quarter: int, since: int, until: int, only: str) -> str:
    """Usage within a quarter of an hour, response by response."""
    return (
        f"SELECT {int(quarter)} AS quarter, own.session, own.person, said.model, own.branch, said.variant,"  # noqa: S608 - constants
        f" 1 AS messages, {', '.join(f'said.{name}' for name in COUNTS)} FROM usage AS own JOIN usage AS said"
        " ON said.org = own.org AND said.message = own.message AND said.counted >= 2"
        f" AND (own.speaker <> {MAIN} OR said.request = own.request)"
        f" WHERE own.org = $1 AND own.counted % 2 = 1 AND own.at >= {int(since)} AND own.at < {int(until)}{only.format('own.')}"
    )
