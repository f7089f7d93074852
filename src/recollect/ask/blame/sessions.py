"""What one session did to one file, and the prompts that asked for it.

Only the lines that name the file, their results and the prompts are decoded; of all others only the links are read.
"""

from __future__ import annotations

import datetime as dt
import functools
import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.ask.homes import Homes
from recollect.ask.sessions.messages import agents_of
from recollect.ask.sessions.session import Session
from recollect.errors import NotFound, StorageError, UsageError
from recollect.index.access import OpenIndex, open_index
from recollect.index.text_queries import TextFilter, TextQueries
from recollect.model.conversation.agents import SubAgent
from recollect.model.files.history import FileStep, file_steps
from recollect.model.lines.blocks import ToolResultBlock, ToolUseBlock
from recollect.model.lines.damage import Line
from recollect.model.lines.entry import Assistant, Entry, System, ToolCallBody, User
from recollect.model.lines.json_text import loose_value
from recollect.model.text.query import WordQuery
from recollect.model.text.titles import asked_text, read_entry
from recollect.model.views.fact_line import FactLine, fact_line
from recollect.store.file_backups import body_reader
from recollect.store.home import first_text
from recollect.store.home_walk import scan_logs
from recollect.store.logs.reader import OpenLog, read_lines

_BLOCK = 4 << 20


class FileNeedle:
    """A file's name as it stands in logs: as it is, and with escapes."""

    def __init__(self, name: str) -> None:
        raw = msgspec.json.encode(name)[1:-1]
        escaped = "".join(c if ord(c) < 128 else _escape(c) for c in raw.decode("utf-8", "surrogateescape"))
        self._spellings = tuple({raw, escaped.encode(), escaped.lower().encode(), escaped.upper().encode()})
        self._overlap = max(map(len, self._spellings)) - 1

    def is_in(self, data: bytes) -> bool:
        return any(spelling in data for spelling in self._spellings)

    def is_in_log(self, path: Path) -> bool:
        """Whether a log names it; one that cannot be read does not."""
        try:
            with OpenLog(path) as log:
                end, at = log.size(), 0
                while at < end:
                    if self.is_in(log.read(_BLOCK + self._overlap, at)):
                        return True
                    at += _BLOCK
        except (NotFound, StorageError):
            return False
        return False


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def sessions_naming(home: Homes, name: str) -> Iterator[Session]:
    """The sessions whose log, or an agent's, names a file of this name."""
    roots = [one.root for one in home.homes]
    named: set[str] | None = None
    if home.has_index:
        with open_index(roots, cache=home.index_cache) as opened:
            named = _by_index(opened, name)
    if named is None:
        named = _by_bytes(roots, name)
    everything = chain(home.sessions(), home.archived_only())
    yield from (one for one in everything if one.id in named or (one.is_archived and _archived(one, name)))


def _by_index(opened: OpenIndex, name: str) -> set[str] | None:
    """The ids of sessions; None where the index cannot tell."""
    queries = TextQueries(opened.database)
    try:
        phrase = '"' + name.replace('"', " ") + '"'
        match = WordQuery.parse(phrase).fts(["tool_input", "other"])
        rows = {copy.file for text in queries.all(match, TextFilter()) for copy in text.copies}
    except UsageError:  # a name without a word
        return None
    return {log.session or Path(log.path).stem for log in queries.logs(rows).values()}


def _by_bytes(roots: Sequence[Path], name: str) -> set[str]:
    needle = FileNeedle(name)
    logs = (log for root in roots for log in scan_logs(root) if log.role != "tool-output")
    found: set[str] = set()
    for log in logs:
        path = Path(log.path)
        owner = log.session or path.stem
        if owner not in found and needle.is_in_log(path):
            found.add(
                owner
                if log.role == "session" or log.session
                else (first_text(path, "session_id") or path.stem)
            )
    return found


def _archived(session: Session, name: str) -> bool:
    needle = FileNeedle(name)
    return any(needle.is_in_log(log.path) for log in (session.file, *session.agents()))


_EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)


class ChangeOrigin(Struct, frozen=True):
    """Where a change stands: the agent, None for the session itself, and whether the line is a copy of another log's."""

    agent: str | None
    is_copy: bool


