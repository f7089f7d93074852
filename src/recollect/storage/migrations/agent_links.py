"""Which call sent which sub-agent, and the meta file that client 2.1.325 keeps about it.

Only what the logs say is written: an agent that no call can be found for gets no meta file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from recollect.model.blocks import TextBlock
from recollect.model.conversation.agents import SubAgent, linked
from recollect.model.conversation.tool_calls import tool_calls
from recollect.model.damage import Damage
from recollect.model.entry import Entry, User

Lines = Sequence[Entry | Damage]


def meta_files(main: Lines, agents: Mapping[str, Lines], known: Sequence[SubAgent] = ()) -> dict[str, bytes]:
    """The meta file of each agent whose call is known. ``known`` have one already, and keep their calls."""
    calls = tool_calls(_entries(main))
    sender: dict[str, str] = {}
    for name, lines in agents.items():
        own = tool_calls(_entries(lines))
        sender |= {call.id: name for call in own}
        calls += own
    found = [*known, *(SubAgent(name, "flat", prompt=_prompt(lines)) for name, lines in agents.items())]
    named = {agent.id: agent for agent in linked(found, calls) if agent.id in agents and agent.tool_use_id}
    parents = {name: sender.get(agent.tool_use_id or "") for name, agent in named.items()}
    return {name: _meta(agent, parents[name], _depth(name, parents)) for name, agent in named.items()}


def _entries(lines: Lines) -> list[Entry]:
    return [line for line in lines if isinstance(line, Entry)]


def _prompt(lines: Lines) -> str:
    first = next((one.body for one in _entries(lines) if isinstance(one.body, User)), None)
    blocks = first.message.blocks[:1] if first is not None else []
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def _meta(agent: SubAgent, parent: str | None, depth: int) -> bytes:
    fields = {
        "agentType": agent.agent_type,
        "description": agent.description,
        "toolUseId": agent.tool_use_id,
        "parentAgentId": parent,
        "spawnDepth": depth,
    }
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None})


def _depth(name: str, parents: Mapping[str, str | None]) -> int:
    depth, seen, above = 1, {name}, parents.get(name)
    while above is not None and above not in seen:
        seen.add(above)
        depth += 1
        above = parents.get(above)
    return depth
