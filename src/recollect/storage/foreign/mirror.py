"""A home of another agent as a home of our own: an append-only copy in our data directory.

Nothing is ever written into the foreign home. A pass looks at the foreign files (``stat`` only); what changed is read
from where reading stopped, translated by the agent's own module and appended. The mirror is a home like any other:
``projects/<key>/<session>.jsonl``, ``<session>/subagents/agent-<id>.jsonl``, ``<session>/tool-results/`` and ``todos/``. What the client rewrites, rolls back or
deletes afterwards stays in it.

A crash between an append and the saved state does no harm: lines that stand behind the size that was
saved are recognised and not written again.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from recollect.errors import Busy, StorageError
from recollect.model.ids import is_uuid
from recollect.model.json.text import loose_value
from recollect.model.made_ids import derived_uuid
from recollect.model.project_key import project_key
from recollect.storage.foreign import todos
from recollect.storage.foreign.growth import Unit
from recollect.storage.foreign.lines import (
    RECORD,
    SOURCE,
    USAGE,
    LineFields,
    Voice,
    encode,
    note,
    original_of,
    source,
)
from recollect.storage.foreign.loose import UNEXPECTED
from recollect.storage.foreign.redactions import redacted_again
from recollect.storage.foreign.resumed import Item, MirroredThread
from recollect.storage.logs.reader import read_lines
from recollect.storage.session_files import META, PROJECTS, RESULTS, SUBAGENTS, TODOS
from recollect.system import fsops
from recollect.system.locations import MIRROR_FACTS, MIRRORS
from recollect.system.lock import FileLock
from recollect.system.peek import ReadProblems

_STAMPS, _STATE, _LOCK, _PROBLEMS = "stamps.json", "state.msgpack", "mirror.lock", "problems.json"
_RENEWAL = "renewal"  # where a mirror is translated again
_WHOLE_HOME, _UNSEEN = "", "."  # what concerns no unit; directories that could not be looked at
_NO_SOURCE = ("", 0)
_WRITE = "write"
_AGENT_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}\Z")
_REWOUND = "rewound"
# How lines begin that are not read where only links are looked for, or links and model calls: most of what a log holds.
_RECORDS = (b'{"type":"%b"' % RECORD.encode(),)
_NO_LINKS = (*_RECORDS, b'{"type":"%b"' % USAGE.encode())
# More logs than these are synced with their whole file system: one by one, each waits for the disk.
_MOST_SYNCED_ALONE = 16


class AgentDialect(Protocol):
    """One agent: how its files are found and translated.

    ``TRANSLATION`` is raised where ids or keys of lines change: mirrors of another one are translated again (``renewal``).
    """

    TRANSLATION: int

    def units(self, home: Path, problems: ReadProblems | None = None) -> list[Unit]:
        """What may have changed, oldest first. Directories that could not be looked at are noted in ``problems``."""

    def mirror(self, unit: Unit, saved: bytes | None, into: AgentMirror) -> bytes:
        """Translate what is new; the state to go on from."""

    def finish(self, home: Path, into: AgentMirror) -> None:
        """What concerns several sessions, after all of them."""

    def resumed(self, thread: MirroredThread) -> list[Item]:
        """What the client sends when it resumes a session, before the new prompt."""

    def deletion_warning(self, home: Path) -> str | None:
        """What the client is about to delete."""

    def not_resumed(self, source: str, version: str | None) -> str | None:
        """Why clients do not resume a session although they have its file; ``version`` is that of its last client."""


def dialect_of(agent: str) -> AgentDialect:
    """The module that knows an agent."""
    dialect: AgentDialect = importlib.import_module(f"recollect.storage.foreign.{agent}")
    return dialect


class MirrorFacts(Struct, frozen=True):
    """What a mirror says of itself."""

    agent: str
    source: str
    translation: int = 1  # by which version of the agent's module; the first ones did not say


class MirrorProblem(Struct, frozen=True):
    """What a mirror lacks: a file that could not be read, or a part of a store that is not known."""

    path: str
    reason: str
    is_unknown: bool = False


class Placed(Struct):
    """Where a session or sub-agent is mirrored."""

    project: str
    session: str
    agent: str | None = None
    title: str | None = None


class _MirrorState(Struct):
    units: dict[str, bytes] = {}
    logs: dict[str, int] = {}
    headers: dict[str, tuple[str, int]] = {}
    placed: dict[str, Placed] = {}
    aliases: dict[str, str] = {}  # other names of sources, such as the id of a rollout


class AgentMirror:
    """The mirror of one foreign home."""

    def __init__(self, agent: str, home: Path, data: Path) -> None:
        self.agent, self.home = agent, home
        real = os.path.realpath(home)
        self.root = data / MIRRORS / f"{agent}-{zlib.crc32(os.fsencode(real)):08x}"
        self._problems: dict[str, list[MirrorProblem]] = {}
        self._unit, self._is_retried = _WHOLE_HOME, False
        self._state = _MirrorState()
        self._undo: list[Callable[[], object]] = []  # what this unit changed in the state
        self._written: dict[str, list[bytes]] = {}
        self._unsynced: set[Path] = set()  # logs that this pass wrote
        self._unsynced_names: set[Path] = (
            set()
        )  # directories that may hold names of theirs that are not synced
        self._todos: dict[str, list[LineFields]] = {}  # the list that a log ends with, where the unit has one

    @property
    def problems(self) -> list[MirrorProblem]:
        """What could not be mirrored, as the last pass found it."""
        return problems_of_mirror(self.root)

    def refresh(self) -> None:
        """Mirror what changed. Another process that does so already is not waited for, unless there is no mirror yet."""
        dialect, unseen = dialect_of(self.agent), ReadProblems()
        units = dialect.units(self.home, unseen)
        lost = [MirrorProblem(str(one.path), one.reason) for one in unseen]
        is_known = _saved_problems(self.root).get(_UNSEEN, []) == lost and not self._is_outdated(dialect)
        if is_known and self.stamps() == {unit.key: unit.stamp for unit in units}:
            return
        with self._writing(self.root):
            fsops.make_directories(self.root / PROJECTS)
        is_first = not (self.root / MIRROR_FACTS).exists()
        lock = FileLock(self.root / _LOCK, timeout=600.0 if is_first else 0.0, guards=self.root)
        with contextlib.suppress(Busy), contextlib.closing(lock), lock:
            self._run(dialect, units, lost)

    def _run(self, dialect: AgentDialect, units: list[Unit], lost: list[MirrorProblem]) -> None:
        stamps = self.stamps()
        self._unsynced.clear()
        self._unsynced_names.clear()
        self._written.clear()
        self._todos.clear()
        self._state = _saved(self.root)
        self._problems = _saved_problems(self.root)
        if self._is_outdated(dialect):
            self._renew(dialect)
        for unit in units:
            if stamps.get(unit.key) == unit.stamp:
                continue
            self._begin(unit.key)
            with self.guarding(unit.path):
                self._state.units[unit.key] = self._mirrored(dialect, unit)
            self._flush()
            stamps[unit.key] = unit.stamp
            if self._is_retried:
                del stamps[unit.key]
        self._begin(_WHOLE_HOME)
        with self.guarding(self.home):
            dialect.finish(self.home, self)
        self._flush()
        here = {unit.key for unit in units}
        self._problems = {key: one for key, one in self._problems.items() if key in here | {_WHOLE_HOME}}
        if lost:
            self._problems[_UNSEEN] = lost
        self._save(dialect, {key: stamp for key, stamp in stamps.items() if key in here})

    def _is_outdated(self, dialect: AgentDialect) -> bool:
        facts = facts_of_mirror(self.root)
        return facts is not None and facts.translation != dialect.TRANSLATION

    def _renew(self, dialect: AgentDialect) -> None:
        from recollect.storage.foreign.renewal import MirrorRenewal

        scratch = self.root / _RENEWAL
        shutil.rmtree(scratch, ignore_errors=True)
        fresh = AgentMirror(self.agent, self.home, scratch)
        fresh._state.placed = self._state.placed  # decided once
        MirrorRenewal(self, fresh, dialect).run()
        shutil.rmtree(scratch, ignore_errors=True)

    def _begin(self, unit: str) -> None:
        """What was wrong with a unit is found again, or is no more."""
        self._unit, self._is_retried = unit, False
        self._problems.pop(unit, None)
        self._undo.clear()

    def _mirrored(self, dialect: AgentDialect, unit: Unit) -> bytes:
        """What is new of a unit; all of it where the log it went to was moved away since."""
        saved = dialect.mirror(unit, self._state.units.get(unit.key), self)
        gone = self._moved()
        if not gone:
            return saved
        self._written.clear()
        self._todos.clear()
        self._take_back(0)
        for log in gone:
            self._state.logs.pop(log)
            self._state.headers.pop(log, None)
        return dialect.mirror(unit, None, self)

    def _moved(self) -> list[str]:
        return [log for log in self._written if self._state.logs.get(log) and not (self.root / log).exists()]

    # ---- for dialects ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def guarding(self, path: Path | str) -> Iterator[None]:
        """One session, or one file of several: what goes wrong with it is noted, and nothing of it is written."""
        done, written = len(self._undo), {log: len(one) for log, one in self._written.items()}
        try:
            yield
        except StorageError as problem:
            if problem.operation == _WRITE:
                raise
            reason = problem.cause.strerror if problem.cause is not None else None
            self.problem(path, reason or problem.message, is_retried=True)
        except OSError as problem:
            self.problem(path, problem.strerror or type(problem).__name__, is_retried=True)
        except UNEXPECTED as problem:
            why = f"its records are not as expected ({type(problem).__name__}: {problem})"
            self.problem(path, f"{why}; it may be of a newer client", is_retried=True)
        else:
            return
        self._take_back(done)
        self._written = {log: lines[: written[log]] for log, lines in self._written.items() if log in written}

    def _take_back(self, count: int) -> None:
        while len(self._undo) > count:
            self._undo.pop()()

    def problem(
        self, path: Path | str, reason: str, *, is_retried: bool = False, is_unknown: bool = False
    ) -> None:
        """Something that is missing from the mirror; ``check`` and the overview tell it until it is there.

        ``is_retried``: the next pass looks again although the file has not changed.
        """
        self._problems.setdefault(self._unit, []).append(MirrorProblem(str(path), reason, is_unknown))
        self._is_retried |= is_retried

    def place(
        self,
        name: str,
        cwd: str,
        *,
        session: str | None = None,
        agent: str | None = None,
        project: str = "",
        root: str | None = None,
    ) -> Placed:
        """Where a session is, or a sub-agent of ``session``; decided once.

        ``project`` is what stands for a working directory that is not known. ``root`` is the session's own name, where
        ``session`` is one we gave it.
        """
        known = self._state.placed.get(name)
        if known is None:
            owner = self._state.placed.get(root or session or name)
            key = owner.project if owner is not None else str(project_key(cwd or project or "/"))
            known = Placed(key, _session_name(session or name), _agent_name(agent))
            self._state.placed[name] = known
            self._undo.append(lambda: self._state.placed.pop(name))
        return known

    def placed(self, name: str) -> Placed | None:
        """Where it is, if it is known."""
        return self._state.placed.get(name)

    def log(self, place: Placed) -> str:
        """The log of a session or sub-agent, below the mirror."""
        if place.agent is None:
            return f"{PROJECTS}/{place.project}/{place.session}.jsonl"
        return f"{PROJECTS}/{place.project}/{place.session}/{SUBAGENTS}/agent-{place.agent}.jsonl"

    def append(self, log: str, lines: Iterable[LineFields], origin: tuple[str, int] | None = None) -> None:
        """Lines for a log; written when the unit is done. ``origin`` is the source of their originals.

        A log begins with whose it is also where its first lines are of no source: a copy elsewhere says so itself.
        """
        found = self._written.setdefault(log, [])
        if origin is None and not found and not self._state.logs.get(log):
            origin = _NO_SOURCE
        if origin is not None and self._state.headers.get(log) != origin:
            found.append(encode(source(self.agent, *origin)) + b"\n")
            headers, before = self._state.headers, self._state.headers.get(log)
            self._undo.append(lambda: headers.update({log: before}) if before else headers.pop(log))
            headers[log] = origin
        for line in lines:
            found.append(encode(line) + b"\n")
            if line["type"] == "assistant" and (items := todos.listed(line)):
                self._todos[log] = items

    def settle(self) -> None:
        """Write what was appended so far: for units that are larger than what should be held in memory.

        A log that was moved away is left to the end, where all of the unit is mirrored again.
        """
        if not self._moved():
            self._flush()

    def note_agent(self, place: Placed, meta: dict[str, object]) -> None:
        """What is known of a sub-agent beside its log: type, description, the call that sent it."""
        path = (self.root / self.log(place)).with_suffix(META)
        try:
            known: dict[str, object] = msgspec.json.decode(path.read_bytes())
        except (OSError, msgspec.DecodeError):
            known = {}
        new = known | {key: value for key, value in meta.items() if value is not None}
        if new != known:
            self._put(path, encode(new))

    def keep_result(self, place: Placed, name: str, data: bytes) -> None:
        """A result that stands in a file of its own, for all that reads Claude's own results of this kind."""
        self._put(self.root / PROJECTS / place.project / place.session / RESULTS / name, data)

    def title(self, name: str, title: str, line: LineFields) -> None:
        """A name that a user gave, written where it is new."""
        place = self._state.placed.get(name)
        if place is not None and place.title != title:
            place.title = title
            self.append(self.log(place), [line])

    def alias(self, name: str, log: str) -> None:
        """Another name under which a log is referred to."""
        self._state.aliases[name] = log

    def log_of(self, alias: str) -> str | None:
        """The log that goes by another name."""
        return self._state.aliases.get(alias)

    def lines(self, log: str) -> Iterator[LineFields]:
        """The lines of a log, those not yet written included."""
        return self._lines(log, ())

    def _lines(self, log: str, without: tuple[bytes, ...]) -> Iterator[LineFields]:
        """Those that do not begin so."""
        with contextlib.suppress(FileNotFoundError), (self.root / log).open("rb") as file:
            for line in file:
                value = None if line.startswith(without) else loose_value(line)
                if isinstance(value, dict):
                    yield value
        for line in self._written.get(log, ()):
            if not line.startswith(without):
                yield msgspec.json.decode(line)

    def known_ids(self, log: str) -> set[str]:
        """Entries and model calls that a log has already: for a source that is read again from its start."""
        found = set()
        for line in self._lines(log, _RECORDS):
            if "uuid" in line:
                found.add(str(line["uuid"]))
            elif line.get("type") == USAGE:
                found.add(str(line["message"]["id"]))
            elif "about" in line:
                found.add(str(line["about"]))
        return found

    def ended(self, log: str, found: list[LineFields], voice: Voice) -> list[LineFields]:
        """New entries of a log that has to end where ``voice`` does.

        Where others follow that entry, a note after it says that the conversation goes on from there.
        """
        last = None
        for line in (*self._lines(log, _NO_LINKS), *found):
            if "uuid" in line:
                last = line.get("parentUuid") if line.get("subtype") == _REWOUND else line["uuid"]
        if voice.leaf is None or last is None or voice.leaf == last:
            return found
        voice.epoch = sum(line.get("subtype") == _REWOUND for line in self._lines(log, _NO_LINKS)) + 1
        return [*found, note(voice, _REWOUND, "Earlier messages were taken back")]

    # ---- for a renewal -----------------------------------------------------------------------------------

    def carry(self, log: str, lines: list[bytes]) -> None:
        """Lines that no translation made, where they stood. What a translation just made again is not repeated."""
        found = self._written.setdefault(log, [])
        if found[-len(lines) :] != lines:
            found += lines

    def take_log(self, log: str) -> bytes:
        """All that was appended to one log since the last call, instead of writing it; nothing if others were too."""
        found = self._written.pop(log, []) if set(self._written) == {log} else []
        self._written.clear()
        self._todos.clear()
        self._undo.clear()
        return b"".join(found)

    def write_log(self, log: str, data: bytes) -> None:
        """A log as a whole, where there is none yet. It is not synced: only a renewal reads it."""
        fsops.make_directories((self.root / log).parent, synced=False)
        opened = fsops.open_append(self.root / log)
        try:
            fsops.write_all(opened.fd, data)
        finally:
            fsops.close(opened.fd)

    def state_of(self, unit: str) -> bytes | None:
        """What a unit goes on from."""
        return self._state.units.get(unit)

    def go_on(self, log: str, fresh: AgentMirror, units: dict[str, bytes]) -> None:
        """A log was translated again, in ``fresh``, and put in place."""
        state, made = self._state, fresh._state
        state.units |= units
        state.aliases |= made.aliases
        state.headers[log] = made.headers[log]
        state.logs[log] = (self.root / log).stat().st_size

    # ---- files -------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        """What goes wrong with our own copy is no fault of what is copied: the pass ends, and the next one repeats it."""
        try:
            yield
        except OSError as cause:
            again = fsops.next_step(cause, "run the command again: nothing is lost")
            hint = f"{again}; --data DIR keeps the copy of {self.home} in another directory"
            raise StorageError(_WRITE, path, cause, hint=hint) from cause

    def _put(self, path: Path, data: bytes) -> None:
        with self._writing(path):
            fsops.make_directories(path.parent)
            fsops.replace_file(path, data)

    def _flush(self) -> None:
        for log, lines in self._written.items():
            with self._writing(self.root / log):
                self._state.logs[log] = self._add(log, self._redacted_again(log, lines))
        for log, items in self._todos.items():
            if log in self._written:
                (listed,) = self._redacted_again(log, [encode(items)])
                self._put(self.root / TODOS / todos.file_name(Path(log)), listed)
        self._written.clear()
        self._todos.clear()

    def _redacted_again(self, log: str, lines: list[bytes]) -> list[bytes]:
        """Lines without what was redacted in the log; one that this pass begins has nothing to look for."""
        is_known = bool(self._state.logs.get(log))
        return redacted_again(lines, self.root / log, self.root.parent.parent) if is_known else lines

    def _add(self, log: str, lines: list[bytes]) -> int:
        """Lines at the end of a log; how large it is then. They are synced with all others of the pass."""
        path = self.root / log
        fsops.make_directories(path.parent, synced=False)
        opened = fsops.open_append(path)
        self._unsynced.add(path)
        if log not in self._state.logs:  # also where an earlier pass made it, and did not come to its end
            above = (one for one in path.parents if one.is_relative_to(self.root))
            self._unsynced_names.update(above)
        try:
            size = fsops.size_of(opened.fd)
            known = self._state.logs.get(log, 0)
            start = known if known <= size else 0
            behind = fsops.pread(opened.fd, size - start, start)
            if known <= size and behind and not behind.endswith(b"\n"):
                # The last pass was cut off: the line that it began is written again.
                behind = behind[: behind.rfind(b"\n") + 1]
                size = start + len(behind)
                fsops.truncate(opened.fd, size)
            try:
                fsops.write_all(opened.fd, b"".join(_not_behind(lines, behind) if behind else lines))
            except OSError:
                fsops.truncate(opened.fd, size)  # a full disk: what was written of it is given back
                raise
            return fsops.size_of(opened.fd)
        finally:
            fsops.close(opened.fd)

    def _sync(self) -> None:
        """The state may only say what a loss of power leaves there: first the logs of this pass, and their names."""
        if len(self._unsynced) > _MOST_SYNCED_ALONE:
            with self._writing(self.root):
                if fsops.sync_file_system(self.root):
                    return
        for path in sorted(self._unsynced):
            with self._writing(path):
                fsops.sync_written(path)
        for directory in sorted(self._unsynced_names):
            with self._writing(directory):
                fsops.sync_dir(directory)

    def stamps(self) -> dict[str, tuple[int, ...]]:
        try:
            return msgspec.json.decode((self.root / _STAMPS).read_bytes(), type=dict[str, tuple[int, ...]])
        except (OSError, msgspec.DecodeError):
            return {}

    def _save(self, dialect: AgentDialect, stamps: dict[str, tuple[int, ...]]) -> None:
        self._sync()
        self._put(self.root / _STATE, msgspec.msgpack.encode(self._state))
        facts = MirrorFacts(self.agent, str(self.home), dialect.TRANSLATION)
        self._put(self.root / MIRROR_FACTS, encode(facts))
        if self._problems or (self.root / _PROBLEMS).exists():
            self._put(self.root / _PROBLEMS, encode(self._problems))
        # Last: until they are there, everything is looked at again.
        self._put(self.root / _STAMPS, encode(stamps))


