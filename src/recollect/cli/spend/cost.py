"""Show tokens and cost by day, model, project or other keys.

Every response counts once, over all logs of all homes. Prices come from a list
in recollect; set your own in config.toml. A model without a price is named and
never counted as free. Updates the index first, then reads it; changes nothing
else. While a first index of many logs is built, in the background, it reads
the logs.

Keys for --by: day, week, month, session, project, repo (all worktrees of a
repository), model, branch, agent (main or a sub-agent), client (claude, codex),
tool (the first tool a response called), prompt (what you typed; sub-agents work
for the prompt of their session), block (five-hour windows), total. Several keys
are separated by commas.

If the client did not record everything, one line says that the total is a lower
bound, and why; --explain gives the details. --compare takes the report of
ccusage and explains each difference by session and cause.

--mode calculate: tokens times price; display: the cost the client recorded;
auto: tokens times price, the recorded cost where a model has no price, and rows
for what only the client's total counts.

Example:
  recollect cost
  recollect cost --by project,model --since 30d
  recollect cost --last-month --by repo,model
  recollect cost --this-week --by prompt --limit 10
  recollect cost --by session --csv > sessions.csv
  recollect cost --compare ccusage
  recollect cost --session 6ada00ba --by model --explain
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from recollect.cli.terminal import output
from recollect.cli.terminal.csv_tables import add_csv, print_csv, wants_csv
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.index_options import add_index_options, asked_index
from recollect.cli.terminal.options import SINCE, UNTIL
from recollect.cli.terminal.text import counted, padded, shortened, visible, width
from recollect.errors import UsageError
from recollect.model.cost.calendar import TIME_KEYS
from recollect.model.cost.cents import dollars
from recollect.model.cost.report import (
    KEYS,
    MODES,
    TOTAL,
    UNLOGGED,
    CostExplanation,
    CostReport,
    CostRow,
    UnpricedModel,
)
from recollect.services.cost.report import costs, prompt_titles, zone_of

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_SHOWN = 30
_KEY_COLUMNS = 44
_BAR_COLUMNS, _SHORTEST_BAR = 20, 5
_CAN_BE_MISSED = (
    "tokens/$",
    "seconds",
    "searches",
    "cache write",
    "cache read",
    "tokens/s",
    "input",
    "responses",
)
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NAMED = 3  # models named in a remark
_PERIODS = (
    "today",
    "yesterday",
    "this week",
    "last week",
    "this month",
    "last month",
    "this year",
    "last year",
)


def add_options(parser: ArgumentParser) -> None:
    keys = f"{', '.join(KEYS)} or {TOTAL}; separate several with commas (default day)"
    parser.add_argument("--by", action="append", metavar="KEYS", help=keys)
    parser.add_argument("--since", metavar="DATE", help=SINCE)
    parser.add_argument("--until", metavar="DATE", help=UNTIL)
    for period in _PERIODS:
        name = f"--{period.replace(' ', '-')}"
        parser.add_argument(name, dest="period", action="store_const", const=period, help=f"only {period}")
    parser.add_argument(
        "--timezone", metavar="ZONE", help="time zone of days: Europe/Berlin, UTC, local (default)"
    )
    parser.add_argument("-p", "--project", help="only this directory (path or part of its name)")
    parser.add_argument("--model", help="only models whose name contains this")
    parser.add_argument("--session", metavar="S", help="only this session: id, start of an id, title, path")
    parser.add_argument(
        "--mode",
        choices=MODES,
        default=MODES[0],
        help="how costs are found, see above (default calculate)",
    )
    parser.add_argument(
        "--compare",
        metavar="ccusage|FILE",
        help="explain the differences from ccusage, which is run, or from its JSON (session --json)",
    )
    parser.add_argument("--explain", action="store_true", help="explain the figures of each row")
    parser.add_argument(
        "--performance", action="store_true", help="add speed of answers and tokens per dollar"
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help=f"show at most N rows (default on a terminal: {_SHOWN})"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_csv(parser)
    add_index_options(parser)


def run(options: Namespace) -> int:
    by = _keys(options.by)
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit {options.limit}: must be 1 or more", hint="leave it out for all rows")
    if options.compare is not None:
        from recollect.cli.spend.compare import compare

        return compare(options, lambda: _report(options, ("session", "project", "model")))
    report = _report(options, by)
    if wants_csv(options) or options.json:
        from recollect.services.documents.cost.report import cost_document

        document = cost_document(report, _limited(report, options.limit), options.timezone)
        if options.csv:
            print_csv(document.rows)
        else:
            output.print_json(document)
        return 0
    rows = _limited(report, _limit(options))
    for line in _table(report, rows):
        output.say(line)
    for remark in _remarks(report, len(rows), is_explained=options.explain):
        output.note(remark)
    return 0


def _keys(texts: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(key.strip() for text in texts or ["day"] for key in text.split(",") if key.strip())


def _report(options: Namespace, by: tuple[str, ...]) -> CostReport:
    homes = [home.path for home in chosen_homes(options.homes) if home.exists]
    now = dt.datetime.now(dt.UTC)
    first, last = options.since or options.period or None, options.until or options.period or None
    if options.period and (options.since or options.until):
        raise UsageError(
            f"--{options.period.replace(' ', '-')}: is a start and an end",
            hint="leave out --since and --until",
        )
    since = until = None
    if first or last:
        from recollect.model import timespan

        since, until = timespan.bounds(first, last, now, zone_of(options.timezone))
    # The logs give every sum but those by prompt, long before a first index of many of them is built.
    is_first_awaited = "prompt" in by
    with (
        asked_index(options, homes, is_first_awaited=is_first_awaited) as opened,
        _progress(opened.database is None) as progress,
    ):
        report = costs(
            homes,
            by,
            opened=opened,
            since=since,
            until=until,
            timezone=options.timezone,
            project=options.project,
            model=options.model,
            session=options.session,
            data=options.data,
            mode=options.mode,
            explain=options.explain,
            performance=options.performance,
            now=now,
            progress=progress,
        )
        return prompt_titles(report, _limited(report, _limit(options)), opened)


def _limit(options: Namespace) -> int | None:
    """How many rows are shown; a document has all of them."""
    is_table = sys.stdout.isatty() and not options.json and not options.csv
    return options.limit or (_SHOWN if is_table else None)


def _progress(is_scan: bool) -> AbstractContextManager[Callable[[int, int], None] | None]:
    """A progress bar if the logs are read without the index."""
    return output.progress_bar("reading") if is_scan else nullcontext()


def _limited(report: CostReport, limit: int | None) -> Sequence[CostRow]:
    """The newest rows if rows are times, else the most expensive, those first."""
    if limit is None or len(report.rows) <= limit:
        return report.rows
    is_by_time = bool(report.by) and report.by[0] in TIME_KEYS
    if is_by_time:
        return report.rows[-limit:]
    # Rows are sorted by the total of their first key, so the first ones need not be the most expensive.
    return sorted(report.rows, key=_row_cost, reverse=True)[:limit]


def _row_cost(row: CostRow) -> tuple[int, int]:
    return row.pico_usd, row.tokens.total


# --- text -------------------------------------------------------------------------------------------


def _table(report: CostReport, rows: Sequence[CostRow]) -> Iterator[str]:
    if not report.rows:
        yield "No usage."
        return
    from recollect.cli.terminal.tables import fitted_table

    heads = [*(report.by or ("",)), *_heads(report)]
    is_only = len(report.rows) == 1
    cells = [
        [*_names(report.by, row, report.titles, is_only=is_only), *_figures(report, row)] for row in rows
    ]
    totals = [TOTAL, *[""] * (len(report.by) - 1), *_figures(report, report.totals)]
    names, room = max(len(report.by), 1), output.columns()
    heads, *cells, totals = fitted_table([heads, *cells, totals], names, room, _CAN_BE_MISSED)
    widths = [max(width(line[at]) for line in (heads, *cells, totals)) for at in range(len(heads))]
    most = max((row.pico_usd for row in rows), default=0)
    longest = 0 if room is None else min(_BAR_COLUMNS, room - sum(widths) - 2 * len(widths))
    yield output.styled(_aligned(heads, widths, names), "bold")
    for row, line in zip(rows, cells, strict=True):
        yield f"{_aligned(line, widths, names)}  {_bar(row.pico_usd, most, longest)}{_row_remark(row)}".rstrip()
        if row.explanation is not None and not row.is_unlogged:
            yield from _explained(row.explanation)
    if report.by or not is_only:
        yield output.styled(_aligned(totals, widths, names) + _row_remark(report.totals), "bold")
        if report.totals.explanation is not None:
            yield from _explained(report.totals.explanation)


def _heads(report: CostReport) -> list[str]:
    heads = ["responses", "input", "output", "cache write", "cache read"]
    heads += ["searches"] * bool(report.totals.tokens.web_searches)
    heads += ["cost"]
    if report.totals.performance is not None:
        heads += ["seconds", "tokens/s", "tokens/$"]
    return heads


def _name(key: str, value: str, titles: Mapping[str, str]) -> str:
    """A key as people know it: a session with its title, a prompt by what was typed."""
    if key == "session":
        from recollect.model.ids import short_id

        return f"{short_id(value)}  {titles[value]}" if value in titles else short_id(value)
    return titles.get(value, value) if key == "prompt" else value


def _names(by: Sequence[str], row: CostRow, titles: Mapping[str, str], *, is_only: bool) -> list[str]:
    names = [visible(_name(key, row.keys[key], titles)) for key in by]
    if not by and not is_only:
        names = ["not in the log" if row.is_unlogged else "in the log"]
    return [shortened(name, _KEY_COLUMNS) for name in names] or [TOTAL]


def _figures(report: CostReport, row: CostRow) -> list[str]:
    tokens = row.tokens
    counts = [row.responses, tokens.input, tokens.output, tokens.cache_write_5m + tokens.cache_write_1h]
    counts += [tokens.cache_read] + [tokens.web_searches] * bool(report.totals.tokens.web_searches)
    figures = [f"{count:,}" for count in counts] + ["-" if row.is_unknown else dollars(row.pico_usd)]
    speed = row.performance
    if speed is not None:
        figures += [f"{speed.duration_ms / 1000:,.0f}", _rate(speed.tokens_per_second, 1)]
        figures += [_rate(speed.tokens_per_dollar, 0)]
    return figures


def _rate(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _aligned(cells: Sequence[str], widths: Sequence[int], names: int) -> str:
    """Names left-aligned, figures right-aligned."""
    pairs = list(zip(cells, widths, strict=True))
    left = [padded(cell, columns) for cell, columns in pairs[:names]]
    right = [" " * (columns - width(cell)) + cell for cell, columns in pairs[names:]]
    return "  ".join([*left, *right])


def _bar(amount: int, most: int, longest: int) -> str:
    if longest < _SHORTEST_BAR or amount <= 0:
        return ""
    eighths = max(amount * longest * 8 // most, 1)
    bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    if "utf" not in (sys.stdout.encoding or "").lower():
        bar = "#" * (eighths // 8)
    return output.styled(bar, "green")


def _row_remark(row: CostRow) -> str:
    remarks = [UNLOGGED] * row.is_unlogged
    remarks += [f"{row.unpriced_responses:,} unpriced"] * bool(row.unpriced_responses)
    remarks += [f"{row.unrecorded_responses:,} not recorded"] * bool(row.unrecorded_responses)
    block = row.block
    if block is not None and block.is_active:
        remarks.append(f"running: {block.minutes_left} min left, {block.tokens_per_minute:,} tokens/min")
        if not row.is_unknown:
            hourly, projected = block.pico_usd_per_hour or 0, block.projected_pico_usd or 0
            remarks.append(f"{dollars(hourly)}/h, {dollars(projected)} at its end")
    return f"  {', '.join(remarks)}" if remarks else ""


def _explained(why: CostExplanation) -> Iterator[str]:
    more = f" and {why.logs - len(why.paths):,} more" if why.logs > len(why.paths) else ""
    yield f"    from {counted(why.logs, 'log')}: {', '.join(map(visible, why.paths))}{more}"
    yield f"    {counted(why.copies_dropped, 'repeated line')} not counted twice"
    for price in why.prices:
        yield f"    price of {visible(price)}"
    if why.uncertain_responses:
        yield f"    {counted(why.uncertain_responses, 'response')} with uncertain counts"
    if why.unrecorded_responses and not why.recorded_pico_usd:
        yield "    the client recorded no cost"
        return
    missing = f", {counted(why.unrecorded_responses, 'response')} without a record" * bool(
        why.unrecorded_responses
    )
    difference = dollars(why.difference_pico_usd)
    yield f"    the client recorded {dollars(why.recorded_pico_usd)}{missing}; difference {difference}"


# --- remarks ----------------------------------------------------------------------------------------


def _remarks(report: CostReport, shown: int, *, is_explained: bool) -> Iterator[str]:
    if shown < len(report.rows):
        which = "newest" if report.by[0] in TIME_KEYS else "most expensive"
        yield f"the {which} {shown:,} of {len(report.rows):,} rows; --limit N or --json shows others"
    doubts = list(_doubts(report))
    if doubts:
        yield f"at least {dollars(report.totals.pico_usd)}: {'; '.join(doubts)}"
    if report.unpriced and is_explained:
        yield from _unpriced(report.unpriced)
    for one in report.uncertain if is_explained else ():
        versions = f" (client {', '.join(map(visible, one.versions))})" if one.versions else ""
        yield (
            f"{visible(one.model)}: {counted(one.responses, 'response')} with uncertain counts{versions}: the client"
            f" recorded no final output, or a tier without a list price; the {one.output_tokens:,} output"
            " tokens are a lower bound"
        )
    if report.gone:
        yield (
            f"{counted(report.gone, 'session')} deleted from the home but still in the totals;"
            " --no-index leaves them out"
        )
    yield from map(visible, report.notes)


def _doubts(report: CostReport) -> Iterator[str]:
    """Why the total is only a lower bound."""
    every = report.totals.responses
    if report.uncertain_responses:
        share = _share(report.uncertain_responses, every)
        yield f"{share} of responses carry no final output count"
    if report.unpriced:
        names = [visible(one.model) for one in report.unpriced]
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        missing = sum(one.responses for one in report.unpriced)
        yield f"{counted(missing, 'response')} of {', '.join(names[:_NAMED])}{more} without a price (see --explain)"
    if report.totals.unrecorded_responses:
        missing = report.totals.unrecorded_responses
        yield f"{counted(missing, 'response')} without a recorded cost (--mode calculate prices them)"


def _share(part: int, whole: int) -> str:
    """Never 0 % or 100 % of something that is neither."""
    if part >= whole:
        return "all"
    return f"{min(max(round(100 * part / whole), 1), 99)} %"


def _unpriced(models: Iterable[UnpricedModel]) -> Iterator[str]:
    from recollect.system.locations import config_file

    for one in models:
        yield (
            f"{visible(one.model)} has no price: {counted(one.responses, 'response')},"
            f" {one.tokens.total:,} tokens are not in the cost"
        )
    yield f'  set one: add a section [prices."name"] with input and output to {visible(str(config_file()))}'


# --- JSON -------------------------------------------------------------------------------------------
