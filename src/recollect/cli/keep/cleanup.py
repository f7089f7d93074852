"""Archive old sessions, then move them to the trash. Nothing is lost.

A session is old if its last entry is older than --days (30). Sessions that a
client has open and sessions tagged `hold` (`recollect tag S hold`) stay.
Each session is archived, read back and compared before it is moved. show,
search and cost still find it in the archive. Prints the plan; --apply carries
it out and prints how to undo it.

Example:
  recollect cleanup --days 90
  recollect cleanup --days 90 -p shop --apply
"""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import output, plans
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import ago, counted, padded, shortened, size, visible
from recollect.errors import UsageError
from recollect.services import undo
from recollect.services.archive import archive
from recollect.services.archive.cleanup import CleanupCandidate, CleanupResult, candidates, clean_up
from recollect.services.documents.changes import CleanupDocument, cleanup_session

_TITLE_COLUMNS = 44


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--days", type=float, default=30.0, metavar="N", help="age in days (default 30)")
    parser.add_argument("-p", "--project", help="only sessions of this directory (path or part of its name)")
    plans.add_apply(parser)


def run(options: Namespace) -> int:
    if options.days < 0:
        raise UsageError(
            f"--days {options.days:g}: must not be negative", hint="0 takes every session that is not open"
        )
    now = dt.datetime.now(dt.UTC)
    data = plans.own_data(options)
    if options.apply:
        undo.recovered(data)  # a killed clean-up may have left half of a session
    home = open_home(options.homes, options.data)
    found = candidates(home.sessions(options.project), now - dt.timedelta(days=options.days))
    done = clean_up(found, archive.archive_at(data), data, now) if options.apply else None
    if options.json:
        output.print_json(_document(options, found, done))
    else:
        _tell(options, found, done, now)
    return 1 if done is not None and done.failed else 0


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
    return [plans.command(options, "trash", "restore", batch.batch, "--apply") for batch in done.batches]


def _tell(
    options: Namespace, found: list[CleanupCandidate], done: CleanupResult | None, now: dt.datetime
) -> None:
    going = [one for one in found if one.kept_because is None]
    for one in found:
        title = padded(shortened(visible(one.session.title) or "(no title)", _TITLE_COLUMNS), _TITLE_COLUMNS)
        when = ago(one.last_at, now) if one.last_at else "no time"
        fate = (
            ""
            if one.kept_because is None
            else output.styled(f"  stays: {visible(one.kept_because)}", "yellow")
        )
        output.say(
            f"{output.styled(visible(one.session.id[:8]), 'cyan')}  {when:>10}  {size(one.bytes):>8}  {title}{fate}"
        )
    if done is None:
        output.say(
            f"{counted(len(going), 'session')}, {size(sum(one.bytes for one in going))} would be archived and moved to the trash"
        )
        more = plans.option("--project", options.project) if options.project else []
        again = plans.command(options, "cleanup", "--days", f"{options.days:g}", *more, "--apply")
        plans.say_end(options, again, "")
        return
    output.say(f"{counted(len(done.batches), 'session')} archived and moved to the trash")
    for problem in done.failed:
        output.note(visible(f"not moved: {problem.session}: {problem.reason}"))
    for line in _undo(options, done)[:5]:
        output.say(f"Undo with: {line}")
    if len(done.batches) > 5:
        output.say(f"{plans.command(options, 'trash', 'list')} lists the others")