def _not_behind(lines: list[bytes], behind: bytes) -> Iterator[bytes]:
    """The lines that a pass which did not come to its end has not written yet."""
    written = Counter(behind.split(b"\n"))
    for line in lines:
        if written[line[:-1]] > 0:
            written[line[:-1]] -= 1
        else:
            yield line


def _session_name(name: str) -> str:
    """A name that is safe in a path, and one that is listed: what stands in a record may be anything."""
    return name if is_uuid(name) else derived_uuid(name, 0)


def _agent_name(name: str | None) -> str | None:
    return name if name is None or _AGENT_NAME.match(name) else derived_uuid(name, 0)


def problems_of_mirror(root: Path) -> list[MirrorProblem]:
    """What the last pass could not mirror."""
    return [problem for found in _saved_problems(root).values() for problem in found]


def _saved_problems(root: Path) -> dict[str, list[MirrorProblem]]:
    try:
        return msgspec.json.decode((root / _PROBLEMS).read_bytes(), type=dict[str, list[MirrorProblem]])
    except (OSError, msgspec.DecodeError):
        return {}


def facts_of_mirror(root: Path) -> MirrorFacts | None:
    """Whose mirror a directory is; None where it is none."""
    try:
        return msgspec.json.decode((root / MIRROR_FACTS).read_bytes(), type=MirrorFacts)
    except (OSError, msgspec.DecodeError):
        return None


