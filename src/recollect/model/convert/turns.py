"""Which lines make one response, and which result answers which call.

Dialects spread a conversation over lines in different ways: the claude dialect repeats a response's id on
each of its lines, the flat and events dialects put calls on lines of their own and know responses only by
their order. Here a list of entries becomes a list of turns that no longer depends on any of that:

- a ``TurnPrompt`` is what was said to the model;
- a ``Response`` is one answer of the API, counted once, with the results of its calls;
- a ``TurnResult`` is a result that answers no call;
- an ``Entry`` is a title or tag, which belongs to the session as a whole.

A call on a line of its own belongs to the response before it, unless a result has come since. It still
belongs to it while another call of that response is waiting: those calls ran in parallel.

Entries are taken in the order given. This module does not choose between branches, does not write lines, and
never raises because of log content.
"""

from __future__ import annotations

import enum
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from recollect.model.lines import json_text
from recollect.model.lines.blocks import (
    Block,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    blocks_of,
)
from recollect.model.lines.damage import Damage, brief_repr
from recollect.model.lines.entry import (
    ApiMessage,
    Assistant,
    Attachment,
    ChainBody,
    Dialect,
    Entry,
    Kind,
    Progress,
    System,
    ToolCallBody,
    ToolResultBody,
    UnknownBody,
    UnknownShapeBody,
    User,
)


class LossCode(enum.StrEnum):
    """Why the result differs from the source. Stable: scripts rely on the codes."""

    # dropped
    DAMAGE = "damage"
    DUPLICATE = "duplicate"
    THINKING = "thinking"
    IMAGE = "image"
    DOCUMENT = "document"
    SERVER_TOOL = "server-tool"
    UNKNOWN_BLOCK = "unknown-block"
    SIDECHAIN = "sidechain"
    PARENTS = "parents"
    BRANCHES = "branches"
    COMPACTED = "compacted"
    SYSTEM = "system"
    ATTACHMENT = "attachment"
    PROGRESS = "progress"
    METADATA = "metadata"
    UNKNOWN_ENTRY = "unknown-entry"
    CONTEXT = "context"
    FLAGS = "flags"
    RESPONSE_IDS = "response-ids"
    TOOL_USE_RESULT = "tool-use-result"
    CACHE_LIFETIME = "cache-lifetime"
    USAGE_DETAIL = "usage-detail"
    RECORDED_COST = "recorded-cost"
    DURATION = "duration"
    ORPHAN_RESULT = "orphan-result"
    EMPTY = "empty-content"
    UNWRITABLE = "unwritable"
    # filled in or changed
    SESSIONS_MERGED = "sessions-merged"
    IDS_MADE = "ids-made"
    CALL_IDS_MADE = "call-ids-made"
    TIME_MADE = "time-made"
    TIME_MOVED = "time-moved"
    ORDER = "order"
    MODEL_GUESSED = "model-guessed"
    USAGE_UNKNOWN = "usage-unknown"
    CALL_SHAPE = "call-shape"
    RESULT_SHAPE = "result-shape"
    UNANSWERED_CALL = "unanswered-call"


class Loss(Struct, frozen=True):
    """One kind of loss: how often, and the byte offset of its first case in the source."""

    code: LossCode
    what: str
    offset: int
    count: int = 1


class Conversion(Struct, frozen=True):
    """Lines without their newlines, and what was lost."""

    lines: list[bytes]
    losses: list[Loss]

    __repr__ = brief_repr


class LossCollector:
    """Collects losses in order of first occurrence."""

    def __init__(self) -> None:
        self._found: dict[tuple[LossCode, str], tuple[int, int]] = {}

    def add(self, code: LossCode, what: str, offset: int) -> None:
        first, count = self._found.get((code, what), (offset, 0))
        self._found[code, what] = (min(first, offset), count + 1)

    def all(self) -> list[Loss]:
        return [Loss(code, what, first, count) for (code, what), (first, count) in self._found.items()]


ASIDES = (Kind.CUSTOM_TITLE, Kind.AI_TITLE, Kind.TAG, Kind.PR_LINK)
"""Metadata that means the same in every dialect."""

