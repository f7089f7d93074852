"""List the sessions that changed a file, and the commits that hold their lines.

For each session: when, how many changes, and how many of its lines are in the
file now. For each commit that changed the file: which sessions wrote the lines
that it adds, and how many each. The content of the commit decides that, never
its time alone. Deleted files have a log too, and a renamed file also has that
of its earlier names. The newest 200 commits are read. Changes nothing, and
writes nothing into git.

Example:
  recollect log src/cart.py
  recollect log src/cart.py --json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.homes import note_unreadable, open_home
from recollect.cli.terminal.text import counted, session_names, shortened, visible
from recollect.model.ids import short_id
from recollect.services.blame.log import MatchedCommit, TouchingSession, file_log
from recollect.services.documents.blame import file_log_document

_WIDTH = 80


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a file; it may be deleted")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    path = Path(options.path).expanduser()
    home = open_home(options.homes)
    found = file_log(home, path)
    note_unreadable(home)
    if options.json:
        output.print_json(file_log_document(str(path), found))
        return 0
    names = session_names(one.session.id for one in found.sessions)
    for session, name in zip(found.sessions, names, strict=True):
        _say_session(session, name)
    for commit in found.commits:
        _say_commit(commit)
    counts = {"session": len(found.sessions), "commit": len(found.commits)}
    output.say(output.styled(", ".join(counted(count, noun) for noun, count in counts.items()), "dim"))
    return 0


def _say_session(one: TouchingSession, name: str) -> None:
    when = one.last_at.astimezone().strftime("%Y-%m-%d %H:%M") if one.last_at else ""
    lines = "" if one.lines is None else f", {counted(one.lines, 'line')} now"
    head = f"{name}  {when:<16}  {counted(len(one.writings), 'change')}{lines}  "
    title = shortened(visible(one.session.title), max(_WIDTH - len(head), 16))
    output.say(output.styled(name, "cyan") + head[len(name) :] + title)


def _say_commit(one: MatchedCommit) -> None:
    when = one.commit.at.astimezone().strftime("%Y-%m-%d %H:%M")
    who = ", ".join(f"{short_id(found.session)} {found.lines:,}" for found in one.sessions) or "no session"
    head = f"{one.commit.id[:8]}  {when:<16}  +{one.added:,}: {who}  "
    subject = shortened(visible(one.commit.subject), max(_WIDTH - len(head), 16))
    output.say(output.styled(head[:8], "yellow") + head[8:] + subject)
