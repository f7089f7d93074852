"""Check sessions and homes: every rule of ``model/checks``, as findings with a place and a way out.

Each log is read once, line by line; what is kept are ids, links and places, never text. Then only the
conversation that would be resumed is read again, to build what the client would send. Nothing is
written and nothing is locked: a session that a client has open may be checked too.

A log in which one rule is broken ten thousand times gives its first ``MOST_OF_A_CODE`` findings; the summary
counts all of them.
"""

from __future__ import annotations

import datetime as dt
import sys
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from recollect.errors import NotFound, StorageError
from recollect.model import codec
from recollect.model.checks import CODES, RuleViolation
from recollect.model.checks.api_400 import api_faults
from recollect.model.checks.chain import (
    circles,
    conversation_fault,
    duplicate_fault,
    id_fault,
    link_faults,
    orphan_faults,
)
from recollect.model.checks.lines import line_faults, tail_fault
from recollect.model.checks.shortened import LONG_LINE, shortened
from recollect.model.checks.times import time_faults
from recollect.model.checks.tools import ToolTrace, tool_faults
from recollect.model.conversation.api import api_messages
from recollect.model.conversation.client_words import resumed_model
from recollect.model.conversation.conversation import Conversation
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import LeafMark, Node, node_of
from recollect.model.cost.prices import SYNTHETIC_MODEL
from recollect.model.damage import Damage, Line
from recollect.model.entry import Assistant, Entry
from recollect.model.findings import Finding, Severity
from recollect.services.check.home_checks import home_findings
from recollect.services.homes import Home
from recollect.services.session import Session
from recollect.storage.home import AgentFile, LogFile, SessionFile
from recollect.storage.logs.reader import OpenLog
from recollect.system.locations import data_dir

Progress = Callable[[int, int], None]
MOST_OF_A_CODE = 50
# What is sent is held in memory as a whole, at three to four times its bytes; beyond this its texts are cut.
_LARGEST_CONVERSATION = 64 << 20
_LONGEST_TAIL = 64 << 20
_ONCE = frozenset(
    [
        "unknown-type",
        "crlf",
        "byte-order-mark",
        "other-session-id",
        "invalid-id",
        "lone-surrogate",
        "time-order",
    ]
)
_WEIGHT = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


class CheckSummary(Struct, frozen=True):
    """How much was looked at, and how often each rule was broken. ``valid`` and ``damaged`` count lines."""

    sessions: int
    logs: int
    lines: int
    valid: int
    damaged: int
    bytes: int
    by_code: dict[str, int]
    by_severity: dict[str, int]


class CheckReport(Struct, frozen=True):
    """What was found: by session, the newest first, the most severe first; what concerns a home stands last."""

    findings: list[Finding]
    summary: CheckSummary

    @property
    def exit_code(self) -> int:
        """0 where nothing matters, 1 where something does, 4 where something cannot be read at all."""
        if self.summary.by_code.get("unreadable"):
            return 4
        matters = (Severity.ERROR.value, Severity.WARNING.value)
        return 1 if any(self.summary.by_severity.get(one) for one in matters) else 0


def check(
    home: Home,
    sessions: Sequence[Session] | None = None,
    *,
    data: Path | None = None,
    now: dt.datetime | None = None,
    with_secrets: bool = True,
    progress: Progress | None = None,
) -> CheckReport:
    """Check these sessions with their sub-agents; all of them and the homes themselves where none are named."""
    chosen = list(home.sessions()) if sessions is None else list(sessions)
    report = _FindingCollector()
    logs = list(_logs(home, chosen)) if sessions is None else list(_own_logs(chosen))
    total, done, live = sum(log.size for _, log in logs), 0, home.live_ids()
    for session, log in logs:
        _check_log(report, session, log, is_open=session in live)
        done += log.size
        if progress is not None:
            progress(done, total)
    if sessions is None:
        moment = now or dt.datetime.now(dt.UTC)
        for finding in home_findings(home, data or data_dir(), moment, with_secrets=with_secrets):
            report.add(finding)
    return report.checked(len(chosen))


def _own_logs(sessions: Iterable[Session]) -> Iterator[tuple[str, LogFile]]:
    for session in sessions:
        yield session.id, session.file
        for agent in session.agents():
            yield session.id, agent


def _logs(home: Home, sessions: Iterable[Session]) -> Iterator[tuple[str, LogFile]]:
    """Every log of the homes, each session followed by its agents; agents without session come last."""
    agents: dict[tuple[Path, str], list[AgentFile]] = {}
    for one in home.homes:
        for project in one.projects():
            for agent in one.project_agents(project):
                agents.setdefault((project.path, str(agent.owner() or "")), []).append(agent)
    for session in sessions:
        yield session.id, session.file
        for agent in agents.pop((session.path.parent, session.id), ()):
            yield session.id, agent
    for (_, owner), left in agents.items():
        yield from ((owner, agent) for agent in left)


# ---- the report ------------------------------------------------------------------------------------------


