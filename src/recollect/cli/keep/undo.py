"""Undo what a command changed; without an id, list every change with its home.

recollect keeps the original files of every change (repair, fix, redact, mv,
migrate, settings, config, import, archive restore, sync pull and so on) until
you --forget them. Sessions that rm or cleanup removed stay in the trash until
it is emptied. Each command is one line with one id that undoes all of it;
--each lists its changes one by one, and each has an id of its own.

Undo puts the exact bytes back. It is refused if a client has the session open,
or if a file was changed since; in that case --force saves the current file
first. An undo can be undone. Prints the plan; --apply carries it out.

Example:
  recollect undo
  recollect undo 20261115T203000-12-1f2e3d --apply
  recollect undo 20261116T091500-cleanup-4c5d6e --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from msgspec import structs

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.csv_tables import add_csv, print_csv, wants_csv
from recollect.cli.terminal.text import counted, size, visible, wrapped
from recollect.services import undo
from recollect.services.documents.changes.undo import TakenBackDocument, UndoableChangesDocument
from recollect.services.undo import UndoableChange


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="id of a change, or the start of it")
    parser.add_argument(
        "--force", action="store_true", help="undo even if files were changed since; saves those files first"
    )
    parser.add_argument(
        "--forget", action="store_true", help="do not undo; delete the kept original files for good"
    )
    parser.add_argument(
        "--recover", action="store_true", help="finish or undo changes that a crash interrupted"
    )
    parser.add_argument("--each", action="store_true", help="list every change, not one line a command")
    change_plans.add_apply(parser)
    add_csv(parser)


def run(options: Namespace) -> int:
    data = change_plans.own_data(options)
    if options.recover:
        return _show(options, undo.recovered(data), "recovered")
    if options.id is None:
        return _show(options, undo.changes(data) if options.each else undo.batches(data), "change")
    change = undo.found_change(data, options.id)
    if not options.apply:
        return _plan(options, change)
    if options.forget:
        _tell(options, undo.forgotten(data, change), f"Deleted the originals of {_name(change)}", None)
        return 0
    done = undo.undo(data, change, force=options.force)
    again = change_plans.command(options, *undo.redo_words(done))
    _tell(options, done.change or structs.replace(change, state="undone"), f"Undone: {_name(change)}", again)
    for reason in done.failed:
        output.note(visible(f"not undone: {reason}"))
    return 1 if done.failed else 0


def _tell(options: Namespace, change: UndoableChange, text: str, again: str | None) -> None:
    if options.json:
        output.print_json(TakenBackDocument(change, applied=True, undo=again))
        return
    output.say(text)
    if again is not None:
        output.say(f"Undo with: {again}")


def _plan(options: Namespace, change: UndoableChange) -> int:
    if options.json:
        output.print_json(TakenBackDocument(change, applied=False, undo=None))
        return 0
    verb = "Would delete the originals of" if options.forget else "Would undo"
    output.say(f"{verb} {_name(change)}, {change.state}:")
    for step in change.steps:
        output.say(visible(f"  {step.kind}  {step.path}"))
    flags = [
        flag for flag, is_given in (("--forget", options.forget), ("--force", options.force)) if is_given
    ]
    change_plans.say_end(options, change_plans.command(options, "undo", change.id, *flags, "--apply"), "")
    return 0


def _name(change: UndoableChange) -> str:
    return visible(f"{change.what} of {change.subject} ({change.id})")


def _show(options: Namespace, changes: list[UndoableChange], noun: str) -> int:
    if wants_csv(options):
        print_csv(changes)
        return 0
    if options.json:
        output.print_json(UndoableChangesDocument(changes))
        return 0
    for one in changes:
        output.say(visible(f"{one.id}  {one.state:<11}  {one.what} of {one.subject}"))
        details = f"{counted(len(one.steps), 'file')}, {size(one.kept_bytes)} kept"
        place = {"trash": "in the trash", "journal": "in the journal"}.get(one.store, "in journal or trash")
        for line in wrapped(visible(f"{one.home}: {details} {place}"), "    ", "    "):
            output.say(output.styled(line, "dim"))
    output.say(f"{counted(len(changes), noun)}" if noun == "change" else f"{len(changes):,} {noun}")
    return 0
