"""Calls and their results, over the whole log and in the conversation that is resumed.

On resume client 2.1.325 leaves out most of what does not fit, so the API accepts the rest; older clients send
it and are refused permanently. Either way a turn is lost, hence warnings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from recollect.model.blocks import Block, ToolResultBlock, ToolUseBlock
from recollect.model.checks import RuleViolation
from recollect.model.conversation.client_words import MISSING_RESULT
from recollect.model.entry import Assistant, Entry, ToolCallBody, ToolResultBody, User


class CallSite(Struct, gc=False):
    """Where an id was first called, and by which answer."""

    offset: int
    uuid: str | None
    message_id: str | None


class ToolTrace(Struct):
    """The calls and results of a log, collected line by line."""

    calls: dict[str, CallSite] = field(default_factory=dict)
    results: dict[str, CallSite] = field(default_factory=dict)
    repeated_calls: list[tuple[str, CallSite]] = field(default_factory=list)
    repeated_results: list[tuple[str, CallSite]] = field(default_factory=list)

    def take(self, entry: Entry) -> None:
        """Record the calls and results of one entry."""
        body = entry.body
        if isinstance(body, Assistant):
            for block in _blocks(body):
                if type(block) is ToolUseBlock:
                    self._called(block.id, CallSite(entry.offset, body.uuid, body.message.id))
        elif isinstance(body, User):
            for block in _blocks(body):
                if type(block) is ToolResultBlock:
                    self._answered(block.tool_use_id, CallSite(entry.offset, body.uuid, None))
        elif isinstance(body, ToolCallBody) and body.call_id:
            self._called(body.call_id, CallSite(entry.offset, entry.uuid, None))
        elif isinstance(body, ToolResultBody) and body.call_id:
            self._answered(body.call_id, CallSite(entry.offset, entry.uuid, None))

    def _called(self, name: str, call: CallSite) -> None:
        first = self.calls.setdefault(name, call)
        # Copies of one growing answer, and repeated lines, repeat their calls.
        same_answer = call.message_id is not None and call.message_id == first.message_id
        if first is not call and not same_answer and (call.uuid is None or call.uuid != first.uuid):
            self.repeated_calls.append((name, call))

    def _answered(self, name: str, result: CallSite) -> None:
        first = self.results.setdefault(name, result)
        if first is not result and (result.uuid is None or result.uuid != first.uuid):
            self.repeated_results.append((name, result))


def _blocks(body: User | Assistant) -> Sequence[Block]:
    """The blocks of a message; plain text needs none made of it here."""
    content = body.message.content
    return () if isinstance(content, str) else content


def tool_faults(
    tools: ToolTrace, sent: Sequence[Entry] | None, messages: Sequence[dict[str, Any]] = ()
) -> Iterator[RuleViolation]:
    """Calls and results that do not match. ``sent`` are the entries of the resumed conversation, if there is
    one.

    ``messages`` are those that would be sent.
    """
    for name, call in tools.repeated_calls:
        yield RuleViolation(
            "duplicate-call-id",
            f"the id {name[:60]!r} was called before",
            call.offset,
            call.uuid,
            subject=name,
        )
    offsets = None if sent is None else {entry.offset for entry in sent}
    for name, result in tools.repeated_results:
        if offsets is None or result.offset in offsets:
            what = f"{name[:60]!r} had a result before"
            yield RuleViolation("duplicate-result", what, result.offset, result.uuid, subject=name)
    yield from _unanswered(tools, sent)
    for name, result in tools.results.items():
        if name not in tools.calls:
            what = f"no call in the log has the id {name[:60]!r}"
            yield RuleViolation("result-without-call", what, result.offset, result.uuid, subject=name)
    if sent is not None:
        yield from _out_of_reach(tools, sent, messages)


def _unanswered(tools: ToolTrace, sent: Sequence[Entry] | None) -> Iterator[RuleViolation]:
    inner = _offsets_before_the_end(sent) if sent is not None else set()
    for name, call in tools.calls.items():
        if name in tools.results:
            continue
        code = "call-without-result" if call.offset in inner else "open-call"
        yield RuleViolation(
            code, f"the call {name[:60]!r} has no result", call.offset, call.uuid, subject=name
        )


def _offsets_before_the_end(sent: Sequence[Entry]) -> set[int]:
    """Answers that were followed by more of the conversation.

    The client closes the calls of the very last answer.
    """
    end = len(sent)
    answers = [index for index, entry in enumerate(sent) if isinstance(entry.body, Assistant)]
    prompts = [
        index for index, entry in enumerate(sent) if isinstance(entry.body, User) and not _is_result(entry)
    ]
    if answers and (not prompts or prompts[-1] < answers[-1]):
        last = sent[answers[-1]].body
        name = last.message.id if isinstance(last, Assistant) else None
        end = answers[-1]
        while end and _is_part_of(sent[end - 1], name):
            end -= 1
    return {entry.offset for entry in sent[:end]}


def _is_part_of(entry: Entry, message_id: str | None) -> bool:
    body = entry.body
    if isinstance(body, Assistant):
        return message_id is not None and body.message.id == message_id
    return not isinstance(body, User) or _is_result(entry)


def _is_result(entry: Entry) -> bool:
    message = entry.message
    return message is not None and any(isinstance(block, ToolResultBlock) for block in message.blocks)


def _out_of_reach(
    tools: ToolTrace, sent: Sequence[Entry], messages: Sequence[dict[str, Any]]
) -> Iterator[RuleViolation]:
    """Pairs of which the conversation has only one half, or has one in a place where it does not count."""
    here = ToolTrace()
    for entry in sent:
        here.take(entry)
    for name, result in here.results.items():
        if name in tools.calls and name not in here.calls:
            what = f"the call {name[:60]!r} of this result is not in the conversation that is resumed"
            yield RuleViolation("result-cut-off", what, result.offset, result.uuid, subject=name)
    for name, call in here.calls.items():
        if name in tools.results and name not in here.results:
            what = f"the result of {name[:60]!r} is not in the conversation that is resumed"
            yield RuleViolation("result-not-reached", what, call.offset, call.uuid, subject=name)
    missing = set(_said_to_be_missing(messages))
    for name, result in here.results.items():
        if name in here.calls and name in missing:
            what = f"the result of {name[:60]!r} does not follow its call; the client reports it to the API as missing"
            yield RuleViolation("result-not-sent", what, result.offset, result.uuid, subject=name)


def _said_to_be_missing(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Calls for which the client sends a result of its own."""
    for message in messages:
        content = message["content"]
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_result" and block.get("content") == MISSING_RESULT:
                yield str(block.get("tool_use_id"))
