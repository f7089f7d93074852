"""Keep sessions for good: compressed, verified copies that outlive the client's clean-up.

  add [S...|--all]      archive sessions (only what is new is compressed); changes no home
  list                  what is in the archive
  verify                look at every byte: any flipped bit is found (exit 1)
  restore [S...|--all]  put sessions back, byte for byte, with the present time; needs --apply
  export FILE [S...]    sessions as one file, to carry elsewhere (default: all)
  import FILE           take such a file in; nothing of it is trusted
  schedule              what to set up so that nothing is deleted unarchived; changes nothing
  watch                 archive sessions as they come to rest, until interrupted

The copies are seekable zstd: the plain `zstd -d` unpacks them. show, search and cost read
archived sessions without restoring them. Nothing in the archive is deleted by recollect.

Example:
  recollect archive add --all
  recollect archive restore 3f2a --apply
"""

from __future__ import annotations

import datetime as dt
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.plans import command, own_data
from recollect.cli.terminal.text import ago, counted, padded, shortened, size, visible
from recollect.errors import UsageError
from recollect.services.archive import archive as archive_service
from recollect.services.homes import Home
from recollect.services.session import Session
from recollect.storage.archive.archive import Archive, ArchiveResult
from recollect.storage.archive.bundle import export_bundle, import_bundle
from recollect.storage.archive.manifest import Manifest

