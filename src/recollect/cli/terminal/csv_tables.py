"""Tables for spreadsheets: ``--csv`` of every command that prints one.

The rows are those of the JSON document, so both say the same. A nested object becomes columns (``best.kind``), a list of
plain values one cell, a list of objects its length. Texts of transcripts are hostile: a cell that a spreadsheet would
take for a formula begins with an apostrophe, and on a terminal control characters are shown.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence

from recollect.errors import UsageError

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def add_csv(parser: ArgumentParser) -> None:
    parser.add_argument("--csv", action="store_true", help="print the rows as CSV")


def wants_csv(options: Namespace) -> bool:
    """Whether a table was asked for, and not a document too."""
    if options.csv and options.json:
        raise UsageError("--csv and --json exclude each other", hint="leave one out")
    return bool(options.csv)


def print_csv(rows: Sequence[object]) -> None:
    """Print rows with a line of headings. A column is there if some row has it."""
    import csv
    import io

    from msgspec import to_builtins

    cells = [dict(_cells("", to_builtins(row, enc_hook=str))) for row in rows]
    heads = list(dict.fromkeys(name for row in cells for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, heads, restval="", lineterminator="\n")
    if heads:
        writer.writeheader()
    writer.writerows(cells)
    sys.stdout.write(_shown(text.getvalue()))


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
    from recollect.cli.terminal.text import visible_lines

    return visible_lines(text)
