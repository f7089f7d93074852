"""The files of OpenCode up to 1.1: one JSON document for each session, message and part, rewritten in place."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path

from recollect.storage.foreign.lines import encode
from recollect.storage.foreign.loose import fitted, parsed
from recollect.storage.foreign.opencode_store.growing import GrowingEnd, GrowingSession
from recollect.storage.foreign.opencode_store.store import (
    LEFT_OUT,
    SHAPED,
    OpenCodeRecord,
    OpenCodeRecords,
    SessionMark,
    StoreProblem,
    checksum,
)

_ALL = "files"  # they are listed together


def _roots(home: Path) -> list[Path]:
    return [home / "storage", *sorted((home / "project").glob("*/storage/session"))]


def file_paths(home: Path) -> Iterator[tuple[str, Path]]:
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


def stamp(home: Path) -> tuple[int, ...] | None:
    """A checksum of names, sizes and times; None where there are no such files."""
    digest, count = blake2b(digest_size=7), 0
    for _, path in sorted(file_paths(home)):
        with contextlib.suppress(OSError):
            seen = path.stat()
            digest.update(f"{path}\0{seen.st_size}\0{seen.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
            count += 1
    return (count, int.from_bytes(digest.digest(), "big")) if count else None


@contextlib.contextmanager
def opened(home: Path) -> Iterator[_FileStore]:
    """The files of a home, for reading."""
    yield _FileStore(home)


class _FileStore:
    def __init__(self, home: Path) -> None:
        self._home = home
        self.problems = list(_lost_directories(home))
        self.is_whole = not self.problems
        self._paths: dict[str, tuple[str, Path]] = {}  # by source
        self._of: dict[str, list[str]] = {}  # the sources of each session

    def listed(self, known: Mapping[str, SessionMark]) -> dict[str, SessionMark]:
        marks: dict[str, list[str]] = {}
        sizes: Counter[str] = Counter()
        holders: dict[str, str] = {}  # the session of each message
        for table, path in sorted(file_paths(self._home), key=lambda one: (one[0] == "part", one)):
            source = path.relative_to(self._home).as_posix()
            try:
                seen = path.stat()
            except OSError:
                continue
            self._paths[source] = table, path
            if table == "message":
                holders[path.stem] = path.parent.name
            session = self._session(table, path, source, holders)
            self._of.setdefault(session, []).append(source)
            marks.setdefault(session, []).append(f"{source}\0{seen.st_size}:{seen.st_mtime_ns}:{seen.st_ino}")
            sizes[session] += seen.st_size
        return {
            session: SessionMark({_ALL: checksum(own)}, size=sizes[session]) for session, own in marks.items()
        }

    def _session(self, table: str, path: Path, source: str, holders: dict[str, str]) -> str:
        if table in ("session", "todo"):
            return path.stem
        if table != "part":
            return path.parent.name if table == "message" else ""
        if path.parent.name in holders:
            return holders[path.parent.name]
        if path.parent.parent.name.startswith("ses_"):
            return path.parent.parent.name
        record = self._read(source)  # its message was deleted
        return str(record.fields.get("sessionID") or "") if record is not None else ""

    def nameless(self) -> list[str]:
        return [source for source in self._of.get("", ()) if self._paths[source][0] in ("message", "part")]

    def may_have(self, session: str) -> bool:
        here = (path.stem for table, path in file_paths(self._home) if table == "session")
        return not self.is_whole or session in here

    def sessions(self) -> dict[str, OpenCodeRecord]:
        return {record.id: record for record in self.every("session")}

    def of(self, sessions: Collection[str]) -> OpenCodeRecords:
        found = OpenCodeRecords({}, {}, [], set())
        for session in sessions:
            for source in self._of.get(session, ()):
                record = self._read(source)
                if record is None:
                    found.unread.add(session)
                elif record.table != "session":
                    found.put(record)
        return found

    def before(self, session: str, end: GrowingEnd) -> str | None:
        """Files are read one by one, and only those that changed: there is nothing to be saved."""
        return None

    def at_end(self, session: str, known: GrowingSession) -> OpenCodeRecords | None:
        return None

    def every(self, *tables: str) -> Iterator[OpenCodeRecord]:
        for source, (table, _) in self._paths.items():
            record = self._read(source) if table in tables else None
            if record is not None:
                yield record

    def check(self) -> None:
        """Each file is one record: there is nothing to agree with."""

    def _problem(self, problem: StoreProblem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _read(self, source: str) -> OpenCodeRecord | None:
        table, path = self._paths[source]
        try:
            data = path.read_bytes()
        except OSError as cause:
            self._problem(StoreProblem(str(path), cause.strerror or "cannot be read", is_retried=True))
            return None
        value = parsed(data)
        if value is None:
            # The next pass finds it whole, or it stays so.
            self._problem(StoreProblem(str(path), "half written, or no JSON"))
            return None
        told = value if isinstance(value, dict) else {"value": value}
        said, odd = SHAPED[table].read(data, value) if table in SHAPED and told is value else fitted(told, {})
        fields = {key: value for key, value in said.items() if key not in LEFT_OUT}
        if table == "message":
            fields |= {"id": path.stem, "sessionID": path.parent.name}
        elif table == "part":
            fields |= {"id": path.stem, "messageID": path.parent.name}
            if path.parent.parent.name.startswith("ses_"):
                fields |= {"sessionID": path.parent.parent.name}
        elif table == "todo":
            fields |= {"sessionID": path.stem}
        if table in SHAPED and not isinstance(value, dict):
            odd.append("record")
        kept = data
        if isinstance(value, dict) and LEFT_OUT & value.keys():
            kept = encode({key: one for key, one in value.items() if key not in LEFT_OUT})
        return OpenCodeRecord(table, path.stem, fields, source, kept, odd=tuple(odd))


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
