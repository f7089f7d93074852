"""The command ``cost``: tokens and money by day, model, project and other keys."""

from __future__ import annotations

import datetime as dt
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET, UnsetType, structs

import recollect
from recollect.ask.cost.report import costs, prompt_titles, zone_of
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import asked_index, chosen_homes
from recollect.cli.terminal.options import (
    add_index_options,
    add_json,
    add_project,
    add_span,
    flag,
    span_of,
)
from recollect.cli.terminal.rows import aligned, fitted_table, print_csv, wants_csv
from recollect.cli.terminal.text import counted, model_name, shortened, visible, width
from recollect.errors import UsageError
from recollect.index.refresh import FirstNeed
from recollect.model.budget import dollars
from recollect.model.cost.calendar import TIME_KEYS
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
from recollect.model.lines.ids import short_id
from recollect.system.locations import config_file

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
_CLASSES = ("input", "output", "cache write (5 min)", "cache write (1 h)", "cache read", "searches")
_NAMED = 3  # models named in a remark


def add_options(parser: ArgumentParser) -> None:
    keys = f"{', '.join(KEYS)} or {TOTAL}; separate several with commas (default day)"
    parser.add_argument("--by", action="append", metavar="KEYS", help=keys)
    add_span(parser)
    parser.add_argument(
        "--timezone", metavar="ZONE", help="time zone of days: Europe/Berlin, UTC, local (default)"
    )
    add_project(parser)
    parser.add_argument("--model", help="only models whose name contains this")
    parser.add_argument("--session", metavar="S", help="only this session: id, start of an id, title, path")
    parser.add_argument(
        "--mode",
        choices=MODES,
        default=MODES[0],
        help="how costs are found, see above (default calculate)",
    )
    flag(parser, "--explain", "explain the figures of each row")
    flag(parser, "--performance", "add speed of answers and tokens per dollar")
    parser.add_argument(
        "-n", "--limit", type=int, metavar="N", help=f"show at most N rows (default on a terminal: {_SHOWN})"
    )
    add_json(parser, csv=True)
    add_index_options(parser)


def run(options: Namespace) -> int:
    by = tuple(key.strip() for text in options.by or ["day"] for key in text.split(",") if key.strip())
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit {options.limit}: must be 1 or more", hint="leave it out for all rows")
    report = _report(options, by)
    if wants_csv(options) or options.json:
        report = structs.replace(report, rows=tuple(_limited(report, options.limit)))
        if options.csv:
            print_csv(report.rows)
        else:
            output.print_json(report)
        return 0
    rows = _limited(report, _limit(options))
    for line in _table(report, rows):
        output.say(line)
    for remark in _remarks(report, len(rows), is_explained=options.explain):
        output.note(remark)
    return 0


def _report(options: Namespace, by: tuple[str, ...]) -> CostReport:
    homes = [home.path for home in chosen_homes(options.homes) if home.exists]
    now = dt.datetime.now(dt.UTC)
    since, until = span_of(options, now, zone_of(options.timezone))
    # What is asked of a time is in the logs that changed since; where a block begins depends on what was before.
    is_of_those = since is not None and options.mode == "calculate" and not options.explain
    is_of_those = is_of_those and not {"block", "prompt"} & set(by)
    need = FirstNeed(since, seconds=0.0) if is_of_those else None
    with asked_index(options, homes, need) as opened:
        report = costs(
            by,
            opened=opened,
            since=since,
            until=until,
            timezone=options.timezone,
            project=options.project,
            model=options.model,
            session=options.session,
            named=lambda name: recollect.Home(*homes, data=options.data).session(name).id,
            mode=options.mode,
            explain=options.explain,
            performance=options.performance,
            now=now,
        )
        return prompt_titles(report, _limited(report, _limit(options)), opened)


def _limit(options: Namespace) -> int | None:
    """How many rows are shown; a document has all of them."""
    is_table = sys.stdout.isatty() and not options.json and not options.csv
    return options.limit or (_SHOWN if is_table else None)


def _limited(report: CostReport, limit: int | None) -> Sequence[CostRow]:
    """The newest rows if rows are times, else the most expensive, those first."""
    if limit is None or len(report.rows) <= limit:
        return report.rows
    is_by_time = bool(report.by) and report.by[0] in TIME_KEYS
    if is_by_time:
        return report.rows[-limit:]
    # Rows are sorted by the total of their first key, so the first ones need not be the most expensive.
    return sorted(report.rows, key=lambda row: (row.pico_usd, row.tokens.total), reverse=True)[:limit]


# --- text -------------------------------------------------------------------------------------------


def _table(report: CostReport, rows: Sequence[CostRow]) -> Iterator[str]:
    if not report.rows:
        yield "No usage."
        return

    heads = [*(report.by or ("",)), *_heads(report)]
    is_only = len(report.rows) == 1
    names = [_names(report.by, row, is_only=is_only) for row in rows]
    if len({*map(tuple, names)}) < len(names):  # two versions of a model have one name
        names = [_names(report.by, row, is_only=is_only, is_long=True) for row in rows]
    cells = [[*name, *_figures(report, row)] for name, row in zip(names, rows, strict=True)]
    totals = [TOTAL, *[""] * (len(report.by) - 1), *_figures(report, report.totals)]
    keys, room = max(len(report.by), 1), output.columns()
    first, *lines, last = aligned(fitted_table([heads, *cells, totals], keys, room, _CAN_BE_MISSED), keys)
    most = max((row.pico_usd for row in rows), default=0)
    longest = 0 if room is None else min(_BAR_COLUMNS, room - width(first) - 2)
    yield output.styled(first, "bold")
    for row, line in zip(rows, lines, strict=True):
        yield f"{line}  {_bar(row.pico_usd, most, longest)}{_row_remark(row)}".rstrip()
        if row.explain and not row.is_unlogged:
            yield from _explained(row.explain)
    if report.by or not is_only:
        yield output.styled(last + _row_remark(report.totals), "bold")
        if report.totals.explain:
            yield from _explained(report.totals.explain)


