"""Take back what a command changed in a home, list such changes, or give up the originals that are kept of one.

Every change to files of a home (repair, redact, migrate, mv, settings, config, archive restore, sync pull) is kept with
its originals until you say --forget; sessions that rm or cleanup took away are in the trash until it is emptied. Without
an id: the list of both. With one: undo puts the exact bytes back. It is refused where a client has the session open or
has written to a file since; in the second case --force keeps the present bytes first. An undo can be undone.

Example:
  recollect undo
  recollect undo 20261115 --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from msgspec import structs

from recollect.cli.terminal import output, plans
from recollect.cli.terminal.text import counted, size, visible, wrapped
from recollect.errors import UsageError
from recollect.services import undo
from recollect.services.undo import UndoableChange


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("id", nargs="?", metavar="ID", help="a change, or the start of its id")
    parser.add_argument(
        "--force", action="store_true", help="also where files were changed since; what is there now is kept"
    )
    parser.add_argument(
        "--forget", action="store_true", help="do not undo: delete the originals that are kept, for good"
    )
    parser.add_argument(
        "--recover", action="store_true", help="finish or take back what a crash left half done"
    )
    plans.add_apply(parser)


def run(options: Namespace) -> int:
    """List, undo, forget or recover."""
    data = plans.own_data(options)
    if options.recover:
        return _show(options, undo.recovered(data), "recovered")
    if options.id is None:
        return _show(options, undo.changes(data), "change")
    change = undo.found_change(data, options.id)
    if options.forget and change.store == "trash":
        raise UsageError(
            f"undo {change.id}: a removed session is not forgotten here",
            hint="`recollect trash empty` deletes what is in the trash",
        )
    if not options.apply:
        return _plan(options, change)
    if options.forget:
        _tell(options, undo.forgotten(data, change), f"Given up: {_name(change)}", None)
        return 0
    done = undo.undo(data, change, force=options.force)
    again = plans.command(options, *undo.redo_words(done))
    _tell(
        options, done.change or structs.replace(change, state="undone"), f"Taken back: {_name(change)}", again
    )
    return 0


def _tell(options: Namespace, change: UndoableChange, text: str, again: str | None) -> None:
    if options.json:
        output.print_json({"change": change, "applied": True, "undo": again})
        return
    output.say(text)
    if again is not None:
        output.say(f"Undo with: {again}")


def _plan(options: Namespace, change: UndoableChange) -> int:
    if options.json:
        output.print_json({"change": change, "applied": False, "undo": None})
        return 0
    verb = "Would give up what is kept of" if options.forget else "Would take back"
    output.say(f"{verb} {_name(change)}, {change.state}:")
    for step in change.steps:
        output.say(visible(f"  {step.kind}  {step.path}"))
    flags = [
        flag for flag, is_given in (("--forget", options.forget), ("--force", options.force)) if is_given
    ]
    plans.say_end(options, plans.command(options, "undo", change.id, *flags, "--apply"), "")
    return 0


def _name(change: UndoableChange) -> str:
    return visible(f"{change.what} of {change.subject} ({change.id})")


def _show(options: Namespace, changes: list[UndoableChange], noun: str) -> int:
    if options.json:
        output.print_json({"changes": changes})
        return 0
    for one in changes:
        output.say(visible(f"{one.id}  {one.state:<11}  {one.what} of {one.subject}"))
        kept = f"{counted(len(one.steps), 'file')}, {size(one.kept_bytes)} kept"
        place = "in the trash" if one.store == "trash" else "in the journal"
        for line in wrapped(visible(f"{one.home}: {kept} {place}"), "    ", "    "):
            output.say(output.styled(line, "dim"))
    output.say(f"{counted(len(changes), noun)}" if noun == "change" else f"{len(changes):,} {noun}")
    return 0
