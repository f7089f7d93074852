"""Messages of an exported page as turns: prompt, work, answer; calls with their results.

A line with only results is not a message of its own: its results are shown with the calls. A result that no
call shows is shown by itself, so that nothing is left out; ``ViewMessages`` decides for the page, too.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
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
from recollect.model.conversation.client_text import ClientPart, client_parts, own_words
from recollect.model.conversation.conversation import Message
from recollect.model.conversation.tool_calls import ToolCall, ToolCallStatus, tool_calls
from recollect.model.entry import Entry
from recollect.model.markdown_html import prose_html, text_html
from recollect.services.export import html_call
from recollect.services.export.html_call import ShownCall
from recollect.services.export.html_frame import short_model, when, words_of
from recollect.services.export.html_source import ExportAgents, ExportSource
from recollect.services.page.conversation import ViewMessages

_FOLDED = "so"
_CLASSES = {"p": "prompt", "a": "answer", "s": "summary", "c": "prompt"}
_NAMES = {"c": "Command", "s": "Summary of what came before", "u": "Results not shown with a call"}
_PARTS = {"reminder": "Reminder of the client", "notice": "Note of the client", "output": "Output"}
_NO_TURN = -2
_GROUP = 3
_SYNTHETIC = "<synthetic>"
_MARK = re.compile(r"\s*(<[a-z_-]+>|\[Request interrupted)")


class AgentPlacement(Protocol):
    """Where agents are shown: inside the call that started them, or on pages of their own."""

    def shown(self, name: str, sent_from: str, call: ShownCall) -> Iterator[str]:
        """The content of the call that started an agent, before its result."""
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
        is_agent: bool = False,
    ) -> None:
        self._source, self._message_view, self._agents, self._places = source, message_view, agents, places
        self._mark, self.is_agent = mark, is_agent
        self._load = source.loader(message_view)
        self._ends: tuple[str, dict[str, tuple[ToolCall, Entry | None]]] = ("", {})
        self._paid = _NO_TURN
        self._turns = None if is_agent else source.turns(message_view)
        self.prompts: list[tuple[int, str]] = []

    def anchor(self, index: int) -> str:
        """The anchor of a message within its page."""
        return f"{self._mark}{index + 1}"

    def conversation(self, messages: range) -> Iterator[str]:
        """Some messages of a session as turns, with its chapters, in pieces."""
        turns = self._turns
        if turns is None or not messages:
            return
        ending = ""
        for step in turns.steps(messages):
            match step.kind:
                case "chapter":
                    anchor = f' id="{self.anchor(step.at)}"' if self._is_cut(step.at) else ""
                    yield f'{ending}<details class="chapter"{anchor} open><summary>{turns.chapter(step)}</summary>\n'
                    ending = "</details>\n"
                case "strip":
                    yield f'<details class="work"><summary>{turns.strip(step)}</summary>\n'
                    self._paid = step.turn
                case "end":
                    yield "</details>\n"
                case _:
                    yield from self.message(step.at, turn=step.turn, is_work=step.kind == "work")
        yield ending

    def steps(self, answer: str) -> Iterator[str]:
        """An agent's messages; its last one is left out if ``answer``, which is shown elsewhere, has its text."""
        last = len(self._message_view) - 1
        for index in range(last + 1):
            if index == last and self._is_repeated(index, answer):
                return
            yield from self.message(index)

    def _is_repeated(self, index: int, answer: str) -> bool:
        said = self._source.message(self._message_view, index)
        is_text = said.role == "assistant" and all(isinstance(block, TextBlock) for block in said.blocks)
        return is_text and bool(said.text.strip()) and said.text.strip() in answer

    def _is_cut(self, index: int) -> bool:
        return self._message_view.kinds[index] == "b"

    def message(self, index: int, *, turn: int = _NO_TURN, is_work: bool = False) -> Iterator[str]:
        """One message in pieces; nothing if all of it is shown elsewhere."""
        kind = self._message_view.kinds[index]
        if kind == "r":
            return
        said = self._source.message(self._message_view, index)
        blocks: Sequence[Block] = said.blocks
        if kind == "u":
            blocks = [blocks[place] for place in self._message_view.own_blocks(index, blocks)]
        if kind in "pc" and not self.is_agent:
            self.prompts.append((index, words_of(own_words(said.text[:4000]), 120)))
        name = "step" if is_work else _CLASSES.get(kind, "other")
        yield f'<article class="{name}" id="{self.anchor(index)}">'
        if kind in _FOLDED and not _is_mark(said):
            about = self._about(said, kind)
            yield f'<details class="aside"><summary>{about} <i>{text_html(words_of(said.text, 100)) or "no text"}</i></summary>\n'
            yield from self._blocks(blocks, said, index)
            yield "</details></article>\n"
            return
        if not is_work and kind not in _FOLDED:
            cost = self._cost(turn) if kind == "a" else ""
            yield f'<p class="who">{self._about(said, kind)}{cost}{self._link(index, said)}</p>\n'
        yield from self._blocks(blocks, said, index)
        if not said.blocks:
            yield '<p class="note">Nothing to show.</p>'
        yield "</article>\n"

    def _blocks(self, blocks: Sequence[Block], said: Message, index: int) -> Iterator[str]:
        """Blocks in order; several calls of one tool in a row are one part, as on the page."""
        for _, alike in itertools.groupby(blocks, lambda one: isinstance(one, ToolUseBlock) and one.name):
            run = list(alike)
            head = self._group(run, said)
            yield head
            for block in run:
                yield from self._block(block, said, index)
            yield "</details>\n" if head else ""

    def _group(self, run: Sequence[Block], said: Message) -> str:
        """The opening of a part for calls that belong together; "" where they stand alone."""
        calls = [block for block in run if isinstance(block, ToolUseBlock)]
        if len(calls) < _GROUP:
            return ""
        ends = self._ends_of(said)
        shown = [html_call.shown_call(*ends[block.id]) for block in calls]
        if any(self._agents.sent_by(one.call) is not None for one in shown):
            return ""
        return html_call.group_opening(shown)

    def _about(self, said: Message, kind: str) -> str:
        model = (
            "" if said.model in (None, _SYNTHETIC) else f" <span>{text_html(short_model(said.model))}</span>"
        )
        return f"<b>{self._speaker(said, kind)}</b>{model}"

    def _cost(self, turn: int) -> str:
        """What a turn without a strip cost, at its first answer; a strip has it otherwise."""
        if self._turns is None or turn in (_NO_TURN, self._paid):
            return ""
        self._paid = turn
        cost = self._turns.cost(turn)
        return f" <span>{cost}</span>" if cost else ""

    def _link(self, index: int, said: Message) -> str:
        shown = when(said.at) or f"{index + 1:,}"
        return f' <a href="#{self.anchor(index)}">{shown}</a>'

    def _speaker(self, said: Message, kind: str) -> str:
        match kind:
            case "p":
                return "Task" if self.is_agent else "You"
            case "a":
                return "Sub-agent" if self.is_agent else "Assistant"
            case "c" | "s" | "u":
                return _NAMES[kind]
        if said.is_meta:
            return "Added by the client"
        if said.is_error:
            return "Error"
        return "Added to the conversation" if said.role == "user" else text_html(said.role)

    # ---- blocks ------------------------------------------------------------------------------------------

    def _block(self, block: Block, said: Message, index: int) -> Iterator[str]:
        match block:
            case TextBlock(text):
                yield _text(text, said)
            case ThinkingBlock(thinking):
                yield _thinking(thinking)
            case RedactedThinkingBlock():
                yield '<p class="note thinking">Thinking, encrypted by the provider</p>\n'
            case ToolUseBlock():
                yield from self._call(block, said, index)
            case ServerToolUseBlock() | McpToolUseBlock():
                yield from _remote_call(block)
            case ToolResultBlock():
                yield '<details class="call"><summary><b>Result</b> not shown with a call</summary>'
                yield from html_call.result(html_call.content(block))
                yield "</details>\n"
            case _:
                yield from html_call.content(block)

    def _call(self, block: ToolUseBlock, said: Message, index: int) -> Iterator[str]:
        shown = html_call.shown_call(*self._ends_of(said)[block.id])
        agent = self._agents.sent_by(shown.call)
        yield html_call.opening(shown)
        if agent is None:
            yield from html_call.asked(shown)
        else:
            yield from self._places.shown(agent, self.anchor(index), shown)
        yield from html_call.answered(shown)
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
    shown = html_call.shown_call(call)
    yield html_call.opening(shown)
    yield from html_call.asked(shown)
    yield "</details>\n"