_IN_A_RESULT = (TextBlock, ImageBlock, DocumentBlock, ToolReferenceBlock)


class TurnCall(Struct, eq=False):
    """A call and, once paired, the offset of its result in the log (-1: none)."""

    source: Entry
    block: ToolUseBlock
    has_id: bool = True
    answer: TurnResult | None = None
    answered_at: int = -1
    response: Response | None = None


class TurnResult(Struct, eq=False):
    """The result of a call, in the shape the API accepts."""

    source: Entry
    block: ToolResultBlock
    name: str | None = None
    call: TurnCall | None = None
    tool_use_result: Raw | UnsetType = UNSET


class TurnPrompt(Struct, eq=False):
    """What was said to the model on one line, without results."""

    source: Entry
    blocks: list[Block]


class Response(Struct, eq=False):
    """One answer of the API. ``messages`` come from its lines; a response made only of calls has none.

    ``parts`` are its blocks and calls, each with its line.
    """

    source: Entry
    messages: list[ApiMessage] = field(default_factory=list)
    request_id: str | None = None
    parts: list[tuple[Entry, Block | TurnCall]] = field(default_factory=list)
    results: list[TurnResult] = field(default_factory=list)
    interrupted: bool = False
    last_answer: int = -1
    known_calls: set[tuple[str, str, bytes]] = field(default_factory=set)

    @property
    def calls(self) -> list[TurnCall]:
        """The calls it made, in order."""
        return [part for _, part in self.parts if isinstance(part, TurnCall)]

    @property
    def message_id(self) -> str | None:
        """The API's id for it, where a line has one."""
        return next((message.id for message in self.messages if message.id), None)

    @property
    def model(self) -> str | None:
        return next((message.model for message in self.messages if message.model), None)

    @property
    def best(self) -> ApiMessage | None:
        """The copy to use: early copies may hold the counts from the start of the stream."""
        return max(self.messages, key=_trust, default=None)


Turn = TurnPrompt | Response | TurnResult | Entry
# An entry is the start of a line of an answer, or a line about the session.
_Atom = tuple[Entry, Block] | TurnCall | TurnResult | TurnPrompt | Entry


def turns_of(items: Iterable[Entry | Damage], losses: LossCollector) -> list[Turn]:
    """The conversation in ``items``, in order; what does not belong to it goes to ``losses``."""
    atoms: list[_Atom] = []
    for entry in _without_agents(_readable(items, losses), losses):
        atoms.extend(_atoms(entry, losses))
    _pair(atoms)
    grouping = _TurnBuilder(losses)
    for position, atom in enumerate(atoms):
        grouping.take(position, atom)
    return grouping.turns


def _trust(message: ApiMessage) -> tuple[int, bool]:
    usage = message.usage or Usage()
    return usage.output_tokens or 0, message.stop_reason is not None


# ---- entries to atoms ------------------------------------------------------------------------------------


def _readable(items: Iterable[Entry | Damage], losses: LossCollector) -> list[Entry]:
    """Entries in order; of several with one id, the last is used at the place of the first."""
    kept: dict[object, Entry] = {}
    for item in items:
        if isinstance(item, Damage):
            losses.add(LossCode.DAMAGE, f"damaged line ({item.code})", item.offset)
        entry = item.readable if isinstance(item, Damage) else item
        if entry is None:
            continue
        key = entry.uuid or object()
        if key in kept:
            losses.add(LossCode.DUPLICATE, "earlier copy of an entry", kept[key].offset)
        kept[key] = entry
    return list(kept.values())


def _without_agents(entries: list[Entry], losses: LossCollector) -> list[Entry]:
    """The conversation itself.

    If every line is a sub-agent's, the log is that agent's and is returned whole.
    """
    own = [entry for entry in entries if not _is_agents(entry)]
    if not any(isinstance(entry.body, User | Assistant) for entry in own):
        own = entries
    what = "that it is a sub-agent's log" if own is entries else "line of a sub-agent"
    for entry in entries:
        if _is_agents(entry):
            losses.add(LossCode.SIDECHAIN, what, entry.offset)
    return own


def _is_agents(entry: Entry) -> bool:
    return isinstance(entry.body, ChainBody) and entry.body.is_sidechain is True