class _FindingCollector:
    """Findings in order, cut off where one rule is broken over and over."""

    def __init__(self) -> None:
        self.logs = self.lines = self.damaged = self.bytes = 0
        self._findings: list[tuple[int, int, Finding]] = []
        self._by_code: Counter[str] = Counter()
        self._groups: dict[str, int] = {}

    def add_log(self, place: _CheckedLog, found: Iterable[RuleViolation]) -> None:
        counts: Counter[str] = Counter()
        last: dict[str, int] = {}
        for one in found:
            counts[one.code] += 1
            if counts[one.code] <= (1 if one.code in _ONCE else MOST_OF_A_CODE):
                last[one.code] = len(self._findings)
                self.add(place.finding(one))
            else:
                self._by_code[one.code] += 1
        for code, index in last.items():
            more = counts[code] - (1 if code in _ONCE else MOST_OF_A_CODE)
            if more > 0:
                weight, group, finding = self._findings[index]
                told = structs.replace(finding, what=f"{finding.what} (and {more:,} more such lines)")
                self._findings[index] = (weight, group, told)

    def add(self, finding: Finding) -> None:
        self._by_code[finding.code] += 1
        group = (
            self._groups.setdefault(finding.session or "", len(self._groups)) if finding.session else 1 << 60
        )
        self._findings.append((group, _WEIGHT[finding.severity], finding))

    def checked(self, sessions: int) -> CheckReport:
        ordered = sorted(self._findings, key=lambda one: one[:2])
        by_severity: Counter[str] = Counter()
        for code, count in self._by_code.items():
            by_severity[CODES[code].severity.value] += count
        summary = CheckSummary(
            sessions,
            self.logs,
            self.lines,
            self.lines - self.damaged,
            self.damaged,
            self.bytes,
            dict(sorted(self._by_code.items())),
            dict(by_severity),
        )
        return CheckReport([finding for _, _, finding in ordered], summary)


class _CheckedLog(Struct):
    """Whose log it is, and where its lines start."""

    session: str
    agent: str | None
    path: Path
    starts: array[int]

    def finding(self, found: RuleViolation) -> Finding:
        """A rule that was broken, with everything a reader needs to go there."""
        rule = CODES[found.code]
        line = None if found.offset is None else max(1, bisect_right(self.starts, found.offset))
        fix = rule.fix.format(session=self.session[:8], path=self.path)
        if self.agent is not None and "repair" in fix:
            fix = "nothing to do: the client does not resume a sub-agent's log"
        return Finding(
            found.code,
            rule.severity,
            found.what,
            fix,
            str(self.path),
            self.session or None,
            self.agent,
            line,
            found.offset,
            found.uuid,
        )


# ---- one log ---------------------------------------------------------------------------------------------


def _check_log(report: _FindingCollector, session: str, log: LogFile, *, is_open: bool) -> None:
    agent = str(log.agent_id or log.path.stem) if isinstance(log, AgentFile) else None
    place = _CheckedLog(session, agent, log.path, array("Q"))
    report.logs += 1
    try:
        with OpenLog(log.path) as opened:
            looked = _LogCheck(opened, place, is_open=is_open)
            report.add_log(place, _faults(looked, log))
    except (NotFound, StorageError) as problem:
        report.add_log(place, [RuleViolation("unreadable", problem.message)])
        return
    report.lines += looked.lines
    report.damaged += looked.damaged
    report.bytes += log.size


def _faults(looked: _LogCheck, log: LogFile) -> Iterator[RuleViolation]:
    yield from looked.line_faults()
    graph = Graph(looked.points)
    yield from looked.duplicate_faults()
    yield from time_faults(graph)
    if not isinstance(log, SessionFile):
        yield from orphan_faults(graph)
        yield from circles(graph)
        yield from tool_faults(looked.tools, None)
        return
    if not log.is_uuid:
        yield RuleViolation("foreign-name", f"{log.path.name} is not a name a client gives")
    if looked.is_foreign:
        yield from tool_faults(looked.tools, None)
        return
    yield from link_faults(graph)
    yield from _conversation_faults(looked, graph, log)


def _conversation_faults(looked: _LogCheck, graph: Graph, log: SessionFile) -> Iterator[RuleViolation]:
    """What the conversation that would be resumed says about itself."""
    leaf = graph.active_leaf
    if leaf is None:
        yield from tool_faults(looked.tools, None)
        fault = conversation_fault(graph, log.size, is_sent=False)
        if fault is not None:
            yield fault
        return
    entries = _resumed(looked, graph, leaf)
    if entries is None:
        what = f"even with its texts cut it has more than {_LARGEST_CONVERSATION:,} bytes"
        yield RuleViolation("api-not-checked", what)
        yield from tool_faults(looked.tools, None)
        return
    messages = api_messages(entries)
    yield from tool_faults(looked.tools, entries)
    yield from api_faults(messages, entries, _model(entries))
    fault = conversation_fault(graph, log.size, is_sent=bool(messages))
    if fault is not None:
        yield fault


