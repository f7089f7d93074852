"""Find a session and continue it: runs claude --resume in its directory.

Searches all projects, so it works from any directory. The session is named by
id, title, path, @last, the number it had in the last `recollect search` here,
or by words that all occur in its title or in what you typed. If several
sessions match, they are listed and nothing runs, unless you add --newest.

The address of a session on the team server works too: it is fetched, put into
the Claude home under the directory of the same repository here (or --cwd), and
continued. With --print or --json the home is not changed.

Example:
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

from msgspec import convert

from recollect.cli import quick_start  # noqa: F401 - before anything that imports msgspec
from recollect.cli.terminal import output, plans
from recollect.cli.terminal.homes import named_hit, open_home, settings_home
from recollect.cli.terminal.numbers import numbered
from recollect.cli.terminal.plans import own_cache
from recollect.cli.terminal.text import visible
from recollect.errors import NotFound
from recollect.services.documents.parts import ResumeDocument
from recollect.services.homes import Home
from recollect.services.resume import Resumption, found_session, resumption
from recollect.services.session import Session


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "query", metavar="Q", nargs="+", help="id, start of an id, title, path, @last, words, or a URL"
    )
    parser.add_argument("--newest", action="store_true", help="if several match, take the newest")
    parser.add_argument("--cwd", metavar="DIR", help="continue in this directory, for example after a move")
    parser.add_argument("--print", action="store_true", dest="only_print", help="only print the command")
    parser.add_argument(
        "--json", action="store_true", help="only print session, directory and command as JSON"
    )


def run(options: Namespace) -> int:
    if len(options.query) == 1 and options.query[0].lower().startswith(("http://", "https://")):
        planned = _fetch(options, options.query[0])
        if planned is not None:
            return _print_way(options, planned)
    home, session = _named(options)
    way = resumption(session, options.cwd)
    if session.id in home.live_ids():
        output.note("Note: a client has this session open; using it twice at once creates two branches.")
    if options.json or options.only_print:
        _print_way(options, way)
    if way.cwd_exists:
        return 0 if options.json or options.only_print else _go(way)
    moved = _moved(options, way)
    if not options.json and not options.only_print:
        raise moved
    output.note(visible(f"Note: {moved.message}\n  {moved.hint}"))
    return 0


def _named(options: Namespace) -> tuple[Home, Session]:
    if len(options.query) == 1 and numbered(own_cache(options), options.query[0]) is not None:
        return named_hit(options, options.query[0])[:2]
    home = open_home(options.homes, options.data)
    return home, found_session(home, " ".join(options.query), newest=options.newest)


def _fetch(options: Namespace, url: str) -> Resumption | None:
    """Fetch a session from the team server; afterwards the query is its id. A plan gives the way to it."""
    from pathlib import Path

    from recollect.services.sync.resume_url import fetched
    from recollect.services.sync.sync import SyncClient
    from recollect.storage.config.sync_settings import load_login
    from recollect.storage.home import ClaudeHome

    root = settings_home(options.homes)
    only_plan = options.json or options.only_print
    found = fetched(
        SyncClient(load_login(), plans.own_data(options)),
        ClaudeHome(root.path, root.config_file),
        url,
        directory=Path(options.cwd).expanduser().resolve() if options.cwd else None,
        install=not only_plan,
    )
    if found.installed is not None and only_plan:
        output.note("Note: it was fetched, and is not in the home yet; resume without --print puts it there")
        way = ("claude", "--resume", found.installed.name)
        return Resumption(found.installed.name, "", found.installed.directory, True, way)
    if found.change is not None:
        output.note(f"Undo with: {plans.command(options, 'undo', found.change.id, '--apply')}")
    options.query = [found.session if found.installed is None else found.installed.name]
    return None


def _print_way(options: Namespace, way: Resumption) -> int:
    if options.json:
        output.print_json(convert(way, ResumeDocument, from_attributes=True))
    else:
        output.say(visible(f"cd {shlex.quote(way.cwd)} && {way.command}"))
    return 0


def _moved(options: Namespace, way: Resumption) -> NotFound:
    """The error for a missing directory, with the command to continue elsewhere."""
    place = f"{way.cwd} no longer exists" if way.cwd else "its entries name no directory"
    candidates = f" (perhaps {', '.join(way.nearby[:3])})" if way.nearby else ""
    again = plans.command(options, "resume", way.session, "--cwd", way.nearby[0] if way.nearby else "DIR")
    return NotFound(
        f"session {way.session}: {place}{candidates}", hint=f"continue in another directory with: {again}"
    )


def _go(way: Resumption) -> int:
    program = shutil.which(way.argv[0])
    if program is None:
        raise NotFound(
            f"program {way.argv[0]!r} is not on PATH",
            hint=f"install it, or type: cd {shlex.quote(way.cwd)} && {way.command}",
        )
    output.note(f"{visible(way.cwd)}: {visible(way.command)}")
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(way.cwd)
    os.execv(program, way.argv)  # noqa: S606 - this is what the command is for; no shell sees the words
