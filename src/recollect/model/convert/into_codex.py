"""Write a conversation as a rollout that Codex resumes: a meta line and the items of the Responses API.

Every version of the client from 0.36 on resumes such a file, also one that its databases do not know. Thinking is
encrypted for one model and cannot be carried; results of tools become text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from recollect.model.blocks import Block, ImageBlock, TextBlock
from recollect.model.convert.loss import Conversion, LossCode, LossCollector
from recollect.model.convert.turns import (
    OrphanResult,
    Response,
    SessionNote,
    TurnCall,
    TurnPrompt,
    TurnResult,
    turns_of,
)
from recollect.model.damage import Damage
from recollect.model.entry import Entry
from recollect.model.json.text import loose_value

WRITTEN_AS = "0.142.5"
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
        "cli_version": WRITTEN_AS,
        "source": "cli",
    }
    lines = [_line(_time(at), "session_meta", meta)]
    time = _time(at)
    for turn in turns:
        if isinstance(turn, SessionNote):
            losses.add(LossCode.METADATA, "title or tag", turn.source.offset)
            continue
        if isinstance(turn, OrphanResult):
            losses.add(LossCode.ORPHAN_RESULT, "result that answers no call", turn.result.source.offset)
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
    for part in turn.parts:
        what = part.what
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
            _lost(what, part.source, losses)
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
