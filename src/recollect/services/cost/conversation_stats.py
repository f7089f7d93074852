"""Counts, tokens and cost of sessions, from one pass over every log concerned.

Everything that was said counts, on all branches and by sub-agents; a response is
paid for once, also where a fork repeats it (law 6).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from recollect.model.cost.ledger import Ledger
from recollect.model.cost.money import Spending
from recollect.model.damage import Line
from recollect.model.line_views.facts import usage_facts
from recollect.services.provider.chat_message import CALLS, RESULTS, ChatMessage
from recollect.services.provider.message_lines import chat_message, gathered
from recollect.storage.config.our_config import price_list
from recollect.storage.logs.log_graph import LogGraph
from recollect.storage.logs.reader import read_lines


class ConversationStats(Struct, frozen=True, kw_only=True):
    """Counts of everything that was said, on all branches and by sub-agents; each answer is paid for once.

    ``user_messages`` leaves out tool results and what the user did not type.
    """

    sessions: int = 0
    agents: int = 0
    messages: int = 0
    user_messages: int = 0
    assistant_messages: int = 0
    system_messages: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    first_at: dt.datetime | None = None
    last_at: dt.datetime | None = None
    spending: Spending = Spending()


class SessionLogs(Struct, frozen=True):
    """The logs of one session: its own and those of its sub-agents."""

    session: str
    own: Path
    agents: tuple[Path, ...]


def statistics(sessions: Iterable[SessionLogs]) -> ConversationStats:
    """What all of them come to."""
    count, ledger = _Counts(), Ledger(price_list())
    for one in sessions:
        count.sessions += 1
        count.agents += len(one.agents)
        for path in (one.own, *one.agents):
            log = LogGraph(path)
            for group in gathered(log.graph.nodes.values()):
                count.take(chat_message(group, log.load, one.session))
            _take_usage(path, ledger)
    return count.result(ledger.total())


class _Counts:
    """Adds up messages."""

    def __init__(self) -> None:
        self.sessions = self.agents = self.messages = 0
        self._roles = {"user": 0, "assistant": 0, "system": 0}
        self._calls: set[str] = set()
        self._results = 0
        self._times: list[dt.datetime] = []

    def take(self, message: ChatMessage) -> None:
        """Count one."""
        self.messages += 1
        results = sum(isinstance(block, RESULTS) for block in message.blocks)
        self._results += results
        self._calls.update(block.id for block in message.blocks if isinstance(block, CALLS))
        if message.role != "user" or not (message.is_meta or results == len(message.blocks)):
            self._roles[message.role] += 1
        if message.at is not None:
            times = [*self._times, message.at]
            self._times = [min(times), max(times)]

    def result(self, spending: Spending) -> ConversationStats:
        """What it came to."""
        return ConversationStats(
            sessions=self.sessions,
            agents=self.agents,
            messages=self.messages,
            user_messages=self._roles["user"],
            assistant_messages=self._roles["assistant"],
            system_messages=self._roles["system"],
            tool_calls=len(self._calls),
            tool_results=self._results,
            first_at=self._times[0] if self._times else None,
            last_at=self._times[-1] if self._times else None,
            spending=spending,
        )


def _take_usage(path: Path, ledger: Ledger) -> None:
    for line in read_lines(path):
        ledger.add(usage_facts(line.data) if isinstance(line, Line) else None, path=str(path))