def _atoms(entry: Entry, losses: LossCollector) -> Iterable[_Atom]:
    body = entry.body
    match body:
        case User():
            return _user_atoms(entry, body)
        case Assistant():
            return _assistant_atoms(entry, body)
        case ToolCallBody():
            block = ToolUseBlock(body.call_id or "", body.name, _call_input(entry, body, losses))
            return (TurnCall(entry, block, bool(body.call_id)),)
        case ToolResultBody():
            if body.duration_ms is not None:
                losses.add(LossCode.DURATION, "how long a call took", entry.offset)
            return (TurnResult(entry, _result_block(entry, body, losses), body.name),)
        case _:
            return _aside_or_loss(entry, losses)


def _user_atoms(entry: Entry, body: User) -> list[_Atom]:
    blocks = body.message.blocks
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    rich = body.tool_use_result if len(results) == 1 else UNSET
    atoms: list[_Atom] = [TurnResult(entry, block, tool_use_result=rich) for block in results]
    said: list[Block] = [block for block in blocks if not isinstance(block, ToolResultBlock)]
    if said or not results:
        atoms.append(TurnPrompt(entry, said))
    return atoms


def _assistant_atoms(entry: Entry, body: Assistant) -> list[_Atom]:
    atoms: list[_Atom] = [entry]
    atoms.extend(
        TurnCall(entry, block) if isinstance(block, ToolUseBlock) else (entry, block)
        for block in body.message.blocks
    )
    return atoms


def _aside_or_loss(entry: Entry, losses: LossCollector) -> Sequence[_Atom]:
    match entry.body:
        case System(subtype=subtype):
            losses.add(LossCode.SYSTEM, f"system line {(subtype or '')[:40]!a}", entry.offset)
        case Attachment():
            losses.add(LossCode.ATTACHMENT, "attachment", entry.offset)
        case Progress():
            losses.add(LossCode.PROGRESS, "progress line", entry.offset)
        case UnknownBody(type_name=name) | UnknownShapeBody(type_name=name):
            losses.add(LossCode.UNKNOWN_ENTRY, f"entry of type {name[:40]!a}", entry.offset)
        case _ if entry.kind in ASIDES:
            return (entry,)
        case _:
            losses.add(LossCode.METADATA, f"{entry.kind} line", entry.offset)
    return ()


def _call_input(entry: Entry, body: ToolCallBody, losses: LossCollector) -> Raw:
    """Arguments as the object the API requires."""
    raw = bytes(body.input)
    if raw[:1] == b"{":
        return body.input
    if raw == b"null":
        return Raw(b"{}")
    losses.add(LossCode.CALL_SHAPE, "arguments that are not an object, wrapped in one", entry.offset)
    return Raw(b'{"arguments":' + raw + b"}")


def _result_block(entry: Entry, body: ToolResultBody, losses: LossCollector) -> ToolResultBlock:
    """A result on its own line: any JSON becomes text or blocks."""
    call_id, failed = body.call_id or "", body.error is not None
    content, fits = _api_content(body.content)
    if failed and (entry.dialect is Dialect.FLAT and not (fits and content[:1] == b"[")):
        if not isinstance(body.content, UnsetType):
            losses.add(LossCode.RESULT_SHAPE, "result beside an error", entry.offset)
        content, fits = msgspec.json.encode(body.error), True
    if failed and content in (b'""', b"[]"):
        # The API refuses an error without text; the client writes the same words for it.
        losses.add(LossCode.EMPTY, "error without a text", entry.offset)
        content = b'"(no content)"'
    if not fits:
        losses.add(LossCode.RESULT_SHAPE, "structured result, kept as JSON text", entry.offset)
    return ToolResultBlock(call_id, Raw(content), True if failed else None)


def _api_content(content: Raw | UnsetType) -> tuple[bytes, bool]:
    """Content the API would accept, and whether it is unchanged."""
    raw = b"null" if isinstance(content, UnsetType) else bytes(content)
    if raw == b"null":
        return b'""', True
    blocks = blocks_of(Raw(raw))
    if raw[:1] == b'"' or (raw[:1] == b"[" and all(isinstance(block, _IN_A_RESULT) for block in blocks)):
        return raw, True
    return msgspec.json.encode(json_text.valid_utf8(raw).decode()), False


