"""The commands ``rm``, ``undo`` and ``protect tidy``: what is put away, and how it comes back."""

from __future__ import annotations

import datetime as dt
import shlex
from argparse import ArgumentParser, Namespace
from itertools import zip_longest

from msgspec import structs

from recollect.ask import archive as archive_service
from recollect.ask.homes import Homes
from recollect.ask.sessions.home_guard import RemovalPlan, kept_by_its_client, planned_removal
from recollect.change import undo
from recollect.change.keeping import (
    CleanupDocument,
    candidates,
    clean_up,
    cleanup_plan,
    remove,
)
from recollect.change.keeping import is_due as is_due_now
from recollect.change.settings import settings
from recollect.change.undo import UndoDocument
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes, settings_home
from recollect.cli.terminal.options import (
    add_apply,
    add_project,
    add_session,
    command,
    flag,
    option,
    own_data,
    say_end,
    undo_of,
)
from recollect.cli.terminal.rows import print_data
from recollect.cli.terminal.sessions import open_home
from recollect.cli.terminal.text import ago, counted, padded, session_names, shortened, size, visible, wrapped
from recollect.errors import UsageError
from recollect.model.text import timespan
from recollect.store.changes.journal import Change
from recollect.store.trash import TrashBatch, trash_at
from recollect.system.paths import CLAUDE
from recollect.system.scheduler import job_words

_TITLE_COLUMNS = 44


def add_rm_options(parser: ArgumentParser) -> None:
    add_session(parser, "*")
    add_apply(parser)


def run_rm(options: Namespace) -> int:
    if not options.sessions:
        raise UsageError("rm: name sessions", hint="`recollect rm --help` has examples")
    data = own_data(options)
    if options.apply:
        undo.recovered(data)  # a killed removal may have left half of a session
    home = open_home(options.homes)
    sessions = {session.path: session for session in map(home.own_session, options.sessions)}
    planned = [planned_removal(session) for session in sessions.values()]
    batches: list[TrashBatch] = []
    try:
        if options.apply:
            batches.extend(remove(session, data) for session in sessions.values())
    finally:
        # Print even if one of several was refused: without the printed command, the removals before it cannot be undone.
        if options.json and (batches or not options.apply):
            names = [batch.batch for batch in batches]
            rows = [structs.replace(plan, batch=batch) for plan, batch in zip_longest(planned, names)]
            is_done = len(names) == len(planned)
            output.print_json({"sessions": rows, "applied": is_done, "undo": undo_of(options, names)})
        elif not options.json:
            _tell_rm(options, planned, batches)
    for note in dict.fromkeys(kept_by_its_client(session.home) for session in sessions.values()):
        if note is not None:
            output.note(note)
    return 0


def _tell_rm(options: Namespace, planned: list[RemovalPlan], batches: list[TrashBatch]) -> None:
    if options.apply:
        for batch in batches:
            output.say(f"Moved to the trash: {_named(batch.session, batch.title, batch.bytes)}")
        for line in undo_of(options, [batch.batch for batch in batches]):
            output.say(f"Undo with: {line}")
        return
    for plan in planned:
        title = shortened(visible(plan.title), _TITLE_COLUMNS)
        output.say(f"Would move {output.styled(visible(plan.session), 'cyan')} {title} ({size(plan.bytes)}):")
        for item in plan.items:
            output.say(f"  {visible(str(item))}")
        if plan.open_in is not None:
            output.say(f"  A client has it open (process {plan.open_in}): refused until it is closed", "red")
    names = (undo.subject_name(plan.session, plan.items) for plan in planned)
    again = command(options, "rm", *names, "--apply")
    say_end(options, again, "")


def _named(session: str, title: str, count: int) -> str:
    return f"{visible(session)}  {shortened(visible(title), _TITLE_COLUMNS)}  ({size(count)})"


def add_purge_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--older-than", default="30d", metavar="AGE", help="30d, 12w, or a date (default 30d)"
    )
    flag(parser, "--not-archived", "also sessions that are not archived")
    add_apply(parser)


