"""The command ``diff``: what sessions changed in files, in one diff for each file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from msgspec import structs, to_builtins

from recollect.ask.blame.changes import FileNetChange
from recollect.cli.files import change_note, changes_asked, is_path_name, say_total
from recollect.cli.terminal import output
from recollect.cli.terminal.options import add_json, add_project, add_span, flag
from recollect.cli.terminal.rows import print_data, wants_csv
from recollect.cli.terminal.sessions import named_session
from recollect.cli.terminal.text import visible, visible_lines

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="S|PATH", nargs="?", help="a session, a file or a directory")
    parser.add_argument("--path", metavar="P", help="only files whose path is P, ends in P or lies in P")
    add_span(parser)
    add_project(parser)
    flag(parser, "--stat", "only the files, with lines added and removed")
    add_json(parser, csv=True)


def run(options: Namespace) -> int:
    is_session = options.what is not None and not is_path_name(options.what)
    found = changes_asked(options, "diff", named_session(options, options.what) if is_session else None)
    if wants_csv(options) or options.json:
        rows = [to_builtins(structs.replace(change, diff=None)) for change in found.files]
        print_data(options, found, rows)
        return 0
    for change in found.files:
        output.say(_head(change), "bold")
        for line in () if options.stat else _diff(change):
            output.say(line)
    say_total(found)
    return 0


def _head(change: FileNetChange) -> str:
    times = "" if change.changes == 1 else f", {change.changes} changes"
    return f"{visible(change.path)}{change_note(change)}  +{change.added:,} -{change.removed:,}{times}"


def _diff(change: FileNetChange) -> Iterator[str]:
    if change.diff is None:
        yield output.styled(
            "  its content is not in the logs: the lines are those of the single changes", "dim"
        )
        return
    for line in filter(None, change.diff.split("\n")[2:]):
        shown = visible_lines(line)
        yield output.styled(shown, _STYLES[shown[0]]) if shown[:1] in _STYLES else shown
