"""Sub-agents of other agents, for statistics: how they were started is told by the files beside their logs, as for `recollect agents`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from recollect.errors import RecollectError
from recollect.index import stat_queries
from recollect.index.database import IndexDatabase
from recollect.index.frame import call_key
from recollect.index.stat_queries import AgentLogRow, StartingCall
from recollect.model.conversation.agents import AgentMeta, read_meta
from recollect.model.cost.report import UsageLog
from recollect.system.peek import open_regular

_LONGEST = 1 << 20


class ForeignAgent(NamedTuple):
    """One of them. ``call`` is the key of the call that started it, None where no call did."""

    log: UsageLog
    row: AgentLogRow
    type: str | None
    call: int | None

    def may_be_within(self, since: int | None, until: int | None) -> bool:
        """Whether it may have worked between two times in milliseconds."""
        first, last = self.row.first_at, self.row.last_at
        is_over = since is not None and last is not None and last < since
        return not is_over and (until is None or first is None or first < until)


class AgentStart(NamedTuple):
    """How an agent was started; ``call`` is None where no call did, or its log is not there."""

    agent: ForeignAgent
    call: StartingCall | None


def agents_of_others(database: IndexDatabase, logs: Mapping[int, UsageLog]) -> list[ForeignAgent]:
    """The sub-agents of other agents among some logs."""
    return [_agent(logs[row.file], row) for row in stat_queries.mirrored_agents(database) if row.file in logs]


def starts(
    database: IndexDatabase, agents: Sequence[ForeignAgent], logs: Mapping[int, UsageLog]
) -> Iterator[AgentStart]:
    """Each agent with its call: the first of that id in the logs of its session, which may number calls as others do."""
    keys = {one.call for one in agents if one.call is not None}
    calls: dict[tuple[str, int], StartingCall] = {}
    for call in stat_queries.calls_named(database, keys) if keys else ():
        if call.file in logs:
            calls.setdefault((logs[call.file].session, call.key), call)
    for agent in agents:
        yield AgentStart(agent, None if agent.call is None else calls.get((agent.log.session, agent.call)))


def _agent(log: UsageLog, row: AgentLogRow) -> ForeignAgent:
    meta = AgentMeta()
    with (
        contextlib.suppress(OSError, RecollectError),
        open_regular(Path(log.path).with_suffix(".meta.json")) as file,
    ):
        meta = read_meta(file.read(_LONGEST))
    return ForeignAgent(
        log, row, meta.agent_type, None if meta.tool_use_id is None else call_key(meta.tool_use_id)
    )
