"""List sessions, newest first, with their sub-agents folded into a count.

Looks at the first and last lines of each log. --json also counts messages, which reads
every listed log once, and says what each session cost (a response that a fork copied counts
for the session it was made in); it lists all unless --limit is given.
--since and --until keep the sessions that were worked on in that time. --by repo puts the
sessions of all worktrees of one repository together, also of worktrees that are gone. Writes nothing.

Example:
  recollect list --since 7d
  recollect list --by repo
  recollect list -p shop --limit 5 --json
"""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from recollect.cli.terminal import dates, output
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.plans import own_cache
from recollect.cli.terminal.text import ago, counted, padded, shortened, size, visible
from recollect.errors import RecollectError, UsageError
from recollect.services.documents import sessions as documents
from recollect.services.homes import Home
from recollect.services.repositories import RepositoryFinder, RepositoryGroup
from recollect.services.session import Session
from recollect.storage.home import ClaudeHome

_SHOWN = 30
# Sessions are put in order by what their entries say (S11). Where there are very many, only so many of
# the newest files are looked at: a file is never older than its last entry.
_CANDIDATES = 500
_TITLE_COLUMNS = 44


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("-p", "--project", help="only sessions of this directory, or of directories so named")
    parser.add_argument("--since", metavar="DATE", help="2026-01-31, 20260131, 7d, 12h, yesterday, today")
    parser.add_argument("--until", metavar="DATE", help="the same; a day counts to its end")
    parser.add_argument("--by", choices=["repo"], help="group the sessions by repository")
    parser.add_argument("--limit", type=int, metavar="N", help=f"at most so many (default {_SHOWN})")
    parser.add_argument("--all", action="store_true", help="no limit")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    """Print the sessions."""
    limit = _limit(options)
    home = open_home(options.homes)
    now = dt.datetime.now(dt.UTC)
    filtered = bool(options.project or options.since or options.until)
    found = list(_in_time(home.sessions(options.project), options, now))
    total = len(found)
    if limit is not None and not filtered:
        found = found[: max(_CANDIDATES, limit)]
    readable = list(_readable(found))
    chosen = sorted(readable, key=_last_at, reverse=True)[:limit]
    agents, live = _agents(chosen), home.live_ids()
    groups = RepositoryFinder().groups(chosen) if options.by == "repo" else None
    if options.json:
        rows = _rows(options, chosen, agents, live)
        output.print_json(_document(chosen, rows, total, groups))
        return 0
    for group in groups if groups is not None else [RepositoryGroup("", chosen, [])]:
        if groups is not None:
            output.say(_heading(group))
        for session in group.sessions:
            output.say(_line(session, agents[session.id], session.id in live, now))
    _remark(home, len(chosen), total - (len(found) - len(readable)), filtered)
    return 0


def _limit(options: Namespace) -> int | None:
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit {options.limit}: must be 1 or more", hint="leave it out, or use --all")
    if options.all or (options.json and options.limit is None):
        return None
    return options.limit or _SHOWN


def _in_time(sessions: Iterable[Session], options: Namespace, now: dt.datetime) -> Iterator[Session]:
    """Those whose time, from first to last entry, touches the time asked for."""
    start = dates.since(options.since, now) if options.since else None
    end = dates.until(options.until, now) if options.until else None
    if start is None and end is None:
        yield from sessions
        return
    for session in _readable(sessions):
        first, last = session.glance.first_at or _last_at(session), _last_at(session)
        if (start is None or last >= start) and (end is None or first < end):
            yield session


def _readable(sessions: Iterable[Session]) -> Iterator[Session]:
    """Sessions whose log can be looked at; of the others a remark is made."""
    for session in sessions:
        try:
            _ = session.glance
        except RecollectError as problem:
            output.note(visible(f"left out: {problem.message}"))
            continue
        yield session


def _last_at(session: Session) -> dt.datetime:
    return session.glance.last_at or dt.datetime.fromtimestamp(session.file.mtime_ns / 1e9, dt.UTC)


