"""The command ``blame``, and ``files PATH``: which session wrote a line or changed a file."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from recollect.ask.blame.blame import Blame, BlamedLine, FileWriting, blame
from recollect.ask.blame.log import FileCommitDocument, TouchingSessionDocument, file_log
from recollect.cli.terminal import output
from recollect.cli.terminal.options import add_json
from recollect.cli.terminal.sessions import note_unreadable, open_home
from recollect.cli.terminal.text import (
    counted,
    session_names,
    shortened,
    visible,
    visible_lines,
    when,
    wrapped,
)
from recollect.model.lines.ids import short_id

_LINES = re.compile(r"(.+):(\d{1,9})(?:-(\d{1,9}))?", re.DOTALL)
_WIDTH = 80


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH[:LINE[-LINE]]", help="a file, or some of its lines")
    add_json(parser)


def run(options: Namespace) -> int:
    path, first, last = _asked(options.path)
    home = open_home(options.homes)
    found = blame(home, path, 1 if first is None else first, last)
    note_unreadable(home)
    if options.json:
        output.print_json(found)
    elif first is not None:
        _say_in_full(found)
    else:
        _say(found)
    return 0


def _asked(text: str) -> tuple[Path, int | None, int | None]:
    """The file, and which of its lines; a name that ends like a line number is a name if there is such a file."""
    path, found = Path(text).expanduser(), _LINES.fullmatch(text)
    if found is None or path.is_file():
        return path, None, None
    return Path(found[1]).expanduser(), int(found[2]), int(found[3] or found[2])


def _say(found: Blame) -> None:
    """A row for each line, then the prompts."""
    digits = len(str(found.total))
    names = [_name(line, found.writings) for line in found.lines]
    columns = max([8, *map(len, names)])
    for line, name in zip(found.lines, names, strict=True):
        head = f"{line.line:>{digits}}  {name:<{columns}}  "
        output.say(head + shortened(visible(line.text), _WIDTH - len(head)))
    seen: set[tuple[str, str | None]] = set()
    for writing in found.writings:
        key = writing.session, writing.prompt_uuid
        if key not in seen:
            seen.add(key)
            text = "(prompt not found)" if writing.prompt is None else writing.prompt
            output.say(
                f"{output.styled(visible(short_id(writing.session)), 'cyan')}  {shortened(visible(text), 70)}"
            )
    output.say(f"{found.known:,} of {counted(found.total, 'line')} written by a session", "dim")


def _name(line: BlamedLine, writings: Sequence[FileWriting]) -> str:
    if line.writing is not None:
        return visible(short_id(writings[line.writing].session))
    return "?" if line.uncertain else "-"


def _say_in_full(found: Blame) -> None:
    for (writing, is_uncertain), group in groupby(
        found.lines, key=lambda line: (line.writing, line.uncertain)
    ):
        for line in group:
            output.say(f"{line.line}  {shortened(visible(line.text), _WIDTH - 2 - len(str(line.line)))}")
        if writing is None:
            why = "one of several could have written it" if is_uncertain else "no session wrote it"
            output.say(f"  unknown: {why}, as far as the logs show")
        else:
            _say_writing(found.writings[writing])


def _say_writing(writing: FileWriting) -> None:
    written = writing.at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if writing.at else "at an unknown time"
    by = f" by agent {visible(writing.agent)}" if writing.agent else ""
    rows = [
        f"session  {writing.session}{' (in the archive)' if writing.archived else ''}",
        f"title    {shortened(visible(writing.title), _WIDTH - 11)}",
        f"written  {written} ({writing.tool}{by})",
    ]
    for row in rows:
        output.say(f"  {row}")
    head = "  prompt   "
    for part in ("(not found)" if writing.prompt is None else visible_lines(writing.prompt)).split("\n"):
        for row in wrapped(part, head, " " * 11, _WIDTH):
            output.say(row)
        head = " " * 11


def say_log(options: Namespace, path: Path) -> int:
    """The sessions that changed a file, and the commits that hold their lines."""
    home = open_home(options.homes)
    found = file_log(home, path)
    note_unreadable(home)
    if options.json:
        return output.print_json(found)
    names = session_names(one.session for one in found.sessions)
    for session, name in zip(found.sessions, names, strict=True):
        _say_session(session, name)
    for commit in found.commits:
        _say_commit(commit)
    counts = {"session": len(found.sessions), "commit": len(found.commits)}
    output.say(", ".join(counted(count, noun) for noun, count in counts.items()), "dim")
    return 0


def _say_session(one: TouchingSessionDocument, name: str) -> None:
    lines = "" if one.lines is None else f", {counted(one.lines, 'line')} now"
    head = f"{name}  {when(one.last_at):<16}  {counted(one.changes, 'change')}{lines}  "
    title = shortened(visible(one.title), max(_WIDTH - len(head), 16))
    output.say(output.styled(name, "cyan") + head[len(name) :] + title)


def _say_commit(one: FileCommitDocument) -> None:
    who = ", ".join(f"{short_id(found.session)} {found.lines:,}" for found in one.sessions) or "no session"
    head = f"{one.commit[:8]}  {when(one.at):<16}  +{one.added:,}: {who}  "
    subject = shortened(visible(one.subject), max(_WIDTH - len(head), 16))
    output.say(output.styled(head[:8], "yellow") + head[8:] + subject)
