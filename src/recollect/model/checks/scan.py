"""All rules about one log, from its lines: one pass, then the conversation that would be resumed.

Only ids, links and offsets of a large log are held in memory, never text. The lines may be those of a file, or those that a
repair would write: a repair is verified by scanning its result with the same rules (``model/repair/plan.py``).
"""

from __future__ import annotations

import datetime as dt
import sys
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec import Struct, structs

from recollect.model.checks.api_400 import api_faults
from recollect.model.checks.chain import (
    ChainWalk,
    ToolTrace,
    circles,
    conversation_fault,
    duplicate_fault,
    id_fault,
    link_faults,
    orphan_faults,
    time_faults,
    tool_faults,
    walk_of,
)
from recollect.model.checks.lines import (
    LARGEST_CONVERSATION,
    LIMITS,
    DamagedLine,
    LineOf,
    ResumedLog,
    beginning_fault,
    examined,
    line_faults,
    resumed_log,
    torn,
)
from recollect.model.checks.rules import CODES, RuleViolation
from recollect.model.conversation.graph import Graph, LeafMark, Node, node_of
from recollect.model.lines import codec
from recollect.model.lines.damage import DEFAULT_LIMITS, RECORD_DAMAGE, Damage, DamageCode, Line
from recollect.model.lines.entry import Entry
from recollect.model.views.damage import RecordGenerations, code_of

# At most this many violations of one rule are kept; the rest are only counted.
MOST_KEPT = 10_000
# The entries of a log up to this size are held until its conversation is built; of a larger one they are read again.
_HELD = 4 << 20
_LONGEST_LINE = DEFAULT_LIMITS.line_bytes
# Damage that hides bytes from the client; other damage is only unusual, or too large for us.
_PASSED_OVER = frozenset([DamageCode.INVALID_JSON, DamageCode.GLUED, DamageCode.NUL_RUN])


class LogIdentity(Struct, frozen=True):
    """What the rules need to know about a log besides its lines.

    ``session`` is the id from its file name, or that of the agent's session. ``kind`` is "foreign-name" for a
    session whose file name no client would give. ``is_open``: a client has it open, so half a line at its end
    is not damage.
    """

    session: str
    path: str = ""
    agent: str | None = None
    kind: Literal["session", "foreign-name", "agent"] = "session"
    is_open: bool = False


class LogSource(Struct, frozen=True):
    """The bytes of a log, readable more than once. ``end`` is where its last whole line with a newline ends.

    ``lines`` gives the lines before ``end``. ``written`` is when the file was last modified.
    """

    log: LogIdentity
    lines: Callable[[], Iterator[Line | Damage]]
    read: Callable[[int, int], bytes]
    size: int
    end: int
    written: dt.datetime

    @property
    def tail(self) -> Line | None:
        """What follows the last whole line: an entry without a newline, or half of one."""
        length = min(self.size - self.end, LIMITS.line_bytes + 1)
        return Line(self.read(self.end, length), self.end) if length > 0 else None

    def line_of(self, node: Node) -> Line:
        """The line of a node, read again."""
        return Line(self.read(node.offset, node.length).removesuffix(b"\n"), node.offset)

    def scan(self) -> LogScan:
        return scanned(self.lines(), self.tail, self.line_of, self.size, self.log)


class LogScan(Struct, frozen=True):
    """What the rules found in one log. ``starts`` are the offsets of its lines.

    ``lines`` and ``numbers``, one for each start, count as an editor does: a value may go over several lines.
    ``half_links`` are the parents of half entries, by their ids.
    """

    violations: tuple[RuleViolation, ...]
    counts: Counter[str]
    lines: int
    damaged: int
    starts: array[int]
    numbers: array[int]
    resumed: ResumedLog
    half_links: dict[str, str]

    def line_number(self, violation: RuleViolation) -> int | None:
        """The line of a violation, from 1; None where it is about the whole log."""
        if violation.offset is None:
            return None
        return self.numbers[max(0, bisect_right(self.starts, violation.offset) - 1)] if self.numbers else 1

    @property
    def is_mendable(self) -> bool:
        """Whether any violated rule can be fixed by a repair."""
        return any(CODES[code].is_mendable for code in self.counts)


