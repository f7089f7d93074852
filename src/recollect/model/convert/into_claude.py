"""Write a conversation of another dialect as a session that Claude Code resumes.

Clients 2.0.76 to 2.1.325 load only a narrow form: one chain, parents before children, strictly increasing
times, one block per line, the results of parallel calls in a row after the last call, unique ids. Other
dialects guarantee none of that, so missing parts are created and misplaced ones moved, and each such change
is noted as a loss.

Ids are derived from the session id and the position in the log: converting the same log twice gives the same
bytes. No log content makes this raise.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from recollect.errors import UsageError
from recollect.model.conversation.client_words import NO_CONTENT
from recollect.model.conversation.conversation import Conversation
from recollect.model.conversation.graph import Graph, Node, node_of
from recollect.model.convert.turns import (
    Conversion,
    LossCode,
    LossCollector,
    Response,
    Turn,
    TurnCall,
    TurnPrompt,
    TurnResult,
    turns_of,
)
from recollect.model.cost.prices import SYNTHETIC_MODEL
from recollect.model.lines import draft
from recollect.model.lines.blocks import Block, ImageBlock, TextBlock
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.entry import Dialect, Entry, User
from recollect.model.lines.ids import EPOCH, derived_id, derived_uuid, is_uuid
from recollect.model.lines.json_text import loose_value

WRITTEN_AS = "2.0.76"
"""The client whose layout we write; every later one reads it."""

_API_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_MILLISECOND = dt.timedelta(milliseconds=1)
_LAST_USABLE_YEAR = 9000  # leaves room to count upwards from any plausible time


def to_claude(
    entries: Iterable[Entry | Damage],
    *,
    session_id: str,
    cwd: str,
    version: str = WRITTEN_AS,
    git_branch: str = "",
) -> Conversion:
    """Convert a flat or events log into a session that Claude Code resumes."""
    losses = LossCollector()
    items = list(entries)
    turns = turns_of(items, losses)
    _report_sessions(items, losses)
    times = (time for item in items if isinstance(item, Entry) and (time := _usable_time(item)) is not None)
    place = draft.Stamp(
        uuid="",
        parent_uuid=None,
        session_id=session_id,
        timestamp=next(times, EPOCH),
        cwd=cwd,
        version=version,
        git_branch=git_branch,
    )
    responses = [turn for turn in turns if isinstance(turn, Response)]
    model = next((response.model for response in responses if response.model), SYNTHETIC_MODEL)
    source_ids = {item.uuid for item in items if isinstance(item, Entry) and item.uuid}
    writer = _ClaudeWriter(place, model, source_ids, losses)
    for turn in turns:
        writer.turn(turn)
    return Conversion(writer.lines, losses.all())


class _ClaudeWriter:
    """One chain of lines, each the child of the one before."""

    def __init__(self, place: draft.Stamp, model: str, source_ids: set[str], losses: LossCollector) -> None:
        self.lines: list[bytes] = []
        self._place = place
        self._model = model
        self._source_ids = source_ids
        self._losses = losses
        self._parent: str | None = None
        self._time: dt.datetime | None = None
        self._last_source: Entry | None = None
        self._uuids: set[str] = set()
        self._call_ids: set[str] = set()

    def turn(self, turn: Turn) -> None:
        match turn:
            case TurnPrompt():
                self._prompt(turn)
            case Response():
                self._response(turn)
            case TurnResult():
                self._lost(LossCode.ORPHAN_RESULT, "result that answers no call", turn.source)
            case Entry():
                self._aside(turn)

    def _prompt(self, prompt: TurnPrompt) -> None:
        said = [block for block in prompt.blocks if block != TextBlock("")]
        source = prompt.source
        if not said:
            self._lost(LossCode.EMPTY, "prompt without content", source)
            return
        if source.dialect is Dialect.FLAT and isinstance(source.body, User) and source.body.entrypoint:
            self._lost(LossCode.CONTEXT, "where a prompt came from", source)
        meta = isinstance(source.body, User) and source.body.is_meta is True
        for block in said:
            content = block.text if isinstance(block, TextBlock) and len(said) == 1 else [block]
            self._write(source, functools.partial(draft.user, content, is_meta=meta))

    def _response(self, response: Response) -> None:
        answer = self._answer(response)
        ids = {id(call): self._call_id(call) for call in response.calls}
        for source, part in self._parts_to_write(response):
            block = (
                msgspec.structs.replace(part.block, id=ids[id(part)]) if isinstance(part, TurnCall) else part
            )
            self._write(source, functools.partial(answer, [block]))
        for result in response.results:
            self._result(result, ids[id(result.call)])
        for call in response.calls:
            if call.answer is None:
                self._lost(LossCode.UNANSWERED_CALL, "call without a result", call.source)

    def _answer(self, response: Response) -> Callable[[Sequence[Block]], draft.AssistantDraft]:
        """A factory for the lines of this response: all share ids, model, counts and stop reason."""
        best, source = response.best, response.source
        usage = best.usage if best else None
        if usage is None:
            self._lost(LossCode.USAGE_UNKNOWN, "response without token counts, written as 0", source)
        if response.model is None:
            self._lost(LossCode.MODEL_GUESSED, f"response without a model, written as {self._model}", source)
        self._model = response.model or self._model
        message_id = response.message_id
        if message_id is None:
            self._lost(LossCode.IDS_MADE, "id of a response", source)
            message_id = derived_id("msg_", f"{self._place.session_id}\0{len(self.lines)}")
        stop = (best.stop_reason if best else None) or ("tool_use" if response.calls else "end_turn")
        model, request_id = self._model, response.request_id
        return lambda blocks: draft.assistant(
            blocks, model=model, usage=usage, message_id=message_id, request_id=request_id, stop_reason=stop
        )

    def _parts_to_write(self, response: Response) -> list[tuple[Entry, Block | TurnCall]]:
        """The parts to write; never empty, or the token counts of the response would have no line."""
        parts = [part for part in response.parts if part[1] != TextBlock("")]
        if not parts:
            self._lost(LossCode.EMPTY, f"answer without content, written as {NO_CONTENT}", response.source)
        return parts or [(response.source, TextBlock(NO_CONTENT))]

    def _result(self, result: TurnResult, call_id: str) -> None:
        block = msgspec.structs.replace(result.block, tool_use_id=call_id)
        rich = result.tool_use_result
        self._write(result.source, lambda: draft.UserDraft(content=(block,), tool_use_result=rich))

    def _call_id(self, call: TurnCall) -> str:
        """An id that the API accepts and no other call has: clients drop the later of two pairs with one id."""
        call_id = call.block.id
        if not _API_CALL_ID.match(call_id) or call_id in self._call_ids:
            self._lost(LossCode.CALL_IDS_MADE, "id of a call", call.source)
            seed = f"{self._place.session_id}\0{len(self.lines)}\0{len(self._call_ids)}"
            call_id = derived_id("toolu_", seed)
        self._call_ids.add(call_id)
        return call_id

    def _aside(self, source: Entry) -> None:
        fields = {
            name: value
            for name, value in source.fields().items()
            if name not in ("type", "sessionId", "session_id", "uuid", "parentUuid")
        }
        stamp = msgspec.structs.replace(self._place, timestamp=self._time or self._place.timestamp)
        self._put(source, lambda: draft.metadata(source.kind, **fields), stamp)

    def _write(self, source: Entry, make: Callable[[], draft.Draft]) -> None:
        stamp = msgspec.structs.replace(
            self._place,
            uuid=self._uuid(source),
            parent_uuid=self._parent,
            timestamp=self._rising_time(source),
        )
        if self._put(source, make, stamp):
            self._parent, self._time, self._last_source = stamp.uuid, stamp.timestamp, source
            self._uuids.add(stamp.uuid)

    def _put(self, source: Entry, make: Callable[[], draft.Draft], stamp: draft.Stamp) -> bool:
        """Write one line. A line that cannot be written is dropped alone."""
        try:
            self.lines.append(draft.claude_line(make(), stamp))
        except UsageError as problem:
            self._lost(LossCode.UNWRITABLE, problem.message, source)
            return False
        return True

    def _uuid(self, source: Entry) -> str:
        own = source.uuid
        if own and is_uuid(own) and own not in self._uuids:
            return own
        if source is not self._last_source:
            self._lost(LossCode.IDS_MADE, "id of an entry", source)
        index = len(self.lines)
        made = derived_uuid(self._place.session_id, index)
        while made in self._uuids or made in self._source_ids:
            index += 1_000_000_007  # a log that was converted before may bring ids of this kind
            made = derived_uuid(self._place.session_id, index)
        return made

    def _rising_time(self, source: Entry) -> dt.datetime:
        """The entry's own time, or a millisecond after the previous line where that would not increase.

        Client 2.0.76 reads only the first line of a log whose times do not increase.
        """
        own, before = _usable_time(source), self._time
        if own is None:
            self._lost(LossCode.TIME_MADE, "time of an entry", source)
            return before + _MILLISECOND if before else self._place.timestamp
        if before is None or own > before:
            return own
        if source is not self._last_source:
            self._lost(LossCode.TIME_MOVED, "time of an entry, to keep times increasing", source)
        return before + _MILLISECOND

    def _lost(self, code: LossCode, what: str, source: Entry) -> None:
        self._losses.add(code, what, source.offset)


def _usable_time(entry: Entry) -> dt.datetime | None:
    """When it was written, to the millisecond; None where that is missing or out of range."""
    at = entry.at
    if at is None or at.year > _LAST_USABLE_YEAR:
        return None
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _report_sessions(items: Sequence[Entry | Damage], losses: LossCollector) -> None:
    """A daily file may hold the prompts of several sessions; here they become one."""
    seen: set[str] = set()
    for item in items:
        name = item.session_id if isinstance(item, Entry) and item.chain else None
        if name and name not in seen:
            seen.add(name)
            if len(seen) > 1:
                losses.add(LossCode.SESSIONS_MERGED, "another session in the same log", item.offset)


def converted_conversation(
    items: Iterable[Entry | Damage], session_id: str, cwd: str = ""
) -> Conversation | None:
    """What was said, in order; None for a log of the client's own dialect, and where nothing was said."""
    entries = list(items)
    if not any(isinstance(one, Entry) and one.dialect is not Dialect.CLAUDE for one in entries):
        return None
    lines, offset = {}, 0
    for data in to_claude(entries, session_id=session_id, cwd=cwd).lines:
        lines[offset] = Line(data, offset)
        offset += len(data) + 1
    graph = Graph(map(node_of, lines.values()))

    def load(node: Node) -> Entry | None:
        item = decode(lines[node.offset])
        return item if isinstance(item, Entry) else None

    return None if graph.active_leaf is None else Conversation(graph, graph.active_leaf, load, whole=True)


