"""Messages of an exported page: role, time, content, cost; calls with their results.

A line with only results is not a message of its own: its results are shown with the calls. A result whose
call is not shown is shown by itself, so that nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from recollect.model.blocks import (
    Block,
    McpToolUseBlock,
    RedactedThinkingBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from recollect.model.conversation.conversation import Message, model_name
from recollect.model.conversation.tool_calls import ToolCall, ToolCallStatus, tool_calls
from recollect.model.cost.money import Spending, exact
from recollect.model.entry import Entry
from recollect.model.json.text import loose_value
from recollect.model.markdown_html import prose_html, text_html
from recollect.services.export import html_call
from recollect.services.export.html_frame import spent, when, words_of
from recollect.services.export.html_source import ExportAgents, ExportSource
from recollect.services.page.conversation import ViewMessages

_FOLDED = frozenset("so")


class AgentPlacement(Protocol):
    """Where agents are shown: inside the call that started them, or on pages of their own."""

    def shown(self, name: str, sent_from: str) -> Iterator[str]:
        """The content of the call that started an agent."""
        ...


class MessageWriter:
    """Writes the messages of one conversation; ``mark`` is the prefix of its anchors."""

    def __init__(
        self,
        source: ExportSource,
        message_view: ViewMessages,
        agents: ExportAgents,
        places: AgentPlacement,
        *,
        mark: str = "m",
        who: str = "User",
    ) -> None:
        self._source, self._message_view, self._agents, self._places = source, message_view, agents, places
        self._mark, self._who = mark, who
        self._load = source.loader(message_view)
        self._called: set[str] = set()
        self._ends: tuple[str, dict[str, tuple[ToolCall, Entry | None]]] = ("", {})
        self.prompts: list[tuple[int, str]] = []

    def anchor(self, index: int) -> str:
        """The anchor of a message within its page."""
        return f"{self._mark}{index + 1}"

    def message(self, index: int) -> Iterator[str]:
        """One message in pieces; nothing if all of it is shown elsewhere."""
        kind = self._message_view.kinds[index]
        said = self._source.message(self._message_view, index)
        if kind == "b":
            yield self._boundary(index, said)
            return
        blocks = [block for block in said.blocks if not self._is_elsewhere(block, index)]
        if not blocks and said.blocks:
            return
        if kind == "p":
            self.prompts.append((index, words_of(said.text, 120)))
        name = {"p": "prompt", "a": "answer", "s": "summary"}.get(kind, "other")
        yield f'<article class="{name}" id="{self.anchor(index)}">\n{self._about(index, said)}'
        if kind in _FOLDED:
            yield f"<details><summary>{text_html(words_of(said.text, 100)) or 'no text'}</summary>\n"
        for block in blocks:
            yield from self._block(block, said, index)
        if not said.blocks:
            yield '<div class="note">Nothing to show.</div>\n'
        yield "</details>\n</article>\n" if kind in _FOLDED else "</article>\n"

    def _is_elsewhere(self, block: Block, index: int) -> bool:
        if not isinstance(block, ToolResultBlock) or block.tool_use_id not in self._called:
            return False
        node = self._message_view.results.get(block.tool_use_id)
        return node is not None and any(one.offset == node.offset for one in self._message_view.groups[index])

    def _boundary(self, index: int, said: Message) -> str:
        words = words_of(said.text, 200) or "Conversation compacted"
        return f'<article class="boundary" id="{self.anchor(index)}">{text_html(words)} {when(said.at)}</article>\n'

    def _about(self, index: int, said: Message) -> str:
        cost = self._source.message_cost(self._message_view, index)
        facts = [
            f"<b>{text_html(self._speaker(said))}</b>",
            when(said.at),
            text_html(said.model or ""),
            "" if cost is None else text_html(_cost(cost)),
            f'<a href="#{self.anchor(index)}">{index + 1}</a>',
        ]
        return f'<div class="about">{" ".join(f"<span>{one}</span>" for one in facts if one)}</div>\n'

    def _speaker(self, said: Message) -> str:
        if said.is_summary:
            return "Summary of what was compacted"
        if said.role == "user":
            return "Client, to the model" if said.is_meta else self._who
        return {"assistant": model_name(said.model), "system": "Client"}.get(said.role, said.role)

    # ---- blocks ------------------------------------------------------------------------------------------

    def _block(self, block: Block, said: Message, index: int) -> Iterator[str]:
        match block:
            case TextBlock(text):
                is_prose = said.role != "system" and len(text) <= html_call.LONGEST
                yield prose_html(text) if is_prose else html_call.block_text(text, "plain")
            case ThinkingBlock(thinking):
                yield _thinking(thinking)
            case RedactedThinkingBlock():
                yield '<div class="note">Thinking that only the API can read.</div>\n'
            case ToolUseBlock():
                yield from self._call(block, said, index)
            case ServerToolUseBlock() | McpToolUseBlock():
                yield from _remote_call(block)
            case ToolResultBlock():
                yield '<details class="call"><summary><b>Result</b> of a call that is not shown here</summary>\n'
                yield from html_call.content(block)
                yield "</details>\n"
            case _:
                yield from html_call.content(block)

    def _call(self, block: ToolUseBlock, said: Message, index: int) -> Iterator[str]:
        self._called.add(block.id)
        call, answer = self._ends_of(said)[block.id]
        yield html_call.opening(call)
        yield from html_call.body(call, answer)
        agent = self._agents.sent_by(call)
        if agent is not None:
            yield from self._places.shown(agent, self.anchor(index))
        yield "</details>\n"

    def _ends_of(self, said: Message) -> dict[str, tuple[ToolCall, Entry | None]]:
        """Every call of a message with its outcome; computed once per message, because one may have very
        many.
        """
        if self._ends[0] == said.uuid:
            return self._ends[1]
        wanted = {block.id for block in said.blocks if isinstance(block, ToolUseBlock)}
        nodes = {
            name: self._message_view.results[name] for name in wanted if name in self._message_view.results
        }
        read = {node.offset: self._load(node) for node in nodes.values()}
        calls = tool_calls([*said.entries, *(entry for entry in read.values() if entry is not None)])
        found = {
            call.id: (call, read[nodes[call.id].offset] if call.id in nodes else None)
            for call in calls
            if call.id in wanted
        }
        self._ends = (said.uuid, found)
        return found


def _remote_call(block: ServerToolUseBlock | McpToolUseBlock) -> Iterator[str]:
    call = ToolCall(block.id, block.name, bytes(block.input), None, None, ToolCallStatus.OK)
    yield html_call.opening(call)
    yield html_call.block_text(html_call.gist(loose_value(block.input)))
    yield "</details>\n"


def _thinking(text: str) -> str:
    if not text.strip():
        return ""
    shown = html_call.block_text(text, "plain")
    return f'<details class="thinking"><summary>Thinking, {len(text):,} characters</summary>\n{shown}</details>\n'


def _cost(cost: Spending) -> str:
    """Every digit: one message usually costs less than a cent."""
    if cost.unpriced:
        return spent(cost)
    return f"{spent(cost).rpartition(', ')[0]}, ${exact(cost.pico_usd)}"
