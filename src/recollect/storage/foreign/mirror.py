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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from recollect.errors import Busy, StorageError
from recollect.model.ids import is_uuid
from recollect.model.json.text import loose_value
from recollect.model.made_ids import derived_uuid
from recollect.model.project_key import project_key
from recollect.storage.foreign import todos
from recollect.storage.foreign.growth import Unit, is_left_torn
from recollect.storage.foreign.lines import (
    RECORD,
    USAGE,
    LineFields,
    Voice,
    encode,
    id_of,
    mark_of,
    note,
    only_new,
    original_of,
    record,
    source,
    user,
    with_original,
)
from recollect.storage.foreign.loose import UNEXPECTED
from recollect.storage.foreign.mirroring.files import WRITE, AgentMirrorFiles
from recollect.storage.foreign.mirroring.long_lines import fitting
from recollect.storage.foreign.mirroring.redactions import redacted_again
from recollect.storage.foreign.mirroring.sources import ZST, file_name, sources_of
from recollect.storage.foreign.mirroring.state import (
    LOST,
    PROBLEMS,
    STAMPS,
    STATE,
    HistoryBase,
    MirrorFacts,
    MirrorProblem,
    MirrorState,
    Placed,
    facts_of_mirror,
    native_name,
    problems_of_mirror,
    saved_problems,
    saved_stamps,
    saved_state,
)
from recollect.storage.foreign.resumed import Item, MirroredThread
from recollect.storage.session_files import META, PROJECTS, RESULTS, SUBAGENTS, TODOS
from recollect.system import fsops
from recollect.system.locations import MIRROR_FACTS, MIRRORS
from recollect.system.lock import FileLock
from recollect.system.peek import ReadProblems

_LOCK = "mirror.lock"
_RENEWAL = "renewal"  # where a mirror is translated again
_WHOLE_HOME, _UNSEEN = "", "."  # what concerns no unit; directories that could not be looked at
_NO_SOURCE = ("", 0)
_AGENT_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}\Z")
_REWOUND = "rewound"
_IS_WHOLE = b'"whole":true'
# What ends an empty conversation: a note that follows no message would end none.
_NOT_SAID = {"isMeta": True, "isVisibleInTranscriptOnly": True}
# How lines begin that are not read where only links are looked for, or links and model calls: most of what a log holds.
_RECORDS = (b'{"type":"%b"' % RECORD.encode(),)
_NO_LINKS = (*_RECORDS, b'{"type":"%b"' % USAGE.encode())


class AgentDialect(Protocol):
    """One agent: how its files are found and translated.

    ``TRANSLATION`` is raised where ids or keys of lines change: mirrors of another one are translated again (``renewal``).
    """

    TRANSLATION: int

    def units(self, home: Path, problems: ReadProblems | None = None) -> list[Unit]:
        """What may have changed, oldest first. Directories that could not be looked at are noted in ``problems``."""

    def mirror(self, unit: Unit, saved: bytes | None, into: AgentMirror) -> bytes:
        """Translate what is new; the state to go on from, a Struct that calls its ``Growth`` so, if it has one."""

    def finish(self, home: Path, into: AgentMirror) -> None:
        """What concerns several sessions, after all of them."""

    def resumed(self, thread: MirroredThread) -> list[Item]:
        """What the client sends when it resumes a session, before the new prompt."""

    def deletion_warning(self, home: Path) -> str | None:
        """What the client is about to delete."""

    def resume_warning(self, home: Path, source: str, version: str | None) -> str | None:
        """Why clients do not resume a session although they have its file, or what they do to it then.

        ``source`` is its file below ``home``, ``version`` that of its last client.
        """


def dialect_of(agent: str) -> AgentDialect:
    """The module that knows an agent."""
    dialect: AgentDialect = importlib.import_module(f"recollect.storage.foreign.{agent}")
    return dialect


class _WholeRecord(Struct):
    """A record that is a file or a row of its own. The first versions noted no mark."""

    source: str = ""
    mark: str = ""


_whole_record = msgspec.json.Decoder(_WholeRecord)