WRITTEN_AS_CODEX = "0.142.5"
"""The client whose lines we write; every later one reads them."""

_Item = dict[str, Any]


def to_codex(entries: Iterable[Entry | Damage], *, thread: str, cwd: str, at: dt.datetime) -> Conversion:
    """Convert the entries of one conversation."""
    losses = LossCollector()
    turns = turns_of(list(entries), losses)
    meta = {
        "id": thread,
        "timestamp": _time(at),
        "cwd": cwd,
        "originator": "recollect",
        "cli_version": WRITTEN_AS_CODEX,
        "source": "cli",
    }
    lines = [_line(_time(at), "session_meta", meta)]
    time = _time(at)
    for turn in turns:
        if isinstance(turn, Entry):
            losses.add(LossCode.METADATA, "title or tag", turn.offset)
            continue
        if isinstance(turn, TurnResult):
            losses.add(LossCode.ORPHAN_RESULT, "result that answers no call", turn.source.offset)
            continue
        moment = turn.source.at
        time = _time(moment) if moment is not None else time
        items = _prompt(turn, losses) if isinstance(turn, TurnPrompt) else _response(turn, losses)
        for item in items:
            lines.append(_line(time, "response_item", item))
            if isinstance(turn, TurnPrompt):
                said = "\n".join(part["text"] for part in item["content"] if "text" in part)
                lines.append(_line(time, "event_msg", {"type": "user_message", "message": said}))
    return Conversion(lines, losses.all())