def native_name(root: Path, session: str) -> str:
    """What the client calls a session; the same unless its names are no UUIDs."""
    for name, place in _saved(root).placed.items():
        if place.session == session and place.agent is None:
            return name
    return session


def own_name(root: Path, native: str) -> str | None:
    """The session that a client calls so, by the name it has here; None where it is not mirrored."""
    place = _saved(root).placed.get(native)
    return None if place is None or place.agent is not None else place.session


def native_file(root: Path, log: Path) -> str | None:
    """The file of a mirrored session below its client's home, where it is now; None where the client has it no more.

    Rows of a store are looked for only as far as their store.
    """
    facts = facts_of_mirror(root)
    if facts is None:
        return None
    units = dialect_of(facts.agent).units(Path(facts.source))
    here = {name: unit.source for unit in units for name in (_file_name(unit.source), unit.source)}
    named = _sources_of(log)
    if not named:
        return next((unit.source for unit in units), None)
    found = (here.get(name) or here.get(_file_name(name)) for name in reversed(named))
    return next((source for source in found if source is not None), None)


def _sources_of(log: Path) -> list[str]:
    """The files that a log was mirrored from, in order."""
    named = []
    for raw in read_lines(log):
        line = loose_value(raw.data) if b'"foreign-source"' in raw.data else None
        if isinstance(line, dict) and line.get("type") == SOURCE and line.get("source"):
            named.append(str(line["source"]))
    return named


