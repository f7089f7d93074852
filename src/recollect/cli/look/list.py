"""List sessions, newest first, each with its number of sub-agents.

The list comes from the index; --no-index reads the logs instead. --json adds
counts and cost of each session (a response that a fork copied counts only for
its original session) and lists all sessions unless you give --limit. Sessions
that exist only in the archive are listed and marked, and so are forks of Codex
whose beginning is in a session that is not here ("beginning lost"). --since and
--until select sessions that were active in that time. --by repo groups the
sessions of all worktrees of a repository, deleted worktrees too. Changes
nothing.

Example:
  recollect list --since 7d
  recollect list --by repo
  recollect list --since "last month" --csv > sessions.csv
  recollect list -p shop --limit 5 --json
"""

from __future__ import annotations

import contextlib
import datetime as dt
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.terminal import output
from recollect.cli.terminal.change_plans import own_cache, own_data
from recollect.cli.terminal.csv_tables import add_csv, print_csv, wants_csv
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.index_options import add_index_options, asked_index
from recollect.cli.terminal.options import SINCE, UNTIL
from recollect.cli.terminal.session_rows import session_rows
from recollect.cli.terminal.text import counted, visible
from recollect.errors import UsageError
from recollect.services.indexing.access import OpenIndex
from recollect.services.indexing.at_hand import index_at_hand
from recollect.services.list import ListedSession, ListQuery, SessionListResult, listed
from recollect.system.locations import HomeRoot

if TYPE_CHECKING:
    from recollect.services.documents.sessions import ListDocument
    from recollect.services.repositories import RepositoryGroup

_SHOWN = 30


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("-p", "--project", help="only sessions of this directory (path or part of its name)")
    parser.add_argument("--since", metavar="DATE", help=SINCE)
    parser.add_argument("--until", metavar="DATE", help=UNTIL)
    parser.add_argument("--by", choices=["repo"], help="group the sessions by repository")
    parser.add_argument("--limit", type=int, metavar="N", help=f"list at most N sessions (default {_SHOWN})")
    parser.add_argument("--all", action="store_true", help="list all sessions")
    add_index_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_csv(parser)


def run(options: Namespace) -> int:
    now = dt.datetime.now(dt.UTC)
    query = _query(options, now)
    roots = chosen_homes(options.homes)
    with (
        _index(options, [root.path for root in roots if root.exists]) as opened,
        output.progress_bar("counting") as progress,
    ):
        found = listed(roots, opened, query, data=own_data(options), progress=progress)
    groups = _groups(found.sessions) if options.by == "repo" else None
    if wants_csv(options):
        print_csv(_document(found, groups).sessions)
    elif options.json:
        output.print_json(_document(found, groups))
    elif groups is None:
        _say(found.sessions, now)
    else:
        for group in groups:
            output.say(_heading(group))
            _say(group.sessions, now)
    _remark(roots, found, query.is_filtered, is_told=not options.json and not options.csv)
    return 0


def _query(options: Namespace, now: dt.datetime) -> ListQuery:
    in_project = since = until = None
    if options.project:
        from recollect.services.projects import ProjectFilter

        in_project = ProjectFilter(options.project).fits
    if options.since or options.until:
        from recollect.model import timespan

        since, until = timespan.bounds(options.since or None, options.until or None, now)
    is_full = options.json or options.csv
    return ListQuery(in_project, since, until, _limit(options), is_full, is_full)


def _limit(options: Namespace) -> int | None:
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit {options.limit}: must be 1 or more", hint="leave it out, or use --all")
    if options.all or ((options.json or options.csv) and options.limit is None):
        return None
    return options.limit or _SHOWN


@contextlib.contextmanager
def _index(options: Namespace, homes: Sequence[Path]) -> Iterator[OpenIndex]:
    """The index as the options ask for it. A list does not wait for the first index of many logs."""
    if options.no_index or options.no_refresh:
        with asked_index(options, homes) as opened:
            yield opened
        return
    with (
        output.progress_bar("indexing") as progress,
        index_at_hand(homes, cache=own_cache(options), progress=progress) as opened,
    ):
        for remark in opened.notes:
            output.note(visible(remark))
        yield opened


def _groups(sessions: list[ListedSession]) -> list[RepositoryGroup]:
    from recollect.services.repositories import RepositoryFinder

    return RepositoryFinder().groups(sessions)


def _document(found: SessionListResult, groups: list[RepositoryGroup] | None) -> ListDocument:
    """With ``--by repo`` also the repository of each session, and all repositories."""
    from msgspec.structs import replace

    from recollect.services.documents import sessions as documents

    rows = [documents.listed_session(one) for one in found.sessions]
    if groups is None:
        return documents.ListDocument(rows, found.total)
    repo_of = {id(session): group.repo for group in groups for session in group.sessions}
    pairs = zip(found.sessions, rows, strict=True)
    rows = [replace(row, repo=repo_of[id(session)]) for session, row in pairs]
    repositories = [
        documents.RepositoryDocument(group.repo, len(group.sessions), group.directories) for group in groups
    ]
    return documents.ListDocument(rows, found.total, repositories)


def _heading(group: RepositoryGroup) -> str:
    name = visible(group.repo) or "(unknown directory)"
    parts = [counted(len(group.sessions), "session")]
    parts += [f"{len(group.directories):,} directories"] if len(group.directories) > 1 else []
    return f"{output.styled(name, 'bold')}  ({', '.join(parts)})"


def _say(sessions: list[ListedSession], now: dt.datetime) -> None:
    for row in session_rows(sessions, now):
        output.say(row)


def _remark(roots: Sequence[HomeRoot], found: SessionListResult, is_filtered: bool, *, is_told: bool) -> None:
    for path, reason in found.left_out:
        output.note(visible(f"could not be read: {path}: {reason}"))
    shown, total = len(found.sessions), found.total
    if not is_told:
        return
    if total > shown:
        output.note(f"{shown:,} of {total:,} sessions; --all shows the others")
    elif not total and is_filtered:
        output.note("No session matches.")
    elif not total and roots:
        looked = ", ".join(str(root.source or root.path) for root in roots)
        output.note(f"No sessions in {visible(looked)}. Name another home with --home DIR.")
