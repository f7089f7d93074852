"""A log under repair: rows, each a span of the original, a changed line, or a new one.

Every byte of the original is either kept where it was or set aside with the reason; new bytes are counted
separately. So the sizes add up by construction, and ``RepairDraft.sums`` verifies that every byte is
accounted for exactly once (P4).

Rows are numbered. Nodes and entries use the row number as their offset, so the order of rows is the order of
the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct, structs

from recollect.model import codec
from recollect.model.checks.lines import LinePart
from recollect.model.checks.resumed import LIMITS
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import LeafMark, Node, node_of
from recollect.model.damage import Damage, Line
from recollect.model.entry import Entry
from recollect.model.json.text import loose_object

Read = Callable[[int, int], bytes]


class RepairAction(Struct, frozen=True):
    """One action on a line. ``offset`` and ``line`` (from 1) are those of the original."""

    code: str
    line: int
    offset: int
    why: str
    uuid: str | None = None


class SetAsideBytes(Struct, frozen=True):
    """Bytes of the original that are not in the result unchanged."""

    line: int
    offset: int
    length: int
    reason: str


class RepairRow(Struct):
    """One line of the result. Without ``data`` it is the unchanged span of the original."""

    line: int
    offset: int
    length: int
    data: bytes | None = None
    reason: str = ""


class RepairDraft:
    """The rows of a log, what was done to them, and what was set aside."""

    def __init__(self, read: Read, size: int) -> None:
        self.read, self.size = read, size
        self.rows: list[RepairRow] = []
        self.actions: list[RepairAction] = []
        self.notes: list[str] = []
        self._set_aside: list[SetAsideBytes] = []
        self._graph: Graph | None = None

    def copy(self) -> RepairDraft:
        """Another draft with the same rows, to try something on."""
        other = RepairDraft(self.read, self.size)
        other.rows = [structs.replace(row) for row in self.rows]
        other.actions, other.notes = list(self.actions), list(self.notes)
        other._set_aside = list(self._set_aside)
        return other

    # ---- reading -----------------------------------------------------------------------------

    def text(self, number: int) -> bytes:
        """The bytes of a row, without its newline."""
        row = self.rows[number]
        data = self.read(row.offset, row.length) if row.data is None else row.data
        return data[:-1] if data.endswith(b"\n") else data

    def entry(self, number: int) -> Entry | None:
        """The entry of a row, as far as the client reads it as one."""
        item = codec.decode(Line(self.text(number), number), LIMITS)
        return item.readable if isinstance(item, Damage) else item

    def line_of(self, node: Node) -> Line:
        """The line of a node, with what the client passes over at its end."""
        return Line(self.text(node.offset), node.offset)

    def load(self, node: Node) -> Entry | None:
        """The entry of a node of ``graph``."""
        return self.entry(node.offset)

    def graph(self) -> Graph:
        """The message graph of the rows as they are now."""
        if self._graph is None:
            self._graph = Graph(self._points())
        return self._graph

    def _points(self) -> Iterator[Node | LeafMark | None]:
        for number in range(len(self.rows)):
            yield node_of(Line(self.text(number), number))

    @property
    def has_tail(self) -> bool:
        """Whether the last row is the unchanged end of a log that does not end in a newline."""
        last = self.rows[-1] if self.rows else None
        is_end = last is not None and last.data is None and last.offset + last.length == self.size
        return is_end and self.read(self.size - 1, 1) != b"\n"

    def output(self) -> Iterator[bytes]:
        """The lines of the result, each with its newline; an unchanged end without one stays as it is."""
        without = len(self.rows) - 1 if self.has_tail else None
        for number in range(len(self.rows)):
            yield self.text(number) + (b"" if number == without else b"\n")

    # ---- changing ----------------------------------------------------------------------------

    def keep(self, line: int, offset: int, length: int) -> None:
        """Keep a span of the original as an unchanged row."""
        self._graph = None
        self.rows.append(RepairRow(line, offset, length))

    def split(self, number: int, parts: Sequence[LinePart], code: str, why: str) -> None:
        """Make a row of each entry of a row, and set the rest aside."""
        self._graph = None
        row = self.rows[number]
        self.act(code, number, why)
        newline = row.length - sum(part.length for part in parts)
        made: list[RepairRow] = []
        for index, part in enumerate(parts):
            length = part.length + (newline if index == len(parts) - 1 else 0)
            if part.is_entry:
                made.append(RepairRow(row.line, row.offset + part.start, length))
            else:
                self.drop(row.line, row.offset + part.start, length, code)
        self.rows[number : number + 1] = made

    def drop(self, line: int, offset: int, length: int, reason: str) -> None:
        """Set a span of the original aside."""
        self._set_aside.append(SetAsideBytes(line, offset, length, reason))

    def act(self, code: str, number: int, why: str, uuid: str | None = None) -> None:
        """Record an action on a row."""
        row = self.rows[number]
        self.actions.append(RepairAction(code, row.line, row.offset, why, uuid))

    def change(self, number: int, changes: Mapping[str, object], code: str, why: str) -> bool:
        """Replace top-level fields of a row, if it is an entry; every other field keeps its exact JSON."""
        entry = self.entry(number)
        if entry is not None:
            self.rewrite(number, with_fields(entry, changes), code, why, entry.uuid)
        return entry is not None

    def rewrite(self, number: int, data: bytes, code: str, why: str, uuid: str | None = None) -> None:
        """Give a row other bytes; the original ones are set aside."""
        self._graph = None
        row = self.rows[number]
        row.data = data
        row.reason = row.reason or code
        self.act(code, number, why, uuid)

    def insert(self, number: int, data: bytes, code: str, why: str, uuid: str) -> None:
        """Insert a new row before this one."""
        self._graph = None
        near = self.rows[min(number, len(self.rows) - 1)]
        place = near.offset if number < len(self.rows) else near.offset + near.length
        self.rows.insert(number, RepairRow(near.line, place, 0, data))
        self.act(code, number, why, uuid)

    def remove(self, numbers: set[int]) -> None:
        """Remove rows from the result and set their bytes aside."""
        self._graph = None
        for number in sorted(numbers):
            row = self.rows[number]
            if row.length:
                self.drop(row.line, row.offset, row.length, row.reason or "removed")
        self.rows = [row for number, row in enumerate(self.rows) if number not in numbers]

    # ---- what became of the original ---------------------------------------------------------

    def set_aside(self) -> list[SetAsideBytes]:
        """Every span that is not in the result unchanged, in order."""
        changed = [
            SetAsideBytes(row.line, row.offset, row.length, row.reason)
            for row in self.rows
            if row.data is not None and row.length
        ]
        return sorted([*self._set_aside, *changed], key=lambda span: span.offset)

    def kept(self) -> list[RepairRow]:
        """Rows that are unchanged spans of the original."""
        return [row for row in self.rows if row.data is None]

    def sums(self) -> tuple[int, int, int]:
        """Bytes kept, bytes set aside, and the size of the result; raises if a byte is not counted exactly
        once.
        """
        spans = sorted([(row.offset, row.length) for row in self.kept()] + self._aside_spans())
        position = 0
        for offset, length in spans:
            if offset != position:
                raise AssertionError(f"byte {min(offset, position)} is not accounted for exactly once")
            position += length
        if position != self.size:
            raise AssertionError(f"{position} of {self.size} bytes are accounted for")
        kept = sum(row.length for row in self.kept())
        return kept, self.size - kept, self.output_size

    @property
    def output_size(self) -> int:
        return sum(map(self._emitted, self.rows)) - self.has_tail

    def _aside_spans(self) -> list[tuple[int, int]]:
        return [(span.offset, span.length) for span in self.set_aside()]

    def _emitted(self, row: RepairRow) -> int:
        if row.data is not None:
            return len(row.data.removesuffix(b"\n")) + 1
        has_newline = row.length and self.read(row.offset + row.length - 1, 1) == b"\n"
        return row.length + (0 if has_newline else 1)


def with_fields(entry: Entry, changes: Mapping[str, object]) -> bytes:
    """The entry's line with some fields replaced; if it is not valid JSON, it is encoded again from what was
    read.
    """
    try:
        return codec.changed(entry, changes).raw
    except (ValueError, RecursionError):
        fields = loose_object(entry.raw.strip(b"\0 \t\r"))
        return json.dumps({**fields, **changes}, separators=(",", ":")).encode()


def with_content(entry: Entry, content: object) -> dict[str, object]:
    """The change that replaces the content of a message and leaves the rest of the message."""
    try:
        # As text, so that bytes that are no UTF-8 are refused: parts that are kept as they stand would let them pass.
        line = msgspec.json.decode(entry.raw.decode().strip("\ufeff \t\r"), type=dict[str, Raw])
        message: dict[str, object] = dict(msgspec.json.decode(line["message"], type=dict[str, Raw]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        found = entry.fields().get("message")
        message = dict(found) if isinstance(found, dict) else {}
    return {"message": {**message, "content": content}}
