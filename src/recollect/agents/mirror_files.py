"""The files of a mirror: what it remembers, how it is written, which records it holds, and what our archive has of it.

Lines are appended, the rest is replaced as a whole, and all of it is synced before the state says so. A pass that did not come
to its end leaves a mark: the next one takes its lines back and writes them again. What was redacted in a
mirrored log, or in a file beside it, stays out when the client writes it again: some clients rewrite a whole chat with every
turn, and their own files keep the secret. The marks in our copy are all that is remembered of it: its kind and its keyed
fingerprint. Only secrets that have such a mark are taken out of new lines, so that nothing is redacted that no one asked for.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from recollect.agents.lines import PARTIAL, SOURCE, LineFields, encode, is_made, original_of
from recollect.errors import RecollectError, StorageError
from recollect.model.lines.damage import Line
from recollect.model.lines.ids import is_uuid
from recollect.model.lines.json_text import loose_value
from recollect.store.logs.reader import read_lines
from recollect.store.own_settings import fingerprint_key
from recollect.store.session_files import PROJECTS, lock_path
from recollect.system import fsops
from recollect.system.locations import MIRROR_FACTS
from recollect.system.lock import FileLock

WRITE = "write"
_NEWLINE = b"\n"
# More logs than these are synced with their whole file system: one by one, each waits for the disk.
_MOST_SYNCED_ALONE = 16
_STATE, _STAMPS = "state.msgpack", "stamps.json"
_NEXT = ".next"
_RUNNING = "pass"  # while it is there, a pass has not come to its end


class MirrorProblem(Struct, frozen=True):
    """What a mirror lacks: a file that could not be read, or a part of a store that is not known."""

    path: str
    reason: str
    is_unknown: bool = False


class MirrorFacts(Struct, frozen=True, omit_defaults=True):
    """What a mirror says of itself: whose it is, what the last pass could not mirror by unit, and which logs lack their
    beginning, each with the session that has it.
    """

    agent: str
    source: str
    problems: dict[str, list[MirrorProblem]] = {}
    lost: dict[str, str] = {}


class Placed(Struct):
    """Where a session or sub-agent is mirrored."""

    project: str
    session: str
    agent: str | None = None
    title: str | None = None


class HistoryBase(Struct, frozen=True):
    """What a log goes on from, by its other name; ``was_here``: the log has a copy of it. ``had``: how large that was when it
    was here in part.
    """

    alias: str
    was_here: bool
    had: int = 0


class MirrorState(Struct):
    """What a pass goes on from."""

    units: dict[str, bytes] = {}
    logs: dict[str, int] = {}
    headers: dict[str, tuple[str, int]] = {}
    placed: dict[str, Placed] = {}
    aliases: dict[str, str] = {}  # other names of sources, such as the id of a rollout
    bases: dict[str, HistoryBase] = {}  # of logs whose history is in another one
    exchanged: str = ""  # a log that another file takes the place of


def facts_of_mirror(root: Path) -> MirrorFacts | None:
    """What a mirror says of itself; None where a directory is none."""
    try:
        return msgspec.json.decode((root / MIRROR_FACTS).read_bytes(), type=MirrorFacts)
    except (OSError, msgspec.DecodeError):
        return None


def problems_of_mirror(root: Path) -> list[MirrorProblem]:
    """What the last pass could not mirror."""
    facts = facts_of_mirror(root)
    return [] if facts is None else [problem for own in facts.problems.values() for problem in own]


def saved_state(root: Path) -> MirrorState:
    """As the last pass left it; empty where there was none."""
    try:
        return msgspec.msgpack.decode((root / _STATE).read_bytes(), type=MirrorState)
    except (OSError, msgspec.DecodeError):
        return MirrorState()


def saved_stamps(root: Path) -> dict[str, tuple[int, ...]]:
    """How each unit was when it was last mirrored."""
    try:
        return msgspec.json.decode((root / _STAMPS).read_bytes(), type=dict[str, tuple[int, ...]])
    except (OSError, msgspec.DecodeError):
        return {}


def native_name(root: Path, session: str) -> str:
    """What the client calls a session; the same unless its names are no UUIDs."""
    for name, place in saved_state(root).placed.items():
        if place.session == session and place.agent is None:
            return name
    return session


def own_name(root: Path, native: str) -> str | None:
    """The session that a client calls so, by the name it has here; None where it is not mirrored."""
    place = saved_state(root).placed.get(native)
    return None if place is None or place.agent is not None else place.session


def alias_log(root: Path, name: str) -> Path | None:
    """The log of a mirror that goes by another name, such as the id of a rollout; or what our archive has of that session."""
    log = saved_state(root).aliases.get(name)
    if log is not None and (root / log).is_file():
        return root / log
    result = archived_log(root, name)
    return None if result is None else Path(result)


class AgentMirrorFiles:
    """What is written below the root of a mirror; ``home`` is what it mirrors."""

    def __init__(self, root: Path, home: Path) -> None:
        self._root, self._home = root, home
        self._unsynced: set[Path] = set()  # logs that this pass wrote
        self._unsynced_names: set[Path] = set()  # directories whose names of them may not be synced
        self._is_lost = False
        self._already: dict[str, Counter[bytes]] = {}

    def begin(self, agent: str) -> MirrorState:
        """What to go on from. Lines of a pass that did not come to its end are taken back first.

        Where the state is lost although there is a mirror, what stands in a log is not written again.
        """
        self._unsynced.clear()
        self._unsynced_names.clear()
        self._already.clear()
        state = saved_state(self._root)
        self._is_lost = not state.logs and (self._root / MIRROR_FACTS).exists()
        self._put_in_place(state)
        if (self._root / _RUNNING).exists() and not self._is_lost:
            for path in (self._root / PROJECTS).rglob("*.jsonl"):
                with self.writing(path):
                    known = state.logs.get(self._name(path), 0)
                    if path.stat().st_size > known:
                        self._take_back(path, known, agent)
        # Names and tags were added since, or a secret was taken out.
        sizes = {log: size for log in state.logs if (size := _size(self._root / log)) is not None}
        if state.logs != state.logs | sizes:
            state.logs |= sizes
            self.put_state(state)
        self.put(self._root / _RUNNING, b"")
        return state

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _take_back(self, path: Path, size: int, agent: str) -> None:
        data = path.read_bytes()
        behind = data[size:] if data[size - 1 : size] in (b"", _NEWLINE) else b""
        own = [line for line in behind.splitlines(keepends=True) if _is_own(line, agent)]
        left = data[: len(data) - len(behind)] + b"".join(own)
        if left != data:
            with FileLock(lock_path(path, self._root.parent.parent), guards=path):
                self.put(path, left)

    def end(self, state: MirrorState, facts: MirrorFacts, stamps: dict[str, tuple[int, ...]]) -> None:
        """The state may only say what a loss of power leaves there: first the logs of this pass, and their names."""
        self._sync()
        self.put_state(state)
        if facts != facts_of_mirror(self._root):
            self.put(self._root / MIRROR_FACTS, encode(facts))
        (self._root / _RUNNING).unlink()
        # Last: until they are there, everything is looked at again.
        self.put(self._root / _STAMPS, encode(stamps))

    def put_state(self, state: MirrorState) -> None:
        self.put(self._root / _STATE, msgspec.msgpack.encode(state))

    @contextlib.contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """What goes wrong with our own copy is no fault of what is copied: the pass ends, and the next one repeats it."""
        try:
            yield
        except OSError as cause:
            again = fsops.next_step(cause, "run the command again: nothing is lost")
            hint = f"{again}; --data DIR keeps the copy of {self._home} in another directory"
            raise StorageError(WRITE, path, cause, hint=hint) from cause

    def put(self, path: Path, data: bytes) -> None:
        """A file as a whole."""
        with self.writing(path):
            fsops.make_directories(path.parent)
            fsops.replace_file(path, data)

    def exchange(self, log: str, data: bytes, state: MirrorState) -> None:
        """Put other contents in the place of a log. The state that goes with them is saved first: where this pass dies in
        between, the next one does it.
        """
        self.put(self._root / f"{log}{_NEXT}", data)
        state.logs[log], state.exchanged = len(data), log
        self._sync()
        self.put_state(state)
        self._put_in_place(state)

    def _put_in_place(self, state: MirrorState) -> None:
        path = self._root / state.exchanged
        new = self._root / f"{state.exchanged}{_NEXT}"
        if state.exchanged and new.exists():
            # Writers of ours look under the lock whether the name still is the file they have open.
            with FileLock(lock_path(path, self._root.parent.parent), guards=path), self.writing(path):
                fsops.rename_over(new, path)
        state.exchanged = ""

    def add(self, log: str, lines: list[bytes]) -> int:
        """Lines at the end of a log; how many bytes it has then. They are synced with all others of the pass."""
        path = self._root / log
        with self.writing(path):
            fsops.make_directories(path.parent, synced=False)
            fd = fsops.open_append(path)
            self._unsynced.add(path)
            self._unsynced_names.update(one for one in path.parents if one.is_relative_to(self._root))
            try:
                if self._is_lost:
                    lines = self._not_written(log, lines, fd)
                size = fsops.size_of(fd)
                try:
                    fsops.write_all(fd, b"".join(lines))
                except OSError:
                    fsops.truncate(fd, size)  # a full disk: what was written of it is given back
                    raise
                return fsops.size_of(fd)
            finally:
                fsops.close(fd)

    def _not_written(self, log: str, lines: list[bytes], fd: int) -> list[bytes]:
        """Those that are not there yet. A line at the end that was begun and not ended goes."""
        if log not in self._already:
            data = fsops.pread(fd, fsops.size_of(fd), 0)
            whole = data.rfind(_NEWLINE) + 1
            fsops.truncate(fd, whole)
            self._already[log] = Counter(data[:whole].splitlines(keepends=True))
        result, already = [], self._already[log]
        for line in lines:
            if already[line] > 0:
                already[line] -= 1
            else:
                result.append(line)
        return result

    def _sync(self) -> None:
        if len(self._unsynced) > _MOST_SYNCED_ALONE:
            with self.writing(self._root):
                if fsops.sync_file_system(self._root):
                    return
        for path in sorted(self._unsynced):
            with self.writing(path):
                fsops.sync_written(path)
        for directory in sorted(self._unsynced_names):
            with self.writing(directory):
                fsops.sync_dir(directory)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def own_lines(path: Path, agent: str) -> bytes:
    """The lines of a log that no translation made: names and tags that a user gave."""
    return b"".join(line for line in path.read_bytes().splitlines(keepends=True) if _is_own(line, agent))


def _is_own(raw: bytes, agent: str) -> bool:
    line = loose_value(raw)
    return raw.endswith(_NEWLINE) and not (isinstance(line, dict) and is_made(line, agent))


_MARK = re.compile(rb"\[redacted:([a-z0-9_.-]+:[0-9a-f]{8})\]")
_START = b"[redacted:"


def redacted_again(lines: list[bytes], marked: Iterable[Path], data: Path) -> list[bytes]:
    """New lines of a log, or new files, without the secrets that were redacted in the ``marked`` ones.

    ``data`` is our own directory, with the key.
    """
    marks = {mark for path in marked for mark in _marks_in(path)}
    if not marks:
        return lines

    # Rarely needed, and to load the patterns takes longer than to read a small home.
    from recollect.model.secrets.prefilter import suspects
    from recollect.model.secrets.redaction import fingerprint, redacted_line

    try:
        key = fingerprint_key(data)
    except RecollectError:
        return lines  # without the key no mark can be told from another; `secrets` still finds what returns

    def digits(secret: str) -> str:
        return fingerprint(secret, key)

    def again(line: bytes) -> bytes:
        if not suspects(line):
            return line
        result = {f"{one.kind}:{one.fingerprint}" for one in redacted_line(line, digits).found}
        return redacted_line(line, digits, result - marks).data if result & marks else line

    return [again(line) for line in lines]


def _marks_in(path: Path) -> set[str]:
    """Kind and fingerprint of what was redacted in a file."""
    with (
        contextlib.suppress(FileNotFoundError, ValueError),  # it is gone, or empty
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        # Nearly every log has none: looking for the start of one is much faster than the pattern.
        return set() if content.find(_START) < 0 else {one.decode() for one in _MARK.findall(content)}
    return set()


ZST = ".zst"


def sources_of(log: Path) -> list[str]:
    """The files that a log was mirrored from, in order."""
    named = []
    for raw in read_lines(log):
        line = loose_value(raw.data) if b'"foreign-source"' in raw.data else None
        if isinstance(line, dict) and line.get("type") == SOURCE and line.get("source"):
            named.append(str(line["source"]))
    return named


def file_name(source: str) -> str:
    """The same wherever the client moved it, compressed or not."""
    return source.rpartition("/")[2].removesuffix(ZST)


def originals(lines: Iterable[dict[str, Any]]) -> dict[str, list[bytes]]:
    """The records of every source in a log, byte for byte; of a rewritten source its last generation.

    Those of a compressed file are what was in it, and go by the name that it had before.
    """
    result: dict[str, list[bytes]] = {}
    generations: dict[str, int] = {}
    name, parts = "", list[bytes]()
    for line in lines:
        if line.get("type") == SOURCE:
            parts.clear()
            name, generation = str(line["source"]).removesuffix(ZST), int(line["generation"])
            if generations.setdefault(name, generation) < generation:
                result[name] = []
                generations[name] = generation
            result.setdefault(name, [])
            continue
        data = original_of(line)
        if data is None:
            continue
        if line.get(PARTIAL):
            parts.append(data)
            continue
        data = b"".join((*parts, data)) if parts else data
        parts.clear()
        if line.get("whole"):
            result[str(line["source"])] = [data]  # a record that was a file, or a row, of its own
        else:
            result.setdefault(name, []).append(data)
    return result


def archived_log(mirror: Path, session: str) -> str | None:
    """The compressed log of a session that was archived from this mirror."""
    from recollect.store.archive.archive import Archive

    archive = Archive(mirror.parent.parent / "archive")
    if not is_uuid(session):
        return None
    for project, name in archive.names():
        for manifest in archive.of(project, name) if name == session else ():
            if os.path.realpath(manifest.home) == os.path.realpath(mirror):
                path = archive.log_path(manifest)
                return str(path) if path.is_file() else None
    return None


def lines_of_log(log: Path) -> Iterator[LineFields]:
    """The lines of a log, compressed or not; as many as can be read of one that is damaged."""
    try:
        for line in read_lines(log):
            value = loose_value(line.data) if isinstance(line, Line) else None
            if isinstance(value, dict):
                yield value
    except RecollectError:
        return
