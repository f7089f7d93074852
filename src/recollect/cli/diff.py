"""The command ``diff``: what sessions changed in files, in one diff for each file."""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs, to_builtins

from recollect.ask.blame.changes import FileNetChange, net_changes
from recollect.ask.blame.sessions import sessions_naming
from recollect.ask.homes import Homes
from recollect.ask.list import touches
from recollect.ask.sessions.projects import ProjectFilter
from recollect.ask.sessions.session import Session
from recollect.cli.files import is_file_name
from recollect.cli.terminal import output
from recollect.cli.terminal.options import add_json, add_project, add_span, flag, span_of
from recollect.cli.terminal.rows import print_data, wants_csv
from recollect.cli.terminal.sessions import named_session, note_unreadable, open_home
from recollect.cli.terminal.text import counted, visible, visible_lines
from recollect.errors import NotFound, UsageError

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="S|PATH", nargs="?", help="a session, a file or a directory")
    parser.add_argument("--path", metavar="P", help="only files whose path is P, ends in P or lies in P")
    add_span(parser)
    add_project(parser)
    flag(parser, "--stat", "only the files, with lines added and removed")
    add_json(parser, csv=True)


def run(options: Namespace) -> int:
    since, until = span_of(options, dt.datetime.now(dt.UTC))
    if not (options.what or options.path or since or until or options.project):
        raise UsageError(
            "diff: no session, time or path was named", hint="for example: recollect diff --since yesterday"
        )
    path = options.path
    if options.what is None or _is_path(options.what):
        path = path or (None if options.what is None else str(Path(options.what).expanduser().absolute()))
        home = open_home(options.homes)
        found = net_changes(
            _sessions(home, path, since, until, options.project), since=since, until=until, path=path
        )
        note_unreadable(home)
    else:
        found = net_changes([named_session(options, options.what)], since=since, until=until, path=path)
    if path and not found.files:
        raise NotFound(
            f"{path}: no session changed it there and then", hint="leave out --path, or name another time"
        )
    if wants_csv(options) or options.json:
        rows = [to_builtins(structs.replace(change, diff=None)) for change in found.files]
        print_data(options, found, rows)
        return 0
    for change in found.files:
        output.say(_head(change), "bold")
        for line in () if options.stat else _diff(change):
            output.say(line)
    where = f"of {counted(found.sessions, 'session')}, " if found.sessions != 1 else ""
    output.say(
        f"{counted(len(found.files), 'file')} changed, {where}+{found.added:,} -{found.removed:,}", "dim"
    )
    return 0


def _is_path(named: str) -> bool:
    return is_file_name(named) or Path(named).expanduser().is_dir()


def _sessions(
    home: Homes, path: str | None, since: dt.datetime | None, until: dt.datetime | None, project: str | None
) -> Iterator[Session]:
    """The sessions that may have changed such a file in that time."""
    wanted = None if project is None else ProjectFilter(project)
    name = Path(path).name if path and not Path(path).is_dir() else None
    for session in home.sessions() if name is None else sessions_naming(home, name):
        if since is not None and session.path.stat().st_mtime < since.timestamp():
            continue
        if wanted is not None and not wanted.fits(session.cwd):
            continue
        glance = session.glance
        last = glance.last_at or dt.datetime.fromtimestamp(session.path.stat().st_mtime, dt.UTC)
        if touches(glance.first_at, last, since, until):
            yield session


def _head(change: FileNetChange) -> str:
    new = " (new)" if change.kind == "created" else " (deleted)" if change.kind == "deleted" else ""
    times = "" if change.changes == 1 else f", {change.changes} changes"
    return f"{visible(change.path)}{new}  +{change.added:,} -{change.removed:,}{times}"


def _diff(change: FileNetChange) -> Iterator[str]:
    if change.diff is None:
        yield output.styled(
            "  its content is not in the logs: the lines are those of the single changes", "dim"
        )
        return
    for line in filter(None, change.diff.split("\n")[2:]):
        shown = visible_lines(line)
        yield output.styled(shown, _STYLES[shown[0]]) if shown[:1] in _STYLES else shown
