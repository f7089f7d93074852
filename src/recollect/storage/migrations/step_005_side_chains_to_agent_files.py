"""Step 5: sub-agents among the lines of a session (1.0) get logs of their own in ``<session>/subagents/``.

The lines that stay keep their exact bytes. Lines that go gain the one field a sub-agent's log needs,
``agentId``, and nothing else. An agent is named after its first entry, in the form of client 2.1.325.
"""

from __future__ import annotations

from pathlib import Path

from recollect.errors import UsageError
from recollect.model.codec import changed
from recollect.model.conversation.agents import inline_roots
from recollect.model.conversation.graph import Graph
from recollect.model.damage import Damage
from recollect.model.entry import Assistant, Entry, User
from recollect.model.made_ids import derived_id
from recollect.storage.changes.plan import FileState
from recollect.storage.home import ClaudeHome, SessionFile
from recollect.storage.logs.log_graph import LogGraph
from recollect.storage.logs.reader import LogReader
from recollect.storage.migrations.agent_links import meta_files
from recollect.storage.migrations.migration import (
    Migration,
    SessionMeaning,
    change_for,
    spent,
    talk_of,
    whole_entries,
)
from recollect.system.peek import open_regular


def planned(home: ClaudeHome, log: SessionFile, cwd: str | None) -> Migration | None:
    """Give every sub-agent inside a log its own."""
    del cwd
    session, seen = log.path.stem, FileState.at(log.path)
    items = whole_entries(log.path, session)
    owner = _owners(LogGraph(log.path).graph)
    groups: dict[str, list[Entry]] = {}
    for item in items:
        if isinstance(item, Entry) and _is_side(item) and item.uuid in owner:
            groups.setdefault(owner[item.uuid], []).append(item)
    if not groups:
        return None
    _refuse_unfit(session, items, owner)
    change = change_for(home, session)
    gone = {entry.offset for group in groups.values() for entry in group}
    stays = [item for item in items if item.offset not in gone]
    change.replace(log.path, _without(log.path, gone), expected=seen, mtime_ns=seen.mtime_ns)
    metas = meta_files(stays, groups)
    for name, group in groups.items():
        target = log.subagents / f"agent-{name}.jsonl"
        change.create(target, _agent_log(session, name, group), mtime_ns=seen.mtime_ns)
        if name in metas:
            change.create(target.with_name(f"agent-{name}.meta.json"), metas[name])
    files = [log.subagents / f"agent-{name}.jsonl" for name in groups]
    before = [talk_of(stays), *(talk_of(group) for group in groups.values())]
    return Migration(
        session,
        log.path,
        change,
        SessionMeaning(tuple(before), tokens=spent([log.path])),
        lambda: _meaning(log.path, files),
        log.path,
        notes=_notes(stays, len(groups), len(metas)),
    )


def _owners(graph: Graph) -> dict[str, str]:
    """The agent of each side line, by its id."""
    owner: dict[str, str] = {}
    for root in inline_roots(graph):
        name = derived_id("a", root.uuid)[:17]
        waiting = [root.uuid]
        while waiting:
            uuid = waiting.pop()
            if uuid not in owner and graph.nodes[uuid].is_sidechain:
                owner[uuid] = name
                waiting += graph.children(uuid)
    return owner


def _is_side(entry: Entry) -> bool:
    return entry.chain is not None and entry.chain.is_sidechain is True


def _refuse_unfit(session: str, items: list[Entry | Damage], owner: dict[str, str]) -> None:
    main = [item for item in items if isinstance(item, Entry) and not _is_side(item)]
    if not any(isinstance(item.body, User | Assistant) for item in main):
        raise UsageError(
            f"session {session}: it holds sub-agent lines only",
            hint="nothing was changed; it is an agent's log itself",
        )
    if any(item.parent_uuid in owner for item in main):
        raise UsageError(
            f"session {session}: its conversation runs through a sub-agent's lines",
            hint=f"nothing was changed; `recollect check {session[:8]}` says more",
        )


def _without(path: Path, gone: set[int]) -> bytes:
    """The log without the lines that begin at these places."""
    kept, position = [], 0
    with open_regular(path) as lines:
        for line in lines:
            if position not in gone:
                kept.append(line)
            position += len(line)
    return b"".join(kept)


def _agent_log(session: str, name: str, group: list[Entry]) -> bytes:
    try:
        return b"".join(changed(entry, {"agentId": name}).raw + b"\n" for entry in group)
    except ValueError as problem:
        raise UsageError(
            f"session {session}: a sub-agent's line cannot be rewritten: {problem}",
            hint=f"nothing was changed; `recollect repair {session[:8]}` first",
        ) from problem


def _notes(stays: list[Entry | Damage], agents: int, linked: int) -> list[str]:
    left = sum(isinstance(item, Entry) and _is_side(item) for item in stays)
    notes = [f"no call was found for {agents - linked} of {agents} agents: no meta file for them"]
    stay = [f"{left} side lines that follow no sub-agent's prompt stay in the log"]
    return (notes if agents > linked else []) + (stay if left else [])


def _meaning(main: Path, agents: list[Path]) -> SessionMeaning:
    talks = tuple(talk_of(LogReader(path)) for path in (main, *agents))
    return SessionMeaning(talks, tokens=spent([main, *agents]))