def scanned(
    lines: Iterator[Line | Damage],
    tail: Line | None,
    line_of: LineOf,
    size: int,
    log: LogIdentity,
    *,
    half_links: Mapping[str, str] | None = None,
) -> LogScan:
    """Apply every rule to the lines of a log; ``tail`` is what follows its last newline.

    ``half_links`` are known from half entries that are no longer in the lines.
    """
    scan = _Scanner(line_of, log, half_links or {})
    kept: list[RuleViolation] = []
    counts: Counter[str] = Counter()
    for violation in scan.violations(lines, tail, size):
        counts[violation.code] += 1
        if counts[violation.code] <= MOST_KEPT:
            kept.append(violation)
    return LogScan(
        tuple(kept),
        counts,
        scan.lines,
        scan.damaged,
        scan.starts,
        scan.numbers,
        scan.resumed,
        scan.half_links,
    )


class _Scanner:
    """One pass over a log: problems of single lines, and what the rules about the whole log need."""

    def __init__(self, line_of: LineOf, log: LogIdentity, half_links: Mapping[str, str]) -> None:
        self.half_links = dict(half_links)
        self._line_of, self._log = line_of, log
        self.lines = self.damaged = 0
        self.starts, self.numbers = array("Q"), array("Q")
        self.resumed = ResumedLog(None)
        self._points: list[Node | LeafMark] = []
        self._entries: dict[int, Entry] = {}
        self._tools = ToolTrace()
        self._is_foreign = False
        self._first: dict[str, Node] = {}
        self._again: list[tuple[Node, Node]] = []
        self._damaged: list[DamagedLine] = []
        self._generations = RecordGenerations()
        self._no_records: dict[int, RuleViolation] = {}  # by offset
        self._without_id: list[RuleViolation] = []

    def violations(
        self, lines: Iterator[Line | Damage], tail: Line | None, size: int
    ) -> Iterator[RuleViolation]:
        for line in lines:
            self._begin(line)
            self.lines += line.text_lines
            item = codec.decode(line, LIMITS) if isinstance(line, Line) else line
            if isinstance(item, Entry) and item.uuid and self._log.kind != "agent" and size <= _HELD:
                self._entries[line.offset] = item
            yield from self._take(line, item)
        if tail is not None:
            yield from self._take_tail(tail)
        yield from self._no_records.values()
        yield from self._duplicates()
        graph = Graph(self._points)
        yield from time_faults(graph)
        is_resumed = self._log.kind != "agent" and not self._is_foreign
        walk = walk_of(graph, self.half_links) if is_resumed else ChainWalk()
        yield from self._damages(graph, walk.begins_at)
        if self._log.kind == "agent":
            yield from orphan_faults(graph)
            yield from circles(graph)
            yield from tool_faults(self._tools, None)
            return
        if self._log.kind == "foreign-name":
            yield RuleViolation(
                "foreign-name", f"{self._log.path.rpartition('/')[2]} is not a name that a client would give"
            )
        if self._is_foreign:
            yield from tool_faults(self._tools, None)
            return
        yield from link_faults(graph, walk)
        yield from self._conversation(graph, walk, size)

    # ---- lines -------------------------------------------------------------------------------

    def _begin(self, line: Line | Damage) -> None:
        """Where a line starts, and its number."""
        self.starts.append(line.offset)
        self.numbers.append(self.lines + 1)

    def _take(self, line: Line | Damage, item: Entry | Damage | None) -> Iterator[RuleViolation]:
        damage = item if isinstance(item, Damage) else None
        is_long = isinstance(line, Line) and len(line.data) > _LONGEST_LINE
        self.damaged += is_long or code_of(damage, line.data) is not None  # as lists count them
        for offset in self._generations.take(line):
            self.damaged -= 1
            self._no_records.pop(offset, None)
        if is_long:
            yield RuleViolation("oversize-line", f"{len(line.data):,} bytes in one line", line.offset)
        if isinstance(item, Damage):
            yield from self._take_damage(item)
        elif item is not None and isinstance(line, Line):
            yield from self._take_entry(line, item)

    def _take_tail(self, tail: Line) -> Iterator[RuleViolation]:
        """Like the client, read what follows the last newline if it is a whole entry; half a line is not a line yet."""
        item = codec.decode(tail, LIMITS)
        if isinstance(item, Damage) and item.code is not DamageCode.INVALID_UTF8:
            item = item.readable or item  # what follows a whole entry is not finished
        self._begin(tail)
        if isinstance(item, Entry):
            self.lines += tail.text_lines
            what = f"the last line, {len(tail.data)} bytes, has no newline"
            yield RuleViolation("missing-final-newline", what, tail.offset, item.uuid)
            yield from self._take_entry(tail, item)
        elif item is not None and self._log.is_open:
            what = f"{len(tail.data)} bytes without newline so far"
            yield RuleViolation("being-written", what, tail.offset)
        elif item is not None:
            yield from self._take_damage(item, is_tail=True)

    def _take_damage(self, item: Damage, *, is_tail: bool = False) -> Iterator[RuleViolation]:
        """Damage is judged once the graph is known; what the client reads of it is taken now."""
        if item.code in _PASSED_OVER:
            damaged = examined(item)
            self._damaged.append(torn(item, damaged) if is_tail else damaged)
            if damaged.half and damaged.half_parent:
                self.half_links[damaged.half] = damaged.half_parent
        else:
            yield RuleViolation(item.code.value, item.detail, item.offset)
        if item.readable is not None:
            is_whole = item.code in _PASSED_OVER
            yield from self._take_entry(Line(item.data, item.offset), item.readable, is_damaged=not is_whole)

    def _take_entry(self, line: Line, entry: Entry, *, is_damaged: bool = False) -> Iterator[RuleViolation]:
        if not is_damaged and (entry.notices or entry.kind.value.startswith("unknown")):
            yield from self._line_faults(entry)
        if not self._points:
            yield from beginning_fault(entry)
        self._tools.take(entry)
        self._is_foreign |= entry.dialect.value != "claude"
        fault = id_fault(entry)
        if fault is not None and fault.code == "missing-id":
            self._without_id.append(fault)
        elif fault is not None:
            yield fault
        own = (None, self._log.session)
        if self._log.kind != "agent" and entry.uuid and entry.session_id not in own:
            what = f"it names session {str(entry.session_id)[:60]!r}"
            yield RuleViolation("other-session-id", what, entry.offset, entry.uuid)
        self._link(node_of(line))

    def _line_faults(self, entry: Entry) -> Iterator[RuleViolation]:
        """Whether bytes of another client are damage is known when there are no later ones."""
        for fault in line_faults(entry):
            if fault.code == RECORD_DAMAGE:
                self._no_records[entry.offset] = fault
            else:
                yield fault

    def _damages(self, graph: Graph, begins_at: int) -> Iterator[RuleViolation]:
        """Damaged lines: an error where a message of the conversation is lost with one."""
        if not self._damaged:
            return
        known = frozenset(graph.nodes)
        orphans = {node.parent: node for node in graph.orphans if node.parent}
        following = sorted((node.offset, node.uuid) for node in graph.nodes.values() if node.is_link)
        for one in self._damaged:
            position = bisect_right(following, (one.offset, "\U0010ffff"))
            after = graph.nodes[following[position][1]] if position < len(following) else None
            # Nothing can be recognised, but the next entry follows one that is not in the log.
            is_gap = not one.lost and after is not None and after.parent in orphans
            is_loss = is_gap or one.holds_a_message(known, frozenset(orphans))
            is_error = is_loss and self._log.kind != "agent" and one.offset >= begins_at
            yield RuleViolation(one.code if is_error else one.harmless_code, one.what, one.offset)

    def _link(self, point: Node | LeafMark | None) -> None:
        if isinstance(point, Node):
            # Each id is one string, also as the parent of others.
            parent = self._first.get(point.parent or "")
            named = point.parent if parent is None else parent.uuid
            point = structs.replace(point, type=sys.intern(point.type), parent=named)
            first = self._first.setdefault(point.uuid, point)
            if first is not point:
                self._again.append((first, point))
        if point is not None:
            self._points.append(point)

    def _duplicates(self) -> Iterator[RuleViolation]:
        """Ids that occur on several lines; their bytes are compared now."""
        for first, again in self._again:
            yield duplicate_fault(self._line_of(first), self._line_of(again), again.uuid)

    # ---- the conversation --------------------------------------------------------------------

    def _conversation(self, graph: Graph, walk: ChainWalk, size: int) -> Iterator[RuleViolation]:
        """Problems of the conversation that would be resumed."""
        self.resumed = resumed = resumed_log(graph, self._line_of, known=self._entries)
        if resumed.leaf is not None and resumed.entries is None:
            what = f"even with shortened texts it has more than {LARGEST_CONVERSATION:,} bytes"
            yield RuleViolation("api-not-checked", what)
            yield from tool_faults(self._tools, None)
            return
        sent = resumed.entries if resumed.leaf is not None else None
        yield from tool_faults(self._tools, sent, resumed.messages)
        yield from api_faults(resumed.messages, resumed.entries or ())
        sent_at = {entry.offset for entry in sent or ()}
        yield from (
            one
            for one in self._without_id
            if one.offset not in sent_at and (one.offset or 0) >= walk.begins_at
        )
        fault = conversation_fault(graph, size, is_sent=bool(resumed.messages))
        if fault is not None:
            yield fault
