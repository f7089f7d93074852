"""The files of a lake, and SQL over the tables of a home in DuckDB: over a lake, or over the index and the logs as they are.

Only reads, and only these tables. The database is in memory and has no access to files, no extensions, no Python
objects but the tables, and settings that cannot be changed any more; one statement is taken, and it must be a SELECT.
So neither the text of a query nor the text of a transcript can make it touch anything else. Tables are handed over as
Arrow data: DuckDB itself opens no file.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from recollect.ask.homes import Homes
from recollect.ask.tables import DAY, TABLES, VERSION, VERSION_KEY, LakeTable, Walk, arrow_schema, pyarrow
from recollect.errors import Busy, DamagedData, MissingExtra, NotFound, StorageError, UsageError
from recollect.model.lines.damage import QUERY_SECONDS
from recollect.system import fsops

MANIFEST = "_recollect.json"
PART = "part.parquet"
NO_DAY = "__HIVE_DEFAULT_PARTITION__"  # what Hive, Spark, DuckDB and Polars read as null
# What a manifest may name: it decides what is read, replaced and removed, and may come from someone else.
FILE_NAME = re.compile(rf"(?:{'|'.join(TABLES)})/{DAY}=(?:\d{{4}}-\d\d-\d\d|{NO_DAY})/{re.escape(PART)}")
_DAY_US = 86_400_000_000
_FIRST = dt.date(1970, 1, 1)
_WHAT = "export --format parquet"

Day = int | None  # days since 1970; None where a row has no time


class LakeFile(Struct, frozen=True, array_like=True):
    """A file as it was written. ``digest`` is of its rows, whatever wrote them."""

    rows: int
    bytes: int
    digest: str


class LakeLog(Struct, frozen=True, array_like=True):
    """A log as it was read, and the days on which it has messages or tool calls.

    ``agents``: how many sub-agents of its session it holds; itself, where it is the log of one.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    days: list[Day] = []
    session: str | None = None
    agents: int = 0


class LakeManifest(Struct):
    """What a lake holds."""

    version: int = VERSION
    with_text: bool = False
    homes: list[str] = []
    files: dict[str, LakeFile] = field(default_factory=dict)
    logs: dict[str, LakeLog] = field(default_factory=dict)


def day_name(day: Day) -> str:
    """A partition's directory name."""
    if day is None:
        return f"{DAY}={NO_DAY}"
    try:
        return f"{DAY}={_FIRST + dt.timedelta(days=day)}"
    except OverflowError:
        return f"{DAY}={NO_DAY}"


def file_of(table: LakeTable, day: Day) -> str:
    """A file's name below the lake's directory."""
    return f"{table.name}/{day_name(day)}/{PART}"