def _agents(sessions: list[Session]) -> Counter[str]:
    """How many sub-agents each session has. Each project is looked through once, not once a session."""
    wanted: dict[tuple[Path, Path], ClaudeHome] = {
        (session.home.root, session.path.parent): session.home for session in sessions
    }
    found: Counter[str] = Counter()
    homes = {home.root: home for home in wanted.values()}
    for home in homes.values():
        for project in home.projects():
            if (home.root, project.path) in wanted:
                found.update(str(agent.owner()) for agent in home.project_agents(project))
    return found


def _rows(
    options: Namespace, sessions: list[Session], agents: Counter[str], live: set[str]
) -> list[documents.ListedSessionDocument]:
    rows = []
    spent = _spent(options, sessions)
    size_of_all, done = sum(session.file.size for session in sessions), 0
    with output.progress_bar("counting") as progress:
        for session in sessions:
            rows.append(
                documents.listed_session(
                    session,
                    agents=agents[session.id],
                    live=session.id in live,
                    spent=spent.get(session.id, {}),
                )
            )
            done += session.file.size
            if progress is not None:
                progress(done, size_of_all)
    return rows


def _document(
    sessions: list[Session],
    rows: list[documents.ListedSessionDocument],
    total: int,
    groups: list[RepositoryGroup] | None,
) -> documents.ListDocument:
    """With ``--by repo`` also the repository of each session, and the repositories."""
    if groups is None:
        return documents.ListDocument(rows, total)
    repo_of = {id(session): group.repo for group in groups for session in group.sessions}
    rows = [replace(row, repo=repo_of[id(session)]) for session, row in zip(sessions, rows, strict=True)]
    repositories = [
        documents.RepositoryDocument(group.repo, len(group.sessions), group.directories) for group in groups
    ]
    return documents.ListDocument(rows, total, repositories)


def _spent(options: Namespace, sessions: list[Session]) -> dict[str, dict[str, int | None]]:
    """What each session cost by model, None where that has no price, as `recollect cost` counts it."""
    from recollect.services.cost.recent import index_at_hand
    from recollect.services.cost.report import costs

    if not sessions:
        return {}
    homes = list({session.home.root: None for session in sessions})
    size_of_all = sum(session.file.size for session in sessions)
    with index_at_hand(homes, size_of_all, cache=own_cache(options)) as opened:
        report = costs(homes, ["session", "model"], opened=opened)
    spent: dict[str, dict[str, int | None]] = {}
    for row in report.rows:
        amounts = spent.setdefault(row.keys["session"], {})
        amounts[row.keys["model"]] = None if row.unpriced_messages else row.pico_usd
    return spent


def _heading(group: RepositoryGroup) -> str:
    name = visible(group.repo) or "(no directory named)"
    parts = [counted(len(group.sessions), "session")]
    parts += [f"{len(group.directories):,} directories"] if len(group.directories) > 1 else []
    return f"{output.styled(name, 'bold')}  ({', '.join(parts)})"


def _line(session: Session, agents: int, live: bool, now: dt.datetime) -> str:
    title = padded(shortened(visible(session.title) or "(no title)", _TITLE_COLUMNS), _TITLE_COLUMNS)
    marks = [output.styled("live", "green")] if live else []
    marks += [counted(agents, "agent")] if agents else []
    marks += [f"#{visible(session.glance.tag)}"] if session.glance.tag else []
    where = visible(session.cwd) or visible(session.path.parent.name)
    return "  ".join(
        [
            output.styled(padded(visible(session.id[:8]), 8), "cyan"),
            f"{ago(_last_at(session), now):>13}",
            f"{size(session.file.size):>8}",
            title,
            where,
            *marks,
        ]
    )


def _remark(home: Home, shown: int, total: int, filtered: bool) -> None:
    for problem in (problem for one in home.homes for problem in one.problems):
        output.note(visible(f"could not be read: {problem.path}: {problem.reason}"))
    if total > shown:
        output.note(f"{shown:,} of {total:,} sessions; --all shows the others")
    elif not total and filtered:
        output.note("No session fits.")
    elif not total:
        looked = ", ".join(str(root.path) for root in home.roots) or "~/.claude and ~/.config/claude"
        output.note(f"No sessions: looked in {visible(looked)}. Name another home with --home DIR.")
