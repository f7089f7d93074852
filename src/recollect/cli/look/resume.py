"""Find a session and continue it: runs claude --resume in its directory.

Searches all projects, so it works from any directory. The session is named by
id, title, path, @last, the number it had in the last `recollect search` here,
or by words that all occur in its title or in what you typed. If several
sessions match, they are listed and nothing runs, unless you add --newest.
Without words, a list in the terminal to pick from: type to filter, enter
resumes, ctrl-y copies the command, esc leaves.

A session that is only in the archive is restored first, after a question or
with --yes; the undo is printed.

The address of a session on the team server works too: it is fetched, put into
the Claude home under the directory of the same repository here (or --cwd), and
continued. With --print or --json the home is not changed.

Example:
  recollect resume
  recollect resume rounding basket
  recollect resume 3
  recollect resume 6ada00ba --print
  recollect resume "Basket totals" --cwd ~/moved/shop
  recollect resume https://recollect.example.org/v1/sessions/6ada00ba-…
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.change_plans import own_cache
from recollect.cli.terminal.homes import chosen_homes, named_hit, open_home, settings_home
from recollect.cli.terminal.numbers import numbered
from recollect.cli.terminal.text import counted, visible
from recollect.errors import NotFound, UsageError
from recollect.model.ids import short_id

# What reads sessions is imported in functions: the picker is painted before.
if TYPE_CHECKING:
    from recollect.services.archive.session import ArchivedSession
    from recollect.services.homes import Home
    from recollect.services.resume import Resumption
    from recollect.services.session import Session


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "query", metavar="Q", nargs="*", help="id, start of an id, title, path, @last, words, or a URL"
    )
    parser.add_argument("--newest", action="store_true", help="if several match, take the newest")
    parser.add_argument("--cwd", metavar="DIR", help="continue in this directory, for example after a move")
    parser.add_argument(
        "--yes", action="store_true", help="restore a session that is only in the archive without asking"
    )
    parser.add_argument("--print", action="store_true", dest="only_print", help="only print the command")
    parser.add_argument(
        "--json", action="store_true", help="only print session, directory and command as JSON"
    )


def run(options: Namespace) -> int:
    if not options.query and not _pick(options):
        return 0
    if len(options.query) == 1 and options.query[0].lower().startswith(("http://", "https://")):
        planned = _fetch(options, options.query[0])
        if planned is not None:
            return _print_way(options, planned)
    from recollect.services.archive.session import ArchivedSession
    from recollect.services.resume import resumption

    home, session = _named(options)
    if isinstance(session, ArchivedSession):
        way = resumption(session, options.cwd)  # before anything is restored: it may be refused
        if options.json or options.only_print:
            return _print_way(options, way, _restore_command(options, session))
        home, session = _restored(options, session)
    way = resumption(session, options.cwd)
    _tell_doubts(home, way)
    if options.json or options.only_print:
        _print_way(options, way)
    if way.cwd_exists:
        return 0 if options.json or options.only_print else _go(way)
    moved = _moved(options, way)
    if not options.json and not options.only_print:
        raise moved
    output.note(visible(f"Note: {moved.message}"))
    output.note(visible(f"  {moved.hint}"))
    return 0


def _tell_doubts(home: Home, way: Resumption) -> None:
    """What speaks against going on with it."""
    if way.session in home.live_ids():
        output.note("Note: a client has this session open; using it twice at once creates two branches.")
    for note in way.notes:
        output.note(visible(f"Note: {note}"))


def _pick(options: Namespace) -> bool:
    """Let the user choose in the terminal; False if they left."""
    from recollect.cli.look.browse import name_of, new_picker
    from recollect.cli.terminal.screen import whole_screen

    if options.json or options.only_print:
        raise UsageError("--print and --json need a session", hint="name one: recollect resume WORDS --print")
    with whole_screen("name a session: recollect resume WORDS") as screen:
        chosen = new_picker(screen, options, "resume").picked()
    options.query = [] if chosen is None else [name_of(chosen)]
    return chosen is not None


def _named(options: Namespace) -> tuple[Home, Session]:
    from recollect.services.resume import found_session

    if len(options.query) == 1 and numbered(own_cache(options), options.query[0]) is not None:
        return named_hit(options, options.query[0])[:2]
    home = open_home(options.homes)
    with output.progress_bar("looking") as progress:
        return home, found_session(home, " ".join(options.query), newest=options.newest, progress=progress)


def _restore_command(options: Namespace, session: Session) -> str:
    return change_plans.command(options, "archive", "restore", session.id, "--apply")


def _restored(options: Namespace, session: ArchivedSession) -> tuple[Home, Session]:
    """Bring a session back from the archive, if the answer is yes: the client reads only what is in a home."""
    from recollect.services.archive import archive as archive_service

    homes = [home.path for home in chosen_homes(options.homes, may_be_missing=True)]
    archive = archive_service.archive_at(change_plans.own_data(options))
    found = archive_service.restore_places(archive, [session.manifest], homes, are_named=bool(options.homes))
    where = found.places[0][1]
    files = counted(len(session.manifest.restorable()), "file")
    what = f"{short_id(session.id)} {session.title[:40]!r} is only in the archive"
    if not options.yes and not _agreed(f"{what}. Restore {files} to {where} and continue? [y/N] "):
        raise UsageError(
            f"session {what}; nothing was restored",
            hint=f"restore {files} to {where} and continue with:"
            f" {change_plans.command(options, 'resume', session.id, '--yes')}",
        )
    change = archive_service.restore(archive, session.manifest, where)
    output.note(visible(f"Restored {files} to {where}."))
    output.note(f"Undo with: {change_plans.command(options, 'undo', change.id, '--apply')}")
    home = open_home(options.homes or [str(where)])
    return home, home.session(session.id)


def _agreed(question: str) -> bool:
    """Whether a person says yes; without a terminal no one is asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(visible(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _fetch(options: Namespace, url: str) -> Resumption | None:
    """Fetch a session from the team server; afterwards the query is its id. A plan gives the way to it."""
    from pathlib import Path

    from recollect.services.resume import Resumption
    from recollect.services.sync.resume_url import fetched
    from recollect.services.sync.sync import SyncClient
    from recollect.storage.config.sync_settings import load_login

    only_plan = options.json or options.only_print
    found = fetched(
        SyncClient(load_login(), change_plans.own_data(options)),
        settings_home(options.homes),
        url,
        directory=Path(options.cwd).expanduser().resolve() if options.cwd else None,
        install=not only_plan,
    )
    if found.installed is not None and only_plan:
        output.note("Note: it was fetched, and is not in the home yet; resume without --print puts it there")
        way = ("claude", "--resume", found.installed.name)
        return Resumption(found.installed.name, "", found.installed.directory, True, way)
    if found.change is not None:
        output.note(f"Undo with: {change_plans.command(options, 'undo', found.change.id, '--apply')}")
    options.query = [found.session if found.installed is None else found.installed.name]
    return None


def _print_way(options: Namespace, way: Resumption, restore: str | None = None) -> int:
    if options.json:
        from msgspec import convert, structs

        from recollect.services.documents.parts import ResumeDocument

        document = convert(way, ResumeDocument, from_attributes=True)
        output.print_json(document if restore is None else structs.replace(document, restore=restore))
    else:
        output.say(visible(" && ".join([*([] if restore is None else [restore]), command_line(way)])))
    return 0


def command_line(way: Resumption) -> str:
    """For a shell. A directory that is not there is left out: the client takes a log by its path from anywhere."""
    return f"cd {shlex.quote(way.cwd)} && {way.command}" if way.cwd_exists else way.command


def _moved(options: Namespace, way: Resumption) -> NotFound:
    """The error for a missing directory, with the command to continue elsewhere."""
    place = "its entries name no directory"
    if way.cwd:
        place = f"{way.cwd} {'no longer exists' if way.cwd.startswith('/') else 'is not on this machine'}"
    candidates = f" (perhaps {', '.join(way.nearby[:3])})" if way.nearby else ""
    again = change_plans.command(
        options, "resume", way.session, "--cwd", way.nearby[0] if way.nearby else "DIR"
    )
    return NotFound(
        f"session {way.session}: {place}{candidates}", hint=f"continue in another directory with: {again}"
    )


def _go(way: Resumption) -> int:
    program = shutil.which(way.argv[0])
    if program is None or shutil.which(way.client) is None:
        raise NotFound(
            f"program {way.client!r} is not on PATH",
            hint=f"install it, or type: {command_line(way)}",
        )
    output.note(f"{visible(way.cwd)}: {visible(way.command)}")
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(way.cwd)
    os.execv(program, way.argv)  # noqa: S606 - this is what the command is for; no shell sees the words
