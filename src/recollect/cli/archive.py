"""The commands below ``protect``, and ``export --bundle``: verified copies of sessions."""

from __future__ import annotations

import datetime as dt
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from recollect.agents.homes import kept_out
from recollect.ask import archive as archive_service
from recollect.ask.archive import (
    ArchivedSessionDocument,
    archive_list_document,
    archived_session,
)
from recollect.ask.homes import Homes
from recollect.ask.sessions.home_guard import refuse_agent_home
from recollect.ask.sessions.session import Session
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.options import add_apply, add_json, add_session, command, flag, own_data, undo_of
from recollect.cli.terminal.rows import print_data
from recollect.cli.terminal.sessions import open_home
from recollect.cli.terminal.text import ago, counted, padded, session_names, shortened, size, visible
from recollect.errors import UsageError
from recollect.model.lines.ids import short_id
from recollect.store.archive.archive import Archive, ArchiveProblem, ArchiveResult
from recollect.store.archive.bundle import export_bundle
from recollect.store.archive.manifest import Manifest
from recollect.store.archive.restore import RestorePlan, plan_restore, take_out
from recollect.system.locations import client_home

_TITLE_COLUMNS = 44
# A session is idle if its log has not changed for this many seconds.
_IDLE_SECONDS, _EVERY = 300.0, 60.0


def add_now_options(parser: ArgumentParser) -> None:
    add_session(parser, "*")
    flag(parser, "--watch", "archive each session once it is idle, until interrupted")
    add_json(parser)


def run_now(options: Namespace) -> int:
    if options.watch:
        return _watch(options)
    archive = _archive(options)
    home = open_home(options.homes)
    chosen = _chosen(options, home)
    with output.progress_bar("archiving") as progress:
        added, failed = archive_service.add_all(archive, chosen, dt.datetime.now(dt.UTC), progress)
    raw = sum(one.manifest.raw_bytes for one in added)
    stored = sum(one.manifest.stored_bytes for one in added)
    new = sum(one.new_bytes for one in added)
    if options.json:
        rows = [replace(archived_session(one.manifest), changed=one.is_changed) for one in added]
        output.print_json(
            {
                "sessions": rows,
                "raw_bytes": raw,
                "stored_bytes": stored,
                "new_bytes": new,
                "failed": failed,
            }
        )
        return 1 if failed else 0
    fresh = sum(one.is_new for one in added)
    grown = sum(one.is_changed and not one.is_new for one in added)
    output.say(
        f"{counted(len(added), 'session')} in the archive: {fresh:,} new, {grown:,} grown, "
        f"{size(raw)} stored in {size(stored)} ({size(new)} written)"
    )
    for one in failed:
        output.note(visible(f"not archived: {one.session}: {one.reason}"))
    return 1 if failed else 0


def _chosen(options: Namespace, home: Homes) -> list[Session]:
    if not options.sessions:
        return [session for session in home.sessions() if session.session_id is not None]
    return [home.own_session(name) for name in options.sessions]


def _archive(options: Namespace) -> Archive:
    return archive_service.archive_at(own_data(options))


def add_list_options(parser: ArgumentParser) -> None:
    add_json(parser, csv=True)


def run_list(options: Namespace) -> int:
    archive = _archive(options)
    unreadable: list[ArchiveProblem] = []
    manifests = archive.manifests(unreadable)
    problems = [archive_service.ArchiveFailure(one.session, one.what) for one in unreadable]
    document = archive_list_document(manifests, problems)
    if print_data(options, document, document.sessions):
        return 0
    now = dt.datetime.now(dt.UTC)
    names = session_names(one.session for one in manifests)
    often = Counter(one.session for one in manifests)
    for one, name in zip(manifests, names, strict=True):
        home = f"  of {visible(client_home(one.home))}" if often[one.session] > 1 else ""
        last = dt.datetime.fromisoformat(one.last_at) if one.last_at else None
        title = padded(shortened(visible(one.title) or "(no title)", _TITLE_COLUMNS), _TITLE_COLUMNS)
        when = ago(last, now) if last else ""
        output.say(
            f"{output.styled(name, 'cyan')}  {when:>13}  {size(one.raw_bytes):>8} in "
            f"{size(one.stored_bytes):>8}  {title}  {visible(one.cwd)}{home}"
        )
    if not manifests:
        output.note("The archive is empty. `recollect protect now` archives every session.")
    for problem in problems:
        output.note(visible(f"cannot be read: {problem.session}: {problem.reason}"))
    return 0