def _text(text: str, said: Message) -> str:
    if said.role == "assistant":
        return _prose(text)
    return "".join(_part(part) for part in client_parts(text))


def _part(part: ClientPart) -> str:
    """What the client wrote in the user's name, as chips and small marks; the rest is prose."""
    match part.kind:
        case "text":
            return _prose(part.text)
        case "command":
            return f'<p class="slash"><code>{text_html(part.text)}</code></p>\n'
        case "shell":
            return f'<p class="slash"><code>! {text_html(part.text)}</code></p>\n'
        case "interrupted":
            return '<p><span class="chip warn">Interrupted</span></p>\n'
    label = f'<span class="chip">{_PARTS[part.kind]}</span>'
    peek = text_html(words_of(part.text, 100))
    return f'<details class="aside"><summary>{label} <i>{peek}</i></summary>{html_call.block_text(part.text)}</details>\n'


def _prose(text: str) -> str:
    if len(text) > html_call.LONGEST:
        return html_call.block_text(text, "plain")
    shown = prose_html(text)
    return f'<div class="prose">{shown}</div>\n' if shown else ""


def _is_mark(said: Message) -> bool:
    """A slash command or an interruption is short by itself; a summary or an attachment is not."""
    return not said.is_summary and _MARK.match(said.text) is not None


def _thinking(text: str) -> str:
    if not text.strip():
        return '<p class="note thinking">Thinking, not kept in the log</p>\n'
    peek = text_html(words_of(text, 100))
    shown = html_call.block_text(text, "plain")
    return f'<details class="thinking"><summary>Thinking <i>{peek}</i></summary>{shown}</details>\n'