class LakeFiles:
    """The files of one lake, read and replaced one by one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.written: list[str] = []
        self.removed: list[str] = []

    def manifest(self) -> LakeManifest | None:
        """What was written here before; None in a directory that is missing or empty."""
        path = self.directory / MANIFEST
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            self._refuse_others()
            return None
        except OSError as cause:
            raise StorageError("read", path, cause, hint="make it readable") from cause
        try:
            found = msgspec.json.decode(data, type=LakeManifest)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            raise DamagedData(
                f"{path}: not a manifest of a lake: {cause}",
                hint="remove the directory and export again: all of it can be rebuilt",
            ) from cause
        if strange := [name for name in found.files if not FILE_NAME.fullmatch(name)]:
            raise DamagedData(
                f"{path}: names {strange[0]!a}, which is no file of a lake",
                hint="name another directory with --to, or remove this one: a lake can be rebuilt",
            )
        if found.version > VERSION:
            raise UsageError(
                f"{self.directory}: written by a newer recollect (schema {found.version}, known is {VERSION})",
                hint="update recollect, or name another directory with --to",
            )
        return found

    def _refuse_others(self) -> None:
        try:
            names = [entry.name for entry in os.scandir(self.directory) if not entry.name.startswith(".")]
        except FileNotFoundError:
            return
        except OSError as cause:
            raise StorageError("read", self.directory, cause, hint="name a directory with --to") from cause
        if names:
            raise UsageError(
                f"{self.directory}: holds something else ({names[0]!a})",
                hint="name an empty or a new directory with --to",
            )

    def path_of(self, name: str) -> Path:
        """Where a file is. The lake may be reached through links; inside it there are none to follow."""
        path = self.directory / name
        for one in (path.parent.parent, path.parent, path):
            if one.is_symlink():
                raise UsageError(
                    f"{one}: a link inside a lake",
                    hint="remove it and export again, or name another directory with --to",
                )
        return path

    def unknown(self, known: Iterable[str]) -> list[str]:
        """Parquet files below the tables that are not in the manifest: engines would count them too."""
        names = set(known)
        found = [
            path.relative_to(self.directory).as_posix()
            for table in TABLES
            for path in (self.directory / table).rglob("*.parquet")
        ]
        return sorted(
            name for name in found if name not in names and not name.rpartition("/")[2].startswith(".")
        )

    def is_whole(self, name: str, known: LakeFile) -> bool:
        """Whether a file is there as it was written."""
        try:
            return self.path_of(name).stat().st_size == known.bytes
        except OSError:
            return False

    def read(self, table: LakeTable, day: Day, *, with_text: bool) -> Any | None:
        """The rows of a file in the columns of today; None where there is none. Older files lack some columns."""
        found = self._stored(table, day)
        return None if found is None else shaped(found, table, with_text=with_text)

    def _stored(self, table: LakeTable, day: Day) -> Any | None:
        arrow, parquet = pyarrow(_WHAT), import_module("pyarrow.parquet")
        try:
            return parquet.ParquetFile(self.path_of(file_of(table, day))).read()
        except (OSError, arrow.ArrowException):
            return None  # missing, or no Parquet: written again from the logs

    def replace(self, table: LakeTable, day: Day, rows: Any, known: LakeFile | None) -> LakeFile:
        """Give a file these rows, unless it has them."""
        name, digest = file_of(table, day), _digest(rows)
        is_there = known is not None and self.is_whole(name, known)
        # Equal rows may lie in memory in two ways, so another digest is no proof of a change.
        if known is not None and is_there and (known.digest == digest or self._has(table, day, rows)):
            return LakeFile(known.rows, known.bytes, digest)
        data = _parquet(rows)
        path = self.path_of(name)
        temporary = path.with_name(f".{PART}.{os.urandom(6).hex()}.tmp")
        try:
            fsops.make_directories(path.parent, synced=False)
            fd = fsops.create_new(temporary)
            try:
                fsops.write_all(fd, data)
            finally:
                fsops.close(fd)
            fsops.rename_over(temporary, path)
        except OSError as cause:
            with contextlib.suppress(OSError):
                fsops.unlink(temporary)
            raise StorageError("write", path, cause, hint=fsops.next_step(cause, "export again")) from cause
        self.written.append(name)
        return LakeFile(rows.num_rows, len(data), digest)

    def _has(self, table: LakeTable, day: Day, rows: Any) -> bool:
        found = self._stored(table, day)
        return found is not None and bool(found.equals(rows))

    def remove(self, name: str) -> None:
        """Take away the file of a day without rows."""
        path = self.path_of(name)
        with contextlib.suppress(FileNotFoundError):
            fsops.unlink(path)
        fsops.remove_directory(path.parent)
        self.removed.append(name)

    def save(self, manifest: LakeManifest) -> None:
        """Write the manifest."""
        path = self.directory / MANIFEST
        try:
            fsops.make_directories(self.directory)
            fsops.replace_file(path, msgspec.json.encode(manifest))
        except OSError as cause:
            raise StorageError("write", path, cause, hint=fsops.next_step(cause, "export again")) from cause


def by_day(table: LakeTable, rows: Any) -> Iterator[tuple[Day, Any]]:
    """Rows cut into days, each in the table's order."""
    compute = import_module("pyarrow.compute")
    arrow = pyarrow(_WHAT)
    at = rows.column(table.day_of).cast(arrow.int64())
    # Rounded down, also before 1970.
    days = compute.floor(compute.divide(at.cast(arrow.float64()), float(_DAY_US))).cast(arrow.int64())
    rows = rows.append_column(DAY, days)
    order = [(name, "ascending") for name in (DAY, *table.order)]
    rows = rows.take(compute.sort_indices(rows, sort_keys=order)).combine_chunks()
    runs = compute.run_end_encode(rows.column(DAY).combine_chunks())
    rows, start = rows.drop_columns([DAY]), 0
    for end, day in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield day, rows.slice(start, end - start)
        start = end


def shaped(rows: Any, table: LakeTable, *, with_text: bool) -> Any:
    """Rows in the columns of today; what an older file lacks is null."""
    arrow = pyarrow(_WHAT)
    schema = schema_of(table, with_text=with_text)
    columns = [
        rows.column(one.name).cast(one.type)
        if one.name in rows.column_names
        else arrow.nulls(rows.num_rows, one.type)
        for one in schema
    ]
    return arrow.Table.from_arrays(columns, schema=schema)


