"""The command ``report``: what was done and what it cost."""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from decimal import Decimal

from recollect.ask.cost.report import zone_of
from recollect.ask.report.stats import StatsDocument, StatToolDocument, stats
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import asked_index, chosen_homes
from recollect.cli.terminal.options import add_json, add_project, add_span, flag, own_data, span_of
from recollect.cli.terminal.rows import aligned, fitted_table
from recollect.cli.terminal.text import counted, shortened, visible
from recollect.model.budget import PICO, dollars
from recollect.model.lines.ids import short_id

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
    add_span(parser)
    parser.add_argument(
        "--timezone", metavar="ZONE", help="time zone of days: Europe/Berlin, UTC, local (default)"
    )
    add_project(parser)
    flag(parser, "--no-refresh", "do not update the index first")
    add_json(parser)


def run(options: Namespace) -> int:
    homes = [home.path for home in chosen_homes(options.homes) if home.exists]
    now = dt.datetime.now(dt.UTC)
    since, until = span_of(options, now, zone_of(options.timezone))
    options.no_index = False
    with asked_index(options, homes) as opened:
        found = stats(
            opened,
            since=since,
            until=until,
            project=options.project,
            timezone=options.timezone,
            now=now,
            data=own_data(options),
        )
    if options.json:
        return output.print_json(found)
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
    yield from (row.rstrip() for row in aligned(fitted_table([heads, *rows], 1, output.columns(), ()), 1))


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