def _heads(report: CostReport) -> list[str]:
    heads = ["responses", "input", "output", "cache write", "cache read"]
    heads += ["searches"] * bool(report.totals.tokens.web_searches)
    heads += ["cost"]
    if report.totals.duration_ms is not UNSET:
        heads += ["seconds", "tokens/s", "tokens/$"]
    return heads


def _name(key: str, row: CostRow, *, is_long: bool) -> str:
    """A key as people know it: a session with its title, a prompt by what was typed, a model without its maker."""
    value = row.keys[key]
    if key == "model" and not is_long:
        return model_name(value)
    if key == "session":
        return f"{short_id(value)}  {row.title}" if row.title else short_id(value)
    return (row.typed or value) if key == "prompt" else value


def _names(by: Sequence[str], row: CostRow, *, is_only: bool, is_long: bool = False) -> list[str]:
    names = [visible(_name(key, row, is_long=is_long)) for key in by]
    if not by and not is_only:
        names = ["not in the log" if row.is_unlogged else "in the log"]
    return [shortened(name, _KEY_COLUMNS) for name in names] or [TOTAL]


def _figures(report: CostReport, row: CostRow) -> list[str]:
    tokens = row.tokens
    counts = [row.responses, tokens.input, tokens.output, tokens.cache_write_5m + tokens.cache_write_1h]
    counts += [tokens.cache_read] + [tokens.web_searches] * bool(report.totals.tokens.web_searches)
    figures = [f"{count:,}" for count in counts] + ["-" if row.usd is None else dollars(row.pico_usd)]
    if row.duration_ms is not UNSET:
        figures += [f"{row.duration_ms / 1000:,.0f}", _rate(row.tokens_per_second, 1)]
        figures += [_rate(row.tokens_per_dollar, 0)]
    return figures


def _rate(value: float | UnsetType | None, digits: int) -> str:
    return f"{value:,.{digits}f}" if isinstance(value, float) else "-"


def _bar(amount: int, most: int, longest: int) -> str:
    if longest < _SHORTEST_BAR or amount <= 0:
        return ""
    eighths = max(amount * longest * 8 // most, 1)
    bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    if "utf" not in (sys.stdout.encoding or "").lower():
        bar = "#" * (eighths // 8)
    return output.styled(bar, "green")


def _row_remark(row: CostRow) -> str:
    remarks = [UNLOGGED] if row.is_unlogged else []
    remarks += [f"{row.unpriced_responses:,} unpriced"] * bool(row.unpriced_responses)
    remarks += [f"{row.unrecorded_responses:,} not recorded"] if row.unrecorded_responses else []
    if row.is_active:
        remarks.append(f"running: {row.minutes_left} min left, {row.tokens_per_minute or 0:,} tokens/min")
    if row.cost_usd_per_hour is not UNSET and row.projected_cost_usd is not UNSET:
        hourly, projected = row.cost_usd_per_hour.pico, row.projected_cost_usd.pico
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
    if why.unrecorded_responses and not why.recorded_cost_usd:
        yield "    the client recorded no cost"
        return
    missing = f", {counted(why.unrecorded_responses, 'response')} without a record" * bool(
        why.unrecorded_responses
    )
    difference = dollars(why.difference_usd.pico)
    yield f"    the client recorded {dollars(why.recorded_cost_usd.pico)}{missing}; difference {difference}"


# --- remarks ----------------------------------------------------------------------------------------


def _remarks(report: CostReport, shown: int, *, is_explained: bool) -> Iterator[str]:
    if shown < len(report.rows):
        which = "newest" if report.by[0] in TIME_KEYS else "most expensive"
        yield f"the {which} {shown:,} of {len(report.rows):,} rows; --limit N or --json shows others"
    doubts = list(_doubts(report))
    if doubts:
        more = _estimated_more(report)
        about = "" if more is None else f", about {dollars(report.totals.pico_usd + more)}"
        yield f"at least {dollars(report.totals.pico_usd)}{about}: {'; '.join(doubts)}"
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


def _estimated_more(report: CostReport) -> int | None:
    """Pico-dollars that the responses without a final count cost more, if they were like the others; None where that is not known of all."""
    amounts = [one.estimated_more_usd for one in report.uncertain]
    known = [amount.pico for amount in amounts if amount is not UNSET]
    return sum(known) if known and len(known) == len(amounts) else None


def _doubts(report: CostReport) -> Iterator[str]:
    """Why the total is only a lower bound."""
    every = report.totals.responses
    if report.uncertain_responses:
        share = _share(report.uncertain_responses, every)
        likeness = ", taken to be as long as the others" if _estimated_more(report) is not None else ""
        yield f"the final output count of {share} of responses is not known{likeness}"
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
    for one in models:
        parts = zip(_CLASSES, one.tokens.counts, strict=True)
        missing = ", ".join(f"{count:,} {name}" for name, count in parts if count)
        yield f"{visible(one.model)}: {counted(one.responses, 'response')} without a price for {missing or 'no tokens'}, which are not in the cost"
    yield f'  set one: add a section [prices."name"] with input and output to {visible(str(config_file()))}'