def run_purge(options: Namespace) -> int:
    data = own_data(options)
    trash, archive = trash_at(data), archive_service.archive_at(data)
    before = timespan.so_long_ago(options.older_than, dt.datetime.now(dt.UTC))
    old = [batch for batch in trash.batches() if dt.datetime.fromisoformat(batch.at) < before]
    going = [batch for batch in old if options.not_archived or archive_service.holds(archive, batch)]
    staying = [batch for batch in old if batch not in going]
    if options.apply:
        for batch in going:
            trash.destroy(batch)
    if options.json:
        changes = [undo.removal_of(one) for one in going]
        names = [one.batch for one in staying]
        return output.print_json({"changes": changes, "kept": names, "applied": options.apply})
    _tell_emptied(options, going, staying)
    return 0


def _tell_emptied(options: Namespace, going: list[TrashBatch], staying: list[TrashBatch]) -> None:
    verb = "Deleted for good" if options.apply else "Would delete for good"
    for batch in going:
        output.say(visible(f"{verb}: {batch.batch}  {batch.session}  ({size(batch.bytes)})"))
    for batch in staying:
        output.say(visible(f"Stays because it is not archived: {batch.batch}  {batch.session}"))
    output.say(
        f"{counted(len(going), 'batch') if len(going) == 1 else f'{len(going):,} batches'}, {size(sum(one.bytes for one in going))}"
    )
    if not options.apply and going:
        flags = ["--not-archived"] if options.not_archived else []
        output.say(
            f"Nothing was changed. Do it with: {command(options, 'undo', '--purge', '--older-than', options.older_than, *flags, '--apply')}"
        )


def add_undo_options(parser: ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="id of a change, or the start of it")
    flag(parser, "--force", "undo even if files were changed since; saves those files first")
    flag(parser, "--forget", "do not undo; delete the kept original files for good")
    flag(parser, "--recover", "finish or undo changes that a crash interrupted")
    flag(parser, "--each", "list every change, not one line a command")
    add_apply(parser, csv=True)


def run_undo(options: Namespace) -> int:
    data = own_data(options)
    if options.recover:
        return _show(options, undo.recovered(data), "recovered")
    if options.id is None:
        return _show(options, undo.changes(data) if options.each else undo.batches(data), "change")
    change = undo.found_change(data, options.id)
    if not options.apply:
        return _plan(options, change)
    if options.forget:
        _tell_undo(options, undo.forgotten(data, change), f"Deleted the originals of {_name(change)}", None)
        return 0
    done = undo.undo(data, change, force=options.force)
    again = command(options, *undo.redo_words(done))
    _tell_undo(
        options, done.change or structs.replace(change, state="undone"), f"Undone: {_name(change)}", again
    )
    for reason in done.failed:
        output.note(visible(f"not undone: {reason}"))
    return 1 if done.failed else 0


def _tell_undo(options: Namespace, change: Change, text: str, again: str | None) -> None:
    if options.json:
        output.print_json(UndoDocument(change=change, applied=True, undo=again))
        return
    output.say(text)
    if again is not None:
        output.say(f"Undo with: {again}")


def _plan(options: Namespace, change: Change) -> int:
    if options.json:
        return output.print_json(UndoDocument(change=change, applied=False, undo=None))
    verb = "Would delete the originals of" if options.forget else "Would undo"
    output.say(f"{verb} {_name(change)}, {change.state}:")
    for step in change.steps:
        output.say(visible(f"  {step.kind}  {step.path}"))
    for path in undo.obstacles(own_data(options), change):
        output.say(f"  Already exists: {visible(str(path))}", "red")
    flags = [
        flag for flag, is_given in (("--forget", options.forget), ("--force", options.force)) if is_given
    ]
    say_end(options, command(options, "undo", change.id, *flags, "--apply"), "")
    return 0


def _name(change: Change) -> str:
    return visible(f"{change.what} of {change.subject} ({change.id})")


def _show(options: Namespace, changes: list[Change], noun: str) -> int:
    if print_data(options, {"changes": changes}, changes):
        return 0
    for one in changes:
        title = shortened(one.title, _TITLE_COLUMNS)
        output.say(visible(f"{one.id}  {one.state:<11}  {one.what} of {one.subject}  {title}".rstrip()))
        details = f"{counted(len(one.steps), 'file')}, {size(one.kept_bytes)} kept"
        places = {"trash": "in the trash", "journal": "in the journal", "labels": "in its log"}
        place = places.get(one.store, "in journal or trash")
        for line in wrapped(visible(f"{one.home}: {details} {place}"), "    ", "    "):
            output.say(line, "dim")
    output.say(f"{counted(len(changes), noun)}" if noun == "change" else f"{len(changes):,} {noun}")
    return 0


