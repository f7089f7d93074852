"""What agents have in common whose sessions are lines of a file, a JSON document, or rows of a database.

A module says where the files lie, which session a file is, and what a record means; growth, rewritten files, crash
safety and everything behind the mirror are common. ``docs/design/agents.md`` shows how to add one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from recollect.agents import lines as entry
from recollect.agents.blocks import Item, MirroredThread, as_messages
from recollect.agents.databases import TRIES, StoreChangedError, Tables, database_units
from recollect.agents.growth import Unit, UnitState, files_below, new_lines, whole_document
from recollect.agents.lines import LineFields, Voice
from recollect.agents.loose import Fields, Shape, fitted, parsed, translated
from recollect.agents.mirror import AgentMirror
from recollect.errors import StorageError
from recollect.model.lines.damage import UNREADABLE
from recollect.system.peek import ReadProblems

# Seconds since 1970 stay below this for ages, milliseconds have been above it since 1973.
_SECONDS_END = 100_000_000_000


class Begun(Struct, frozen=True, kw_only=True):
    """Which session a file is. ``owner``: the session whose sub-agent it is. ``key``: what stands for an unknown directory.

    ``meta``: what is known of a sub-agent, in the names of Claude's own files of that kind. ``at``: when it began, where its
    records have no times; ``memory["changed"]`` is then when the file was seen.
    """

    session: str
    cwd: str = ""
    owner: str | None = None
    key: str = ""
    meta: dict[str, object] = {}
    at: str | None = None

    @property
    def name(self) -> str:
        """What its place goes by."""
        return self.session if self.owner is None else f"{self.owner}/{self.session}"


class Talk(UnitState, kw_only=True):
    """A file that was read: where the next line is written, and what the translator remembers."""

    name: str = ""
    agent: str = ""
    voice: Voice = msgspec.field(default_factory=Voice)
    memory: dict[str, Any] = msgspec.field(default_factory=dict)


Begin = Callable[[Unit, Fields], Begun]
Translate = Callable[[Fields, Talk], list[LineFields]]


class LineDialect:
    """One agent with a file of lines for each session. ``files``: patterns of directories below its home, each with the ending of the files there."""

    State: type[Talk] = Talk

    def __init__(
        self, files: tuple[tuple[str, str], ...], shape: dict[str, Shape], begin: Begin, lines: Translate
    ) -> None:
        self._files, self._shape, self._begin, self._lines = files, shape, begin, lines

    def units(self, home: Path, problems: ReadProblems | None = None) -> list[Unit]:
        """The files, by name."""
        return [
            unit for place, ending in self._files for unit in files_below(home, place, (ending,), problems)
        ]

    def mirror(self, unit: Unit, state: Talk, into: AgentMirror) -> None:
        """Translate what a file has gained."""
        read, is_restarted = self._read(unit, state)
        records = [fitted(value, self._shape) for _, value in read]
        if not records:
            return
        if not state.name or is_restarted:
            self._start(state, self._begin(unit, records[0].fields), unit.stamp[1] / 1e6, into)
        lines: list[LineFields] = []
        for (raw, _), (fields, odd) in zip(read, records, strict=True):
            lines += entry.with_original(self._translated(fields, odd, state, into.agent), raw)
        origin = (unit.source, state.growth.generation)
        said: dict[str | None, list[LineFields]] = {state.voice.agent: []}
        for line in lines:
            said.setdefault(line.get("agentId", state.voice.agent), []).append(line)
        for agent, theirs in said.items():
            log, voice = self._log(state, into), state.voice
            if agent != voice.agent:
                log, voice = self._aside(str(agent), state, into)
            into.append_read(log, theirs, origin, voice, is_restarted=is_restarted)

    def _read(self, unit: Unit, state: Talk) -> tuple[list[tuple[bytes, object]], bool]:
        """The new records with their bytes, and whether they are those of another file."""
        raws, is_restarted, _ = new_lines(unit, state.growth)
        return [(raw, parsed(raw)) for raw in raws], is_restarted

    def _aside(self, agent: str, state: Talk, into: AgentMirror) -> tuple[str, Voice]:
        """The log of a sub-agent whose records stand in that of its session; ``memory["agents"]`` has its ``meta``."""
        place = into.place(f"{state.name}/{agent}", state.voice.cwd, session=state.name, agent=agent)
        into.note_agent(place, state.memory.get("agents", {}).get(agent, {}).get("meta", {}))
        return into.log(place), Voice(session=place.session, agent=agent, at=state.voice.at)

    def _start(self, state: Talk, begun: Begun, changed: float, into: AgentMirror) -> None:
        place = into.place(
            begun.name,
            begun.cwd,
            session=begun.owner or begun.session,
            agent=None if begun.owner is None else begun.session,
            project=begun.key,
        )
        if begun.owner is not None and begun.meta:
            into.note_agent(place, begun.meta)
        seen = entry.moment(changed)
        state.name, state.memory = begun.name, {} if begun.at is None else {"changed": seen}
        state.voice = Voice(session=place.session, agent=place.agent, seed=begun.name, cwd=begun.cwd)
        state.voice.at = begun.at or seen

    def _log(self, state: Talk, into: AgentMirror) -> str:
        place = into.placed(state.name)
        assert place is not None  # noqa: S101 - for the type checker: it was placed when it began
        return into.log(place)

    def _translated(self, fields: Fields, odd: list[str], state: Talk, agent: str) -> list[LineFields]:
        state.agent = agent
        if not fields:
            return [entry.record(state.voice, f"{agent}{UNREADABLE}")]
        new = translated(agent, state.voice, odd, partial(self._lines, fields, state))
        return new or [entry.record(state.voice)]

    def resumed(self, thread: MirroredThread) -> list[Item]:
        """The conversation as messages, without thoughts."""
        return as_messages(thread.entries())


class Record(NamedTuple):
    """One part of a store that is rewritten in place: its name in the store, what it says, and how that is kept."""

    name: str
    fields: Fields
    data: bytes


class StoreDialect(LineDialect):
    """One agent whose sessions are rewritten in place: a session is translated again as a whole where it changed.

    Each record is kept once in each state it was seen in; what a rewritten session no longer has stays as a branch.
    """

    def _rewrite(
        self, unit: Unit, state: Talk, begun: Begun, records: list[Record], into: AgentMirror
    ) -> None:
        """Write what a session says now. ``state`` is the session's own."""
        self._start(state, begun, unit.stamp[1] / 1e6, into)
        log = self._log(state, into)
        known, seen = list(into.lines(log)), entry.record_marks(into.lines(log))
        lines: list[LineFields] = []
        for name, given, data in records:
            fields, odd = fitted(given, self._shape)
            new = self._translated(fields, odd, state, into.agent)
            mark = entry.mark_of(data)
            if seen.get(name) == mark:
                new = [line for line in new if entry.id_of(line)]
            else:
                about: LineFields = {"recordType": "record", "source": name, "mark": mark, "whole": True}
                lines.append(entry.with_original([entry.record(state.voice, **about)], data)[0])
            lines += new
        encoded = [entry.encode(line) for line in lines]
        lines = entry.ended(known, entry.unsaid(known, lines, encoded), state.voice)
        into.append(log, lines, (unit.source, 0))


