"""Take back what a command changed in a home, list such changes, or let go of what is kept of one.

Every change to files of a home (repair, redact, migrate, mv, config) is kept with its
originals until you say --forget. Undo puts the exact bytes back; where a client has written
to a file since, it is refused, unless --force keeps the present bytes first. An undo can be
undone. Without an id: the list of changes.

Example:
  recollect undo
  recollect undo 20261115 --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import output, plans
from recollect.cli.terminal.text import counted, size, visible
from recollect.storage.changes.journal import AppliedChange, ChangeJournal


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("id", nargs="?", metavar="ID", help="a change, or the start of its id")
    parser.add_argument(
        "--force", action="store_true", help="also where files were changed since; what is there now is kept"
    )
    parser.add_argument(
        "--forget", action="store_true", help="do not undo: let go of the originals that are kept, for good"
    )
    parser.add_argument(
        "--recover", action="store_true", help="finish or take back what a crash left half done"
    )
    plans.add_apply(parser)


def run(options: Namespace) -> int:
    """List, undo, forget or recover."""
    journal = ChangeJournal(plans.own_data(options) / "undo")
    if options.recover:
        return _show(options, journal.recover(), "recovered")
    if options.id is None:
        return _show(options, journal.changes(), "change")
    change = journal.find(options.id)
    if not options.apply:
        return _plan(options, change)
    done = journal.forget(change.id) if options.forget else journal.undo(change.id, force=options.force)
    if options.json:
        output.print_json({"change": _row(done), "applied": True})
        return 0
    verb = "Let go of" if options.forget else "Taken back"
    output.say(visible(f"{verb}: {change.what} of {change.subject} ({change.id})"))
    if not options.forget:
        output.say(f"Undo with: {plans.command(options, 'undo', done.id, '--apply')}")
    return 0


def _plan(options: Namespace, change: AppliedChange) -> int:
    if options.json:
        output.print_json({"change": _row(change), "applied": False})
        return 0
    verb = "Would let go of what is kept of" if options.forget else "Would take back"
    output.say(visible(f"{verb} {change.what} of {change.subject} ({change.id}, {change.state}):"))
    for step in change.steps:
        output.say(visible(f"  {step.kind}  {step.path}"))
    flags = [
        flag for flag, is_given in (("--forget", options.forget), ("--force", options.force)) if is_given
    ]
    plans.say_end(options, plans.command(options, "undo", change.id, *flags, "--apply"), "")
    return 0


def _show(options: Namespace, changes: list[AppliedChange], noun: str) -> int:
    if options.json:
        output.print_json({"changes": [_row(one) for one in changes]})
        return 0
    for one in changes:
        line = f"{one.id}  {one.state:<11}  {one.what} of {one.subject}  {counted(len(one.steps), 'file')}, {size(one.kept_bytes)} kept"
        output.say(visible(line))
    output.say(f"{counted(len(changes), noun)}" if noun == "change" else f"{len(changes):,} {noun}")
    return 0


def _row(one: AppliedChange) -> dict[str, object]:
    return {
        "id": one.id,
        "what": one.what,
        "subject": one.subject,
        "home": one.home,
        "at": one.at,
        "state": one.state,
        "steps": one.steps,
        "undoes": one.undoes,
        "kept_bytes": one.kept_bytes,
    }
