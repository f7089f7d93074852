"""The command ``list``: sessions, newest first."""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence

from recollect.ask.list import ListQuery, Repository, SessionList, by_repository, list_sessions
from recollect.ask.sessions.projects import ProjectFilter
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
from recollect.cli.terminal.rows import print_csv, session_rows, wants_csv
from recollect.cli.terminal.text import counted, visible
from recollect.errors import UsageError
from recollect.index.refresh import FirstNeed
from recollect.model.session import SessionSummary
from recollect.system.locations import HomeRoot

_SHOWN = 30


def add_options(parser: ArgumentParser) -> None:
    add_project(parser)
    add_span(parser)
    parser.add_argument("--by", choices=["repo"], help="group the sessions by repository")
    parser.add_argument(
        "-n", "--limit", type=int, metavar="N", help=f"list at most N sessions (default {_SHOWN})"
    )
    flag(parser, "--all", "list all sessions")
    add_index_options(parser)
    add_json(parser, csv=True)


def run(options: Namespace) -> int:
    now = dt.datetime.now(dt.UTC)
    query = _query(options, now)
    roots = chosen_homes(options.homes)
    is_short = query.limit is not None and not query.is_filtered
    need = FirstNeed(query.since) if is_short or (query.since and not query.in_project) else None
    with asked_index(options, [root.path for root in roots if root.exists], need) as opened:
        answer = list_sessions(roots, opened, query)
    if options.by == "repo":
        answer = by_repository(answer)
    if wants_csv(options):
        print_csv(answer.sessions)
    elif options.json:
        output.print_json(answer)
    else:
        repositories = answer.repositories or ()
        if not repositories:
            _say(answer.sessions, now)
        for repository in repositories:
            output.say(_heading(repository))
            _say((one for one in answer.sessions if one.repo == repository.repo), now)
        _remark(roots, answer, query.is_filtered)
    return 0


def _query(options: Namespace, now: dt.datetime) -> ListQuery:
    in_project = ProjectFilter(options.project).fits if options.project else None
    since, until = span_of(options, now)
    return ListQuery(in_project, since, until, _limit(options), options.json or options.csv)


def _limit(options: Namespace) -> int | None:
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit {options.limit}: must be 1 or more", hint="leave it out, or use --all")
    if options.all or ((options.json or options.csv) and options.limit is None):
        return None
    return options.limit or _SHOWN


def _heading(group: Repository) -> str:
    name = visible(group.repo) or "(unknown directory)"
    parts = [counted(group.sessions, "session")]
    parts += [f"{len(group.directories):,} directories"] if len(group.directories) > 1 else []
    return f"{output.styled(name, 'bold')}  ({', '.join(parts)})"


def _say(sessions: Iterable[SessionSummary], now: dt.datetime) -> None:
    for row in session_rows([*sessions], now):
        output.say(row)


def _remark(roots: Sequence[HomeRoot], answer: SessionList, is_filtered: bool) -> None:
    shown, total = len(answer.sessions), answer.total
    if total > shown:
        output.note(f"{shown:,} of {total:,} sessions; --all shows the others")
    elif not total and is_filtered:
        output.note("No session matches.")
    elif not total and roots:
        looked = ", ".join(str(root.source or root.path) for root in roots)
        output.note(f"No sessions in {visible(looked)}. Name another home with --home DIR.")
