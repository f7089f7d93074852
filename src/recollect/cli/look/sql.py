"""Run one SELECT over your sessions: cost, messages, tool calls, in DuckDB's SQL.

Tables: responses, messages, tool_calls, sessions. `recollect sql "DESCRIBE
responses"` lists columns; docs/reference/lake.md explains them. `usd` is exact
and null where a row does not count, so sum(usd) is the total of `recollect
cost`; add WHERE counted to sum tokens. Times and days are UTC. The column "at"
needs its quotes, because it is a word of SQL.

The tables are those of the lake, if there is one (`recollect export --format
parquet`); else, and with --no-lake, they are read from the index and the logs,
up to date, with texts. Nothing can be changed: no other statement is taken, and
a query reaches no file, no network and no extension.

Example:
  recollect sql "SELECT day, sum(usd) FROM responses GROUP BY day ORDER BY day"
  recollect sql "SELECT name, status, count(*) FROM tool_calls GROUP BY ALL"
  recollect sql --csv --limit 0 "SELECT * FROM sessions" > sessions.csv
"""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.csv_tables import add_csv, print_csv, wants_csv
from recollect.cli.terminal.homes import note_unreadable, open_home
from recollect.cli.terminal.layout import shares
from recollect.cli.terminal.text import ago, counted, padded, shortened, visible, width
from recollect.errors import UsageError

if TYPE_CHECKING:
    from recollect.services.homes import Home
    from recollect.services.lake.query import SqlResult

_LIMIT = 1000
_GAP = 2
_LEAST = 8
_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT", "NUMBER")


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", help="one SELECT")
    parser.add_argument("--lake", metavar="DIR", help="read the lake in this directory")
    parser.add_argument("--no-lake", action="store_true", help="read the index and the logs")
    parser.add_argument(
        "--limit", type=int, default=_LIMIT, metavar="N", help=f"rows at most, 0 for all (default {_LIMIT})"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_csv(parser)


def run(options: Namespace) -> int:
    from recollect.services.lake.query import run_sql

    as_csv = wants_csv(options)
    if options.limit < 0:
        raise UsageError(f"--limit {options.limit}: less than none", hint="write a number, or 0 for all rows")
    home = open_home(options.homes)
    lake = _lake(options, home)
    found = run_sql(options.query, home=home, lake=lake, limit=options.limit)
    if lake is None:
        note_unreadable(home)
    if options.json:
        _print_json(found)
        return 0
    if as_csv:
        names = _distinct([name for name, _ in found.columns])
        print_csv([dict(zip(names, map(plain, row), strict=True)) for row in found.rows])
    else:
        for line in table_lines(found, output.columns()):
            output.say(line)
    if lake is not None:
        _say_age(lake)
    if found.is_cut:
        output.note(f"only the first {counted(options.limit, 'row')}: --limit 0 shows all")
    return 0


def _lake(options: Namespace, home: Home) -> Path | None:
    """The lake to read; None where the index and the logs are meant."""
    from recollect.services.lake.export import lake_directory
    from recollect.services.lake.lake_files import MANIFEST

    if options.lake is not None:
        if options.no_lake:
            raise UsageError("--lake and --no-lake exclude each other", hint="leave one out")
        return Path(options.lake).absolute()
    usual = lake_directory(home, change_plans.own_data(options))
    return usual if not options.no_lake and (usual / MANIFEST).is_file() else None


def _say_age(lake: Path) -> None:
    from recollect.services.lake.lake_files import MANIFEST

    written = dt.datetime.fromtimestamp((lake / MANIFEST).stat().st_mtime, dt.UTC)
    output.note(
        f"from the lake of {ago(written, dt.datetime.now(dt.UTC))}; --no-lake reads what is there now"
    )


def _print_json(found: SqlResult) -> None:
    from recollect.services.documents.lake import SqlColumnDocument, SqlDocument

    output.print_json(
        SqlDocument(
            source=found.source,
            columns=[SqlColumnDocument(*one) for one in found.columns],
            rows=[[plain(cell) for cell in row] for row in found.rows],
            truncated=found.is_cut,
        )
    )


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
    heads = [visible(name) for name, _ in found.columns]
    rows = [[_shown(cell) for cell in row] for row in found.rows]
    is_number = [kind.startswith(_NUMBERS) or kind in ("HUGEINT", "BIGINT") for _, kind in found.columns]
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