def _prompt(turn: TurnPrompt, losses: LossCollector) -> Iterator[_Item]:
    content = [part for block in turn.blocks if (part := _input(block, turn.source, losses)) is not None]
    if content:
        yield {"type": "message", "role": "user", "content": content}


def _response(turn: Response, losses: LossCollector) -> Iterator[_Item]:
    for source, what in turn.parts:
        if isinstance(what, TurnCall):
            arguments = msgspec.json.encode(loose_value(what.block.input)).decode()
            yield {
                "type": "function_call",
                "name": what.block.name,
                "arguments": arguments,
                "call_id": what.block.id,
            }
            if what.answer is None:
                losses.add(LossCode.UNANSWERED_CALL, "call without a result", what.source.offset)
        elif isinstance(what, TextBlock):
            content = [{"type": "output_text", "text": what.text}]
            if what.text:
                yield {"type": "message", "role": "assistant", "content": content}
        else:
            _lost(what, source, losses)
    for result in turn.results:
        yield _output(result, losses)


def _output(result: TurnResult, losses: LossCollector) -> _Item:
    for block in result.block.blocks():
        if not isinstance(block, TextBlock):
            losses.add(LossCode.RESULT_SHAPE, "part of a result that is no text", result.source.offset)
    call = result.call.block.id if result.call is not None else result.block.tool_use_id
    return {"type": "function_call_output", "call_id": call, "output": result.block.text()}


def _input(block: Block, source: Entry, losses: LossCollector) -> _Item | None:
    if isinstance(block, TextBlock):
        return {"type": "input_text", "text": block.text} if block.text else None
    if isinstance(block, ImageBlock):
        said = loose_value(block.source)
        if isinstance(said, dict) and said.get("type") == "base64":
            return {
                "type": "input_image",
                "image_url": f"data:{said.get('media_type')};base64,{said.get('data')}",
            }
    _lost(block, source, losses)
    return None


def _lost(block: Block, source: Entry, losses: LossCollector) -> None:
    name = type(block).__name__.removesuffix("Block")
    code = LossCode.THINKING if "Thinking" in name else LossCode.UNKNOWN_BLOCK
    losses.add(code, "thinking" if code is LossCode.THINKING else f"block of kind {name}", source.offset)


def _line(time: str, kind: str, payload: _Item) -> bytes:
    return msgspec.json.encode({"timestamp": time, "type": kind, "payload": payload})


def _time(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