# ---- results to calls ------------------------------------------------------------------------------------


def _pair(atoms: Sequence[_Atom]) -> None:
    """Assign each result to its call: by id if it has one, else to the first waiting call of that tool."""
    waiting = _OpenCalls()
    for position, atom in enumerate(atoms):
        if isinstance(atom, TurnCall):
            waiting.add(atom)
        elif isinstance(atom, TurnResult):
            call = waiting.take(atom)
            if call is not None:
                call.answer, call.answered_at, atom.call = atom, position, call


class _OpenCalls:
    """Calls that have no answer yet."""

    def __init__(self) -> None:
        self._by_id: defaultdict[str, deque[TurnCall]] = defaultdict(deque)
        self._by_name: defaultdict[tuple[str | None, bool], deque[TurnCall]] = defaultdict(deque)

    def add(self, call: TurnCall) -> None:
        if call.has_id:
            self._by_id[call.block.id].append(call)
        for name in (call.block.name, None):
            self._by_name[name, call.has_id].append(call)

    def take(self, result: TurnResult) -> TurnCall | None:
        wanted, name = result.block.tool_use_id, result.name or None
        if wanted:
            return _first(self._by_id[wanted]) or _first(self._by_name[name, False])
        return _first(self._by_name[name, False]) or _first(self._by_name[name, True])


def _first(calls: deque[TurnCall]) -> TurnCall | None:
    """The first call still waiting; answered ones may remain in other queues and are dropped here."""
    while calls:
        call = calls.popleft()
        if call.answer is None:
            return call
    return None


# ---- atoms to turns --------------------------------------------------------------------------------------


class _TurnBuilder:
    """Groups atoms into turns, in order."""

    def __init__(self, losses: LossCollector) -> None:
        self.turns: list[Turn] = []
        self._losses = losses
        self._by_message: dict[str, Response] = {}
        self._current: Response | None = None
        self._latest: Turn | None = None

    def take(self, position: int, atom: _Atom) -> None:
        match atom:
            case Entry(body=Assistant() as body):
                self._open(atom, body)
            case (source, block):
                self._response(source).parts.append((source, block))
            case TurnCall():
                self._call(position, atom)
            case TurnResult():
                self._result(atom)
            case TurnPrompt():
                self._current, self._latest = None, atom
                self.turns.append(atom)
            case Entry():
                self.turns.append(atom)

    def _response(self, source: Entry) -> Response:
        if self._current is None:
            self._current = self._latest = Response(source)
            self.turns.append(self._current)
        return self._current

    def _open(self, source: Entry, body: Assistant) -> None:
        message, known = body.message, None
        if message.id:
            known = self._by_message.get(message.id)
        elif self._current is not None and not self._current.interrupted:
            # An answer without counts of its own continues the one before.
            is_counted = message.usage is not None and message.usage.tokens().total > 0
            is_same = message.model in (None, self._current.model)
            known = self._current if is_same and not is_counted else None
        self._current = known
        response = self._response(source)
        response.messages.append(message)
        response.request_id = response.request_id or body.request_id
        if message.id:
            self._by_message[message.id] = response

    def _call(self, position: int, call: TurnCall) -> None:
        alone = isinstance(call.source.body, ToolCallBody)
        current = self._current
        if alone and current and current.interrupted and current.last_answer < position:
            self._current = None
        response = self._response(call.source)
        identity = (call.block.id, call.block.name, bytes(call.block.input))
        if call.has_id and identity in response.known_calls:
            self._losses.add(LossCode.DUPLICATE, "second copy of a call", call.source.offset)
            return
        response.known_calls.add(identity)
        call.response = response
        response.parts.append((call.source, call))
        response.last_answer = max(response.last_answer, call.answered_at)

    def _result(self, result: TurnResult) -> None:
        if self._current is not None:
            self._current.interrupted = True
        response = result.call.response if result.call else None
        if response is None:
            self.turns.append(result)
            return
        response.results.append(result)
        if response is not self._latest:
            self._losses.add(LossCode.ORDER, "result moved up to its call", result.source.offset)
