"""SQL over the tables of a home, in DuckDB: over a lake, or over the index and the logs as they are now.

Only reads, and only these tables. The database is in memory and has no access to files, no extensions, no Python
objects but the tables, and settings that cannot be changed any more; one statement is taken, and it must be a SELECT.
So neither the text of a query nor the text of a transcript can make it touch anything else. Tables are handed over as
Arrow data: DuckDB itself opens no file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from recollect.errors import Busy, DamagedData, MissingExtra, NotFound, UsageError
from recollect.services.homes import Home
from recollect.services.lake.lake_files import LakeFiles, schema_of
from recollect.services.lake.schema import DAY, TABLES, LakeTable, pyarrow
from recollect.services.library.walk import Walk

MEMORY = "2GB"
_WORD = re.compile(r"\w+")
_HINT = "one SELECT over responses, messages, tool_calls and sessions; `DESCRIBE responses` lists columns"


class SqlResult(Struct, frozen=True):
    """Columns as (name, type of DuckDB), and rows. ``is_cut``: there are more rows than were asked for."""

    source: str
    columns: list[tuple[str, str]]
    rows: list[tuple[Any, ...]]
    is_cut: bool


def run_sql(text: str, *, home: Home, lake: Path | None, limit: int) -> SqlResult:
    """Run one query over a lake; where it is None, over what the homes hold now."""
    duckdb = _duckdb()
    pyarrow("sql")
    source = "the index and the logs" if lake is None else str(lake)
    with _database(duckdb) as database:
        _check(duckdb, database, text)
        for name, rows in _tables(text, home, lake):
            database.register(name, _without_zones(rows))
        try:
            found = database.execute(text)
            rows = found.fetchmany(limit + 1) if limit else found.fetchall()
        except duckdb.OutOfMemoryException as cause:
            raise Busy(
                f"the query needs more than {MEMORY}", hint="select less, or aggregate more"
            ) from cause
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except duckdb.Error as cause:
            if "pytz" in str(cause):
                raise UsageError(
                    "sql: a column is a time with a zone", hint="times here are UTC: write now()::TIMESTAMP"
                ) from cause
            raise UsageError(_first(cause), hint=_HINT) from cause
        columns = [(str(one[0]), str(one[1])) for one in found.description or []]
    is_cut = bool(limit) and len(rows) > limit
    return SqlResult(source, columns, rows[:limit] if is_cut else rows, is_cut)


def _duckdb() -> Any:
    try:
        return import_module("duckdb")
    except ImportError as cause:
        raise MissingExtra("sql", "duckdb", "analytics") from cause


@contextlib.contextmanager
def _database(duckdb: Any) -> Iterator[Any]:
    settings = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "python_enable_replacements": "false",
        "temp_directory": "",
        "memory_limit": MEMORY,
        "TimeZone": "UTC",
    }
    with duckdb.connect(":memory:") as database:
        for name, value in settings.items():
            with contextlib.suppress(duckdb.CatalogException):  # a setting that this version has no more
                database.execute(f"SET {name} = '{value}'")
        try:  # these two hold everything else
            database.execute("SET enable_external_access = false")
            database.execute("SET lock_configuration = true")
        except duckdb.Error as cause:
            raise UsageError(
                f"sql: this duckdb ({duckdb.__version__}) cannot be kept from files: {_first(cause)}",
                hint="install the version that recollect's extra `analytics` names",
            ) from cause
        yield database


def _check(duckdb: Any, database: Any, text: str) -> None:
    """One statement that reads. The others would only fail later, or change a database that is gone at once."""
    try:
        found = database.extract_statements(text)
    except duckdb.Error as cause:
        raise UsageError(_first(cause), hint=_HINT) from cause
    if len(found) != 1:
        raise UsageError(f"sql: {len(found)} statements instead of one", hint=_HINT)
    try:
        kind = str(found[0].type).rpartition(".")[2]
    except ValueError:  # a statement that the engine knows and its Python package does not
        kind = "this statement"
    if kind != "SELECT":
        raise UsageError(f"sql: only reads, and {kind} does not", hint=_HINT)


def _tables(text: str, home: Home, lake: Path | None) -> Iterator[tuple[str, Any]]:
    """Every table; those that the text does not name are empty, so that nothing is read for them."""
    words = {word.casefold() for word in _WORD.findall(text)}
    for table in TABLES.values():
        if table.name not in words:
            yield table.name, _with_day(table).empty_table()
        else:
            yield table.name, _current(table, home) if lake is None else _stored(table, lake)


def _with_day(table: LakeTable, *, with_text: bool = True) -> Any:
    arrow = pyarrow("sql")
    return schema_of(table, with_text=with_text).append(arrow.field(DAY, arrow.date32()))


def _stored(table: LakeTable, lake: Path) -> Any:
    """The files of a table as one. What older files lack is null."""
    stored = LakeFiles(lake)
    manifest = stored.manifest()
    if manifest is None:
        raise NotFound(f"{lake}: there is no lake", hint="`recollect export --format parquet` makes one")
    arrow, dataset = pyarrow("sql"), import_module("pyarrow.dataset")
    schema = _with_day(table, with_text=manifest.with_text)
    files = [str(stored.path_of(name)) for name in manifest.files if name.startswith(f"{table.name}/")]
    if not files:
        return schema.empty_table()
    partitions = dataset.partitioning(arrow.schema([schema.field(DAY)]), flavor="hive")
    try:
        return dataset.dataset(
            files,
            schema=schema,
            format="parquet",
            partitioning=partitions,
            partition_base_dir=str(lake / table.name),
        ).to_table()
    except (OSError, arrow.ArrowException) as cause:
        raise DamagedData(
            f"{lake}: a file of {table.name} is missing or altered: {_first(cause)}",
            hint="`recollect export --format parquet` writes it again",
        ) from cause


def _without_zones(rows: Any) -> Any:
    """Times as UTC without a zone: DuckDB gives those to Python without another package."""
    arrow = pyarrow("sql")
    plain = [
        arrow.field(one.name, arrow.timestamp("us") if arrow.types.is_timestamp(one.type) else one.type)
        for one in rows.schema
    ]
    return rows.cast(arrow.schema(plain))


def _current(table: LakeTable, home: Home) -> Any:
    """What the homes hold now: responses and sessions from the index, the others from the logs."""
    arrow = pyarrow("sql")
    walks: dict[str, Callable[[], Walk[Any]]] = {
        "responses": home.responses,
        "sessions": home.sessions,
        "messages": lambda: home.messages(branches="all", agents=True),
        "tool_calls": home.tool_calls,
    }
    rows = walks[table.name]().to_arrow()
    day = rows.column(table.day_of).cast(arrow.timestamp("us")).cast(arrow.date32(), safe=False)
    return rows.append_column(arrow.field(DAY, arrow.date32()), day)


def _first(cause: Exception) -> str:
    """The first line of an engine's message and what it proposes instead; the rest quotes the query."""
    first, *others = [line for line in str(cause).splitlines() if line.strip()] or [type(cause).__name__]
    return " ".join([first, *(line for line in others if line.startswith(("Candidate", "Did you mean")))])
