"""A renamed or moved project keeps its history: `recollect mv`.

The client finds sessions by their directory, which is named after the working directory. So the logs of every
session that worked in the old directory, or below it, move to the directories of the new paths, with their
side files and flat sub-agents; their ``cwd``, the prompt history and the project's entry in the global config
get the new path. All of it is one change in the journal, with one undo. File backups, tasks and todos are
stored by session id and do not move. The project directory itself is not touched: move it before or
afterwards.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from recollect.errors import Busy, NotFound, UsageError
from recollect.model.lines.ids import ProjectKey, SessionId
from recollect.model.project_key import LONGEST_PLAIN_KEY, PathMapping, project_key
from recollect.store.changes.journal import Change, ChangeJournal, ChangePlan, FileState
from recollect.store.home import AgentFile, ClaudeHome, ProjectDir, SessionFile
from recollect.store.live import live_sessions
from recollect.store.session_files import HomeBorder, hold_logs
from recollect.system.peek import open_regular


class SessionMove(Struct, frozen=True):
    """A session that moves from one directory of the home to another."""

    session: str
    cwd: str
    source: Path
    target: Path


class MoveConflict(Struct, frozen=True):
    """A session that does not move, and why."""

    session: str
    reason: str


class MovePlan(Struct, kw_only=True):
    """The changes of a move in one home."""

    home: ClaudeHome
    plan: ChangePlan
    sessions: list[SessionMove] = []
    conflicts: list[MoveConflict] = []
    config_keys: list[str] = []
    prompts: int = 0


class _DirectoryMovePlan(MovePlan, kw_only=True):
    """One renamed directory."""

    mapping: PathMapping


def planned_move(home: ClaudeHome, old: str, new: str) -> MovePlan:
    """Find everything in a home that names the old directory; nothing is changed."""
    if PathMapping(old, new).moved(new) is not None or old == new:
        raise UsageError(
            f"mv: {new} is {old}, or is below it", hint="give the old and the new path of the directory"
        )
    config = home.config_file
    beside = None if config is None or not config.is_file() else config.parent
    plan = ChangePlan("mv", old, home.root, also=beside)
    found = _DirectoryMovePlan(home=home, mapping=PathMapping(old, new), plan=plan)
    live = live_ids(home)
    for project in home.projects():
        _plan_project(found, project, live)
    _plan_history(found)
    _plan_config(found)
    if not found.sessions and not found.config_keys and not found.prompts:
        raise NotFound(
            f"mv: no session of {home.root} worked in {old}",
            hint="`recollect list` shows where sessions worked",
        )
    return found


def carry_out(found: MovePlan, data: Path) -> Change:
    """Carry it out, under our locks of the logs; ``Busy`` where a client has one of the sessions open."""
    with hold_logs((one.source for one in found.sessions), data):
        live = live_ids(found.home)
        planned = [one.session for one in found.sessions] + [one.session for one in found.conflicts]
        named = [session for session in planned if session in live]
        if named:
            raise Busy(
                f"mv: a client has {named[0]} open; nothing was moved",
                hint="leave the session in that client first",
            )
        return ChangeJournal(data / "undo").apply(found.plan)


def live_ids(home: ClaudeHome) -> set[str]:
    """The sessions that running clients have open."""
    return {str(one.session_id) for one in live_sessions(home)}


def _plan_project(found: _DirectoryMovePlan, project: ProjectDir, live: set[str]) -> None:
    sessions = list(found.home.sessions(project))
    going: list[SessionFile] = []
    for log in sessions:
        cwd = log.first_cwd()
        moved = found.mapping.moved(cwd) if cwd else None
        if moved is None or log.id is None:
            continue
        target = found.home.project_dir(project_key(moved))
        conflict = conflict_of(found.home, log, target, live)
        if conflict is not None:
            found.conflicts.append(conflict)
        else:
            going.append(log)
            found.sessions.append(SessionMove(log.id, moved, log.path, target / log.path.name))
            _plan_log(found, log.path, target / log.path.name)
            _plan_side_files(found, log, target)
    flat = [agent for agent in found.home.project_agents(project) if agent.layout == "flat"] if going else []
    owners = {log.id for log in going}
    for agent in flat:
        _plan_flat_agent(found, agent, owners)
    if going and len(going) == len(sessions):
        _plan_memory(found, project, found.sessions[-1].target.parent)


def conflict_of(home: ClaudeHome, log: SessionFile, target: Path, live: set[str]) -> MoveConflict | None:
    """Why a log cannot move to a directory of the home; None if it can."""
    if str(log.id) in live:
        return MoveConflict(str(log.id), "a client has it open")
    if log.path.is_symlink():
        return MoveConflict(str(log.id), "its log is a link")
    border = HomeBorder(home.root)
    if not border.holds(log.path) or not border.holds(target / log.path.name):
        return MoveConflict(str(log.id), "a link leads out of the home")
    if target == log.path.parent:
        return None
    if any(os.path.lexists(target / name) for name in (log.path.name, log.side_dir.name)):
        return MoveConflict(str(log.id), f"{target.name} already has a session with that id")
    return None


def _plan_log(found: _DirectoryMovePlan, source: Path, target: Path) -> None:
    """Move a log and update its paths; its time stays, because the client sorts by it."""
    seen = FileState.at(source)
    if target == source:
        found.plan.replace(source, _edited(found.mapping, source), expected=seen, mtime_ns=seen.mtime_ns)
        return
    found.plan.create(target, _edited(found.mapping, source), mode=seen.mode or 0o600, mtime_ns=seen.mtime_ns)
    found.plan.remove(source, expected=seen)


def _plan_side_files(found: _DirectoryMovePlan, log: SessionFile, target: Path) -> None:
    side = log.side_dir
    if not side.is_dir() or side.is_symlink():
        return
    new_side = target / side.name
    if new_side != side:
        found.plan.move(side, new_side)
    for agent in sorted(side.rglob("agent-*.jsonl")):
        if agent.is_file() and not agent.is_symlink() and _would_change(found.mapping, agent):
            place = new_side / agent.relative_to(side)
            # New contents are written before anything moves, so they are read from the current path.
            found.plan.replace(place, _edited(found.mapping, agent), mtime_ns=agent.stat().st_mtime_ns)


def _plan_flat_agent(found: _DirectoryMovePlan, agent: AgentFile, owners: set[SessionId | None]) -> None:
    owner = agent.owner()
    if owner not in owners:
        return
    target = next(one.target.parent for one in found.sessions if one.session == owner)
    _plan_log(found, agent.path, target / agent.path.name)
    if agent.meta_path is not None and target != agent.path.parent:
        found.plan.move(agent.meta_path, target / agent.meta_path.name)


def _plan_memory(found: _DirectoryMovePlan, project: ProjectDir, target: Path) -> None:
    if project.memory.is_dir() and target != project.path and not os.path.lexists(target / "memory"):
        found.plan.move(project.memory, target / "memory")


def _plan_history(found: _DirectoryMovePlan) -> None:
    history = found.home.history_file
    if not history.is_file() or history.is_symlink():
        return
    with open_regular(history) as lines:
        found.prompts = sum(found.mapping.edited(line) != line for line in lines)
    if found.prompts:
        found.plan.replace(history, _edited(found.mapping, history))


def _plan_config(found: _DirectoryMovePlan) -> None:
    """The project's entry in the global config: trust, allowed tools, servers.

    Existing values of the new path win.
    """
    config = found.home.config_file
    if config is None or not config.is_file() or config.is_symlink():
        return
    data = config.read_bytes()
    try:
        whole = msgspec.json.decode(data, type=dict[str, Raw])
        projects = msgspec.json.decode(whole["projects"], type=dict[str, dict[str, Raw]])
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return  # `recollect doctor` handles a config that cannot be read
    changed: dict[str, dict[str, Raw]] = {}
    for path, entry in projects.items():
        moved = found.mapping.moved(path)
        name = path if moved is None else moved
        changed[name] = (
            {**entry, **changed.get(name, {})} if moved is not None else {**changed.get(name, {}), **entry}
        )
        if moved is not None:
            found.config_keys.append(path)
    if found.config_keys:
        text = msgspec.json.encode({**whole, "projects": changed})
        found.plan.replace(config, msgspec.json.format(text, indent=2))


def _would_change(mapping: PathMapping, path: Path) -> bool:
    with open_regular(path) as lines:
        return any(mapping.edited(line) != line for line in lines)


def _edited(mapping: PathMapping, path: Path) -> Iterator[bytes]:
    """The updated lines of a file; the file is opened when the first is requested."""
    with open_regular(path) as lines:
        for line in lines:
            yield mapping.edited(line)


def planned_split(home: ClaudeHome, folder: str, keep: str | None = None) -> MovePlan:
    """Examine one folder of a home; nothing is changed.

    ``keep`` names the directory that keeps the folder.
    """
    project = _found(home, folder)
    owners = _by_directory(home, project)
    kept = _kept(project, owners, keep)
    found = MovePlan(home=home, plan=ChangePlan("mv", str(project.path), home.root))
    live = live_ids(home)
    for cwd, logs in owners.items():
        target = home.project_dir(_folder(project, cwd, kept))
        for log in logs if target != project.path else ():
            conflict = conflict_of(home, log, target, live)
            if conflict is not None:
                found.conflicts.append(conflict)
            else:
                found.sessions.append(SessionMove(str(log.id), cwd, log.path, target / log.path.name))
                _plan_session(found.plan, log, target)
    _plan_agents(found, project)
    if not found.sessions and not found.conflicts:
        only = next(iter(owners), None)
        whose = f"all its sessions belong to {only}" if only else "its sessions name no directory"
        raise UsageError(f"mv --split {project.name}: {whose}", hint="there is nothing to split")
    return found


def _found(home: ClaudeHome, folder: str) -> ProjectDir:
    """The folder by its path, its name, or one of the directories that share it."""
    path = os.path.realpath(Path(folder).expanduser())
    key = project_key(path)
    for project in home.projects():
        if project.name in (folder, key) or os.path.realpath(project.path) == path:
            return project
    raise NotFound(
        f"mv --split: {home.root} has no project folder {folder}",
        hint="`recollect doctor --code path-collision` lists shared folders",
    )


def _by_directory(home: ClaudeHome, project: ProjectDir) -> dict[str, list[SessionFile]]:
    found: defaultdict[str, list[SessionFile]] = defaultdict(list)
    for log in home.sessions(project):
        cwd = log.first_cwd()
        if cwd and log.id is not None:
            found[cwd].append(log)
    return dict(found)


def _kept(project: ProjectDir, owners: dict[str, list[SessionFile]], keep: str | None) -> str | None:
    """The directory that keeps the folder: the named one, else the most recently used."""
    rivals = [cwd for cwd in owners if project_key(cwd) == project.name]
    if keep is not None:
        wanted = str(Path(keep).expanduser().absolute())
        if wanted not in rivals:
            raise UsageError(
                f"mv --split: --keep {keep} does not share {project.name}",
                hint="they are " + (", ".join(sorted(rivals)) or "none"),
            )
        return wanted
    return max(rivals, key=lambda cwd: max(log.mtime_ns for log in owners[cwd]), default=None)


def _folder(project: ProjectDir, cwd: str, kept: str | None) -> ProjectKey:
    key = project_key(cwd)
    if key != project.name:
        return key
    if cwd == kept:
        return ProjectKey(project.name)
    mark = hashlib.sha256(os.fsencode(cwd)).hexdigest()[:8]
    return ProjectKey(f"{key[:LONGEST_PLAIN_KEY]}-split-{mark}")


def _plan_session(plan: ChangePlan, log: SessionFile, target: Path) -> None:
    side = log.side_dir
    if side.is_dir() and not side.is_symlink():
        plan.move(side, target / side.name)
    # The log comes last, so that the session is complete when it becomes visible.
    plan.move(log.path, target / log.path.name)


def _plan_agents(found: MovePlan, project: ProjectDir) -> None:
    """The flat logs of sub-agents move with their session."""
    targets = {one.session: one.target.parent for one in found.sessions}
    for agent in found.home.project_agents(project) if targets else ():
        target = targets.get(str(agent.owner())) if agent.layout == "flat" else None
        if target is None:
            continue
        for path in (agent.meta_path, agent.path):
            if path is not None and not os.path.lexists(target / path.name):
                found.plan.move(path, target / path.name)
