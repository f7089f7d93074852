"""A log under repair: rows, each a span of the original, a changed line, or a new one.

Every byte of the original is either kept where it was or set aside with the reason; new bytes are counted
separately. So the sizes add up by construction, and ``RepairDraft.sums`` verifies that every byte is
accounted for exactly once (P4).

Rows are numbered. Nodes and entries use the row number as their offset, so the order of rows is the order of
the file.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from recollect.model.checks.api_400 import ID_FIELDS, block_refusals, image_fault, is_blank
from recollect.model.checks.lines import LIMITS, LinePart, parts_of
from recollect.model.checks.rules import RuleViolation
from recollect.model.conversation.client_words import NO_CONTENT
from recollect.model.conversation.graph import Graph, LeafMark, Node, node_of
from recollect.model.lines import codec
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.draft import iso_time
from recollect.model.lines.entry import Assistant, Entry, User
from recollect.model.lines.ids import derived_id
from recollect.model.lines.json_text import Json, content_of, loose_object

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
        newline = row.length - sum(length for _, length, _ in parts)
        rows: list[RepairRow] = []
        for index, (start, length, is_entry) in enumerate(parts):
            whole = length + (newline if index == len(parts) - 1 else 0)
            if is_entry:
                rows.append(RepairRow(row.line, row.offset + start, whole))
            else:
                self.drop(row.line, row.offset + start, whole, code)
        self.rows[number : number + 1] = rows

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
        aside = [(span.offset, span.length) for span in self.set_aside()]
        spans = sorted([(row.offset, row.length) for row in self.kept()] + aside)
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


# By the code of an action: what it does. Codes are stable, scripts rely on them.
ACTIONS: dict[str, str] = {
    # lines
    "nul-trimmed": "remove NUL bytes",
    "glued-split": "put each entry on a line of its own",
    "entry-saved": "keep the complete entry of the line, set the rest aside",
    "torn-tail": "set half an entry at the end aside",
    "unreadable": "set the line aside",
    # times and links
    "time-filled": "give the entry a time",
    "relinked": "link the entry to one that is in the log",
    "leaf-kept": "mark the end of the longer branch",
    # content
    "call-renamed": "give the call another id",
    "result-renamed": "give the result the new id of its call",
    "empty-text": "remove empty text",
    "image-replaced": "replace the image with a note",
    "misplaced-block": "remove blocks that this role cannot send",
    "thinking-removed": "remove thinking that the API refuses",
    # only on request
    "slimmed": "remove what a resume does not need",
}


_WHY = {
    "call-renamed": "its call has an id that the API refuses",
    "result-renamed": "follows its call, which has a new id",
    "empty-text": "the API refuses empty text",
    "image-replaced": "an image that the API refuses; replaced by a note",
    "misplaced-block": "only the other side may send such a block",
    "thinking-removed": "thinking that the API refuses",
}
_RENAMED = {"tool_use": "call-renamed", "tool_result": "result-renamed"}


def mend_content(draft: RepairDraft, number: int) -> bool:
    """Replace or remove the refused blocks of one line; True if there were any."""
    entry = draft.entry(number)
    if entry is None or not isinstance(entry.body, User | Assistant):
        return False
    role = "user" if isinstance(entry.body, User) else "assistant"
    content = content_of(entry.fields())
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        return False
    done: dict[str, None] = {}
    left = [part for block in blocks for part in _mended(role, block, done)]
    if role == "user" and is_blank(role, [part for part in left if isinstance(part, dict)]):
        done.setdefault("empty-text")
        left = [{"type": "text", "text": NO_CONTENT}]
    for index, code in enumerate(done):
        if index == 0:
            draft.change(number, with_content(entry, left), code, _WHY[code])
        else:
            draft.act(code, number, _WHY[code], entry.uuid)
    return bool(done)


def _mended(role: str, block: Any, done: dict[str, None]) -> Iterator[Any]:
    codes = {one.code for one in block_refusals(role, block)} if isinstance(block, dict) else set()
    if not codes:
        yield block
    elif "api-misplaced-block" in codes:
        done.setdefault("misplaced-block")
    elif "api-empty-text" in codes:
        done.setdefault("empty-text")
    elif block["type"] == "image":
        yield _noted(block, done)
    elif block["type"] in _RENAMED:
        yield _with_sound_parts(block, codes, done)
    else:
        done.setdefault("thinking-removed")


def _with_sound_parts(block: Json, codes: set[str], done: dict[str, None]) -> Json:
    """A call or a result with an id that the API takes, and without images that it refuses."""
    mended, field = dict(block), ID_FIELDS[block["type"]]
    if "api-bad-call-id" in codes:
        done.setdefault(_RENAMED[block["type"]])
        # The same new id for the call and for its result.
        mended[field] = derived_id("toolu_", str(block.get(field)))
    if isinstance(block.get("content"), list):
        mended["content"] = [_noted(part, done) for part in block["content"]]
    return mended


def _noted(part: Any, done: dict[str, None]) -> Any:
    is_image = isinstance(part, dict) and part.get("type") == "image"
    fault = image_fault(part) if is_image else None
    if fault is None:
        return part
    done.setdefault("image-replaced")
    return {"type": "text", "text": f"[Image removed: {fault.reason}]"}


_LINES = frozenset(["invalid-json", "glued-objects", "nul-run", "torn-tail"])
_LINKS = frozenset(["history-cut", "unlinked-answer"])
_SPLIT = {"nul-run": "nul-trimmed", "glued-objects": "glued-split"}
_SET_ASIDE = {"nul-run": "nul-trimmed", "torn-tail": "torn-tail"}


def fix_errors(draft: RepairDraft, errors: Sequence[tuple[int, RuleViolation]], written: dt.datetime) -> bool:
    """Fix the errors, each given with the number of its row; True if anything changed.

    Damaged lines come first and alone: with what they hold, other errors may be none.
    """
    lines = [one for one in errors if one[1].code in _LINES]
    is_changed = False
    # From the end, so that the rows before a split one keep their numbers.
    for number, error in sorted(lines or errors, key=lambda one: -one[0]):
        if error.code in _LINES:
            _recover(draft, number, error)
            is_changed = True
        elif error.code in _LINKS:
            is_changed |= _relink(draft, number, error)
        elif error.code == "session-not-found":
            is_changed |= error.subject == "timestamp" and _fill_time(draft, number, written)
        else:
            is_changed |= mend_content(draft, number)
    return is_changed


def _recover(draft: RepairDraft, number: int, error: RuleViolation) -> None:
    """Give each entry of a damaged line a line of its own; what is no entry is set aside."""
    parts = list(parts_of(draft.text(number)))
    kept = sum(is_entry for _, _, is_entry in parts)
    code = _SPLIT.get(error.code, "entry-saved") if kept else _SET_ASIDE.get(error.code, "unreadable")
    draft.split(number, parts, code, f"{error.what}; " + (f"{kept} complete kept" if kept else "set aside"))


def _relink(draft: RepairDraft, number: int, error: RuleViolation) -> bool:
    """Give an entry the parent that the error names."""
    if error.parent is None:
        return False
    why = f"{error.what.partition(': nothing before')[0]}; now follows {error.parent}"
    return draft.change(number, {"parentUuid": error.parent}, "relinked", why)


def _fill_time(draft: RepairDraft, number: int, written: dt.datetime) -> bool:
    """Give an entry a time just after that of the nearest earlier entry that has one."""
    earlier = (entry.at for row in range(number - 1, -1, -1) if (entry := draft.entry(row)) is not None)
    at = next((one for one in earlier if one is not None), written) + dt.timedelta(milliseconds=1)
    why = "no time that can be read: the client would not find the session"
    return draft.change(number, {"timestamp": iso_time(at)}, "time-filled", why)
