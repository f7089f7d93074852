"""The stores of OpenCode, read without touching them: JSON files up to 1.1, a database from 1.2 on.

Of the database only session, message, part, todo, project and event are read: others hold tokens. The client
never empties its write-ahead log at the end, so a database with one is copied together with it and the copy is opened,
in memory where there is a file system for that; opening it in place would create files beside it. The copy is removed at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from recollect.errors import StorageError
from recollect.storage.foreign.growth import Unit
from recollect.storage.foreign.lines import encode
from recollect.storage.foreign.loose import COUNT, Fields, Shape, fitted, parsed
from recollect.system.peek import ReadProblems

_TABLES = ("project", "session", "message", "part", "todo")
# A link to a shared session opens it for anyone.
_LEFT_OUT = frozenset(["share_url", "share", "secret"])
# What a database holds besides; new ones are named, never read: they may hold tokens.
_OTHER_TABLES = frozenset(
    [
        *("event", "event_sequence", "workspace", "permission", "project_directory", "session_share"),
        *("account", "account_state", "control_account", "credential"),
        *("migration", "data_migration", "__drizzle_migrations"),
        *("session_context_epoch", "session_input", "session_message"),
    ]
)
_COLUMNS = {
    "session": frozenset(
        [
            *(
                "id",
                "project_id",
                "workspace_id",
                "parent_id",
                "slug",
                "directory",
                "path",
                "title",
                "version",
            ),
            *("summary_additions", "summary_deletions", "summary_files", "summary_diffs", "metadata", "cost"),
            *("tokens_input", "tokens_output", "tokens_reasoning", "tokens_cache_read", "tokens_cache_write"),
            *("revert", "permission", "agent", "model"),
            *("time_created", "time_updated", "time_compacting", "time_archived"),
        ]
    ),
    "message": frozenset(["id", "session_id", "time_created", "time_updated", "data"]),
    "part": frozenset(["id", "message_id", "session_id", "time_created", "time_updated", "data"]),
}
_NUMBER: Shape = (COUNT, float)
_TOKENS: Shape = {
    **dict.fromkeys(("input", "output", "reasoning", "total"), _NUMBER),
    "cache": {"read": _NUMBER, "write": _NUMBER},
}
_IDS: dict[str, Shape] = dict.fromkeys(
    ("id", "sessionID", "messageID", "parentID", "session_id", "message_id", "parent_id"), str
)
_SHAPES: dict[str, dict[str, Shape]] = {
    "session": {
        **_IDS,
        **dict.fromkeys(("directory", "title", "version"), str),
        "time": {"created": _NUMBER},
        "time_created": _NUMBER,
        "revert": (str, {"messageID": str, "partID": str}),
    },
    "message": {
        **_IDS,
        **dict.fromkeys(("role", "modelID", "providerID", "finish"), str),
        "time": {"created": _NUMBER, "completed": _NUMBER},
        "time_created": _NUMBER,
        "path": {"cwd": str},
        "summary": (bool, {}),
        "error": {"name": str, "data": {"message": str}},
        "tokens": _TOKENS,
        "cost": _NUMBER,
    },
    "part": {
        **_IDS,
        **dict.fromkeys(("type", "text", "callID", "tool", "mime", "url", "filename"), str),
        **dict.fromkeys(("synthetic", "ignored"), bool),
        "tokens": _TOKENS,
        "cost": _NUMBER,
        "state": {
            **dict.fromkeys(("status", "output", "error"), str),
            "input": {},
            "metadata": {"sessionId": str},
        },
    },
}
_EVENT_TABLES = {
    "message.updated": "message",
    "message.part.updated": "part",
}  # by the type, without its version
_EVENT_FIELDS = {"message": "info", "part": "part"}
_EVENT_NAME = (  # the id of the record that an event is about; one without an id is kept as well
    "coalesce(CAST(CASE WHEN json_valid(data) THEN json_extract(data,"
    " CASE WHEN type LIKE 'message.part.%' THEN '$.part.id' ELSE '$.info.id' END) END AS TEXT), 'None')"
)
_NAMED_EVENTS = (
    f"SELECT type, {_EVENT_NAME} AS name, data FROM event"  # noqa: S608 - constants
    " WHERE (type LIKE 'message.updated.%' OR type LIKE 'message.part.updated.%')"
)
_TRIES = 5
_FILES = "files"


class OpenCodeRecord(NamedTuple):
    """One record as it is stored: its table, id, fields, where it stands and its bytes."""

    table: str
    id: str
    fields: Fields
    source: str
    original: bytes
    is_removed: bool = False  # only the event log still has it
    odd: tuple[str, ...] = ()  # the fields that are not as expected


class StoreProblem(NamedTuple):
    """What a store holds and could not be read, or is not known."""

    path: str
    reason: str
    is_retried: bool = False
    is_unknown: bool = False


class OpenCodeRecords(NamedTuple):
    """All records of one store."""

    sessions: dict[str, OpenCodeRecord]
    messages: dict[str, OpenCodeRecord]
    parts: dict[str, OpenCodeRecord]
    others: list[OpenCodeRecord]
    problems: list[StoreProblem]


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    """The files as one unit, then every database with its write-ahead log."""
    found = []
    stamp = _files_stamp(home)
    if stamp is not None:
        found.append(Unit(_FILES, stamp, home, _FILES))
    for database in sorted(home.glob("opencode*.db")):
        with contextlib.suppress(OSError):
            seen, log = database.stat(), _wal(database)
            beside = log.stat() if log.exists() else None
            grown = (beside.st_size, beside.st_mtime_ns) if beside is not None else (0, 0)
            found.append(
                Unit(database.name, (seen.st_size, seen.st_mtime_ns, *grown), database, database.name)
            )
    return found


def read(unit: Unit, home: Path) -> OpenCodeRecords:
    """All records of a unit."""
    return _read_files(home) if unit.key == _FILES else _read_database(unit.path)


# ---- files -----------------------------------------------------------------------------------------------


def _roots(home: Path) -> list[Path]:
    return [home / "storage", *sorted((home / "project").glob("*/storage/session"))]


def _file_paths(home: Path) -> Iterator[tuple[str, Path]]:
    """Every record file with its table."""
    patterns = {
        "session": ("session/*/ses_*.json", "info/ses_*.json"),
        "message": ("message/ses_*/msg_*.json",),
        "part": ("part/msg_*/prt_*.json", "part/ses_*/msg_*/prt_*.json"),
        "todo": ("todo/ses_*.json",),
        "project": ("project/*.json",),
    }
    for root in _roots(home):
        for table, globs in patterns.items():
            for pattern in globs:
                for path in root.glob(pattern):
                    yield table, path


def _files_stamp(home: Path) -> tuple[int, ...] | None:
    """A checksum of names, sizes and times; None where there are no such files."""
    digest, count = blake2b(digest_size=7), 0
    for _, path in sorted(_file_paths(home)):
        with contextlib.suppress(OSError):
            seen = path.stat()
            digest.update(f"{path}\0{seen.st_size}\0{seen.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
            count += 1
    return (count, int.from_bytes(digest.digest(), "big")) if count else None


def _read_files(home: Path) -> OpenCodeRecords:
    found = OpenCodeRecords({}, {}, {}, [], list(_lost_directories(home)))
    for table, path in sorted(_file_paths(home)):
        try:
            data = path.read_bytes()
        except OSError as cause:
            found.problems.append(
                StoreProblem(str(path), cause.strerror or "cannot be read", is_retried=True)
            )
            continue
        value = parsed(data)
        if value is None:
            # The next pass finds it whole, or it stays so.
            found.problems.append(StoreProblem(str(path), "half written, or no JSON"))
            continue
        said, odd = fitted(value if isinstance(value, dict) else {"value": value}, _SHAPES.get(table, {}))
        fields = {key: value for key, value in said.items() if key not in _LEFT_OUT}
        if table == "message":
            fields |= {"id": path.stem, "sessionID": path.parent.name}
        elif table == "part":
            fields |= {"id": path.stem, "messageID": path.parent.name}
            if path.parent.parent.name.startswith("ses_"):
                fields |= {"sessionID": path.parent.parent.name}
        elif table == "todo":
            fields |= {"sessionID": path.stem}
        if table in _SHAPES and not isinstance(value, dict):
            odd.append("record")
        kept = data
        if isinstance(value, dict) and _LEFT_OUT & value.keys():
            kept = encode({key: one for key, one in value.items() if key not in _LEFT_OUT})
        source = path.relative_to(home).as_posix()
        _put(found, OpenCodeRecord(table, path.stem, fields, source, kept, odd=tuple(odd)))
    return found


def _lost_directories(home: Path) -> Iterator[StoreProblem]:
    """What should be a directory of records, and cannot be listed."""
    for root in _roots(home):
        for name in ("session", "message", "part"):
            try:
                below = [root / name, *(Path(one) for one in os.scandir(root / name))]
            except FileNotFoundError:
                continue
            except OSError:
                below = [root / name]
            for directory in below:
                try:
                    os.scandir(directory).close()
                except OSError as cause:
                    reason = cause.strerror or "cannot be read"
                    yield StoreProblem(str(directory), reason, is_retried=True)


def _put(found: OpenCodeRecords, record: OpenCodeRecord) -> None:
    tables = {"session": found.sessions, "message": found.messages, "part": found.parts}
    if record.table in tables:
        tables[record.table][record.id] = record
    else:
        found.others.append(record)


# ---- the database ----------------------------------------------------------------------------------------


def _wal(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


def _read_database(path: Path) -> OpenCodeRecords:
    for _ in range(_TRIES):
        try:
            before = _state(path)
            found = _read_copy(path) if before[2] else _read_place(path)
            if _state(path) == before:
                return found
        except OSError as cause:
            raise StorageError(
                "read", path, cause, hint="its sessions stay as they were mirrored last"
            ) from cause
        except Exception as cause:
            if type(cause).__module__ != "apsw" or _state(path) == before:
                problem = OSError(0, str(cause))
                raise StorageError("read", path, problem, hint="it may be of a newer client") from cause
    raise StorageError(
        "read", path, OSError(0, "it changes all the time"), hint="it is read at the next call"
    )


def _state(path: Path) -> tuple[int, int, int, int]:
    seen, log = path.stat(), _wal(path)
    beside = log.stat() if log.exists() else None
    return (
        seen.st_size,
        seen.st_mtime_ns,
        beside.st_size if beside else 0,
        beside.st_mtime_ns if beside else 0,
    )


def _read_copy(path: Path) -> OpenCodeRecords:
    memory = Path("/dev/shm")  # noqa: S108 - a directory of our own is made there, readable by us alone
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        copy = Path(directory, "copy.db")
        shutil.copyfile(path, copy)
        shutil.copyfile(_wal(path), _wal(copy))
        return _rows(path, f"file:{copy}")


def _read_place(path: Path) -> OpenCodeRecords:
    """Without a write-ahead log the file is all there is: nothing is created beside it."""
    from urllib.parse import quote

    return _rows(path, f"file:{quote(str(path))}?immutable=1")


def _rows(path: Path, address: str) -> OpenCodeRecords:
    import apsw

    found = OpenCodeRecords({}, {}, {}, [], [])
    flags = apsw.SQLITE_OPEN_URI | (
        apsw.SQLITE_OPEN_READONLY if "immutable" in address else apsw.SQLITE_OPEN_READWRITE
    )
    connection = apsw.Connection(address, flags=flags)
    try:
        asked = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        tables = {str(row[0]) for row in asked}
        for table in (name for name in (*_TABLES, "event") if name in tables):
            rows = _events(connection, found) if table == "event" else _table(connection, table)
            try:
                for record in rows:
                    _put(found, record)
            except apsw.Error as cause:  # the other tables can be read all the same
                found.problems.append(StoreProblem(f"{path}: table {table}", str(cause)))
        found.problems.extend(_unknown_tables(path, tables))
        found.problems.extend(_unknown_columns(path, connection))
    finally:
        connection.close()
    return found


def _unknown_tables(path: Path, tables: set[str]) -> Iterator[StoreProblem]:
    for table in sorted(tables - {*_TABLES, *_OTHER_TABLES}):
        if not table.startswith("sqlite_"):
            yield StoreProblem(
                f"{path}: table {table}", "a table of a newer client: not read", is_unknown=True
            )
    for table in sorted(_SHAPES.keys() - tables):
        yield StoreProblem(f"{path}: table {table}", "it is missing")


def _unknown_columns(path: Path, connection: Any) -> Iterator[StoreProblem]:
    for table, known in _COLUMNS.items():
        named = {str(row[0]) for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
        if new := sorted(named - known - _LEFT_OUT):
            reason = f"kept, and not understood: {', '.join(new)}"
            yield StoreProblem(f"{path}: columns of {table}", reason, is_unknown=True)


def _table(connection: Any, table: str) -> Iterator[OpenCodeRecord]:
    cursor = connection.cursor()
    names: list[str] = []
    for number, row in enumerate(cursor.execute(f"SELECT * FROM {table}")):  # noqa: S608 - one of a few constants
        names = names or [column[0] for column in cursor.getdescription()]
        given = {name: value for name, value in zip(names, row, strict=True) if name not in _LEFT_OUT}
        columns = {name: value for name, value in given.items() if not isinstance(value, bytes)}
        said = parsed(str(columns["data"]).encode()) if "data" in columns else None
        fields = {**columns, **said} if isinstance(said, dict) else dict(columns)
        fields.pop("data", None)
        for name, column in (
            ("sessionID", "session_id"),
            ("messageID", "message_id"),
            ("parentID", "parent_id"),
        ):
            if columns.get(column) is not None:
                fields.setdefault(name, columns[column])
        fields, odd = fitted(fields, _SHAPES.get(table, {}))
        odd += given.keys() - columns.keys()
        if table in ("message", "part") and not isinstance(said, dict):
            odd.append("data")
        place = columns.get("position", number)
        name = str(columns.get("id") or f"{columns.get('session_id')}-{place}")
        yield OpenCodeRecord(table, name, fields, f"{table}/{name}", encode(columns), odd=tuple(odd))


def _events(connection: Any, rows: OpenCodeRecords) -> Iterator[OpenCodeRecord]:
    """The last state of every message and part that only the event log still has.

    Nearly all events are of rows that are still there: the database itself looks up whose they are, and only
    what is needed is sorted and decoded.
    """
    here = {"message": rows.messages, "part": rows.parts}
    asked = connection.execute(f"SELECT DISTINCT type, name FROM ({_NAMED_EVENTS})")  # noqa: S608 - constants
    gone = [str(name) for kind, name in asked if str(name) not in here[_table_of(kind)]]
    last: dict[tuple[str, str], str] = {}
    wanted = f"{_NAMED_EVENTS} AND name IN (SELECT value FROM json_each(?)) ORDER BY aggregate_id, seq"  # noqa: S608 - constants
    for kind, name, data in connection.execute(wanted, (encode(gone).decode(),)) if gone else ():
        last[_table_of(kind), str(name)] = str(data)
    for (table, _), data in last.items():
        said = parsed(data.encode())
        held = said.get("info" if table == "message" else "part") if isinstance(said, dict) else None
        if not isinstance(held, dict):
            continue
        fields, odd = fitted(held, _SHAPES[table])
        own = str(fields.get("id"))
        source = f"event/{table}/{own}"
        yield OpenCodeRecord(table, own, fields, source, encode(held), is_removed=True, odd=tuple(odd))


def _table_of(kind: object) -> str:
    """The table of an event, by its type; a version follows it."""
    return "part" if str(kind).startswith("message.part.") else "message"
