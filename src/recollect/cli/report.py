"""The command ``report``: what was done in a time and what it cost, on one page."""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from recollect.ask.cost.report import zone_of
from recollect.ask.report.stats import stats
from recollect.ask.report.work import ProjectWork, SessionWork, WorkReport, report_work
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import asked_index, chosen_homes
from recollect.cli.terminal.options import (
    add_index_options,
    add_json,
    add_limit,
    add_project,
    add_span,
    flag,
    own_data,
    span_of,
)
from recollect.cli.terminal.rows import aligned, fitted_table
from recollect.cli.terminal.text import counted, visible
from recollect.errors import UsageError
from recollect.model.budget import dollars
from recollect.model.cost.money import Usd
from recollect.model.lines.ids import short_id
from recollect.model.text import timespan

_SHOWN = 8
_HEADS = ["", "cost", "time", "edits", "commits", "failed"]
_CAN_BE_MISSED = ("failed", "commits", "edits", "time")


def add_options(parser: ArgumentParser) -> None:
    add_span(parser)
    parser.add_argument(
        "--timezone", metavar="ZONE", help="time zone of days: Europe/Berlin, UTC, local (default)"
    )
    add_project(parser)
    add_limit(parser, f"at most N sessions of a project (default {_SHOWN})", _SHOWN)
    flag(parser, "--md", "Markdown, to paste")
    flag(parser, "--figures", "as JSON: days, hours, models, tools, sub-agents, what caching saved")
    add_index_options(parser)
    add_json(parser)


def run(options: Namespace) -> int:
    if options.limit < 1:
        raise UsageError(f"--limit {options.limit}: at least 1 is shown", hint=f"leave it out for {_SHOWN}")
    homes = [home.path for home in chosen_homes(options.homes) if home.exists]
    now, zone = dt.datetime.now(dt.UTC), zone_of(options.timezone)
    since, until = span_of(options, now, zone)
    if options.figures:
        with asked_index(options, homes) as opened:
            figures = stats(
                opened,
                since=since,
                until=until,
                project=options.project,
                timezone=options.timezone,
                now=now,
                data=own_data(options),
            )
        return output.print_json(figures)
    if since is None and until is None:
        since = timespan.since("7d", now, zone)
    with asked_index(options, homes) as opened:
        report = report_work(opened, since=since, until=until, project=options.project)
    if options.json:
        return output.print_json(report)
    lines = _markdown(report, options.limit, zone) if options.md else _lines(report, options.limit, zone)
    for line in lines:
        output.say(line)
    return 0


def _lines(report: WorkReport, limit: int, zone: dt.tzinfo | None) -> Iterator[str]:
    yield output.styled(_title(report, zone), "bold")
    yield _sum(report)
    yield ""
    rows, breaks = [_HEADS], set[int]()
    for project in report.projects:
        breaks.add(len(rows))
        rows.append(_row(visible(project.project), project))
        rows += [_row(f"  {_name(session)}", session) for session in project.sessions[:limit]]
        if len(project.sessions) > limit:
            more = counted(len(project.sessions) - limit, "session")
            rows.append([f"  and {more} more", *[""] * (len(_HEADS) - 1)])
    for number, line in enumerate(aligned(fitted_table(rows, 1, output.columns(), _CAN_BE_MISSED), 1)):
        style = "bold" if number in breaks else "dim"
        yield output.styled(line.rstrip(), style) if number in breaks or not number else line.rstrip()
    yield from _notes(report)


def _markdown(report: WorkReport, limit: int, zone: dt.tzinfo | None) -> Iterator[str]:
    """A heading for each project and a line for each session."""
    yield f"# {_title(report, zone)}"
    yield f"\n{_sum(report)}"
    for project in report.projects:
        yield f"\n## {_escaped(project.project)}: {_money(project.usd)}, {_time(project.minutes)}\n"
        for session in project.sessions[:limit]:
            done = ", ".join([_money(session.usd), _time(session.minutes), *_work(session)])
            yield f"- {_escaped(session.title) or short_id(session.id)} ({done})"
        if len(project.sessions) > limit:
            yield f"- and {counted(len(project.sessions) - limit, 'session')} more"
    yield from _notes(report)


def _title(report: WorkReport, zone: dt.tzinfo | None) -> str:
    first = "" if report.since is None else f"{report.since.astimezone(zone):%Y-%m-%d}"
    if report.until is None:
        return f"Since {first}" if first else "All time"
    last = f"{(report.until - dt.timedelta(seconds=1)).astimezone(zone):%Y-%m-%d}"
    return first if first == last else f"{first or 'The beginning'} to {last}"


def _sum(report: WorkReport) -> str:
    parts = [_money(report.usd), counted(report.sessions, "session"), _time(report.minutes), *_work(report)]
    return ", ".join(parts)


def _work(of: WorkReport | SessionWork) -> list[str]:
    known = ((of.edits, "edit"), (of.commits, "commit"), (of.failures, "failed call"))
    return [counted(count, what) for count, what in known if count]


def _notes(report: WorkReport) -> Iterator[str]:
    if report.failed_tools:
        most = ", ".join(f"{visible(tool)} {count:,}" for tool, count in report.failed_tools[:_SHOWN])
        yield f"\nFailed most: {most}"
    if report.unrecorded_sessions:
        what = counted(report.unrecorded_sessions, "session")
        yield f"\nNo usage recorded in {what} of other agents: cost unknown."
    if report.unpriced:
        yield f"\nWithout a price, and not in the sums: {', '.join(map(visible, report.unpriced))}"


def _row(name: str, of: ProjectWork | SessionWork) -> list[str]:
    figures = (of.edits, of.commits, of.failures)
    return [name, _money(of.usd), _time(of.minutes), *(f"{figure:,}" if figure else "" for figure in figures)]


def _name(session: SessionWork) -> str:
    return f"{visible(short_id(session.id))}  {visible(session.title)}".rstrip()


def _escaped(text: str) -> str:
    """A title as plain text in Markdown."""
    return "".join(
        f"\\{character}" if character in "\\`*_[]<>#|!" else character for character in visible(text)
    )


def _money(usd: Usd | None) -> str:
    return "unknown" if usd is None else dollars(usd.pico)


def _time(minutes: int) -> str:
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d}"
