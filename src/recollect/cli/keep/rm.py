"""Move sessions to the trash, list the trash, or restore a session from it.

Nothing is deleted: log, sub-agents, file backups, tasks and todos move to the
data directory, and `recollect undo` puts them back byte for byte; --restore
does so for one session. A session that a client has open is refused. Of a
session that is a link, only the link moves. Prints the plan; --apply carries it
out.

Example:
  recollect rm 6ada00ba --apply
  recollect rm --list
  recollect undo 20261115T203000-1f2e3d4c --apply
  recollect rm --restore 20261115T203000-1f2e3d4c --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.csv_tables import add_csv, print_csv, wants_csv
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, padded, session_names, shortened, size, visible
from recollect.errors import UsageError
from recollect.services import trash as trash_service
from recollect.services import undo
from recollect.services.documents.changes.trash import (
    RemovalsDocument,
    RestoredBatchDocument,
    removals_document,
    trash_document,
)
from recollect.services.home_guard import kept_by_its_client
from recollect.services.trash import RemovalPlan
from recollect.storage.trash import TrashBatch

_TITLE_COLUMNS = 44


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "sessions", metavar="S", nargs="*", help="session: id, start of an id, title, path, or @last"
    )
    parser.add_argument("--list", action="store_true", help="list the removed sessions")
    parser.add_argument("--restore", metavar="BATCH", help="restore one removal")
    change_plans.add_apply(parser)
    add_csv(parser)


def run(options: Namespace) -> int:
    if sum(map(bool, (options.sessions, options.list, options.restore))) != 1:
        raise UsageError(
            "rm: name sessions, or --list, or --restore BATCH", hint="`recollect rm --help` has examples"
        )
    if options.list:
        return _list(options)
    if options.apply:
        undo.recovered(change_plans.own_data(options))  # a killed removal may have left half of a session
    return _restore(options) if options.restore else _remove(options)


# ---- remove ----------------------------------------------------------------------------------------------


def _remove(options: Namespace) -> int:
    home = open_home(options.homes)
    sessions = {session.path: session for session in map(home.own_session, options.sessions)}
    planned = [trash_service.planned_removal(session) for session in sessions.values()]
    batches: list[TrashBatch] = []
    data = change_plans.own_data(options)
    try:
        if options.apply:
            batches.extend(trash_service.remove(session, data) for session in sessions.values())
    finally:
        # Print even if one of several was refused: without the printed command, the removals before it cannot be undone.
        if options.json and (batches or not options.apply):
            output.print_json(_document(options, planned, batches))
        elif not options.json:
            _tell(options, planned, batches)
    for note in dict.fromkeys(kept_by_its_client(session.home) for session in sessions.values()):
        if note is not None:
            output.note(note)
    return 0


def _document(options: Namespace, planned: list[RemovalPlan], batches: list[TrashBatch]) -> RemovalsDocument:
    undo = change_plans.undo_of(options, [batch.batch for batch in batches])
    return removals_document(planned, [batch.batch for batch in batches], undo)


def _tell(options: Namespace, planned: list[RemovalPlan], batches: list[TrashBatch]) -> None:
    if options.apply:
        for batch in batches:
            output.say(f"Moved to the trash: {_named(batch.session, batch.title, batch.bytes)}")
        for line in change_plans.undo_of(options, [batch.batch for batch in batches]):
            output.say(f"Undo with: {line}")
        return
    for plan in planned:
        title = shortened(visible(plan.title), _TITLE_COLUMNS)
        output.say(f"Would move {output.styled(visible(plan.session), 'cyan')} {title} ({size(plan.bytes)}):")
        for item in plan.items:
            output.say(f"  {visible(str(item))}")
        if plan.open_in is not None:
            output.say(
                output.styled(
                    f"  A client has it open (process {plan.open_in}): refused until it is closed", "red"
                )
            )
    again = change_plans.command(options, "rm", *(plan.session for plan in planned), "--apply")
    change_plans.say_end(options, again, "")


def _named(session: str, title: str, count: int) -> str:
    return f"{visible(session)}  {shortened(visible(title), _TITLE_COLUMNS)}  ({size(count)})"


# ---- list and restore ------------------------------------------------------------------------------------


def _list(options: Namespace) -> int:
    batches = trash_service.trash_at(change_plans.own_data(options)).batches()
    if wants_csv(options):
        print_csv(trash_document(batches).batches)
        return 0
    if options.json:
        output.print_json(trash_document(batches))
        return 0
    names = session_names(one.session for one in batches)
    for one, name in zip(batches, names, strict=True):
        title = padded(shortened(visible(one.title), _TITLE_COLUMNS), _TITLE_COLUMNS)
        output.say(f"{output.styled(one.batch, 'cyan')}  {size(one.bytes):>8}  {name}  {title}")
    output.say(f"{counted(len(batches), 'session')} in the trash")
    return 0


def _restore(options: Namespace) -> int:
    data = change_plans.own_data(options)
    change = undo.found_change(data, options.restore, [undo.REMOVAL], "removal")
    obstacles = [] if options.apply else undo.obstacles(data, change)
    paths = undo.undo(data, change).paths if options.apply else [step.path for step in change.steps]
    back = change_plans.command(options, "rm", change.subject, "--apply")
    if options.json:
        output.print_json(
            RestoredBatchDocument(
                batch=change.id,
                session=change.subject,
                paths=paths,
                obstacles=obstacles,
                applied=options.apply,
                undo=back,
            )
        )
        return 0
    verb = "Restored" if options.apply else "Would restore"
    output.say(f"{verb}: {_named(change.subject, change.title, change.kept_bytes)}")
    for path in paths:
        output.say(f"  {visible(str(path))}")
    for path in obstacles:
        output.say(output.styled(f"  Already exists: {visible(str(path))}", "red"))
    change_plans.say_end(
        options, change_plans.command(options, "rm", "--restore", change.id, "--apply"), back
    )
    return 0
