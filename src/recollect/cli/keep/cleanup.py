"""Archive old sessions, then move them to the trash. Nothing is lost.

A session is old if its last entry is older than --days (30); a log without any
entry is as old as its file. Sessions that a client has open, sessions tagged
`hold` (`recollect tag S hold`), links and sessions of other agents stay. Each
session is archived, read back and compared before it is moved. show, search and
cost still find it in the archive. Prints the plan; --apply carries it out and
prints how to undo it.

--schedule makes it run by itself: it adds a hook to the user settings of the
client, which cleans up when a session ends, and prints a cron line that does
the same. --auto is what they run: it needs no --apply, and does nothing if it
last ran less than a day ago.

Example:
  recollect cleanup --days 90
  recollect cleanup --days 90 -p shop --apply
  recollect cleanup --days 90 --schedule --apply
"""

from __future__ import annotations

import datetime as dt
import shlex
from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import chosen_homes, open_home, settings_home
from recollect.cli.terminal.text import ago, counted, padded, session_names, shortened, size, visible
from recollect.errors import UsageError
from recollect.services import undo
from recollect.services.archive import archive
from recollect.services.archive.cleanup import CleanupCandidate, CleanupResult, candidates, clean_up
from recollect.services.archive.cleanup import is_due as is_due_now
from recollect.services.documents.changes.keeping import (
    CleanupDocument,
    CleanupScheduleDocument,
    cleanup_session,
)
from recollect.services.homes import Home
from recollect.services.settings import settings
from recollect.system.paths import CLAUDE
from recollect.system.scheduler import job_words

_TITLE_COLUMNS = 44


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--days", type=float, default=30.0, metavar="N", help="age in days (default 30)")
    parser.add_argument("-p", "--project", help="only sessions of this directory (path or part of its name)")
    parser.add_argument("--auto", action="store_true", help="carry it out, at most once a day")
    parser.add_argument("--schedule", action="store_true", help="let the client run it, once a day")
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    if options.days < 0:
        raise UsageError(
            f"--days {options.days:g}: must not be negative", hint="0 takes every session that is not open"
        )
    if options.schedule:
        return _schedule(options)
    now = dt.datetime.now(dt.UTC)
    data = change_plans.own_data(options)
    is_due = not options.auto or is_due_now(data)
    options.apply |= options.auto and is_due
    if options.apply:
        undo.recovered(data)  # a killed clean-up may have left half of a session
    home = open_home(options.homes)
    before = now - dt.timedelta(days=options.days)
    found = candidates(home.sessions(options.project), before) if is_due else []
    done = clean_up(found, archive.archive_at(data), data, now) if options.apply else None
    if options.json:
        output.print_json(_document(options, found, done))
    elif not is_due:
        output.say("Nothing to do: the last clean-up was less than a day ago")
    else:
        _tell(options, found, done, now)
        _tell_others(home)
    return 1 if done is not None and done.failed else 0


def _tell_others(home: Home) -> None:
    """Whose sessions were not looked at: nothing would say why they are not in the sum."""
    others = sorted({root.agent for root in home.roots if root.agent != CLAUDE})
    if others:
        output.note(
            f"Sessions of {', '.join(others)} are left alone: their clients keep them, and forks need them."
        )


def _schedule(options: Namespace) -> int:
    """Add a hook that runs the clean-up to the user settings of the client."""
    project = change_plans.option("--project", options.project) if options.project else []
    homes = [home.path for home in chosen_homes(options.homes) if home.exists]
    words = job_words(
        homes, change_plans.own_data(options), "cleanup", "--days", f"{options.days:g}", *project, "--auto"
    )
    line = shlex.join(words)
    hook = {"hooks": [{"type": "command", "command": line, "timeout": 600}]}
    home = settings_home(options.homes)
    change = settings.planned(home, ".", "user", "hooks.SessionEnd", hook, how="add")
    done = settings.changed(change.plan, change_plans.own_data(options)) if options.apply else None
    undo = change_plans.command(options, "undo", done.id, "--apply") if done else None
    if options.json:
        output.print_json(
            CleanupScheduleDocument(
                applied=done is not None, undo=undo, file=change.file, hook=hook, cron=f"17 4 * * * {line}"
            )
        )
        return 0
    if change.plan is None:
        output.say(f"The hook is already in {visible(str(change.file))}")
        return 0
    output.say(visible(f"{'Added' if done else 'Would add'} to hooks.SessionEnd in {change.file}: {line}"))
    output.say(visible(f"Or by cron (crontab -e): 17 4 * * * {line}"))
    again = change_plans.command(
        options, "cleanup", "--days", f"{options.days:g}", *project, "--schedule", "--apply"
    )
    change_plans.say_end(options, again, undo or "")
    return 0


def _document(
    options: Namespace, found: list[CleanupCandidate], done: CleanupResult | None
) -> CleanupDocument:
    return CleanupDocument(
        [cleanup_session(one) for one in found],
        done is not None,
        done.failed if done else (),
        done.emptied if done else (),
        _undo(options, done) if done else [],
    )


def _undo(options: Namespace, done: CleanupResult) -> list[str]:
    return [change_plans.command(options, "undo", done.undo, "--apply")] if done.batches else []


def _tell(
    options: Namespace, found: list[CleanupCandidate], done: CleanupResult | None, now: dt.datetime
) -> None:
    going = [one for one in found if one.kept_because is None]
    names = session_names(one.session.id for one in found)
    for one, name in zip(found, names, strict=True):
        title = padded(shortened(visible(one.session.title) or "(no title)", _TITLE_COLUMNS), _TITLE_COLUMNS)
        when = ago(one.last_at, now) if one.last_at else "no time"
        fate = (
            ""
            if one.kept_because is None
            else output.styled(f"  stays: {visible(one.kept_because)}", "yellow")
        )
        output.say(f"{output.styled(name, 'cyan')}  {when:>10}  {size(one.bytes):>8}  {title}{fate}")
    if done is None:
        output.say(
            f"{counted(len(going), 'session')}, {size(sum(one.bytes for one in going))} would be archived and moved to the trash"
        )
        more = change_plans.option("--project", options.project) if options.project else []
        again = change_plans.command(options, "cleanup", "--days", f"{options.days:g}", *more, "--apply")
        change_plans.say_end(options, again, "")
        return
    output.say(f"{counted(len(done.batches), 'session')} archived and moved to the trash")
    for problem in done.failed:
        output.note(visible(f"not moved: {problem.session}: {problem.reason}"))
    for line in _undo(options, done):
        output.say(f"Undo with: {line}")