_ACTIONS = ("add", "list", "verify", "restore", "export", "import", "schedule", "watch")
_TITLE_COLUMNS = 44
# A session is at rest when nothing was written to it for so long.
_REST = 300.0


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("action", choices=_ACTIONS, help="what to do")
    parser.add_argument("names", nargs="*", metavar="S", help="sessions (export, import: the file first)")
    parser.add_argument("--all", action="store_true", help="every session")
    parser.add_argument(
        "--to", metavar="DIR", type=Path, help="restore below this directory, not into the home"
    )
    parser.add_argument(
        "--apply", action="store_true", help="restore: do it; without this only the plan is printed"
    )
    parser.add_argument(
        "--every", type=float, default=60.0, metavar="SECONDS", help="watch: how often to look (60)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    """Carry out one action."""
    archive = archive_service.archive_at(own_data(options))
    actions = {
        "add": _add,
        "list": _list,
        "verify": _verify,
        "restore": _restore,
        "export": _export,
        "import": _import,
        "schedule": _schedule,
        "watch": _watch,
    }
    return actions[options.action](options, archive)


def _add(options: Namespace, archive: Archive) -> int:
    home = open_home(options.homes)
    chosen = _chosen(options, home)
    with output.progress_bar("archiving") as progress:
        added, failed = archive_service.add_all(archive, chosen, dt.datetime.now(dt.UTC), progress)
    raw = sum(one.manifest.raw_bytes for one in added)
    stored = sum(one.manifest.stored_bytes for one in added)
    new = sum(one.new_bytes for one in added)
    if options.json:
        output.print_json(
            {
                "sessions": [_row(one.manifest) | {"changed": one.is_changed} for one in added],
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
        f"{size(raw)} kept in {size(stored)} ({size(new)} written)"
    )
    for one in failed:
        output.note(visible(f"left out: {one.session}: {one.reason}"))
    return 1 if failed else 0


def _chosen(options: Namespace, home: Home) -> list[Session]:
    if options.all:
        return [session for session in home.sessions() if session.session_id is not None]
    if not options.names:
        raise UsageError("archive add: no session was named", hint="name sessions, or use --all")
    return [home.own_session(name) for name in options.names]


def _list(options: Namespace, archive: Archive) -> int:
    problems: list[archive_service.ArchiveFailure] = []
    manifests = _manifests(archive, problems)
    if options.json:
        output.print_json(
            {
                "sessions": [_row(one) for one in manifests],
                "raw_bytes": sum(one.raw_bytes for one in manifests),
                "stored_bytes": sum(one.stored_bytes for one in manifests),
                "problems": problems,
            }
        )
        return 0
    now = dt.datetime.now(dt.UTC)
    for one in manifests:
        last = dt.datetime.fromisoformat(one.last_at) if one.last_at else None
        title = padded(shortened(visible(one.title) or "(no title)", _TITLE_COLUMNS), _TITLE_COLUMNS)
        when = ago(last, now) if last else ""
        output.say(
            f"{output.styled(visible(one.session[:8]), 'cyan')}  {when:>13}  {size(one.raw_bytes):>8} in "
            f"{size(one.stored_bytes):>8}  {title}  {visible(one.cwd)}"
        )
    if not manifests:
        output.note("The archive is empty: recollect archive add --all fills it.")
    for problem in problems:
        output.note(visible(f"cannot be read: {problem.session}: {problem.reason}"))
    return 0


def _manifests(archive: Archive, problems: list[archive_service.ArchiveFailure]) -> list[Manifest]:
    from recollect.storage.archive.archive import ArchiveProblem

    found: list[ArchiveProblem] = []
    manifests = archive.manifests(found)
    problems += [archive_service.ArchiveFailure(one.session, one.what) for one in found]
    return manifests


def _row(one: Manifest) -> dict[str, object]:
    return {
        "id": one.session,
        "title": one.title,
        "cwd": one.cwd,
        "home": one.home,
        "last_at": one.last_at,
        "archived_at": one.archived_at,
        "files": len(one.files),
        "raw_bytes": one.raw_bytes,
        "stored_bytes": one.stored_bytes,
        "earlier": len(one.earlier),
    }


def _verify(options: Namespace, archive: Archive) -> int:
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
        output.say(visible(f"{problem.session}: {problem.what}"))
    if problems:
        output.note("Copy the damaged files from another copy of the archive, or archive the session again.")
        return 1
    output.say(f"{counted(len(manifests), 'session')}: every byte is as it was stored")
    return 0


def _restore(options: Namespace, archive: Archive) -> int:
    chosen = archive.manifests() if options.all else [archive.find(name) for name in options.names]
    if not chosen:
        raise UsageError("archive restore: no session was named", hint="name sessions, or use --all")
    done: list[dict[str, object]] = []
    undo: list[str] = []
    for one in chosen:
        where = options.to or Path(one.home)
        if options.apply:
            undo.append(
                command(options, "undo", archive_service.restore(archive, one, options.to).id, "--apply")
            )
        done.append(_row(one) | {"to": str(where)})
        if not options.json:
            verb = "Restored" if options.apply else "Would restore"
            files = counted(len(one.files), "file")
            output.say(
                visible(
                    f"{verb} {one.session[:8]} {one.title[:40]!r}: {files}, {size(one.raw_bytes)}, to {where}"
                )
            )
    if options.json:
        output.print_json({"sessions": done, "applied": options.apply, "undo": undo})
    elif options.apply:
        for line in undo:
            output.say(f"Undo with: {line}")
    else:
        names = ["--all"] if options.all else [one.session[:8] for one in chosen]
        target = ["--to", str(options.to)] if options.to else []
        output.say(
            f"Nothing was changed. To do it: {command(options, 'archive', 'restore', *names, *target, '--apply')}"
        )
    return 0


def _export(options: Namespace, archive: Archive) -> int:
    if not options.names:
        raise UsageError("archive export: no file was named", hint="recollect archive export FILE [S...]")
    target, *names = options.names
    chosen = [archive.find(name) for name in names] if names else archive.manifests()
    written = export_bundle(archive, chosen, Path(target).expanduser().absolute())
    if options.json:
        output.print_json({"sessions": [_row(one) for one in chosen], "bytes": written})
    else:
        output.say(visible(f"{counted(len(chosen), 'session')} in {target}, {size(written)}"))
    return 0


def _import(options: Namespace, archive: Archive) -> int:
    if len(options.names) != 1:
        raise UsageError("archive import: name one file", hint="recollect archive import FILE")
    with archive.adding():
        taken = import_bundle(archive, Path(options.names[0]).expanduser().absolute())
    if options.json:
        output.print_json({"sessions": [_row(one) for one in taken]})
    else:
        output.say(f"{counted(len(taken), 'session')} taken into the archive, every byte checked")
    return 0


def _schedule(options: Namespace, archive: Archive) -> int:
    line = command(options, "archive", "add", "--all")
    hook = (
        '{"hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": '
        + _quoted(line)
        + ', "timeout": 600}]}]}}'
    )
    if options.json:
        output.print_json({"cron": f"17 * * * * {line}", "hook": hook})
        return 0
    output.say("Once an hour, by cron (crontab -e):")
    output.say(f"  17 * * * * {line}")
    output.say("Or whenever a session ends, in ~/.claude/settings.json:")
    output.say(f"  {hook}")
    output.note("Nothing was set up. The archive lies in " + visible(str(archive.root)))
    return 0


def _quoted(text: str) -> str:
    return output.json_bytes(text).decode()


def _watch(options: Namespace, archive: Archive) -> int:
    """Ends by an interrupt, which main turns into its exit status."""
    seen: dict[Path, tuple[int, int]] = {}
    while True:
        home = open_home(options.homes)
        resting = [
            session for session in home.sessions() if session.session_id and _is_at_rest(session, seen)
        ]
        if resting:
            added, failed = archive_service.add_all(archive, resting, dt.datetime.now(dt.UTC))
            _tell(added, failed)
        time.sleep(options.every)


def _tell(added: Sequence[ArchiveResult], failed: Sequence[archive_service.ArchiveFailure]) -> None:
    for one in added:
        if one.is_changed:
            output.say(
                visible(
                    f"archived {one.manifest.session[:8]} {one.manifest.title[:40]!r}: {size(one.new_bytes)}"
                )
            )
    for problem in failed:
        output.note(visible(f"left out: {problem.session}: {problem.reason}"))


def _is_at_rest(session: Session, seen: dict[Path, tuple[int, int]]) -> bool:
    state = (session.file.size, session.file.mtime_ns)
    if seen.get(session.path) == state or time.time() - session.file.mtime_ns / 1e9 < _REST:
        return False
    seen[session.path] = state
    return True
