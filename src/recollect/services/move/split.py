"""Split a project folder that several directories share: `recollect mv --split`.

Clients build the folder name by replacing special characters with hyphens, so /srv/a-b and /srv/a/b share
one, and each offers the other's conversations (2.1.197 even continues them at ``--continue``; 2.1.325 skips
them). The entries of a session name its directory. Sessions of a directory with a folder of its own move
there. Of the directories that give this folder name one keeps it; the sessions of every other one move to a
folder beside it. No client finds them there by itself, which is intended. `recollect resume` and ``claude
--resume FILE`` do.

Nothing is rewritten, files only move, in one change with one undo. Sessions that name no directory stay.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from pathlib import Path

from recollect.errors import NotFound, UsageError
from recollect.model.ids import ProjectKey
from recollect.model.project_key import LONGEST_PLAIN_KEY, project_key
from recollect.services.move.move import MovePlan, SessionMove, conflict_of, live_ids
from recollect.storage.changes.journal import ChangePlan
from recollect.storage.home import ClaudeHome, ProjectDir, SessionFile


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
        hint="`recollect check --code path-collision` lists shared folders",
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