class DocumentDialect(StoreDialect):
    """One agent with a JSON document for each session. ``records`` takes it apart: the first says what the session is.

    What should be a record and is none is kept, and is damage.
    """

    def __init__(
        self,
        files: tuple[tuple[str, str], ...],
        shape: dict[str, Shape],
        begin: Begin,
        lines: Translate,
        records: Callable[[object], Sequence[object]],
    ) -> None:
        super().__init__(files, shape, begin, lines)
        self._records = records

    def mirror(self, unit: Unit, state: Talk, into: AgentMirror) -> None:
        """Translate a document that changed."""
        for data in whole_document(unit, state.growth):
            parts = self._parts(unit, parsed(data))
            if not parts or not isinstance(parts[0], dict):
                raise StorageError(
                    "read",
                    unit.path,
                    OSError(0, "half written, or no session"),
                    hint="it is read again when it changes",
                )
            begun = self._begin(unit, fitted(parts[0], self._shape).fields)
            records = [
                Record(f"{unit.source}#{number}", part if isinstance(part, dict) else {}, entry.encode(part))
                for number, part in enumerate(parts)
            ]
            self._rewrite(unit, state, begun, records, into)

    def _parts(self, unit: Unit, document: object) -> Sequence[object]:
        return self._records(document)


class Stored(UnitState, kw_only=True):
    """A database that was read: the mark of each session when it was translated."""

    sessions: dict[str, str] = msgspec.field(default_factory=dict)