def _file_name(source: str) -> str:
    """The same wherever the client moved it, compressed or not."""
    return source.rpartition("/")[2].removesuffix(".zst")


def alias_log(root: Path, name: str) -> Path | None:
    """The log of a mirror that goes by another name, such as the id of a rollout."""
    log = _saved(root).aliases.get(name)
    return None if log is None else root / log


def _saved(root: Path) -> _MirrorState:
    try:
        return msgspec.msgpack.decode((root / _STATE).read_bytes(), type=_MirrorState)
    except (OSError, msgspec.DecodeError):
        return _MirrorState()


def originals(lines: Iterable[dict[str, Any]]) -> dict[str, list[bytes]]:
    """The records of every source in a log, byte for byte; of a rewritten source its last generation."""
    found: dict[str, list[bytes]] = {}
    generations: dict[str, int] = {}
    name = ""
    for line in lines:
        if line.get("type") == SOURCE:
            name, generation = str(line["source"]), int(line["generation"])
            if generations.setdefault(name, generation) < generation:
                found[name] = []
                generations[name] = generation
            found.setdefault(name, [])
            continue
        data = original_of(line)
        if data is not None and line.get("whole"):
            found[str(line["source"])] = [data]  # a record that was a file, or a row, of its own
        elif data is not None:
            found.setdefault(name, []).append(data)
    return found
