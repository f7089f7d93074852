"""Find a session and continue it: runs claude --resume in its directory.

Searches all projects, so it works from any directory. The session is named by
id, title, path, @last, or by words that all occur in its title or in what you
typed. If several sessions match, they are listed and nothing runs, unless you
add --newest.

Example:
  recollect resume rounding basket
  recollect resume 6ada00ba --print
  recollect resume "Basket totals" --cwd ~/moved/shop
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
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import visible
from recollect.errors import NotFound
from recollect.services.documents.parts import ResumeDocument
from recollect.services.resume import Resumption, found_session, resumption


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "query", metavar="Q", nargs="+", help="id, start of an id, title, path, @last, or words"
    )
    parser.add_argument("--newest", action="store_true", help="if several match, take the newest")
    parser.add_argument("--cwd", metavar="DIR", help="continue in this directory, for example after a move")
    parser.add_argument("--print", action="store_true", dest="only_print", help="only print the command")
    parser.add_argument(
        "--json", action="store_true", help="only print session, directory and command as JSON"
    )


def run(options: Namespace) -> int:
    home = open_home(options.homes, options.data)
    session = found_session(home, " ".join(options.query), newest=options.newest)
    way = resumption(session, options.cwd)
    if session.id in home.live_ids():
        output.note("Note: a client has this session open; using it twice at once creates two branches.")
    if options.json:
        output.print_json(convert(way, ResumeDocument, from_attributes=True))
    if options.only_print and not options.json:
        output.say(visible(f"cd {shlex.quote(way.cwd)} && {way.command}"))
    if way.cwd_exists:
        return 0 if options.json or options.only_print else _go(way)
    moved = _moved(options, way)
    if not options.json and not options.only_print:
        raise moved
    output.note(visible(f"Note: {moved.message}\n  {moved.hint}"))
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
