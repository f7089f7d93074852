"""The steps of migrations, by number and name, and the plans that lead to a target. Each step is planned, never made, here."""

from __future__ import annotations

import re
from pathlib import Path

from recollect.change.migration import (
    WHAT,
    Migration,
    MigrationStep,
    SessionMeaning,
    dialects_of,
    meta_files,
    spent,
    talk_of,
    told,
    whole_entries,
)
from recollect.errors import NotFound, UsageError
from recollect.model.conversation.agents import SubAgent, inline_roots, read_meta, with_meta
from recollect.model.conversation.graph import Graph
from recollect.model.convert import claude_to_flat, flat_to_claude
from recollect.model.convert.turns import Loss, LossCode
from recollect.model.lines.codec import changed
from recollect.model.lines.damage import Damage
from recollect.model.lines.entry import Assistant, Dialect, Entry, User
from recollect.model.lines.ids import SessionId, derived_id, derived_uuid
from recollect.model.project_key import project_key
from recollect.model.todo import Task, TodoItem, TodoStatus, encode_task
from recollect.store.changes.plan import ChangePlan, FileState
from recollect.store.home import AgentFile, ClaudeHome, ProjectDir, SessionFile
from recollect.store.logs.conversation_cache import LogGraph
from recollect.store.logs.reader import LogReader
from recollect.store.todo_files import TodoFiles
from recollect.system.peek import open_regular


def plan_flat_to_claude(home: ClaudeHome, log: SessionFile, cwd: str | None) -> Migration | None:
    """Rewrite a log whose conversation is in another dialect."""
    session = log.path.stem
    seen = FileState.at(log.path)
    items = whole_entries(log.path, session)
    dialects = dialects_of(items)
    if not dialects or dialects == {Dialect.CLAUDE}:
        return None
    if Dialect.CLAUDE in dialects:
        raise UsageError(
            f"session {session}: it holds lines of several dialects",
            hint="nothing was changed; `recollect export` writes out what can be read",
        )
    where = cwd or _cwd_of(home, log)
    name = log.id if log.id is not None and log.is_uuid else SessionId(derived_uuid(session, 0))
    made = flat_to_claude(items, session_id=str(name), cwd=where)
    target = home.session_log(project_key(where), name)
    change = ChangePlan(WHAT, session, home.root)
    data = b"".join(line + b"\n" for line in made.lines)
    if target == log.path:
        change.replace(target, data, expected=seen, mtime_ns=seen.mtime_ns)
    else:
        change.create(target, data, mtime_ns=seen.mtime_ns)
        change.remove(log.path, expected=seen)
    notes = () if target == log.path else (f"the session becomes {target.parent.name}/{target.name}",)
    return Migration(
        session,
        log.path,
        change,
        told(items),
        lambda: told(LogReader(target)),
        target,
        made.losses,
        notes,
    )


def _cwd_of(home: ClaudeHome, log: SessionFile) -> str:
    """The working directory by which the client finds this project directory."""
    directory = log.path.parent
    for other in home.sessions(ProjectDir(None, directory.name, directory)):
        cwd = other.first_cwd()
        if cwd is not None and project_key(cwd) == directory.name:
            return cwd
    raise UsageError(
        f"session {log.path.stem}: nothing says in which directory it worked",
        hint="nothing was changed; name the directory with --cwd DIR",
    )


_REFUSED = {
    LossCode.BRANCHES: ("it has several branches", "`recollect fork` makes a session of one of them"),
    LossCode.SIDECHAIN: ("sub-agents are among its lines", "migrate it to side-chains-to-agent-files first"),
}


def plan_claude_to_flat(home: ClaudeHome, log: SessionFile, cwd: str | None) -> Migration | None:
    """Rewrite a log; every loss is said."""
    del cwd  # the dialect has no place for it
    session = log.path.stem
    seen = FileState.at(log.path)
    items = whole_entries(log.path, session)
    dialects = dialects_of(items)
    if Dialect.CLAUDE not in dialects:
        return None
    made = claude_to_flat(items)
    _refuse_cuts(session, made.losses)
    change = ChangePlan(WHAT, session, home.root)
    data = b"".join(line + b"\n" for line in made.lines)
    change.replace(log.path, data, expected=seen, mtime_ns=seen.mtime_ns)
    return Migration(
        session,
        log.path,
        change,
        told(items),
        lambda: told(LogReader(log.path)),
        log.path,
        made.losses,
        ("the client does not resume flat logs; roll back, or migrate to flat-to-claude",),
    )


def _refuse_cuts(session: str, losses: list[Loss]) -> None:
    for loss in losses:
        if loss.code in _REFUSED:
            why, hint = _REFUSED[loss.code]
            raise UsageError(f"session {session}: {why}", hint=f"nothing was changed; {hint}")


def plan_flat_agents_to_subagents(home: ClaudeHome, log: SessionFile, cwd: str | None) -> Migration | None:
    """Move every flat agent that this session sent."""
    del cwd
    agents = list(home.agents(log))
    flat = {str(one.agent_id): one for one in agents if one.layout == "flat" and one.agent_id is not None}
    if not flat:
        return None
    lines = {name: list(LogReader(agent.path)) for name, agent in flat.items()}
    known = [_known(agent) for agent in agents if agent.layout == "nested"]
    metas = meta_files(list(LogReader(log.path)), lines, known)
    change = ChangePlan(WHAT, log.path.stem, home.root)
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


_CLIENT_LISTS = {TodoStatus.PENDING, TodoStatus.IN_PROGRESS, TodoStatus.COMPLETED}


