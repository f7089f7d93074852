"""Step 3: sub-agents of the 2.0 line go from the project directory to ``<session>/subagents/``.

Their logs move byte for byte; a meta file as client 2.1.325 writes it comes beside each whose call is known.
"""

from __future__ import annotations

from pathlib import Path

from recollect.model.conversation.agents import SubAgent, read_meta, with_meta
from recollect.storage.home import AgentFile, ClaudeHome, SessionFile
from recollect.storage.logs.reader import LogReader
from recollect.storage.migrations.agent_links import meta_files
from recollect.storage.migrations.migration import Migration, SessionMeaning, change_for, spent, talk_of
from recollect.system.peek import open_regular


def planned(home: ClaudeHome, log: SessionFile, cwd: str | None) -> Migration | None:
    """Move every flat agent that this session sent."""
    del cwd
    agents = list(home.agents(log))
    flat = {str(one.agent_id): one for one in agents if one.layout == "flat" and one.agent_id is not None}
    if not flat:
        return None
    lines = {name: list(LogReader(agent.path)) for name, agent in flat.items()}
    known = [_known(agent) for agent in agents if agent.layout == "nested"]
    metas = meta_files(list(LogReader(log.path)), lines, known)
    change = change_for(home, log.path.stem)
    for name, agent in flat.items():
        change.move(agent.path, log.subagents / agent.path.name)
        if agent.meta_path is not None:
            change.move(agent.meta_path, log.subagents / agent.meta_path.name)
        elif name in metas:
            change.create(log.subagents / f"agent-{name}.meta.json", metas[name])
    silent = sum(name not in metas and agent.meta_path is None for name, agent in flat.items())
    moved = [log.subagents / agent.path.name for agent in flat.values()]
    return Migration(
        log.path.stem,
        log.path,
        change,
        _meaning(log.path, [agent.path for agent in flat.values()]),
        lambda: _meaning(log.path, moved),
        log.path,
        notes=(f"no call was found for {silent} of {len(flat)} agents: no meta file for them",)
        if silent
        else (),
    )


def _known(agent: AgentFile) -> SubAgent:
    found = SubAgent(str(agent.agent_id), agent.layout)
    if agent.meta_path is None:
        return found
    with open_regular(agent.meta_path) as meta:
        return with_meta(found, read_meta(meta.read(1 << 20)))


def _meaning(main: Path, agents: list[Path]) -> SessionMeaning:
    talks = tuple(talk_of(LogReader(path)) for path in (main, *agents))
    return SessionMeaning(talks, tokens=spent([main, *agents]))