def schema_of(table: LakeTable, *, with_text: bool) -> Any:
    """The Arrow schema of a file."""
    return arrow_schema(table.chosen(with_text=with_text), _WHAT)


def _digest(rows: Any) -> str:
    arrow = pyarrow(_WHAT)
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return hashlib.blake2b(memoryview(sink.getvalue()), digest_size=16).hexdigest()


_UNIQUE = frozenset(("message_id", "request_id", "uuid", "parent_uuid", "id", "text", "input", "result"))


def _parquet(rows: Any) -> bytes:
    arrow, parquet = pyarrow(_WHAT), import_module("pyarrow.parquet")
    sink = arrow.BufferOutputStream()
    # Numbers and times are written as they are: that takes less time and room than a dictionary of them.
    repeated = [
        one.name for one in rows.schema if arrow.types.is_string(one.type) and one.name not in _UNIQUE
    ]
    # Without Arrow's own copy of the schema, which is most of a small file: Parquet's types say the same.
    with parquet.ParquetWriter(
        sink,
        rows.schema.remove_metadata(),
        compression="zstd",
        compression_level=3,
        use_dictionary=repeated,
        store_schema=False,
    ) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({VERSION_KEY.decode(): str(VERSION)})
    return bytes(memoryview(sink.getvalue()))


MEMORY = "2GB"
_WORD = re.compile(r"\w+")
_HINT = "one SELECT over responses, messages, tool_calls and sessions; `DESCRIBE responses` lists columns"


class SqlColumn(Struct, frozen=True):
    """A column of a result; ``type`` is DuckDB's."""

    name: str
    type: str


class SqlResult(Struct, frozen=True):
    """The rows of a query. ``truncated``: there are more than were asked for."""

    source: str
    columns: list[SqlColumn]
    rows: Sequence[Sequence[Any]]
    truncated: bool


def run_sql(text: str, *, home: Homes, lake: Path | None, limit: int) -> SqlResult:
    """Run one query over a lake; where it is None, over what the homes hold now."""
    duckdb = _duckdb()
    pyarrow("sql")
    source = "the index and the logs" if lake is None else str(lake)
    with _database(duckdb) as database:
        _check(duckdb, database, text)
        for name, rows in _tables(text, home, lake):
            database.register(name, _without_zones(rows))
        is_late = threading.Event()
        try:
            with _ended(database, is_late):
                found = database.execute(text)
                rows = found.fetchmany(limit + 1) if limit else found.fetchall()
        except duckdb.OutOfMemoryException as cause:
            raise Busy(
                f"the query needs more than {MEMORY}", hint="select less, or aggregate more"
            ) from cause
        except duckdb.InterruptException as cause:
            if not is_late.is_set():
                raise KeyboardInterrupt from None
            raise Busy(
                f"sql: the query takes more than {QUERY_SECONDS:g} s; it was ended",
                hint="select fewer sessions or days, or aggregate less at once",
            ) from cause
        except duckdb.Error as cause:
            if "pytz" in str(cause):
                raise UsageError(
                    "sql: a column is a time with a zone", hint="times here are UTC: write now()::TIMESTAMP"
                ) from cause
            raise UsageError(_first(cause), hint=_HINT) from cause
        columns = [SqlColumn(str(one[0]), str(one[1])) for one in found.description or []]
    truncated = bool(limit) and len(rows) > limit
    return SqlResult(source, columns, rows[:limit] if truncated else rows, truncated)


def _duckdb() -> Any:
    try:
        return import_module("duckdb")
    except ImportError as cause:
        raise MissingExtra("sql", "duckdb", "data") from cause


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
                hint="install the version that recollect's extra `data` names",
            ) from cause
        yield database


@contextlib.contextmanager
def _ended(database: Any, is_late: threading.Event) -> Iterator[None]:
    """A query that takes too long is interrupted; ``is_late`` tells it from one that the user interrupts."""

    def end() -> None:
        is_late.set()
        database.interrupt()

    timer = threading.Timer(QUERY_SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


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


def _tables(text: str, home: Homes, lake: Path | None) -> Iterator[tuple[str, Any]]:
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
        raise NotFound(f"{lake}: there is no lake", hint="`recollect data parquet` makes one")
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
            hint="`recollect data parquet` writes it again",
        ) from cause


def _without_zones(rows: Any) -> Any:
    """Times as UTC without a zone: DuckDB gives those to Python without another package."""
    arrow = pyarrow("sql")
    plain = [
        arrow.field(one.name, arrow.timestamp("us") if arrow.types.is_timestamp(one.type) else one.type)
        for one in rows.schema
    ]
    return rows.cast(arrow.schema(plain))


def _current(table: LakeTable, home: Homes) -> Any:
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
