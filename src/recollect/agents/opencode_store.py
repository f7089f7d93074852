"""The stores of OpenCode, read without touching them: JSON files up to 1.1, a database from 1.2 on (``opencode_database``).

A store lists its sessions first, without the contents of their records: each with a mark that differs where one of its
records may have changed, is new or is gone. Only those sessions are read.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from recollect.agents.lines import encode, mark_of
from recollect.agents.loose import ANY, NUMBER, Fields, Shape, fitted, parsed
from recollect.agents.mirror_files import MirrorProblem

# A link to a shared session opens it for anyone.
LEFT_OUT = frozenset(["share_url", "share", "secret"])
FILES = "files"
_TOKENS: Shape = {
    **dict.fromkeys(("input", "output", "reasoning", "total"), NUMBER),
    "cache": {"read": NUMBER, "write": NUMBER},
}
_IDS: dict[str, Shape] = dict.fromkeys(
    ("id", "sessionID", "messageID", "parentID", "session_id", "message_id", "parent_id"), str
)
SHAPES: dict[str, dict[str, Shape]] = {
    "session": {
        **_IDS,
        **dict.fromkeys(("directory", "title", "version"), str),
        "time": {"created": NUMBER},
        "time_created": NUMBER,
        "revert": (str, {"messageID": str, "partID": str}),
    },
    "message": {
        **_IDS,
        **dict.fromkeys(("role", "modelID", "providerID", "finish"), str),
        "time": {"created": NUMBER, "completed": NUMBER},
        "time_created": NUMBER,
        "path": {"cwd": str},
        "summary": (bool, {}),
        "error": {"name": str, "data": {"message": str}},
        "tokens": _TOKENS,
        "cost": NUMBER,
    },
    "part": {
        **_IDS,
        **dict.fromkeys(("type", "text", "callID", "tool", "mime", "url", "filename", "tail_start_id"), str),
        **dict.fromkeys(("synthetic", "ignored"), bool),
        "tokens": _TOKENS,
        "cost": NUMBER,
        "state": {
            **dict.fromkeys(("status", "output", "error"), str),
            "input": {},
            "metadata": {"sessionId": str, **dict.fromkeys(("filediff", "diff", "exists", "summary"), ANY)},
            "time": {"end": NUMBER},
        },
    },
}


class OpenCodeRecord(Struct, frozen=True):
    """One record as it is stored: its table, id, fields, where it stands and its bytes."""

    table: str
    id: str
    fields: Fields
    source: str
    original: bytes
    is_removed: bool = False  # only the event log still has it
    odd: tuple[str, ...] = ()  # the fields that are not as expected


def _roots(home: Path) -> list[Path]:
    return [home / "storage", *sorted((home / "project").glob("*/storage/session"))]


_PATTERNS = {
    "session": ("session/*/ses_*.json", "info/ses_*.json"),
    "message": ("message/ses_*/msg_*.json",),
    "part": ("part/msg_*/prt_*.json", "part/ses_*/msg_*/prt_*.json"),
    "todo": ("todo/ses_*.json",),
}


def file_paths(home: Path, *tables: str) -> Iterator[tuple[str, Path]]:
    """Every record file with its table, messages before their parts."""
    for table in tables or _PATTERNS:
        for root in _roots(home):
            for pattern in _PATTERNS[table]:
                yield from ((table, path) for path in sorted(root.glob(pattern)))


def _seen(path: Path) -> str:
    seen = path.stat()
    return f"{path}\0{seen.st_size}:{seen.st_mtime_ns}:{seen.st_ino}"


def stamp(home: Path) -> tuple[int, ...] | None:
    """A checksum of names, sizes and times; None where there are no such files."""
    result = []
    for _, path in file_paths(home):
        with contextlib.suppress(OSError):
            result.append(_seen(path))
    return (len(result), int(_digest(result), 16) >> 1) if result else None


def _digest(texts: list[str]) -> str:
    return mark_of("\n".join(texts).encode("utf-8", "surrogateescape"))


class FileStore:
    """The files of a home. Each is one record: there is nothing that could not fit together.

    ``is_whole``: what is not listed is not there. ``unread`` are sessions of which not all records could be read.
    ``is_retried``: what could not be read may be there the next time, although nothing changes. A database is such a store, too.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.problems = list(_lost_directories(home))
        self.is_whole = not self.problems
        self.is_retried = not self.is_whole
        self.unread: set[str] = set()
        self._of: dict[str, list[tuple[str, Path]]] = {}

    def listed(self) -> dict[str, str]:
        """Every session of which there is a record, with what differs where one may have changed, is new or is gone."""
        marks: dict[str, list[str]] = {}
        holders: dict[str, str] = {}  # the session of each message
        for table, path in file_paths(self._home):
            with contextlib.suppress(OSError):
                seen = _seen(path)
                if table == "message":
                    holders[path.stem] = path.parent.name
                session = self._session(table, path, holders)
                self._of.setdefault(session, []).append((table, path))
                marks.setdefault(session, []).append(seen)
        for _, path in self._of.get("", [])[:1]:
            self._problem(path, f"{len(marks.pop('')):,} records name no session")
        return {session: _digest(own) for session, own in marks.items()}

    def _session(self, table: str, path: Path, holders: dict[str, str]) -> str:
        if table in ("session", "todo"):
            return path.stem
        if table == "message":
            return path.parent.name
        above = path.parent.parent.name
        if path.parent.name in holders or above.startswith("ses_"):
            return holders.get(path.parent.name, above)
        record = self._read(table, path)  # its message was deleted
        return str(record.fields.get("sessionID") or "") if record is not None else ""

    def may_have(self, session: str) -> bool:
        """Whether a session is there, or would not be seen if it were. Nothing has to be listed for it."""
        return not self.is_whole or any(path.stem == session for _, path in file_paths(self._home, "session"))

    def sessions(self) -> dict[str, OpenCodeRecord]:
        return {record.id: record for record in self.every("session")}

    def of(self, session: str) -> list[OpenCodeRecord]:
        """The other records of a session; those that only the event log still has included."""
        paths = [one for one in self._of.get(session, ()) if one[0] != "session"]
        result = [record for table, path in paths if (record := self._read(table, path)) is not None]
        if len(result) < len(paths):
            self.unread.add(session)
        return result

    def every(self, *tables: str) -> Iterator[OpenCodeRecord]:
        for table, path in file_paths(self._home, *tables):
            record = self._read(table, path)
            if record is not None:
                yield record

    def check(self) -> None:
        """Raise ``StoreChangedError`` where the store has changed since it was opened; files cannot."""

    def _problem(self, path: Path, reason: str) -> None:
        problem = MirrorProblem(str(path), reason)
        if problem not in self.problems:
            self.problems.append(problem)

    def _read(self, table: str, path: Path) -> OpenCodeRecord | None:
        try:
            data = path.read_bytes()
        except OSError as cause:
            self.is_retried = True
            self._problem(path, cause.strerror or "cannot be read")
            return None
        value = parsed(data)
        if value is None:  # the next pass finds it whole, or it stays so
            self._problem(path, "half written, or no JSON")
            return None
        said, odd = fitted(value, SHAPES.get(table, {}))
        fields = {key: one for key, one in said.items() if key not in LEFT_OUT}
        if table == "message":
            fields |= {"id": path.stem, "sessionID": path.parent.name}
        elif table == "part":
            above = path.parent.parent.name
            fields |= {"id": path.stem, "messageID": path.parent.name}
            fields |= {"sessionID": above} if above.startswith("ses_") else {}
        elif table == "todo":
            fields |= {"sessionID": path.stem}
        if table in SHAPES and not isinstance(value, dict):
            odd.append("record")
        if isinstance(value, dict) and LEFT_OUT & value.keys():
            data = encode({key: one for key, one in value.items() if key not in LEFT_OUT})
        source = path.relative_to(self._home).as_posix()
        return OpenCodeRecord(table, path.stem, fields, source, data, odd=tuple(odd))


def _lost_directories(home: Path) -> Iterator[MirrorProblem]:
    """What should be a directory of records, and cannot be listed."""
    for root in _roots(home):
        for top in (root / name for name in ("session", "message", "part")):
            try:
                below = [top, *(Path(one) for one in os.scandir(top))]
            except OSError:
                below = [top]
            for directory in below:
                try:
                    os.scandir(directory).close()
                except FileNotFoundError:
                    continue
                except OSError as cause:
                    yield MirrorProblem(str(directory), cause.strerror or "cannot be read")