def _resumed(looked: _LogCheck, graph: Graph, leaf: Node) -> list[Entry] | None:
    """The entries that are resumed; of a large conversation with their texts cut, None where it is too large even so."""
    nodes = Conversation(graph, leaf, looked.load).nodes
    is_large = sum(node.length for node in nodes) > _LARGEST_CONVERSATION
    if sum(node.length for node in nodes if node.length <= LONG_LINE) > _LARGEST_CONVERSATION:
        return None  # there is nothing to cut in these
    entries: list[Entry] = []
    size = 0
    for node in nodes:
        entry = looked.load_shortened(node) if is_large else looked.load(node)
        if entry is not None:
            entries.append(entry)
            size += len(entry.raw)
        if size > _LARGEST_CONVERSATION:
            return None
    return entries


def _model(entries: Sequence[Entry]) -> str:
    """The model that the client goes on with."""
    for entry in reversed(entries):
        body = entry.body
        if isinstance(body, Assistant) and body.message.model and body.message.model != SYNTHETIC_MODEL:
            return resumed_model(body.message.model)
    return resumed_model("")


class _LogCheck:
    """One pass over a log: findings about lines on the way, and what the rules about the whole need."""

    def __init__(self, log: OpenLog, place: _CheckedLog, *, is_open: bool) -> None:
        self._log, self._place, self._is_open = log, place, is_open
        self.lines = self.damaged = 0
        self.points: list[Node | LeafMark] = []
        self.tools = ToolTrace()
        self.is_foreign = False
        self._first: dict[str, Node] = {}
        self._again: list[tuple[Node, Node]] = []

    def line_faults(self) -> Iterator[RuleViolation]:
        """Read the log once; what is wrong with single lines comes out as it is met."""
        end = 0
        for line in self._log.lines():
            self._place.starts.append(line.offset)
            end = line.end
            yield from self._take(line)
        size = self._log.size()
        if end < size:
            yield from self._tail(end, size - end)

    def _take(self, line: Line | Damage) -> Iterator[RuleViolation]:
        item = codec.decode(line) if isinstance(line, Line) else line
        self.lines += 1
        if item is None:
            return
        if isinstance(item, Damage):
            self.damaged += 1
            yield from line_faults(item)
            if item.readable is None or not isinstance(line, Line) or item.code.value == "nul-run":
                return
        entry = item.readable if isinstance(item, Damage) else item
        if entry is not None and isinstance(line, Line):
            yield from self._take_entry(line, entry, is_damaged=isinstance(item, Damage))

    def _take_entry(self, line: Line, entry: Entry, *, is_damaged: bool) -> Iterator[RuleViolation]:
        if not is_damaged and (entry.notices or entry.kind.value.startswith("unknown")):
            yield from line_faults(entry)
        self.tools.take(entry)
        self.is_foreign |= entry.dialect.value != "claude"
        fault = id_fault(entry)
        if fault is not None:
            yield fault
        if self._place.agent is None and entry.uuid and entry.session_id not in (None, self._place.session):
            what = f"it says it is of session {str(entry.session_id)[:60]!r}"
            yield RuleViolation("other-session-id", what, entry.offset, entry.uuid)
        self._link(node_of(line))

    def _link(self, point: Node | LeafMark | None) -> None:
        if point is None:
            return
        if isinstance(point, Node):
            point = self._shared(point)
            first = self._first.setdefault(point.uuid, point)
            if first is not point:
                self._again.append((first, point))
        self.points.append(point)

    def _shared(self, node: Node) -> Node:
        """The same with texts that are held already: an id is one text, also as the parent of others."""
        parent = self._first.get(node.parent) if node.parent is not None else None
        named = node.parent if parent is None else parent.uuid
        return structs.replace(node, type=sys.intern(node.type), parent=named)

    def _tail(self, offset: int, length: int) -> Iterator[RuleViolation]:
        """The client reads what stands behind the last newline if it is a whole entry, and so do we."""
        tail = Line(self._log.read_all(min(length, _LONGEST_TAIL), offset), offset)
        item = codec.decode(tail)
        self._place.starts.append(offset)
        self.lines += 1
        fault = tail_fault(tail, item, is_open=self._is_open)
        if fault is not None:
            yield fault
        if isinstance(item, Entry):
            yield from self._take_entry(tail, item, is_damaged=False)
        elif item is not None and not self._is_open:
            self.damaged += 1

    def duplicate_faults(self) -> Iterator[RuleViolation]:
        """Ids that stand in several lines; their bytes are compared now."""
        for first, again in self._again:
            yield duplicate_fault(self._line(first), self._line(again), again.uuid)

    def _line(self, node: Node) -> Line:
        return Line(self._log.read_all(node.length - 1, node.offset), node.offset)

    def load(self, node: Node) -> Entry | None:
        """The entry behind a node, read again."""
        return self._entry(node, self._line(node))

    def load_shortened(self, node: Node) -> Entry | None:
        """The same with its long texts cut."""
        return self._entry(node, Line(shortened(self._line(node).data), node.offset))

    def _entry(self, node: Node, line: Line) -> Entry | None:
        item = codec.decode(line)
        entry = item.readable if isinstance(item, Damage) else item
        return entry if entry is not None and entry.uuid == node.uuid else None