class RowDialect(StoreDialect):
    """One agent with a database of sessions. ``tables``: what is read of it, each with the columns it must have; one without any may be missing.

    ``listed`` gives a mark for each session, which differs when a row of it may have changed; ``rows`` gives the records of one,
    the first of which says what the session is.
    """

    State = Stored  # type: ignore[assignment]

    def __init__(
        self,
        files: tuple[str, ...],
        tables: dict[str, set[str]],
        shape: dict[str, Shape],
        *,
        begin: Begin,
        lines: Translate,
        listed: Callable[[Tables], dict[str, str]],
        rows: Callable[[Tables, str], list[Fields]],
    ) -> None:
        super().__init__((), shape, begin, lines)
        self._databases, self._tables, self._listed, self._rows = files, tables, listed, rows
        self._needed = tuple(name for name, columns in tables.items() if columns)

    def units(self, home: Path, problems: ReadProblems | None = None) -> list[Unit]:
        """The databases, each with its write-ahead log."""
        return database_units(home, *self._databases)

    def mirror(self, unit: Unit, state: Stored, into: AgentMirror) -> None:  # type: ignore[override]
        """Translate the sessions whose marks changed."""
        for _ in range(TRIES):
            with (
                contextlib.suppress(StoreChangedError),
                Tables.opened(unit.path, self._tables, self._needed) as tables,
            ):
                self._mirror_changed(unit, tables, state, into)
                for problem in tables.problems:
                    into.problem(problem.path, problem.reason, is_unknown=problem.is_unknown)
                return
        into.problem(unit.path, "it changes all the time; it is read at the next call", is_retried=True)

    def _mirror_changed(self, unit: Unit, tables: Tables, state: Stored, into: AgentMirror) -> None:
        listed = self._listed(tables)
        tables.check()
        for session, mark in listed.items():
            if state.sessions.get(session) == mark:
                continue
            with into.guarding(f"{unit.path}: {session}"):
                parts = self._rows(tables, session)
                tables.check()
                if parts:
                    begun = self._begin(unit, fitted(parts[0], self._shape).fields)
                    records = [
                        Record(f"{session}/{number}", part, entry.encode(part))
                        for number, part in enumerate(parts)
                    ]
                    self._rewrite(unit, Talk(), begun, records, into)
                state.sessions[session] = mark
            into.settle()


def decoded(row: Fields, *names: str) -> Fields:
    """A row in which the columns that hold JSON are what it says; what is none stays text."""
    texts = {name: row[name] for name in names if isinstance(row.get(name), str)}
    values = {name: parsed(text.encode()) for name, text in texts.items()}
    return row | {name: value for name, value in values.items() if value is not None}


def local_path(place: str) -> str:
    """A path, or what a ``file:`` URI names."""
    if not place.startswith("file:"):
        return place
    path = unquote(urlsplit(place).path)
    return path[1:] if path[2:3] == ":" else path


def unknown(kind: object, state: Talk) -> list[LineFields]:
    """A record of a type that is not known: ``check`` counts it."""
    return [entry.record(state.voice, f"{state.agent}:{kind}")]


def millis(value: object) -> str | None:
    """Milliseconds since 1970, or seconds, as the text that all logs have."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return entry.moment(value if value > _SECONDS_END else value * 1000)
