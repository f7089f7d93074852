"""A mirror that an older translation made, translated again from the records it holds itself.

A call that was mirrored under one key and is copied under another would count twice. The mirror has the bytes of every
record, so what the client deleted since is translated again like the rest, and what was redacted here does not come back.
Lines that no translation made (names, tags) stay where they are. In the same way a fork gets its beginning where the log that has it
is mirrored later than the fork.

A log is replaced in one step, and the version of the mirror is noted after all of them: a pass that was stopped leaves
logs of both kinds, and the next one translates them all again, with the same result. A log that does not come
out with the same records, or without the history it had copied, stays as it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from recollect.model.json.text import loose_value
from recollect.storage.foreign.growth import Growth, Unit, was_read
from recollect.storage.foreign.lines import RECORD, SOURCE, USAGE, LineFields, original_of
from recollect.storage.foreign.loose import UNEXPECTED
from recollect.storage.foreign.mirroring.sources import file_name
from recollect.storage.foreign.mirroring.state import saved_stamps
from recollect.storage.home_locks import lock_path
from recollect.storage.session_files import PROJECTS
from recollect.system import fsops
from recollect.system.lock import FileLock

if TYPE_CHECKING:
    from recollect.storage.foreign.mirror import AgentDialect, AgentMirror

# A last line without a newline is in a mirror only after it was left so for a minute.
_SETTLED_NS = 120 * 10**9


class _Stretch(NamedTuple):
    """Records of one source that stand together; or, without a source, a line that no translation made."""

    source: str
    generation: int
    records: list[bytes]


class _HeldRecords(NamedTuple):
    """The bytes of every source in a log, and whether history was copied into it before them."""

    records: dict[tuple[str, int], bytes]
    has_copied: bool


class MirrorRenewal:
    """One renewal. ``fresh`` is an empty mirror of the same home, below a directory that is removed again."""

    def __init__(self, old: AgentMirror, fresh: AgentMirror, dialect: AgentDialect) -> None:
        self._old, self._fresh, self._dialect = old, fresh, dialect
        self._sources = fresh.root / "sources"
        self._read: dict[str, tuple[int, bytes]] = {}  # generation and bytes of each source of a log

    def run(self, only: list[str] | None = None) -> None:
        """Translate every log again, or ``only`` these; what follows goes on from the states of the new translation."""
        root = self._old.root
        for log in self._all_logs() if only is None else only:
            with FileLock(lock_path(root / log, root.parent.parent), guards=root / log):
                if only is not None:
                    self._old.lend_bases(log, self._fresh)
                self._renew(log)

    def _all_logs(self) -> list[str]:
        """The original before its forks: names begin with the time."""
        root = self._old.root
        logs = [path.relative_to(root).as_posix() for path in (root / PROJECTS).rglob("*.jsonl")]
        return sorted(logs, key=lambda one: PurePosixPath(_first_source(root / one)).name)

    def _renew(self, log: str) -> None:
        path, fresh = self._old.root / log, self._fresh
        before = path.read_bytes()
        self._read.clear()
        try:
            states = self._replayed(log, before, path.stat().st_mtime_ns - _SETTLED_NS)
        except UNEXPECTED:
            states = {}
        after = fresh.take_log(log)
        if not states or not _is_kept(_held(before), _held(after)):
            fresh.write_log(log, before)  # forks still find what they go on from
            return
        fresh.write_log(log, after)
        if after != before:
            # Writers of ours look under the lock whether the name still is the file they have open.
            fsops.replace_file(path, after)
        self._old.go_on(log, fresh, {key: self._going_on(key, state) for key, state in states.items()})

    def _replayed(self, log: str, data: bytes, settled: int) -> dict[str, bytes]:
        """The states after every record of a log was translated again; none where one has no translation."""
        states: dict[str, bytes] = {}
        stamps = saved_stamps(self._old.root)
        for stretch in _stretches(data, self._old.agent):
            if not stretch.source:
                self._fresh.carry(log, stretch.records)
                continue
            unit = self._unit(stretch)
            if unit is None:
                return {}
            stamp = stamps.get(unit.key) or (unit.stamp[0], settled, 0)
            # Each generation was a file of its own, also where size, beginning and end are those of the one before.
            unit = unit._replace(stamp=(*stamp[:2], stretch.generation, *stamp[3:]))
            states[unit.key] = self._dialect.mirror(unit, states.get(unit.key), self._fresh)
        return states

    def _unit(self, stretch: _Stretch) -> Unit | None:
        """The source as it was when these records were mirrored; None where the agent has no such file."""
        source = PurePosixPath(stretch.source)
        if source.is_absolute() or ".." in source.parts:
            return None
        shutil.rmtree(self._sources, ignore_errors=True)
        path = self._sources / source
        _write(path, b"")
        unit = next(
            (unit for unit in self._dialect.units(self._sources) if unit.source == stretch.source), None
        )
        if unit is None:
            return None
        generation, before = self._read.get(unit.key, (0, b""))
        data = (before if generation == stretch.generation else b"") + b"".join(stretch.records)
        self._read[unit.key] = stretch.generation, data
        path = path.with_name(path.name.removesuffix(".zst"))  # records are kept as they were before that
        _write(path, data)
        return unit._replace(path=path)

    def _going_on(self, key: str, state: bytes) -> bytes:
        """A state that goes on in the source where the mirror stopped, also where its records were redacted here."""
        saved = self._old.state_of(key)
        before = msgspec.msgpack.decode(saved).get("growth") if saved else None
        if before is None or was_read(msgspec.convert(before, Growth), self._read[key][1]):
            return state
        return msgspec.msgpack.encode({**msgspec.msgpack.decode(state), "growth": before})


def _write(path: Path, data: bytes) -> None:
    fsops.make_directories(path.parent, synced=False)
    path.unlink(missing_ok=True)
    fd = fsops.create_new(path)
    try:
        fsops.write_all(fd, data)
    finally:
        fsops.close(fd)


def _first_source(path: Path) -> str:
    with path.open("rb") as file:
        for raw in file:
            line = loose_value(raw) if b'"foreign-source"' in raw else None
            if isinstance(line, dict) and line.get("type") == SOURCE and line.get("source"):
                return str(line["source"])
    return ""


def _stretches(data: bytes, agent: str) -> Iterator[_Stretch]:
    """A log in the order in which it was written, without what a translation adds."""
    now = _Stretch("", 0, [])
    for raw in _by_newline(data):
        line = loose_value(raw)
        is_source = isinstance(line, dict) and line.get("type") == SOURCE
        record = original_of(line) if isinstance(line, dict) else None
        if record is not None:
            now.records.append(record)
            continue
        if isinstance(line, dict) and not is_source and _is_made(line, agent):
            continue
        if not raw.endswith(b"\n"):
            continue  # a pass was stopped inside it: its record is read again
        if now.records:
            yield now
        if is_source and isinstance(line, dict):
            now = _Stretch(str(line["source"]), int(line["generation"]), [])
        else:
            now = _Stretch(now.source, now.generation, [])
            yield _Stretch("", 0, [raw])
    if now.records:
        yield now


def _by_newline(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + lines[-1:]


def _is_made(line: LineFields, agent: str) -> bool:
    kind = line.get("type")
    return "uuid" in line or kind in (USAGE, RECORD) or str(kind).startswith(f"{agent}:")


def _is_kept(before: _HeldRecords, after: _HeldRecords) -> bool:
    """Whether nothing is lost. History that was not here before may be copied now."""
    return before.records == after.records and after.has_copied >= before.has_copied


def _held(data: bytes) -> _HeldRecords:
    found: dict[tuple[str, int], list[bytes]] = {}
    name, has_copied = ("", 0), False
    for raw in _by_newline(data):
        line = loose_value(raw)
        if not isinstance(line, dict):
            continue
        if line.get("type") == SOURCE:
            # The client may have moved it in between: what follows is of the same file.
            name = (file_name(str(line["source"])), int(line["generation"]))
        has_copied |= not name[0] and "uuid" in line
        record = original_of(line)
        if record is not None:
            found.setdefault(name, []).append(record)
    return _HeldRecords({name: b"".join(records) for name, records in found.items()}, has_copied)