def add_verify_options(parser: ArgumentParser) -> None:
    add_json(parser)


def run_verify(options: Namespace) -> int:
    archive = _archive(options)
    with output.progress_bar("verifying") as progress:
        problems = archive.verify(progress)
    manifests = archive.manifests()
    if options.json:
        output.print_json(
            {
                "sessions": len(manifests),
                "raw_bytes": sum(one.raw_bytes for one in manifests),
                "stored_bytes": sum(one.stored_bytes for one in manifests),
                "verified": not problems,
                "problems": problems,
            }
        )
        return 1 if problems else 0
    for problem in problems:
        home = f" of {problem.home}" if problem.home else ""
        output.say(visible(f"{problem.session}{home}: {problem.what}"))
    if problems:
        output.note("Copy the damaged files from another copy of the archive, or archive the session again.")
        return 1
    output.say(f"{counted(len(manifests), 'session')}: all bytes verified")
    return 0


def add_restore_options(parser: ArgumentParser) -> None:
    add_session(parser, "*")
    flag(parser, "--all", "every session of the archive")
    parser.add_argument("--to", metavar="DIR", type=Path, help="into this directory, not into the home")
    add_apply(parser)


def run_restore(options: Namespace) -> int:
    archive = _archive(options)
    homes = [home.path for home in chosen_homes(options.homes, may_be_missing=True)]
    chosen = archive.manifests() if options.all else _named(options, archive, options.sessions)
    if not chosen:
        raise UsageError("protect restore: no session was named", hint="name sessions, or use --all")
    if options.to is not None:
        refuse_agent_home(options.to, "--to DIR")
    found = archive_service.restore_places(
        archive, chosen, homes, are_named=bool(options.homes), to=options.to
    )
    done: list[ArchivedSessionDocument] = []
    changes: list[str] = []
    blocked = 0
    for one, where in found.places:
        plan = plan_restore(archive, one, where)
        blocked += bool(plan.obstacles)
        if options.apply:
            changes.append(archive_service.restore(archive, one, where).id)
        row = replace(
            archived_session(one),
            to=str(where),
            paths=[str(where / file.path) for file in plan.files],
            left_out=sorted({file.path for file in one.files} - {file.path for file in one.restorable()}),
            there=plan.there,
            obstacles=plan.obstacles,
        )
        done.append(row)
        if not options.json:
            _tell_restored(options, one, row, plan)
    if found.left:
        done += [replace(archived_session(one), paths=[]) for one, _ in found.left]
        output.note(kept_out((agent for _, agent in found.left), archive_service.restored_instead()))
    undo = undo_of(options, changes)
    if options.json:
        output.print_json({"sessions": done, "applied": options.apply, "undo": undo})
    elif options.apply:
        output.say(f"Undo with: {undo[0]}")
    elif not blocked:
        names = ["--all"] if options.all else [short_id(one.session) for one, _ in found.places]
        target = ["--to", str(options.to)] if options.to else []
        again = command(options, "protect", "restore", *names, *target, "--apply")
        output.say(f"Nothing was changed. Do it with: {again}")
    return 1 if blocked else 0


def _named(options: Namespace, archive: Archive, names: Sequence[str]) -> list[Manifest]:
    """Sessions of the archive by their names; --home tells which of two homes is meant."""
    homes = [home.path for home in chosen_homes(options.homes, may_be_missing=True)] if options.homes else []
    return [archive.find(name, homes) for name in names]


