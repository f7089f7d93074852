"""Show which session wrote each line of a file, and the prompt that asked for it.

The changes that sessions report are replayed up to the file as it is now. A
line that a person or a shell command wrote, or that cannot be proved to be a
session's, has no session: it is unknown. So is one of several equal lines if
nothing tells them apart. A line that was only moved keeps its session. A file
that was renamed, or whose directory was, keeps its history as far as commands
of sessions (mv, git mv), commits or its content show the renaming. Changes
nothing, and writes nothing into git.

With line numbers: the session, the prompt and the time of those lines in full.

Example:
  recollect blame src/cart.py
  recollect blame src/cart.py:42
  recollect blame src/cart.py:10-20 --json
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.homes import note_unreadable, open_home
from recollect.cli.terminal.text import counted, shortened, visible, visible_lines, wrapped
from recollect.errors import UsageError
from recollect.model.ids import short_id
from recollect.services.blame.blame import BlamedLine, FileWriting, blamed
from recollect.services.documents.blame import blame_document

_LINES = re.compile(r"(.+):(\d{1,9})(?:-(\d{1,9}))?", re.DOTALL)
_WIDTH = 80


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH[:LINE[-LINE]]", help="a file, or some of its lines")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    path, first, last = _asked(options.path)
    home = open_home(options.homes)
    lines = blamed(home, path)
    note_unreadable(home)
    if first is not None and last is not None:
        if not 1 <= first <= last <= len(lines):
            raise UsageError(
                f"{path}: no line {first if first == last else f'{first}-{last}'}",
                hint=f"it has {counted(len(lines), 'line')}",
            )
        lines = lines[first - 1 : last]
    if options.json:
        output.print_json(blame_document(str(path), lines))
    elif first is not None:
        _say_in_full(lines)
    else:
        _say(lines)
    return 0


def _asked(text: str) -> tuple[Path, int | None, int | None]:
    """The file, and which of its lines; a name that ends like a line number is a name if there is such a file."""
    path, found = Path(text).expanduser(), _LINES.fullmatch(text)
    if found is None or path.is_file():
        return path, None, None
    return Path(found[1]).expanduser(), int(found[2]), int(found[3] or found[2])


def _say(lines: Sequence[BlamedLine]) -> None:
    """A row for each line, then the prompts."""
    digits = len(str(len(lines)))
    names = [_name(line) for line in lines]
    columns = max([8, *map(len, names)])
    for line, name in zip(lines, names, strict=True):
        head = f"{line.number:>{digits}}  {name:<{columns}}  "
        output.say(head + shortened(visible(line.text), _WIDTH - len(head)))
    writings = {id(line.writing): line.writing for line in lines if line.writing is not None}
    known = sum(line.writing is not None for line in lines)
    seen: set[tuple[str, str | None]] = set()
    for writing in writings.values():
        prompt = writing.prompt
        key = writing.session.id, None if prompt is None else prompt.uuid
        if key not in seen:
            seen.add(key)
            text = "(prompt not found)" if prompt is None else prompt.text
            output.say(
                f"{output.styled(visible(short_id(writing.session.id)), 'cyan')}  {shortened(visible(text), 70)}"
            )
    output.say(output.styled(f"{known:,} of {counted(len(lines), 'line')} written by a session", "dim"))


def _name(line: BlamedLine) -> str:
    if line.writing is not None:
        return visible(short_id(line.writing.session.id))
    return "?" if line.is_uncertain else "-"


def _say_in_full(lines: Sequence[BlamedLine]) -> None:
    for _, group in groupby(lines, key=lambda line: (id(line.writing), line.is_uncertain)):
        block = list(group)
        for line in block:
            output.say(f"{line.number}  {shortened(visible(line.text), _WIDTH - 2 - len(str(line.number)))}")
        writing = block[0].writing
        if writing is None:
            why = "one of several could have written it" if block[0].is_uncertain else "no session wrote it"
            output.say(f"  unknown: {why}, as far as the logs show")
        else:
            _say_writing(writing)


def _say_writing(writing: FileWriting) -> None:
    session, prompt = writing.session, writing.prompt
    when = writing.at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if writing.at else "at an unknown time"
    by = f" by agent {visible(writing.agent)}" if writing.agent else ""
    rows = [
        f"session  {session.id}{' (in the archive)' if session.is_archived else ''}",
        f"title    {shortened(visible(session.title), _WIDTH - 11)}",
        f"written  {when} ({writing.tool}{by})",
    ]
    for row in rows:
        output.say(f"  {row}")
    head = "  prompt   "
    for part in ("(not found)" if prompt is None else visible_lines(prompt.text)).split("\n"):
        for row in wrapped(part, head, " " * 11, _WIDTH):
            output.say(row)
        head = " " * 11
