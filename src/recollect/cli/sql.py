"""The command ``data sql``: a SELECT over sessions."""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from recollect.ask.data.query import MANIFEST, SqlResult, run_sql
from recollect.ask.homes import Homes
from recollect.cli.terminal import output
from recollect.cli.terminal.options import add_json, flag, own_data
from recollect.cli.terminal.output import shares
from recollect.cli.terminal.rows import print_csv, wants_csv
from recollect.cli.terminal.sessions import note_unreadable, open_home
from recollect.cli.terminal.text import ago, counted, padded, shortened, visible, width
from recollect.errors import UsageError
from recollect.share.lake_export import lake_directory

_LIMIT = 1000
_GAP = 2
_LEAST = 8
_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT", "NUMBER")


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", help="one SELECT")
    parser.add_argument("--lake", metavar="DIR", help="read the lake in this directory")
    flag(parser, "--no-lake", "read the index and the logs")
    parser.add_argument(
        "-n",
        "--limit",
        type=int,
        default=_LIMIT,
        metavar="N",
        help=f"rows at most, 0 for all (default {_LIMIT})",
    )
    add_json(parser, csv=True)


def run(options: Namespace) -> int:
    as_csv = wants_csv(options)
    if options.limit < 0:
        raise UsageError(f"--limit {options.limit}: less than none", hint="write a number, or 0 for all rows")
    home = open_home(options.homes)
    lake = _lake(options, home)
    found = run_sql(options.query, home=home, lake=lake, limit=options.limit)
    if lake is None:
        note_unreadable(home)
    if options.json:
        # Decimals and times are texts, so that no digit is lost.
        return output.print_json(replace(found, rows=[[plain(cell) for cell in row] for row in found.rows]))
    if as_csv:
        names = _distinct([column.name for column in found.columns])
        print_csv([dict(zip(names, map(plain, row), strict=True)) for row in found.rows])
    else:
        for line in table_lines(found, output.columns()):
            output.say(line)
    if lake is not None:
        written = dt.datetime.fromtimestamp((lake / MANIFEST).stat().st_mtime, dt.UTC)
        age = ago(written, dt.datetime.now(dt.UTC))
        output.note(f"from the lake of {age}; --no-lake reads what is there now")
    if found.truncated:
        output.note(f"only the first {counted(options.limit, 'row')}: --limit 0 shows all")
    return 0


def _lake(options: Namespace, home: Homes) -> Path | None:
    """The lake to read; None where the index and the logs are meant."""
    if options.lake is not None:
        if options.no_lake:
            raise UsageError("--lake and --no-lake exclude each other", hint="leave one out")
        return Path(options.lake).absolute()
    usual = lake_directory(home, own_data(options))
    return usual if not options.no_lake and (usual / MANIFEST).is_file() else None


def plain(cell: Any) -> Any:
    """A cell as JSON has it: what JSON has no exact form for is text."""
    if cell is None or isinstance(cell, str | bool | int):
        return cell
    if isinstance(cell, float):
        return cell if cell == cell and abs(cell) != float("inf") else str(cell)  # noqa: PLR0124 - not a number
    if isinstance(cell, Decimal):
        return format(cell.normalize() if cell else Decimal(0), "f")
    if isinstance(cell, dt.date | dt.time):
        return cell.isoformat()
    if isinstance(cell, list | tuple):
        return [plain(one) for one in cell]
    if isinstance(cell, dict):
        return {str(plain(key)): plain(value) for key, value in cell.items()}
    return cell.hex() if isinstance(cell, bytes) else str(cell)


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of columns, each once: a second ``day`` is ``day_2``."""
    found: list[str] = []
    for name in names:
        number = sum(one == name or one.startswith(f"{name}_") for one in found) + 1
        found.append(name if number == 1 else f"{name}_{number}")
    return found


def table_lines(found: SqlResult, room: int | None) -> Iterator[str]:
    """A table that fits; where there are too many columns, one row below the other."""
    heads = [visible(column.name) for column in found.columns]
    rows = [[_shown(cell) for cell in row] for row in found.rows]
    kinds = [column.type for column in found.columns]
    is_number = [kind.startswith(_NUMBERS) or kind in ("HUGEINT", "BIGINT") for kind in kinds]
    columns = [max(map(width, cells)) for cells in zip(heads, *rows, strict=True)]
    least = [one if number else min(one, _LEAST) for one, number in zip(columns, is_number, strict=True)]
    gaps = _GAP * (len(columns) - 1)
    if room is not None and sum(columns) + gaps > room:
        if sum(least) + gaps > room:
            yield from _records(heads, rows, room)
            return
        columns = shares(room - gaps, columns, least)
    for cells in (heads, *rows):
        yield "  ".join(
            (" " * (size - width(cell)) + cell) if number else padded(shortened(cell, size), size)
            for cell, size, number in zip(cells, columns, is_number, strict=True)
        ).rstrip()


def _records(heads: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> Iterator[str]:
    longest = min(max(map(width, heads)), room // 2)
    for number, row in enumerate(rows):
        if number:
            yield ""
        for head, cell in zip(heads, row, strict=True):
            name = padded(shortened(head, longest), longest)
            yield f"{name}  {shortened(cell, room - longest - 2)}".rstrip()


def _shown(cell: Any) -> str:
    value = plain(cell)
    return "" if value is None else visible(value if isinstance(value, str) else str(value))
