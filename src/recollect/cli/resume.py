"""The commands ``resume`` and ``open``: find a session and continue it in its client, or read it in the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from msgspec import structs

import recollect
from recollect.ask import archive as archive_service
from recollect.ask.homes import Homes
from recollect.ask.resume import Resumption, found_session, resumption
from recollect.ask.sessions.session import ArchivedSession, Session
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes, settings_home
from recollect.cli.terminal.numbers import numbered
from recollect.cli.terminal.options import CommandParser, add_session, command, flag, own_cache, own_data
from recollect.cli.terminal.sessions import named_hit, open_home
from recollect.cli.terminal.text import counted, visible
from recollect.errors import NotFound, UsageError
from recollect.model.lines.ids import command_name, short_id
from recollect.store.own_settings import load_login


def add_resume_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "query", metavar="Q", nargs="*", help="id, start of an id, title, path, @last, words, or a URL"
    )
    flag(parser, "--newest", "if several match, take the newest")
    parser.add_argument("--cwd", metavar="DIR", help="continue in this directory, for example after a move")
    flag(parser, "--yes", "restore a session that is only in the archive without asking")
    parser.add_argument("--print", action="store_true", dest="only_print", help="only print the command")
    flag(parser, "--json", "only print session, directory and command as JSON")


def run_resume(options: Namespace) -> int:
    if not options.query and not _pick(options):
        return 0
    if len(options.query) == 1 and options.query[0].lower().startswith(("http://", "https://")):
        planned = _fetch(options, options.query[0])
        if planned is not None:
            return _print_way(options, planned)

    home, session = _named(options)
    if isinstance(session, ArchivedSession):
        way = resumption(session, options.cwd)  # before anything is restored: it may be refused
        if options.json or options.only_print:
            restore = command(options, "protect", "restore", session.id, "--apply")
            return _print_way(options, structs.replace(way, restore=restore, line=""))
        home, session = _restored(options, session)
    way = resumption(session, options.cwd)
    _tell_doubts(home, way)
    if options.json or options.only_print:
        _print_way(options, way)
    if way.cwd_exists:
        return 0 if options.json or options.only_print else _go(way)
    moved = _moved(options, way, command_name(session.id, session.path))
    if not options.json and not options.only_print:
        raise moved
    output.note(visible(f"Note: {moved.message}"))
    output.note(visible(f"  {moved.hint}"))
    return 0


def _tell_doubts(home: Homes, way: Resumption) -> None:
    """What speaks against going on with it."""
    if way.session in home.live_ids():
        output.note("Note: a client has this session open; using it twice at once creates two branches.")
    for note in way.notes:
        output.note(visible(f"Note: {note}"))


def _pick(options: Namespace) -> bool:
    """Let the user choose in the terminal; False if they left."""
    if options.json or options.only_print:
        raise UsageError("--print and --json need a session", hint="name one: recollect resume WORDS --print")
    chosen = _browse(options, "name a session: recollect resume WORDS", is_reader=False)
    options.query = [] if chosen is None else [chosen]
    return chosen is not None


def _browse(options: Namespace, otherwise: str, *, is_reader: bool, session: str | None = None) -> str | None:
    """The name of the session to continue, if one was chosen in the terminal."""
    home = recollect.Home(*[home.path for home in chosen_homes(options.homes)], data=options.data)
    first = None if session is None else home.session(session)
    has_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if not has_terminal or os.environ.get("TERM") == "dumb":
        raise UsageError("this needs a terminal for input and output", hint=otherwise)
    from recollect.cli.browser import SessionBrowser  # takes longer to load than most commands to answer

    return SessionBrowser(home, is_reader, first).run()


def add_open_options(parser: ArgumentParser) -> None:
    add_session(parser, "?")


def run_open(options: Namespace) -> int:
    otherwise = "recollect show S prints a conversation, recollect list the sessions"
    chosen = _browse(options, otherwise, is_reader=True, session=options.session)
    if chosen is None:
        return 0
    parser = CommandParser("resume", "")
    add_resume_options(parser)
    return run_resume(parser.parse_args([chosen], options))


def _named(options: Namespace) -> tuple[Homes, Session]:
    if len(options.query) == 1 and numbered(own_cache(options), options.query[0]) is not None:
        return named_hit(options, options.query[0])[:2]
    home = open_home(options.homes)
    with output.progress_bar("looking") as progress:
        return home, found_session(home, " ".join(options.query), newest=options.newest, progress=progress)


def _restored(options: Namespace, session: ArchivedSession) -> tuple[Homes, Session]:
    """Bring a session back from the archive, if the answer is yes: the client reads only what is in a home."""
    homes = [home.path for home in chosen_homes(options.homes, may_be_missing=True)]
    archive = archive_service.archive_at(own_data(options))
    found = archive_service.restore_places(archive, [session.manifest], homes, are_named=bool(options.homes))
    where = found.places[0][1]
    files = counted(len(session.manifest.restorable()), "file")
    what = f"{short_id(session.id)} {session.title[:40]!r} is only in the archive"
    if not options.yes and not _agreed(f"{what}. Restore {files} to {where} and continue? [y/N] "):
        raise UsageError(
            f"session {what}; nothing was restored",
            hint=f"restore {files} to {where} and continue with:"
            f" {command(options, 'resume', session.id, '--yes')}",
        )
    change = archive_service.restore(archive, session.manifest, where)
    output.note(visible(f"Restored {files} to {where}."))
    output.note(f"Undo with: {command(options, 'undo', change.id, '--apply')}")
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
    from recollect.share.sync.pull import fetch_session  # loads what talks to a server
    from recollect.share.sync.sync import SyncClient, session_of

    only_plan = options.json or options.only_print
    client = SyncClient(load_login(), own_data(options))
    installed, change = fetch_session(
        client,
        settings_home(options.homes),
        url,
        directory=Path(options.cwd).expanduser().resolve() if options.cwd else None,
        install=not only_plan,
    )
    if installed is not None and only_plan:
        output.note("Note: it was fetched, and is not in the home yet; resume without --print puts it there")
        way = ("claude", "--resume", installed.name)
        return Resumption(installed.name, "", installed.directory, True, way)
    if change is not None:
        output.note(f"Undo with: {command(options, 'undo', change.id, '--apply')}")
    options.query = [session_of(url, client.login.address) if installed is None else installed.name]
    return None


def _print_way(options: Namespace, way: Resumption) -> int:
    if options.json:
        output.print_json(way)
    else:
        output.say(visible(way.line))
    return 0


def _moved(options: Namespace, way: Resumption, name: str) -> NotFound:
    """The error for a missing directory, with the command to continue elsewhere."""
    place = "its entries name no directory"
    if way.cwd:
        place = f"{way.cwd} {'no longer exists' if way.cwd.startswith('/') else 'is not on this machine'}"
    candidates = f" (perhaps {', '.join(way.nearby[:3])})" if way.nearby else ""
    again = command(options, "resume", name, "--cwd", way.nearby[0] if way.nearby else "DIR")
    return NotFound(
        f"session {way.session}: {place}{candidates}", hint=f"continue in another directory with: {again}"
    )


def _go(way: Resumption) -> int:
    program = shutil.which(way.argv[0])
    if program is None or shutil.which(way.client) is None:
        raise NotFound(
            f"program {way.client!r} is not on PATH",
            hint=f"install it, or type: {way.line}",
        )
    output.note(f"{visible(way.cwd)}: {visible(way.command)}")
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(way.cwd)
    os.execv(program, way.argv)  # noqa: S606 - this is what the command is for; no shell sees the words