class AgentMirror:
    """The mirror of one foreign home."""

    def __init__(self, agent: str, home: Path, data: Path) -> None:
        self.agent, self.home = agent, home
        real = os.path.realpath(home)
        self.root = data / MIRRORS / f"{agent}-{zlib.crc32(os.fsencode(real)):08x}"
        self._problems: dict[str, list[MirrorProblem]] = {}
        self._unit, self._is_retried = _WHOLE_HOME, False
        self._state = MirrorState()
        self._undo: list[Callable[[], object]] = []  # what this unit changed in the state
        self._written: dict[str, list[bytes]] = {}
        self._files = AgentMirrorFiles(self.root, home)
        self._archived_from = data, self.root  # where the archive is, and what its logs are copies of
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
        stamps = {unit.key: unit.stamp for unit in units}
        told = saved_problems(self.root)
        # What is wrong with no unit of now was put aside since, or concerns the whole home: a pass tells.
        is_known = told.pop(_UNSEEN, []) == lost and told.keys() <= stamps.keys()
        if is_known and saved_stamps(self.root) == stamps and not self._is_outdated(dialect):
            return
        with self._files.writing(self.root):
            fsops.make_directories(self.root / PROJECTS)
        is_first = not (self.root / MIRROR_FACTS).exists()
        lock = FileLock(self.root / _LOCK, timeout=600.0 if is_first else 0.0, guards=self.root)
        with contextlib.suppress(Busy), contextlib.closing(lock), lock:
            self._run(dialect, units, lost)

    def _run(self, dialect: AgentDialect, units: list[Unit], lost: list[MirrorProblem]) -> None:
        stamps = saved_stamps(self.root)
        self._written.clear()
        self._todos.clear()
        self._state = saved_state(self.root)
        was_ended = (self.root / MIRROR_FACTS).exists()
        self._files.begin(self._state.logs, is_lost=was_ended and not self._state.logs)
        self._problems = saved_problems(self.root)
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
            if self._is_retried or is_left_torn(self._state.units[unit.key]):
                del stamps[unit.key]
        late = self._late()
        if late:
            self._renew(dialect, late)
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

    def _late(self) -> list[str]:
        """Logs whose beginning is here only now, and those that go on from them; each after what it goes on from."""
        state = self._state
        found = {
            log
            for log, base in state.bases.items()
            if not base.was_here and self._size_of(base) not in (None, base.had)
        }
        last = -1
        while last != len(found):
            last = len(found)
            found |= {log for log, base in state.bases.items() if state.aliases.get(base.alias) in found}
        return sorted(
            (log for log in found if (self.root / log).exists()), key=lambda log: len(self._above(log))
        )

    def _lost(self) -> dict[str, str]:
        """Whose history each log lacks; a fork of a fork lacks what that one lacks, also where only our archive still has it."""
        state = self._state
        found = {log: base.alias for log, base in state.bases.items() if not base.was_here}
        last = -1 if found else 0
        while last != len(found):
            last = len(found)
            for log, base in state.bases.items():
                above = state.aliases.get(base.alias)
                if log not in found and above in found:
                    found[log] = found[above]
        return found

    def _above(self, log: str) -> list[str]:
        """The logs that one goes on from, as far as they are here, nearest first; a circle ends where it began."""
        found: list[str] = []
        base = self._state.bases.get(log)
        while base is not None:
            above = self.log_of(base.alias)
            if above is None or above in (log, *found):
                break
            found.append(above)
            base = self._state.bases.get(above)
        return found

    def _renew(self, dialect: AgentDialect, logs: list[str] | None = None) -> None:
        """All logs, or these."""
        from recollect.storage.foreign.mirroring.renewal import MirrorRenewal

        scratch = self.root / _RENEWAL
        shutil.rmtree(scratch, ignore_errors=True)
        fresh = AgentMirror(self.agent, self.home, scratch)
        fresh._state.placed = self._state.placed  # decided once
        fresh._archived_from = self._archived_from
        with self._files.writing(self.root):
            MirrorRenewal(self, fresh, dialect).run(logs)
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
            self._files.moved(log)
            self._state.headers.pop(log, None)
        for place in self._state.placed.values():
            if self.log(place) in gone:
                place.title = None
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
            if problem.operation == WRITE:
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
        problem, found = (
            MirrorProblem(str(path), reason, is_unknown),
            self._problems.setdefault(self._unit, []),
        )
        if problem not in found:
            found.append(problem)
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
            found += [one + b"\n" for one in fitting(line, self.agent)]
            if line["type"] == "assistant" and (items := todos.listed(line)):
                self._todos[log] = items

    def is_as_left(self, log: str) -> bool:
        """Whether a log has the size that the last pass left: nothing else wrote to it, and it was not moved."""
        try:
            return log not in self._written and (self.root / log).stat().st_size == self._state.logs.get(log)
        except OSError:
            return False

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
            self._put_beside(self.log(place), path, encode(new))

    def keep_result(self, place: Placed, name: str, data: bytes) -> None:
        """A result that stands in a file of its own, for all that reads Claude's own results of this kind."""
        self._put_beside(self.log(place), self._result(place, name), data)

    def _result(self, place: Placed, name: str) -> Path:
        return self.root / PROJECTS / place.project / place.session / RESULTS / name

    def keep_beside(self, place: Placed, unit: Unit, data: bytes, generation: int) -> None:
        """A whole file that says nothing of the conversation, so that it can be restored.

        Without what was redacted in the log, or in what we made of the file.
        """
        log = self.log(place)
        path = self.root / log
        (kept,) = self._redacted_again(
            [data], path, path.with_suffix(META), self._result(place, unit.path.name)
        )
        line = record(Voice(session=place.session, agent=place.agent), recordType="file")
        self.append(log, with_original([line], kept), (unit.source, generation))

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
        """The log that goes by another name; where it is not here, what our archive has of that session."""
        log = self._state.aliases.get(alias)
        if log is not None and (log in self._written or (self.root / log).exists()):
            return log
        from recollect.storage.foreign.mirroring.archived_logs import archived_log

        return archived_log(*self._archived_from, alias)

    def base(self, log: str, alias: str) -> str | None:
        """The log that ``log`` goes on from; where it is not here, a later pass that has it completes ``log``."""
        found, bases, before = self.log_of(alias), self._state.bases, self._state.bases.get(log)
        if found == log:
            return found  # a revert: what the log itself goes on from is still to be known
        self._undo.append(lambda: bases.update({log: before}) if before else bases.pop(log, None))
        bases[log] = HistoryBase(alias, found is not None)
        return found

    def lacks_base(self, log: str) -> None:
        """What ``log`` goes on from is here only in part: a later pass that has more of it completes ``log``."""
        base = self._state.bases[log]
        self._state.bases[log] = HistoryBase(base.alias, False, self._size_of(base) or 0)

    def _size_of(self, base: HistoryBase) -> int | None:
        """How large the log is that another goes on from; None where it is not here."""
        log = self.log_of(base.alias)
        if log is None or self._state.bases.get(log) is base:
            return None
        return self._state.logs.get(log, -1)

    def lines(self, log: str) -> Iterator[LineFields]:
        """The lines of a log, those not yet written included."""
        return self._lines(log, ())

    def _lines(self, log: str, without: tuple[bytes, ...]) -> Iterator[LineFields]:
        """Those that do not begin so."""
        if log.endswith(ZST):
            from recollect.storage.foreign.mirroring.archived_logs import archived_lines

            yield from archived_lines(Path(log))
            return
        for line in self._raw_lines(log):
            value = None if line.startswith(without) else loose_value(line)
            if isinstance(value, dict):
                yield value

    def _raw_lines(self, log: str) -> Iterator[bytes]:
        yield from self._files.lines(log)
        yield from self._written.get(log, ())

    def record_marks(self, log: str) -> dict[str, str]:
        """What a log has last of each record that is a file or a row of its own, by source."""
        found: dict[str, str] = {}
        for line in self._raw_lines(log):
            if _IS_WHOLE in line:
                with contextlib.suppress(msgspec.DecodeError):  # one that was cut off
                    record = _whole_record.decode(line)
                    found[record.source] = record.mark or mark_of(
                        original_of(msgspec.json.decode(line)) or b""
                    )
        return found

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

    def only_changed(self, log: str, lines: list[LineFields]) -> list[LineFields]:
        """Lines of a source that is read again, whose ids are the client's: what the log says so already is kept as bytes alone.

        What says something else under the same id is written again, and counts from then on. Lines are compared as they
        would be written, without what was redacted in the log.
        """
        said = {name: _told(line) for line in self._lines(log, _RECORDS) if (name := id_of(line))}
        would_be = self._redacted_again([encode(line) for line in lines], self.root / log)
        return [
            only_new(line, {name} if said.get(name) == _told(msgspec.json.decode(data)) else set())
            for line, data in zip(lines, would_be, strict=True)
            for name in (id_of(line) or "",)
        ]

    def ended(
        self, log: str, found: list[LineFields], voice: Voice, *, is_emptied: bool = False
    ) -> list[LineFields]:
        """New entries of a log that has to end where ``voice`` does.

        Where others follow that entry, a note after it says that the conversation goes on from there. ``is_emptied``:
        a voice that ends nowhere is one of which all was taken back, and not one that has said nothing yet.
        """
        seen: set[str] = set()
        last = grown = (
            None  # the last entry, and the last one that was new: what follows one that is written again stands before it
        )
        for line in (*self._lines(log, _NO_LINKS), *found):
            if "uuid" in line:
                last = line.get("parentUuid") if line.get("subtype") == _REWOUND else line["uuid"]
                grown = grown if line["uuid"] in seen else last
                seen.add(line["uuid"])
                # That of the note: lists go by the last time of a log.
                voice.at = max(voice.at or "", str(line.get("timestamp") or "")) or None
        if voice.leaf == last == grown or (voice.leaf is None and not is_emptied):
            return found
        voice.epoch = sum(line.get("subtype") == _REWOUND for line in self._lines(log, _NO_LINKS)) + 1
        if voice.leaf is None:
            return [*found, user(voice, "All messages were taken back", subtype=_REWOUND, **_NOT_SAID)]
        return [*found, note(voice, _REWOUND, "Earlier messages were taken back or written again")]

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

    def lend_bases(self, log: str, fresh: AgentMirror) -> None:
        """What a log goes on from, for a mirror that has not translated it again."""
        fresh._state.aliases = self._state.aliases | fresh._state.aliases
        for above in self._above(log):
            if not (fresh.root / above).exists():
                fresh.write_log(above, (self.root / above).read_bytes())

    def state_of(self, unit: str) -> bytes | None:
        """What a unit goes on from."""
        return self._state.units.get(unit)

    def go_on(self, log: str, fresh: AgentMirror, units: dict[str, bytes]) -> None:
        """A log was translated again, in ``fresh``, and put in place."""
        state, made = self._state, fresh._state
        state.units |= units
        state.aliases |= made.aliases
        for base in (one for name, one in made.bases.items() if name == log):
            had = 0 if base.was_here else self._size_of(base) or 0
            state.bases[log] = HistoryBase(base.alias, base.was_here, had)
        state.headers[log] = made.headers[log]
        state.logs[log] = self._files.replaced(log)

    # ---- files -------------------------------------------------------------------------------------------

    def _put_beside(self, log: str, path: Path, data: bytes) -> None:
        """A file beside a log, without what was redacted in either of them."""
        (kept,) = self._redacted_again([data], self.root / log, path)
        self._files.put(path, kept)

    def _flush(self) -> None:
        for log, lines in self._written.items():
            with self._files.writing(self.root / log):
                # A log that this pass begins has nothing to look for.
                is_known = bool(self._state.logs.get(log))
                kept = self._redacted_again(lines, self.root / log) if is_known else lines
                self._state.logs[log] = self._files.add(log, kept)
        for log, items in self._todos.items():
            if log in self._written:
                self._put_beside(log, self.root / TODOS / todos.file_name(Path(log)), encode(items))
        self._written.clear()
        self._todos.clear()

    def _redacted_again(self, lines: list[bytes], *marked: Path) -> list[bytes]:
        return redacted_again(lines, marked, self.root.parent.parent)

    def _save(self, dialect: AgentDialect, stamps: dict[str, tuple[int, ...]]) -> None:
        self._files.sync()
        self._files.put(self.root / STATE, msgspec.msgpack.encode(self._state))
        facts = MirrorFacts(self.agent, str(self.home), dialect.TRANSLATION)
        if facts != facts_of_mirror(self.root):
            self._files.put(self.root / MIRROR_FACTS, encode(facts))
        if self._problems != saved_problems(self.root):
            self._files.put(self.root / PROBLEMS, encode(self._problems))
        lost = self._lost()
        if lost or (self.root / LOST).exists():
            self._files.put(self.root / LOST, encode(lost))
        # Last: until they are there, everything is looked at again.
        self._files.put(self.root / STAMPS, encode(stamps))


def _told(line: LineFields) -> LineFields:
    return {key: value for key, value in line.items() if not key.startswith("original")}


def _session_name(name: str) -> str:
    """A name that is safe in a path, and one that is listed: what stands in a record may be anything."""
    return name if is_uuid(name) else derived_uuid(name, 0)


def _agent_name(name: str | None) -> str | None:
    return name if name is None or _AGENT_NAME.match(name) else derived_uuid(name, 0)


def native_file(root: Path, log: Path) -> str | None:
    """The file of a mirrored session below its client's home, or the store that has it; None where the client has it no more."""
    facts = facts_of_mirror(root)
    if facts is None:
        return None
    name = native_name(root, log.stem)
    units = [unit for unit in dialect_of(facts.agent).units(Path(facts.source)) if unit.holds(name)]
    here = {name: unit.source for unit in units for name in (file_name(unit.source), unit.source)}
    named = sources_of(log)
    if not named:
        return next((unit.source for unit in units), None)
    found = (here.get(name) or here.get(file_name(name)) for name in reversed(named))
    return next((source for source in found if source is not None), None)