def add_tidy_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--older-than", default="30d", metavar="AGE", help="30d, 12w, or a date (default 30d)"
    )
    add_project(parser)
    flag(parser, "--auto", "carry it out, at most once a day")
    flag(parser, "--schedule", "let the client run it, once a day")
    add_apply(parser)


def run_tidy(options: Namespace) -> int:
    if options.schedule:
        return _schedule(options)
    now = dt.datetime.now(dt.UTC)
    data = own_data(options)
    is_due = not options.auto or is_due_now(data)
    options.apply |= options.auto and is_due
    if options.apply:
        undo.recovered(data)  # a killed clean-up may have left half of a session
    home = open_home(options.homes)
    before = timespan.so_long_ago(options.older_than, now)
    found = candidates(home.sessions(options.project), before) if is_due else []
    if options.apply:
        done = clean_up(found, archive_service.archive_at(data), data, now)
    else:
        done = cleanup_plan(found)
    undo_line = command(options, "undo", done.undo, "--apply") if done.undo else None
    done = structs.replace(done, undo=undo_line)
    if options.json:
        output.print_json(done)
    elif not is_due:
        output.say("Nothing to do: the last clean-up was less than a day ago")
    else:
        _tell_cleanup(options, done, now)
        _tell_others(home)
    return 1 if done.failed else 0


def _age(options: Namespace) -> list[str]:
    return option("--older-than", options.older_than)


def _tell_others(home: Homes) -> None:
    """Whose sessions were not looked at: nothing would say why they are not in the sum."""
    others = sorted({root.agent for root in home.roots if root.agent != CLAUDE})
    if others:
        output.note(
            f"Sessions of {', '.join(others)} are left alone: their clients keep them, and forks need them."
        )


def _schedule(options: Namespace) -> int:
    """Add a hook that runs the clean-up to the user settings of the client."""
    project = option("--project", options.project) if options.project else []
    homes = [home.path for home in chosen_homes(options.homes) if home.exists]
    words = job_words(homes, own_data(options), "protect", "tidy", *_age(options), *project, "--auto")
    line = shlex.join(words)
    hook = {"hooks": [{"type": "command", "command": line, "timeout": 600}]}
    home = settings_home(options.homes)
    change = settings.planned(home, ".", "user", "hooks.SessionEnd", hook, how="add")
    done = settings.changed(change.plan, own_data(options)) if options.apply else None
    undo = command(options, "undo", done.id, "--apply") if done else None
    if options.json:
        return output.print_json(
            {
                "applied": done is not None,
                "undo": undo,
                "file": change.file,
                "hook": hook,
                "cron": f"17 4 * * * {line}",
            }
        )
    if change.plan is None:
        output.say(f"The hook is already in {visible(str(change.file))}")
        return 0
    output.say(visible(f"{'Added' if done else 'Would add'} to hooks.SessionEnd in {change.file}: {line}"))
    output.say(visible(f"Or by cron (crontab -e): 17 4 * * * {line}"))
    again = command(options, "protect", "tidy", *_age(options), *project, "--schedule", "--apply")
    say_end(options, again, undo or "")
    return 0


def _tell_cleanup(options: Namespace, done: CleanupDocument, now: dt.datetime) -> None:
    names = session_names(one.session for one in done.sessions)
    for one, name in zip(done.sessions, names, strict=True):
        title = padded(shortened(visible(one.title) or "(no title)", _TITLE_COLUMNS), _TITLE_COLUMNS)
        when = ago(one.last_at, now) if one.last_at else "no time"
        fate = (
            ""
            if one.kept_because is None
            else output.styled(f"  stays: {visible(one.kept_because)}", "yellow")
        )
        output.say(f"{output.styled(name, 'cyan')}  {when:>10}  {size(one.bytes):>8}  {title}{fate}")
    if not done.applied:
        output.say(
            f"{counted(done.total, 'session')}, {size(done.bytes)} would be archived and moved to the trash"
        )
        more = option("--project", options.project) if options.project else []
        again = command(options, "protect", "tidy", *_age(options), *more, "--apply")
        say_end(options, again, "")
        return
    output.say(f"{counted(len(done.batches), 'session')} archived and moved to the trash")
    for problem in done.failed:
        output.note(visible(f"not moved: {problem.session}: {problem.reason}"))
    if done.undo:
        output.say(f"Undo with: {done.undo}")