def plan_todos_to_tasks(home: ClaudeHome, log: SessionFile, cwd: str | None) -> Migration | None:
    """One task for each item, numbered in their order."""
    del cwd
    session, files = log.id, TodoFiles(home)
    todos = files.read(session) if session is not None else None
    if session is None or todos is None or todos.empty:
        return None
    seen = FileState.at(todos.path)
    _refuse_unfit_list(session, todos.items, has_tasks=bool(home.tasks(session)))
    directory = home.tasks_dir(session)
    change = ChangePlan(WHAT, session, home.root)
    for number, item in enumerate(todos.items, 1):
        change.create(
            directory / f"{number}.json",
            encode_task(Task(str(number), item.content, item.content, item.active_form, item.status)),
            mtime_ns=seen.mtime_ns,
        )
    if not (directory / ".lock").exists():
        change.create(directory / ".lock", b"", mode=0o644)
    change.remove(todos.path, expected=seen)
    return Migration(
        session,
        log.path,
        change,
        SessionMeaning(items=tuple((one.content, one.status, one.active_form or "") for one in todos.items)),
        lambda: SessionMeaning(
            items=tuple((one.subject, one.status, one.active_form or "") for one in files.tasks(session))
        ),
        directory,
        _losses(todos.items),
        _todo_notes(todos.items),
    )


def _refuse_unfit_list(session: str, items: tuple[TodoItem, ...], *, has_tasks: bool) -> None:
    if has_tasks:
        raise UsageError(
            f"session {session}: it has tasks already", hint="nothing was changed; its todos stay beside them"
        )
    if any(item.odd for item in items):
        raise UsageError(
            f"session {session}: its todo list holds something that is no todo",
            hint="nothing was changed; mend the list first",
        )


def _losses(items: tuple[TodoItem, ...]) -> list[Loss]:
    fields: dict[str, int] = {}
    for item in items:
        for name in item.kept or {}:
            if name not in {"content", "status", "activeForm"}:
                fields[name] = fields.get(name, 0) + 1
    return [
        Loss(LossCode.METADATA, f"field {name[:40]!a} of a todo", 0, count) for name, count in fields.items()
    ]


def _todo_notes(items: tuple[TodoItem, ...]) -> list[str]:
    hidden = sum(item.status not in _CLIENT_LISTS for item in items)
    return [f"{hidden} tasks have a status that the client does not list"] if hidden else []


def plan_side_chains_to_agent_files(home: ClaudeHome, log: SessionFile, cwd: str | None) -> Migration | None:
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
    change = ChangePlan(WHAT, session, home.root)
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
            hint=f"nothing was changed; `recollect doctor {session[:8]}` says more",
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
            hint=f"nothing was changed; `recollect doctor {session[:8]} --fix` first",
        ) from problem


def _notes(stays: list[Entry | Damage], agents: int, linked: int) -> list[str]:
    left = sum(isinstance(item, Entry) and _is_side(item) for item in stays)
    notes = [f"no call was found for {agents - linked} of {agents} agents: no meta file for them"]
    stay = [f"{left} side lines that follow no sub-agent's prompt stay in the log"]
    return (notes if agents > linked else []) + (stay if left else [])


def _meaning(main: Path, agents: list[Path]) -> SessionMeaning:
    talks = tuple(talk_of(LogReader(path)) for path in (main, *agents))
    return SessionMeaning(talks, tokens=spent([main, *agents]))


STEPS = (
    MigrationStep(
        1,
        "flat-to-claude",
        "flat or events dialect",
        "claude 2.0.76 and later",
        "write a log of another dialect as a session that Claude Code resumes",
        plan_flat_to_claude,
        "2.0.76",
    ),
    MigrationStep(
        2,
        "claude-to-flat",
        "claude",
        "flat dialect",
        "write a session as flat lines; what they cannot hold is listed",
        plan_claude_to_flat,
    ),
    MigrationStep(
        3,
        "flat-agents-to-subagents",
        "claude 2.0",
        "claude 2.1.325",
        "move sub-agents' logs into their session's directory, with meta files",
        plan_flat_agents_to_subagents,
        "2.1.325",
    ),
    MigrationStep(
        4,
        "todos-to-tasks",
        "claude up to 2.1.30",
        "claude 2.1.197 and later",
        "turn a session's todo list into a task list",
        plan_todos_to_tasks,
        "2.1.197",
    ),
    MigrationStep(
        5,
        "side-chains-to-agent-files",
        "claude 1.0",
        "claude 2.1.325",
        "move sub-agents inside a session's log into their own logs",
        plan_side_chains_to_agent_files,
        "2.1.325",
    ),
)


def step_named(name: str) -> MigrationStep:
    """A step by its number, or by its name."""
    for step in STEPS:
        if name == step.name or name.lstrip("0") == str(step.number):
            return step
    raise NotFound(f"migration step {name!r}: not found", hint="`recollect data migrate --list` shows them")


def plan_to(target: str) -> tuple[MigrationStep, ...] | None:
    """The steps that lead to a client version, or to ``flat``, in order; None where the target is neither.

    A version gets every step to a layout that it has, the oldest first. ``flat`` has no sub-agents inside a log, so
    these are taken out before.
    """
    if target == "flat":
        return step_named("5"), step_named("2")
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){1,2}", target, re.ASCII):
        return None
    steps = [step for step in STEPS if step.version and _numbers(step.version) <= _numbers(target)]
    return tuple(sorted(steps, key=lambda step: (_numbers(step.version or ""), step.number)))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