class SessionTrail:
    """The lines of a session and its agents that bear on a file."""

    def __init__(self, session: Session, needle: FileNeedle) -> None:
        self.session = session
        self.cwds: set[str] = set()
        self._needle = needle
        self._parents: dict[str, str | None] = {}
        self._prompts: dict[str, str] = {}
        self._order: list[tuple[str, bool]] = []  # the lines of the main log: id, and whether it is a prompt
        self._agent_of: dict[str, str] = {}
        self._origins: dict[str, ChangeOrigin] = {}
        logs = [_timed(self._kept(session.path, None), 0)]
        for number, agent in enumerate(session.agents(), 1):
            if needle.is_in_log(agent.path):
                name = str(agent.agent_id or agent.path.stem)
                logs.append(_timed(self._kept(agent.path, name), number))
        merged = heapq.merge(*logs, key=lambda item: item[:2])
        self._entries = [entry for *_, entry in merged]

    def steps(self, wanted: Callable[[str], bool]) -> dict[str, list[FileStep]]:
        """The states and changes of the files that are wanted, by path."""
        body_of = body_reader(self.session.home, self.session.file)
        cwd = self.session.file.first_cwd()
        return file_steps(self._entries, cwd, body_of=body_of, wanted=wanted)

    def origin(self, uuid: str | None) -> ChangeOrigin:
        return self._origins.get(uuid or "", ChangeOrigin(None, False))

    def commands(self) -> Iterator[tuple[str, str]]:
        """The shell commands that name the file and did not fail, each with the directory it ran in."""
        waiting: dict[str, tuple[str, str]] = {}
        for entry in self._entries:
            cwd = (entry.chain.cwd if entry.chain else None) or ""
            for block in entry.body.message.blocks if isinstance(entry.body, Assistant) else ():
                if isinstance(block, ToolUseBlock) and block.name == "Bash":
                    given = loose_value(block.input)
                    command = given.get("command") if isinstance(given, dict) else None
                    waiting |= {block.id: (command, cwd)} if isinstance(command, str) else {}
            content = entry.body.message.content if isinstance(entry.body, User) else ""
            for result in content if not isinstance(content, str) else ():
                if isinstance(result, ToolResultBlock) and result.tool_use_id in waiting:
                    ran = waiting.pop(result.tool_use_id)
                    if result.is_error is not True:
                        yield ran

    # ---- lines -----------------------------------------------------------------------------------------------

    def _kept(self, path: Path, agent: str | None) -> Iterator[Entry]:
        waiting: set[bytes] = set()  # calls that name the file and have no result yet
        try:
            for line in read_lines(path):
                key = fact_line(line.data) if isinstance(line, Line) else None
                if key is None or not isinstance(line, Line):
                    continue
                entry = self._noted(line, key, agent, waiting)
                if entry is not None:
                    self._note_origin(entry, agent)
                    waiting |= {call.encode() for call in _calls(entry)}
                    yield entry
        except (NotFound, StorageError):
            return

    def _noted(self, line: Line, key: FactLine, agent: str | None, waiting: set[bytes]) -> Entry | None:
        """The entry of a line that bears on the file; its links are noted in any case."""
        data = line.data
        is_result = b'"tool_result"' in data
        may_ask = key.type in ("user", "attachment") and not is_result
        is_cut = key.type == "system" and b"compact_boundary" in data
        answered = {call for call in waiting if call in data} if is_result else set()
        entry = read_entry(line) if may_ask or is_cut or answered or self._needle.is_in(data) else None
        waiting -= answered
        if key.uuid is not None and key.uuid not in self._parents:
            self._parents[key.uuid] = _before(entry) or key.parent_uuid
            text = asked_text(entry) if entry is not None and may_ask else None
            is_main = agent is None and not key.is_sidechain
            if text is not None and is_main:
                self._prompts[key.uuid] = text
            if agent is None:
                self._order.append((key.uuid, text is not None and is_main))
            else:
                self._agent_of[key.uuid] = agent
        return entry

    def _note_origin(self, entry: Entry, agent: str | None) -> None:
        chain = entry.chain
        if chain is None:
            return
        if chain.cwd:
            self.cwds.add(chain.cwd)
        if entry.uuid is not None:
            foreign = entry.session_id not in (None, self.session.id)
            is_copy = chain.forked_from is not None or foreign
            self._origins.setdefault(entry.uuid, ChangeOrigin(agent or chain.agent_id, is_copy))

    # ---- prompts ---------------------------------------------------------------------------------------------

    def prompt_of(self, uuid: str | None) -> tuple[str, str] | None:
        """Id and text of the prompt of the session that led to an entry, also through the agents it sent."""
        seen: set[str] = set()
        while uuid is not None and uuid not in seen:
            seen.add(uuid)
            if uuid in self._prompts:
                return uuid, self._prompts[uuid]
            above = self._parents.get(uuid)
            if above is None and uuid in self._agent_of:
                above = self._sent_by(self._agent_of[uuid])
            elif above is None or above not in self._parents:
                above = self._last_prompt_before(uuid)
            uuid = above
        return None

    def _last_prompt_before(self, uuid: str) -> str | None:
        """For lines whose chain is broken, and for agents inside the log: the last prompt that stands before."""
        last = None
        for one, is_prompt in self._order:
            if one == uuid:
                return last
            last = one if is_prompt else last
        return None

    def _sent_by(self, name: str) -> str | None:
        """The entry with the call that sent an agent, or sent the agent whose log does not name the file."""
        agent = self._agents.get(name)
        for _ in self._agents:
            if agent is None or agent.spawned_by in self._parents:
                break
            agent = self._agents.get(agent.parent_agent or "")
        return None if agent is None else agent.spawned_by

    @functools.cached_property
    def _agents(self) -> dict[str, SubAgent]:
        return {agent.id: agent for agent in agents_of(self.session)}


def _before(entry: Entry | None) -> str | None:
    """What stands before a compaction, which cuts the chain."""
    body = None if entry is None else entry.body
    return body.logical_parent_uuid if isinstance(body, System) and body.parent_uuid is None else None


def _calls(entry: Entry) -> list[str]:
    if isinstance(entry.body, ToolCallBody):
        return [] if entry.body.call_id is None else [entry.body.call_id]
    if not isinstance(entry.body, Assistant):
        return []
    return [block.id for block in entry.body.message.blocks if isinstance(block, ToolUseBlock)]


def _timed(entries: Iterator[Entry], number: int) -> Iterator[tuple[dt.datetime, int, Entry]]:
    latest = _EARLIEST
    for entry in entries:
        latest = max(latest, entry.at or latest)
        yield latest, number, entry
