"""Tables and rows that several commands print: figures, sessions, findings, CSV.

Where the room is short, figures lose digits (12.3M), then columns that can be missed are left out, then names are shortened.
CSV has the rows of the JSON document. Texts of transcripts are hostile: a cell that a spreadsheet would take for a formula
begins with an apostrophe.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins

from recollect.cli.terminal import output
from recollect.cli.terminal.output import plain_width, shares
from recollect.cli.terminal.text import (
    ago,
    counted,
    padded,
    session_names,
    shortened,
    shortened_path,
    size,
    visible,
    visible_lines,
    width,
    wrapped,
)
from recollect.errors import UsageError
from recollect.model.lines.ids import short_id
from recollect.model.session import SessionSummary
from recollect.model.text.titles import copy_note
from recollect.system.paths import CLAUDE

if TYPE_CHECKING:
    from recollect.ask.protection import Protection
    from recollect.model.checks.rules import Finding

_LONG_FIGURE = re.compile(r"(\$?)(\d{1,3}(?:,\d{3})+)(\.\d+)?")
_UNITS = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_LEAST_NAME = 8
_GAP = 2


def fitted_table(
    rows: Sequence[Sequence[str]], names: int, room: int | None, can_be_missed: Sequence[str]
) -> list[list[str]]:
    """The rows, heads first, of which the first ``names`` cells are names. ``can_be_missed``: heads, the first to go first."""
    table = [list(row) for row in rows]
    if room is None or _width(table) <= room:
        return table
    if _least_width(table, names) > room:
        table = [table[0], *([*row[:names], *map(_compact, row[names:])] for row in table[1:])]
    for head in can_be_missed:
        if _least_width(table, names) > room and head in table[0][names:]:
            at = table[0].index(head, names)
            table = [row[:at] + row[at + 1 :] for row in table]
    columns = _widths(table)
    figures = sum(columns[names:]) + _GAP * (len(columns) - 1)
    given = shares(room - figures, columns[:names], [min(_LEAST_NAME, one) for one in columns[:names]])
    return [[*map(_short, row[:names], given), *row[names:]] for row in table]


def aligned(table: Sequence[Sequence[str]], names: int) -> list[str]:
    """Each row as text: the first ``names`` cells left-aligned, figures right-aligned."""
    columns = list(enumerate(_widths(table)))
    return [
        "  ".join(
            padded(row[at], wide) if at < names else " " * (wide - width(row[at])) + row[at]
            for at, wide in columns
        )
        for row in table
    ]


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(width, cells)) for cells in zip(*table, strict=True)]


def _width(table: Sequence[Sequence[str]]) -> int:
    columns = _widths(table)
    return sum(columns) + _GAP * (len(columns) - 1)


def _least_width(table: Sequence[Sequence[str]], names: int) -> int:
    """What the table takes if its names are as short as a reader can bear."""
    columns = _widths(table)
    spare = sum(max(one - 2 * _LEAST_NAME, 0) for one in columns[:names])
    return _width(table) - spare


def _short(name: str, columns: int) -> str:
    """A title may hold a slash, too: only what begins like a path loses its middle."""
    return shortened_path(name, columns) if name.startswith(("/", "~")) else shortened(name, columns)


def _compact(figure: str) -> str:
    """``12,345,678`` as ``12.3M``; what is not such a number stays."""
    found = _LONG_FIGURE.fullmatch(figure)
    if found is None:
        return figure
    number = int(found[2].replace(",", ""))
    size, unit = next((size, unit) for size, unit in _UNITS if number >= size)
    amount = number / size
    return f"{found[1]}{amount:.1f}{unit}" if amount < 99.95 else f"{found[1]}{amount:.0f}{unit}"


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def wants_csv(options: Namespace) -> bool:
    """Whether a table was asked for, and not a document too."""
    if options.csv and options.json:
        raise UsageError("--csv and --json exclude each other", hint="leave one out")
    return bool(options.csv)


def print_data(options: Namespace, document: Struct | Mapping[str, object], rows: Sequence[object]) -> bool:
    """Print the rows as CSV or the document as JSON, where one of them was asked for; whether it was."""
    if wants_csv(options):
        print_csv(rows)
    elif options.json:
        output.print_json(document)
    return bool(options.csv or options.json)


def print_csv(rows: Sequence[object]) -> int:
    """Print rows with a line of headings. A column is there if some row has it. Returns the exit status 0."""
    import csv

    cells = [dict(_cells("", to_builtins(row, enc_hook=str))) for row in rows]
    heads = list(dict.fromkeys(name for row in cells for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, heads, restval="", lineterminator="\n")
    if heads:
        writer.writeheader()
    writer.writerows(cells)
    sys.stdout.write(_shown(text.getvalue()))
    return 0


def _cells(prefix: str, value: object) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _cells(f"{prefix}.{name}" if prefix else str(name), inner)
    elif isinstance(value, list | tuple):
        is_plain = not any(isinstance(one, Mapping | list | tuple) for one in value)
        yield prefix, _safe("; ".join(map(str, value))) if is_plain else str(len(value))
    elif isinstance(value, bool):
        yield prefix, "true" if value else "false"
    else:
        yield prefix, _safe(value) if isinstance(value, str) else "" if value is None else str(value)


def _safe(text: str) -> str:
    """A text that no spreadsheet evaluates. Numbers, dates and amounts stay as they are."""
    if text.startswith(_FORMULA) and not text.removeprefix("-").replace(".", "", 1).isdigit():
        return f"'{text}"
    return text


def _shown(text: str) -> str:
    """Text that UTF-8 cannot encode is escaped; on a terminal, control characters too."""
    text = text.encode("utf-8", "backslashreplace").decode()
    if not sys.stdout.isatty():
        return text

    return visible_lines(text)


_AGE, _SIZE, _TITLE = 13, 8, 44
_WITH_SIZE = 76  # columns from which on there is room for it
_LEAST_PLACE = 12


def session_rows(sessions: Sequence[SessionSummary], now: dt.datetime, *, indent: str = "") -> Iterator[str]:
    """One row for each."""
    titles = [visible(one.title) or "(no title)" for one in sessions]
    ages = [ago(one.shown_at, now) for one in sessions]
    room = output.columns()
    age = _AGE if room is None else max(map(len, ages), default=0)
    with_size = room is None or room >= _WITH_SIZE
    names = session_names(one.id for one in sessions)
    columns = width(names[0]) if names else 0
    left = None if room is None else room - len(indent) - columns - age - 6 - (_SIZE + 2) * with_size
    title = _TITLE if left is None else _title_columns(left, titles, sessions)
    for one, session, name, when in zip(sessions, names, titles, ages, strict=True):
        cells = [output.styled(session, "cyan"), f"{when:>{age}}"]
        cells += [f"{size(one.bytes):>{_SIZE}}"] if with_size else []
        cells += [padded(shortened(name, title), title), _place_and_marks(one, left and left - title)]
        yield indent + "  ".join(cells)


def _title_columns(left: int, titles: Sequence[str], sessions: Sequence[SessionSummary]) -> int:
    """The title gets most of the room; what it does not need is for the directory."""
    wanted = min(max(map(width, titles), default=0), max(_TITLE, left // 2))
    tails = max((plain_width(_place_and_marks(one, None)) for one in sessions), default=0)
    return shares(left, [wanted, tails], [min(wanted, left * 3 // 5), _LEAST_PLACE])[0]


def _place_and_marks(one: SessionSummary, columns: int | None) -> str:
    """A row ends with the directory and what is special about the session; both together fit."""
    place, marks = _place(one), _marks(one)
    if columns is not None:
        while marks and plain_width("  ".join(marks)) > columns - _LEAST_PLACE // 2:
            marks.pop()
        place = shortened_path(place, columns - (plain_width("  ".join(marks)) + 2 if marks else 0))
    return "  ".join([place, *marks])


def _place(one: SessionSummary) -> str:
    return visible(one.cwd or "") or visible(Path(one.path).parent.name)


def _marks(one: SessionSummary) -> list[str]:
    """The most important first."""
    marks = [output.styled(one.agent, "yellow")] if one.agent and one.agent != CLAUDE else []
    marks += [output.styled("live", "green")] if one.live else []
    marks += [output.styled("beginning lost", "yellow")] if one.lost_beginning else []
    marks += [output.styled("archived", "dim")] if one.is_archive_only else []
    marks += [visible(copied)] if (copied := copy_note(one.title, one.copied_from)) else []
    marks += [counted(one.agents, "agent")] if one.agents else []
    marks += [f"#{shortened(visible(one.tag), 16)}"] if one.tag else []
    marks += [f"continued in {visible(short_id(one.continued_in))}"] if one.continued_in else []
    return marks


_STYLE = {"error": "red", "warning": "yellow", "info": "dim"}
_INDENT = " " * 10


def finding_lines(finding: Finding) -> Iterator[str]:
    """Severity, code, location and message, in 80 columns."""
    severity = finding.severity.value
    agent = f"agent {visible(finding.agent)} " if finding.agent else ""
    place = (
        f"{place_of(finding.line, finding.offset)}: " if finding.line and finding.offset is not None else ""
    )
    text = f"{finding.code}: {agent}{place}{visible(finding.what)}"
    first, *more = wrapped(text, f"  {severity:<7} ", _INDENT)
    yield first.replace(severity, output.styled(severity, _STYLE[finding.severity]), 1)
    yield from more


def fix_lines(finding: Finding) -> Iterator[str]:
    """The recommended fix and what a repair would do; nothing if there is nothing to do."""
    if finding.fix.startswith("nothing to do"):
        return
    # Do not wrap a command line: it is there to be copied.
    yield output.styled(f"{_INDENT}-> {visible(finding.fix)}", "dim")
    if finding.repair is not None:
        for line in wrapped(f"to {finding.repair}", f"{_INDENT}   ", f"{_INDENT}   "):
            yield output.styled(line, "dim")


def place_of(line: int, offset: int) -> str:
    return f"line {line:,}, byte {offset:,}"


def codes_of(findings: Sequence[Finding]) -> str:
    """How many findings of each code, most frequent first."""
    counts = Counter(one.code for one in findings)
    codes = ", ".join(f"{count:,} {code}" for code, count in counts.most_common())
    return f"{counted(len(findings), 'finding')}: {codes}"


def protection_line(found: Protection, now: dt.datetime) -> str:
    """ "archived 12 min ago, 611 of 611 sessions", or why they are not protected."""
    last = found.last_run
    parts = []
    if last is not None and found.state == "protected":
        return f"archived {ago(last.at, now)}, {last.archived:,} of {counted(last.sessions, 'session')}"
    if last is not None and found.state != "off":
        parts.append(f"last run {ago(last.at, now)}")
        if last.sessions:
            parts.append(f"{last.archived:,} of {last.sessions:,} sessions archived")
    if found.reason:
        parts.append(visible(output.typed(found.reason)))
    return output.styled("in part: " if found.state == "in part" else "no: ", "yellow") + ", ".join(parts)
