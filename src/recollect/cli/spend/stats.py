"""Show what was done and what it cost: periods, hours, sessions, tools, caching.

Today, this week against the last one, and all time; the busiest hours; the top
sessions; projects and repositories; tools with calls, failures, retries and
time; sub-agents; what caching saved. Money is what `recollect cost` says. A
retry is a call right after a failed call of the same tool; time runs from a
call to its result. The home screen of the page shows the same document.

--since and --until apply to everything except the periods, rounded to 15
minutes. Updates the index first, then reads it; changes nothing else.

Example:
  recollect stats
  recollect stats --since 30d
  recollect stats -p shop --json
"""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.index_options import asked_index
from recollect.cli.terminal.options import SINCE, UNTIL
from recollect.cli.terminal.tables import fitted_table
from recollect.cli.terminal.text import counted, padded, shortened, visible, width
from recollect.model import timespan
from recollect.model.cost.cents import PICO, dollars
from recollect.model.ids import short_id
from recollect.services.cost.report import zone_of
from recollect.services.documents.cost.stats import StatsDocument, StatToolDocument
from recollect.services.stats.stats import stats

_SHOWN = 8
_TITLE_COLUMNS = 60
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SHADES = " ░▒▓█"
_PERIODS = {
    "today": "today",
    "yesterday": "yesterday",
    "this_week": "this week",
    "last_week_so_far": "last week so far",
    "last_week": "last week",
    "all_time": "all time",
}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--since", metavar="DATE", help=SINCE)
    parser.add_argument("--until", metavar="DATE", help=UNTIL)
    parser.add_argument(
        "--timezone", metavar="ZONE", help="time zone of days: Europe/Berlin, UTC, local (default)"
    )
    parser.add_argument("-p", "--project", help="only this directory (path or part of its name)")
    parser.add_argument("--no-refresh", action="store_true", help="do not update the index first")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    homes = [home.path for home in chosen_homes(options.homes) if home.exists]
    now = dt.datetime.now(dt.UTC)
    since, until = timespan.bounds(options.since, options.until, now, zone_of(options.timezone))
    options.no_index = False
    with asked_index(options, homes) as opened:
        found = stats(
            homes,
            opened,
            since=since,
            until=until,
            project=options.project,
            timezone=options.timezone,
            now=now,
            data=change_plans.own_data(options),
        )
    if options.json:
        output.print_json(found)
        return 0
    for line in _lines(found):
        output.say(line)
    return 0


def _lines(found: StatsDocument) -> Iterator[str]:
    periods = [
        [
            _PERIODS[one.name],
            _money(one.cost_usd, one.unpriced_responses),
            f"{one.sessions:,}",
            f"{one.responses:,}",
            f"{one.edits:,}",
            f"{one.commits:,}",
        ]
        for one in found.periods
    ]
    yield from _table("Periods", ["", "cost", "sessions", "responses", "edits", "commits"], periods)
    yield from _hours(found)
    top = [
        [
            f"{visible(short_id(one.id))}  {shortened(visible(one.title or ''), _TITLE_COLUMNS)}".rstrip(),
            _money(one.cost_usd, one.unpriced_responses),
        ]
        for one in found.top.by_cost[:_SHOWN]
    ]
    yield from _table("Top sessions", ["", "cost"], top)
    for title, groups in (("Projects", found.projects), ("Repositories", found.repositories)):
        rows = [
            [visible(one.name), f"{one.sessions:,}", _money(one.cost_usd, one.unpriced_responses)]
            for one in groups[:_SHOWN]
        ]
        yield from _table(title, ["", "sessions", "cost"], rows)
    heads = ["", "calls", "failed", "retries", "time"]
    yield from _table("Tools", heads, [_tool(one) for one in found.tools[:_SHOWN]])
    yield from _table("Sub-agents", heads, [_tool(one) for one in found.agents.types[:_SHOWN]])
    yield ""
    if found.cache.saved_usd is not None:
        yield f"Caching saved {_money(found.cache.saved_usd)} of {_money(found.cache.uncached_usd)}."
    yield from _doubts(found)


def _tool(one: StatToolDocument) -> list[str]:
    seconds = one.duration_ms // 1000
    took = f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return [visible(one.name), f"{one.calls:,}", f"{one.failures:,}", f"{one.retries:,}", took]


def _table(title: str, heads: list[str], rows: Sequence[list[str]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield output.styled(title, "bold")
    table = fitted_table([heads, *rows], 1, output.columns(), ())
    widths = [max(map(width, cells)) for cells in zip(*table, strict=True)]
    for row in table:
        figures = [" " * (wide - width(cell)) + cell for cell, wide in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join([padded(row[0], widths[0]), *figures]).rstrip()


def _hours(found: StatsDocument) -> Iterator[str]:
    if not found.hours:
        return
    most = max(one.responses for one in found.hours)
    cells = {(one.weekday, one.hour): one.responses for one in found.hours}
    yield ""
    yield output.styled("Responses by weekday and hour (0 to 23)", "bold")
    for weekday, name in enumerate(_DAYS):
        shades = (_shade(cells.get((weekday, hour), 0), most) for hour in range(24))
        yield f"{name}  {''.join(shades)}".rstrip()


def _shade(number: int, most: int) -> str:
    return _SHADES[-(-number * (len(_SHADES) - 1) // most)]


def _money(usd: str | None, unpriced: int = 0) -> str:
    from decimal import Decimal

    if usd is None:
        return "unpriced" if unpriced else "unknown"
    return dollars(int(Decimal(usd) * PICO)) + (" + unpriced" if unpriced else "")


def _doubts(found: StatsDocument) -> Iterator[str]:
    about = found.uncertainty
    if about.uncertain_responses:
        yield (
            f"{_money(about.uncertain_usd)} of it is a lower bound: the client did not record all output of"
            f" {counted(about.uncertain_responses, 'response')}."
        )
    if about.unpriced_responses:
        names = ", ".join(map(visible, about.unpriced))
        yield f"{counted(about.unpriced_responses, 'response')} without a price: {names}."
    if about.unrecorded_sessions:
        what = counted(about.unrecorded_sessions, "session")
        yield f"No usage recorded in {what} of other agents: cost unknown."
    if about.deleted_sessions:
        yield f"{_money(about.deleted_usd)} is of {counted(about.deleted_sessions, 'deleted session')}."