def _tell_restored(
    options: Namespace, one: Manifest, row: ArchivedSessionDocument, plan: RestorePlan
) -> None:
    verb = "Restored" if options.apply else "Cannot restore" if plan.obstacles else "Would restore"
    files = counted(len(plan.files), "file")
    bytes_ = size(sum(file.stored.size for file in plan.files))
    output.say(visible(f"{verb} {short_id(one.session)} {one.title[:40]!r}: {files}, {bytes_}:"))
    for file in plan.files:
        output.say(visible(f"  {row.to}/{file.path}"))
    for path in plan.there:
        output.note(visible(f"  stays, because it is there already: {path}"))
    for path in plan.obstacles:
        output.say(visible(f"  in the way: {path}; move it away, or use --to DIR"), "red")
    for name in row.left_out or ():
        output.note(visible(f"  left out, because it was not archived on this machine: {name}"))


def add_rm_options(parser: ArgumentParser) -> None:
    add_session(parser, "*")
    add_apply(parser)


def run_rm(options: Namespace) -> int:
    """Take sessions out of the archive; their homes are not touched."""
    if not options.sessions:
        raise UsageError("protect rm: no session was named", hint="recollect protect rm S...")
    archive = _archive(options)
    chosen = {one.session: one for one in _named(options, archive, options.sessions)}
    changes: list[str] = []
    if options.apply:
        with archive.adding():
            changes = [take_out(archive, one).id for one in chosen.values()]
    undo = undo_of(options, changes)
    if options.json:
        rows = [archived_session(one) for one in chosen.values()]
        return output.print_json({"sessions": rows, "applied": options.apply, "undo": undo})
    for one in chosen.values():
        verb = "Removed" if options.apply else "Would remove"
        title = shortened(visible(one.title), _TITLE_COLUMNS)
        output.say(f"{verb} {visible(short_id(one.session))} {title} ({size(one.stored_bytes)})")
    if not undo:
        again = command(options, "protect", "rm", *map(short_id, chosen), "--apply")
        output.say(f"Nothing was changed. Do it with: {again}")
        return 0
    output.say(f"Undo with: {undo[0]}")
    output.say(f"Delete for good with: {undo[0].replace('--apply', '--forget --apply')}")
    return 0


def add_export_options(parser: ArgumentParser) -> None:
    add_session(parser, "*")
    parser.add_argument(
        "--bundle", metavar="FILE", required=True, help="the new file; `recollect import` reads it"
    )
    add_json(parser)


def run_export(options: Namespace) -> int:
    target, archive = options.bundle, _archive(options)
    refuse_agent_home(Path(target), "another FILE")
    chosen = _named(options, archive, options.sessions) if options.sessions else archive.manifests()
    written = export_bundle(archive, chosen, Path(target).expanduser().absolute())
    if options.json:
        output.print_json({"sessions": [archived_session(one) for one in chosen], "bytes": written})
    else:
        output.say(visible(f"{counted(len(chosen), 'session')} in {target}, {size(written)}"))
    return 0


def _watch(options: Namespace) -> int:
    """Runs until interrupted; ``main`` turns the interrupt into the exit status."""
    archived: dict[Path, tuple[int, int]] = {}
    archive = _archive(options)
    while True:
        home = open_home(options.homes)
        idle = [session for session in home.sessions() if session.session_id and _is_idle(session, archived)]
        if idle:
            added, failed = archive_service.add_all(archive, idle, dt.datetime.now(dt.UTC))
            _tell(added, failed)
        time.sleep(_EVERY)


def _tell(added: Sequence[ArchiveResult], failed: Sequence[archive_service.ArchiveFailure]) -> None:
    for one in added:
        if one.is_changed:
            output.say(
                visible(
                    f"archived {short_id(one.manifest.session)} {one.manifest.title[:40]!r}: {size(one.new_bytes)}"
                )
            )
    for problem in failed:
        output.note(visible(f"not archived: {problem.session}: {problem.reason}"))


def _is_idle(session: Session, archived: dict[Path, tuple[int, int]]) -> bool:
    state = (session.file.size, session.file.mtime_ns)
    if archived.get(session.path) == state or time.time() - session.file.mtime_ns / 1e9 < _IDLE_SECONDS:
        return False
    archived[session.path] = state
    return True
