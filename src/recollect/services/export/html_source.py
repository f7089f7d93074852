"""The source of an exported page: one session's conversations and agents, without their secrets.

Secrets are removed from a line before anything is built from it, by the function that every export uses, so
no markup can split a secret. Lines are read one at a time and not held.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from recollect.errors import RecollectError
from recollect.model import codec
from recollect.model.conversation.agents import AGENT_TOOLS, AgentMeta, inline_roots, is_warm_up, read_meta
from recollect.model.conversation.conversation import Message, spoken
from recollect.model.conversation.node import Node
from recollect.model.conversation.tool_calls import ToolCall
from recollect.model.damage import Damage, Line
from recollect.model.entry import Entry
from recollect.model.json.text import loose_object
from recollect.services.agents import first_prompt
from recollect.services.export.export import Redactor
from recollect.services.export.html_turns import Turns
from recollect.services.page.conversation import (
    ConversationView,
    ViewMessages,
    agent_in_text,
    agents_by_call,
    talk_of,
)
from recollect.services.page.log import PageSession
from recollect.services.secrets.engine import engine_ready
from recollect.services.secrets.suspect_lines import SuspectLines
from recollect.services.session import AgentCost, Session
from recollect.storage.config.our_config import price_list
from recollect.storage.logs.log_graph import entry_of
from recollect.storage.logs.reader import OpenLog, entry_in
from recollect.system.peek import open_regular

_LARGEST_META = 1 << 20
# Bytes of lines that were read lately.
_AT_HAND = 256 << 10


class _ReadLine(NamedTuple):
    """A line as it is in the log, and without its secrets."""

    entry: Entry | None
    clean: Entry | None
    length: int


class ExportSource:
    """One session to be exported; ``redactor`` is None where secrets may stay."""

    def __init__(self, session: Session, redactor: Redactor | None, *, whole: bool = True) -> None:
        self.session = session
        agents = session.agents()
        # One moment is exported, and looking for its agents takes long where there are many.
        self.opened = PageSession(session, agents=lambda: agents)
        self.redactor, self.whole = redactor, whole
        self._prices = price_list()
        self._counted: set[tuple[str, int]] = set()
        self._texts: dict[str, str] = {}
        self._lately: dict[tuple[str, int], _ReadLine] = {}
        self._lately_bytes = 0
        self._open: OpenLog | None = None
        self._suspects: dict[Path, SuspectLines] = {}
        if redactor is not None:
            engine_ready(session.file.size)

    @functools.cached_property
    def cost(self) -> AgentCost:
        """The cost of the session with its agents."""
        rows = self.session.agent_costs()
        return AgentCost(True, sum(row.responses for row in rows), self.session.spending())

    @functools.cached_property
    def messages(self) -> int:
        """The messages of the session, as every list counts them."""
        return len(talk_of(self.opened, ConversationView()))

    @functools.cached_property
    def damage(self) -> list[Damage]:
        return self.session.damage()

    def message_view(self) -> ViewMessages:
        """The main conversation."""
        return talk_of(self.opened, ConversationView(whole=self.whole))

    def agent_message_view(self, name: str) -> ViewMessages:
        """The conversation between an agent and the model."""
        return talk_of(self.opened, ConversationView(agent=name))

    def text(self, text: str) -> str:
        """Redact a text that is not from a line, such as a title; repeated texts are counted once."""
        if self.redactor is not None and text not in self._texts:
            self._texts[text] = self.redactor.text(text)
        return self._texts.get(text, text)

    def message(self, message_view: ViewMessages, index: int) -> Message:
        return spoken(message_view.groups[index], self.loader(message_view))

    def loader(self, message_view: ViewMessages) -> Callable[[Node], Entry | None]:
        """Reads the lines of a conversation without their secrets."""
        return lambda node: self._read(message_view, node).clean

    def _read(self, message_view: ViewMessages, node: Node) -> _ReadLine:
        """A message, its cost and its calls need the same lines, so those that were read lately are at hand."""
        place = (str(message_view.log.path), node.offset)
        known = self._lately.get(place)
        if known is None:
            entry = self._load(message_view.log.path, node)
            is_suspect = entry is not None and self._is_suspect(message_view.log.path, entry)
            clean = self._without_secrets(place, entry) if is_suspect else entry
            known = _ReadLine(entry, clean, node.length)
            self._lately[place] = known
            self._lately_bytes += known.length
            while self._lately_bytes > _AT_HAND and len(self._lately) > 1:
                self._lately_bytes -= self._lately.pop(next(iter(self._lately))).length
        return known

    def _load(self, path: Path, node: Node) -> Entry | None:
        """An entry of a log, which stays open until one of another log is asked for."""
        if self._open is None or self._open.path != path:
            self._open = OpenLog(path)
            weakref.finalize(self._open, os.close, self._open.fd)
            known = self._suspects.get(path)
            if self.redactor is not None and (known is None or not known.are_of(self._open)):
                self._suspects[path] = SuspectLines(self._open)
        return entry_of(entry_in(self._open, node.offset, node.length), node)

    def _is_suspect(self, path: Path, entry: Entry) -> bool:
        """Whether a line may hold a secret; it was read from the log that was looked through."""
        return self.redactor is not None and self._suspects[path].may_be_in(entry.offset, entry.length)

    def _without_secrets(self, place: tuple[str, int], entry: Entry | None) -> Entry | None:
        if entry is None or self.redactor is None:
            return entry
        clean = self.redactor.line(entry.raw, count=place not in self._counted)
        if clean == entry.raw:
            return entry
        self._counted.add(place)
        item = codec.decode(Line(clean, entry.offset))
        return item.readable if isinstance(item, Damage) else item

    def turns(self, message_view: ViewMessages) -> Turns:
        """The turns of the main conversation."""
        return Turns(self.opened, ConversationView(whole=self.whole), message_view, self.text)


class ExportAgents:
    """The agents of a session, numbered in the order of their logs, and the calls that started them."""

    def __init__(self, source: ExportSource) -> None:
        self._source = source
        session = source.opened
        files = {
            str(file.agent_id or file.path.stem): file
            for file in session.agents()
            if not is_warm_up(first_prompt(file.path))
        }
        self._files = files
        self._inline = [node.uuid for node in inline_roots(session.graph)]
        self.numbers = {name: number for number, name in enumerate([*files, *self._inline], 1)}
        self._by_call = agents_by_call(session)
        self._by_prompt: dict[str, str] | None = None

    @property
    def bytes(self) -> int:
        """The total size of the agents' own logs."""
        return sum(file.size for file in self._files.values())

    def sent_by(self, call: ToolCall) -> str | None:
        """The agent that a call started, if known."""
        known = self._by_call.get(call.id) or call.agent_id
        if known is None and call.name not in AGENT_TOOLS:
            return None
        named = known or agent_in_text(call.text)
        if named in self.numbers:
            return named
        prompt = loose_object(call.input).get("prompt")
        return self._prompts().get(prompt) if isinstance(prompt, str) else None

    def _prompts(self) -> dict[str, str]:
        """The first prompts of agents inside the main log: their only link to their call."""
        if self._by_prompt is None:
            self._by_prompt = {}
            message_view = self._source.message_view()
            load = self._source.loader(message_view)
            for uuid in self._inline:
                said = spoken((self._source.opened.graph.nodes[uuid],), load)
                self._by_prompt.setdefault(said.text, uuid)
        return self._by_prompt

    def title(self, name: str) -> str:
        """The label of an agent: its type and description, if its file has them."""
        meta = self._meta(name)
        words = [one for one in (meta.agent_type, meta.description) if one]
        return self._source.text(": ".join(words)) or f"agent {name[:8]}"

    def _meta(self, name: str) -> AgentMeta:
        file = self._files.get(name)
        if file is None or file.meta_path is None:
            return AgentMeta()
        try:
            with open_regular(file.meta_path) as meta:
                return read_meta(meta.read(_LARGEST_META))
        except (OSError, RecollectError):
            return AgentMeta()
