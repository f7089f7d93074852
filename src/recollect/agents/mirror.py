"""A home of another agent as a home of our own: an append-only copy in our data directory.

Nothing is ever written into the foreign home. A pass looks at the foreign files (``stat`` only); what changed is read
from where reading stopped, translated by the agent's own module and appended. The mirror is a home like any other:
``projects/<key>/<session>.jsonl``, ``<session>/subagents/agent-<id>.jsonl``, ``<session>/tool-results/`` and ``todos/``. What the client rewrites, rolls back or
deletes afterwards stays in it.

A crash between an append and the saved state does no harm: lines behind the size that was saved are taken back and
written again.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from recollect.agents import blocks
from recollect.agents.blocks import Item, MirroredThread
from recollect.agents.growth import Unit, UnitState
from recollect.agents.lines import (
    IS_MIRRORED,
    LineFields,
    Voice,
    encode,
    ended,
    fitting,
    record,
    source,
    unsaid,
    with_original,
)
from recollect.agents.loose import UNEXPECTED
from recollect.agents.mirror_files import (
    WRITE,
    ZST,
    AgentMirrorFiles,
    HistoryBase,
    MirrorFacts,
    MirrorProblem,
    MirrorState,
    Placed,
    archived_log,
    facts_of_mirror,
    file_name,
    lines_of_log,
    native_name,
    originals,
    own_lines,
    problems_of_mirror,
    redacted_again,
    saved_stamps,
    sources_of,
)
from recollect.errors import Busy, StorageError
from recollect.model.lines.ids import derived_uuid, is_uuid
from recollect.model.lines.json_text import loose_value
from recollect.model.project_key import project_key
from recollect.store.session_files import META, PROJECTS, RESULTS, SUBAGENTS, TODOS
from recollect.system import fsops
from recollect.system.locations import MIRRORS
from recollect.system.lock import FileLock
from recollect.system.paths import AGENTS
from recollect.system.peek import ReadProblems

_LOCK = "mirror.lock"
_WHOLE_HOME, _UNSEEN = "", "."  # what concerns no unit; directories that could not be looked at
_NO_SOURCE = ("", 0)
_AGENT_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}\Z")


class AgentDialect(Protocol):
    """One agent: how its files are found and translated.

    ``State`` is what reading on in a unit needs to know. A module may also have ``finish(home, into)``, for what concerns several sessions; ``deletion_warning(home)``, what the
    client is about to delete; and ``resume_warning(home, source, version)``, why clients do not resume a session although they
    have its file, or what they do to it then: ``source`` is its file below ``home``, ``version`` that of its last client.
    """

    State: type[UnitState]

    def units(self, home: Path, problems: ReadProblems | None = None) -> list[Unit]:
        """What may have changed, oldest first. Directories that could not be looked at are noted in ``problems``."""

    def mirror(self, unit: Unit, state: Any, into: AgentMirror) -> None:
        """Translate what is new since that state, and change it into the one to go on from."""

    def resumed(self, thread: MirroredThread) -> list[Item]:
        """What the client sends when it resumes a session, before the new prompt."""


def dialect_of(agent: str) -> AgentDialect:
    """The module that knows an agent."""
    name = (AGENTS[agent].like or agent).replace("-", "_")
    module = importlib.import_module(f"recollect.agents.{name}")
    dialect: AgentDialect = getattr(module, "DIALECT", module)
    return dialect


def warning_of(agent: str, kind: Literal["deletion", "resume"], *about: object) -> str | None:
    """What the module of an agent warns of; None where it never does."""
    ask: Callable[..., str | None] | None = getattr(dialect_of(agent), f"{kind}_warning", None)
    return None if ask is None else ask(*about)


class AgentMirror:
    """The mirror of one foreign home."""

    def __init__(self, agent: str, home: Path, data: Path) -> None:
        self.agent, self.home = agent, home
        real = os.path.realpath(home)
        self.root = data / MIRRORS / f"{agent}-{zlib.crc32(os.fsencode(real)):08x}"
        self._files = AgentMirrorFiles(self.root, home)
        self._problems: dict[str, list[MirrorProblem]] = {}
        self._unit, self._is_retried = _WHOLE_HOME, False
        self._state = MirrorState()
        # What a unit said, until it is written: lines and the source they end with by log, and the todo list of a log.
        self._written: dict[str, list[bytes]] = {}
        self._headers: dict[str, tuple[str, int]] = {}
        self._todos: dict[str, list[LineFields]] = {}
        self._again: str | None = (
            None  # a log that is translated again: what stands in its file does not count
        )

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
        facts = facts_of_mirror(self.root)
        if facts is not None:
            # What is wrong with no unit of now was put aside since, or concerns the whole home: a pass tells.
            before = dict(facts.problems)
            is_known = before.pop(_UNSEEN, []) == lost and before.keys() <= stamps.keys()
            if is_known and saved_stamps(self.root) == stamps:
                return
        with self._files.writing(self.root):
            fsops.make_directories(self.root / PROJECTS)
        timeout = 600.0 if facts is None else 0.0
        lock = FileLock(self.root / _LOCK, timeout=timeout, guards=self.root)
        with contextlib.suppress(Busy), contextlib.closing(lock), lock:
            self._run(dialect, units, lost)

    def _run(self, dialect: AgentDialect, units: list[Unit], lost: list[MirrorProblem]) -> None:
        self._drop({}, {})
        self._again = None
        self._state = self._files.begin(self.agent)
        facts, stamps = facts_of_mirror(self.root), saved_stamps(self.root)
        self._problems = {} if facts is None else dict(facts.problems)
        for unit in units:
            if stamps.get(unit.key) == unit.stamp:
                continue
            self._begin(unit.key)
            with self.guarding(unit.path):
                self._mirror_unit(dialect, unit)
            self._flush()
            stamps[unit.key] = unit.stamp
            if self._is_retried:
                del stamps[unit.key]
        late = {log: self._state.bases[log] for log in self._late()}
        for log, base in late.items():  # each has to be done, also where this pass dies after the first
            self._state.bases[log] = HistoryBase(base.alias, was_here=False)
        for log, base in late.items():
            self._complete(log, base, dialect, units)
        self._begin(_WHOLE_HOME)
        with self.guarding(self.home):
            if finish := getattr(dialect, "finish", None):
                finish(self.home, self)
        self._flush()
        here = {unit.key for unit in units}
        problems = {key: one for key, one in self._problems.items() if key in here | {_WHOLE_HOME}}
        problems |= {_UNSEEN: lost} if lost else {}
        now = MirrorFacts(self.agent, str(self.home), problems, self._lost())
        self._files.end(self._state, now, {key: stamp for key, stamp in stamps.items() if key in here})

    def _begin(self, unit: str) -> None:
        """What was wrong with a unit is found again, or is no more."""
        self._unit, self._is_retried = unit, False
        self._problems.pop(unit, None)

    def _mirror_unit(self, dialect: AgentDialect, unit: Unit) -> None:
        """What is new of a unit; all of it where the log it went to was moved away since."""
        saved = self._state.units.get(unit.key)
        state = msgspec.msgpack.decode(saved, type=dialect.State) if saved else dialect.State()
        dialect.mirror(unit, state, self)
        gone = self._moved()
        if gone:
            self._drop({}, {})
            for log in gone:
                self._forget(log)
                self._state.logs.pop(log)
                self._state.headers.pop(log, None)
            state = dialect.State()
            dialect.mirror(unit, state, self)
        self._is_retried |= state.growth.is_torn
        self._state.units[unit.key] = msgspec.msgpack.encode(state)

    def _moved(self) -> list[str]:
        return [log for log in self._written if self._state.logs.get(log) and not (self.root / log).exists()]

    def _forget(self, log: str) -> None:
        """What is mirrored again has no title yet."""
        for place in self._state.placed.values():
            if self.log(place) == log:
                place.title = None

    # ---- forks whose beginning came later ----------------------------------------------------------------

    def _late(self) -> list[str]:
        """Logs whose beginning is here only now, and those that go on from them; each after what it goes on from."""
        result = {
            log
            for log, base in self._state.bases.items()
            if not base.was_here and self._size_of(base) not in (None, base.had)
        }
        if result:
            result |= {log for log in self._state.bases if result.intersection(self._above(log))}
        here = (log for log in result if (self.root / log).exists())
        return sorted(here, key=lambda log: len(self._above(log)))

    def _lost(self) -> dict[str, str]:
        """Whose history each log lacks; a fork of a fork lacks what that one lacks, also where only our archive still has it."""
        own = {log: base.alias for log, base in self._state.bases.items() if not base.was_here}
        result = {}
        for log in self._state.bases if own else ():
            lacking = [one for one in (log, *self._above(log)) if one in own]
            if lacking:
                result[log] = own[lacking[0]]
        return result

    def _above(self, log: str) -> list[str]:
        """The logs that one goes on from, nearest first; a circle ends where it began."""
        result: list[str] = []
        base = self._state.bases.get(log)
        while base is not None:
            above = self._state.aliases.get(base.alias)
            if above is None or above in (log, *result):
                break
            result.append(above)
            base = self._state.bases.get(above)
        return result

    def _complete(self, log: str, base: HistoryBase, dialect: AgentDialect, units: list[Unit]) -> None:
        """Translate a log again from its client's files. Where they have not all that it holds, it stays as it is."""
        state, path, held = self._state, self.root / log, list(self.lines(log))
        before = originals(held)
        named = {file_name(name) for name in before}
        mine = [unit for unit in units if file_name(unit.source) in named]
        states = dict[str, bytes]()
        self._again = log
        self._forget(log)
        with self.guarding(path):
            for unit in mine:
                state_of_unit = dialect.State()
                dialect.mirror(unit, state_of_unit, self)
                states[unit.key] = msgspec.msgpack.encode(state_of_unit)
        lines = self._redacted_again(self._written.get(log, []), path)
        after = originals(value for line in lines if isinstance(value := loose_value(line), dict))
        is_whole = all(
            b"".join(after.get(name, ())).startswith(b"".join(own)) for name, own in before.items()
        )
        if before and is_whole and not any(line.get("generation") for line in held):
            state.units |= states
            state.headers[log] = self._headers[log]
            self._files.exchange(log, b"".join(lines) + own_lines(path, self.agent), state)
        else:
            here = self._size_of(state.bases[log]) or 0
            state.bases[log] = base if base.was_here else HistoryBase(base.alias, False, here)
        self._again = None
        self._drop({}, {})

    # ---- for dialects ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def guarding(self, path: Path | str) -> Iterator[None]:
        """One session, or one file of several: what goes wrong with it is noted, and nothing of it is written."""
        written, headers = {log: len(one) for log, one in self._written.items()}, self._headers.copy()
        placed, places = len(self._state.placed), self._state.placed
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
        while len(places) > placed:
            places.popitem()
        self._drop({log: self._written[log][:count] for log, count in written.items()}, headers)

    def _drop(self, written: dict[str, list[bytes]], headers: dict[str, tuple[str, int]]) -> None:
        """Leave nothing to be written but this."""
        self._written, self._headers = written, headers
        self._todos = {log: items for log, items in self._todos.items() if log in written}

    def problem(
        self, path: Path | str, reason: str, *, is_retried: bool = False, is_unknown: bool = False
    ) -> None:
        """Something that is missing from the mirror; ``doctor`` and the overview tell it until it is there.

        ``is_retried``: the next pass looks again although the file has not changed.
        """
        problem = MirrorProblem(str(path), reason, is_unknown)
        result = self._problems.setdefault(self._unit, [])
        if problem not in result:
            result.append(problem)
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
        result = self._written.setdefault(log, [])
        last = self._headers.get(log) or (None if log == self._again else self._state.headers.get(log))
        origin = origin or (_NO_SOURCE if last is None else last)
        if origin != last:
            result.append(encode(source(self.agent, *origin)) + b"\n")
            self._headers[log] = origin
        for line in lines:
            result += [one + b"\n" for one in fitting(line, self.agent)]
            if line["type"] == "assistant" and (items := blocks.listed(line)):
                self._todos[log] = items

    def append_read(
        self,
        log: str,
        lines: Iterable[LineFields],
        origin: tuple[str, int],
        voice: Voice,
        *,
        is_restarted: bool,
    ) -> None:
        """Lines of a file that was read on, or again: of what the log says already only the bytes of its records are kept, and
        what a rewritten file no longer has is a branch.
        """
        if origin[1]:
            read = list(lines)
            redacted = self._redacted_again([encode(line) for line in read], self.root / log)
            lines = unsaid(self.lines(log), read, redacted)
            if is_restarted:
                voice.leaf = next((line["uuid"] for line in reversed(read) if "uuid" in line), None)
                lines = ended(self.lines(log), lines, voice)
        self.append(log, lines, origin)

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
            self.append(self.log(place), [line | {IS_MIRRORED: True}])

    def alias(self, name: str, log: str) -> None:
        """Another name under which a log is referred to."""
        self._state.aliases[name] = log

    def log_of(self, alias: str) -> str | None:
        """The log that goes by another name; where it is not here, what our archive has of that session."""
        log = self._state.aliases.get(alias)
        if log is not None and (log in self._written or (self.root / log).exists()):
            return log
        return archived_log(self.root, alias)

    def base(self, log: str, alias: str) -> str | None:
        """The log that ``log`` goes on from; where it is not here, a later pass that has it completes ``log``."""
        result = self.log_of(alias)
        if result != log:  # else a revert: what the log itself goes on from is still to be known
            self._state.bases[log] = HistoryBase(alias, result is not None)
        return result

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
        if log.endswith(ZST):
            yield from lines_of_log(Path(log))
            return
        with contextlib.ExitStack() as opened:
            file: Iterable[bytes] = ()
            if log != self._again:
                with contextlib.suppress(FileNotFoundError):
                    file = opened.enter_context((self.root / log).open("rb"))
            for line in itertools.chain(file, self._written.get(log, ())):
                value = loose_value(line)
                if isinstance(value, dict):
                    yield value

    # ---- files -------------------------------------------------------------------------------------------

    def _put_beside(self, log: str, path: Path, data: bytes) -> None:
        """A file beside a log, without what was redacted in either of them."""
        (kept,) = self._redacted_again([data], self.root / log, path)
        self._files.put(path, kept)

    def _flush(self) -> None:
        for log, lines in self._written.items():
            # A log that this pass begins has nothing to look for.
            is_known = bool(self._state.logs.get(log))
            kept = self._redacted_again(lines, self.root / log) if is_known else lines
            self._state.logs[log] = self._files.add(log, kept)
        for log, items in self._todos.items():
            self._put_beside(log, self.root / TODOS / blocks.file_name(Path(log)), encode(items))
        self._state.headers |= self._headers
        self._drop({}, {})

    def _redacted_again(self, lines: list[bytes], *marked: Path) -> list[bytes]:
        return redacted_again(lines, marked, self.root.parent.parent)


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
    result = (here.get(name) or here.get(file_name(name)) for name in reversed(named))
    return next((source for source in result if source is not None), None)
