"""The homes of all agents of this machine: Claude's as they are, the others through their mirrors.

Looking for the homes of other agents costs a few ``stat`` calls. What mirrors them is imported only where there is one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from recollect.errors import StorageError, UsageError
from recollect.services.foreign.unrecorded import agent_named_in, is_claude_home
from recollect.system import paths
from recollect.system.locations import MIRRORS, HomeRoot, claude_homes, data_dir, home_at, mirrored_agent

if TYPE_CHECKING:
    from recollect.storage.foreign.mirror import AgentMirror
    from recollect.storage.foreign.mirroring.state import MirrorProblem

# A command asks several times which homes there are; within this time the answer is the same.
_AGAIN_SECONDS = 0.5
_looked_at: dict[str, float] = {}


def machine_homes(data: Path | None = None, environ: Mapping[str, str] | None = None) -> list[HomeRoot]:
    """The homes of this user. ``data`` is our own directory, where mirrors are kept."""
    env = os.environ if environ is None else environ
    ours = data or data_dir(env)
    others = (_agent_home(agent, Path(path), origin, ours) for agent, path, origin in paths.agent_homes(env))
    return [*claude_homes(env), *(root for root in others if root is not None)]


def home_of(directory: str | Path, data: Path | None = None) -> HomeRoot:
    """The home of ``--home``, of any agent."""
    root = home_at(directory)
    agent = paths.agent_at(str(root.path)) if root.exists and root.agent == paths.CLAUDE else paths.CLAUDE
    if agent != paths.CLAUDE:
        return _mirrored(agent, root.path, root.origin, data or data_dir())
    if root.agent != paths.CLAUDE:
        refresh_mirror(root.path)
        return root
    if os.path.exists(root.path / "projects"):  # noqa: PTH110 - never raises
        return root
    left = (_left_of(one, root.path, root.origin, data or data_dir()) for one in paths.AGENTS)
    return next((one for one in left if one is not None), root)


def refresh_mirror(root: Path) -> None:
    """Bring a mirror up to date, if the directory is one and the home it mirrors is still there."""
    agent = mirrored_agent(root)
    if agent is None or time.monotonic() - _looked_at.get(str(root), -_AGAIN_SECONDS) < _AGAIN_SECONDS:
        return
    from recollect.storage.foreign.mirror import AgentMirror
    from recollect.storage.foreign.mirroring.state import facts_of_mirror

    facts = facts_of_mirror(root)
    if facts is not None and os.path.isdir(facts.source):  # noqa: PTH112 - never raises
        mirror = AgentMirror(agent, Path(facts.source), root.parent.parent)
        if mirror.root == root:
            _refresh(mirror)


def mirror_problems(root: Path) -> list[MirrorProblem]:
    """What a mirror lacks of the home it mirrors, and why; none where the directory is no mirror."""
    if mirrored_agent(root) is None:
        return []
    from recollect.storage.foreign.mirroring.state import problems_of_mirror

    return problems_of_mirror(root)


def lost_beginnings(root: Path) -> dict[str, str]:
    """Sessions of a mirror that lack their beginning, by their logs, and which session has it: for lists, without reading a log.

    ``services/foreign/lost_beginnings.py`` goes by this too; of a log that lies elsewhere its own records tell.
    """
    if mirrored_agent(root) is None:
        return {}
    from recollect.storage.foreign.mirroring.state import lost_in_mirror

    return {str(root / log): session for log, session in lost_in_mirror(root).items()}


def unread_files(roots: Sequence[HomeRoot]) -> list[str]:
    """What could not be read of homes of other agents: which file, why, and what to do next."""
    found = []
    for root in roots:
        for one in mirror_problems(root.path):
            if not one.is_unknown:
                variable = _variable_of(root.path, one.path)
                where = f"{one.path} (${variable})" if variable else one.path
                found.append(
                    f"could not be read: {where}: {one.reason}; shown is what was read of it before."
                    f" To have all of it: {_step(variable)}, then run the command again"
                )
    return found


def unread_step(root: Path, path: str) -> str:
    """What to do about a file that a mirror lacks because it could not be read."""
    variable = _variable_of(root, path)
    return f"{path} is what ${variable} names: {_step(variable)}" if variable else _step(None)


def _step(variable: str | None) -> str:
    return "correct the variable or unset it" if variable else "mend the file or put it aside"


def _variable_of(root: Path, path: str) -> str | None:
    """The variable that names a file which a mirror mirrors; None for a file that is simply in the home."""
    from recollect.storage.foreign.mirroring.state import facts_of_mirror

    agent, facts = mirrored_agent(root), facts_of_mirror(root)
    if agent is None or facts is None or paths.named_store(agent, facts.source, os.environ) != path:
        return None
    return paths.AGENTS[agent].store


def deletion_warnings(roots: Sequence[HomeRoot]) -> list[str]:
    """What clients of other agents are about to delete; the mirror has it."""
    others = [(root.agent, root.source) for root in roots if root.source is not None]
    if not others:
        return []
    from recollect.storage.foreign.mirror import dialect_of

    told = (dialect_of(agent).deletion_warning(home) for agent, home in others)
    return [warning for warning in told if warning is not None]


def of_agents(roots: Sequence[HomeRoot], agents: Sequence[str], data: Path) -> list[HomeRoot]:
    """Those that hold sessions of these agents.

    Refused where a home has others beside them: an answer would hold sessions that were not asked for, or lack some.
    """
    chosen = []
    for root in roots:
        held = _agents_in(root, data)
        if held <= set(agents):
            chosen.append(root)
        elif held & set(agents):
            named = " and ".join(sorted(held))
            raise UsageError(
                f"home {root.path}: holds sessions of {named}, and --agent chooses whole homes",
                hint="leave --agent out: `recollect list --json` has the agent of each session,"
                " and `recollect cost --by client` what they cost",
            )
    return chosen


def _agents_in(root: HomeRoot, data: Path) -> set[str]:
    """Whose sessions a home holds, with what only the archive has of it.

    A mirror has those of its agent, and Claude's own home only Claude's. Any other directory may have several: what was
    pulled, restored or copied says itself whose it is.
    """
    if root.agent != paths.CLAUDE or not root.exists or is_claude_home(root.path):
        return {root.agent}
    from recollect.storage.archive.archive import Archive
    from recollect.storage.home_walk import scan_logs

    logs = [log.path for log in scan_logs(root.path, []) if log.role == "session"]
    archive = Archive(data / "archive")
    kept = [str(archive.log_path(one)) for one, _ in archive.only_here([root.path], logs)]
    return {agent_named_in(log) for log in (*logs, *kept)} or {paths.CLAUDE}


def _agent_home(agent: str, home: Path, origin: str, data: Path) -> HomeRoot | None:
    """The home of an agent through its mirror; the mirror alone where the home, or all in it, was deleted."""
    is_home = os.path.isdir(home) and paths.agent_at(str(home)) == agent  # noqa: PTH112 - never raises
    if is_home or paths.named_store(agent, str(home), os.environ) is not None:
        return _mirrored(agent, home, origin, data)
    return _left_of(agent, home, origin, data)


def _left_of(agent: str, home: Path, origin: str, data: Path) -> HomeRoot | None:
    """The mirror alone; None where this home of the agent was never mirrored."""
    if not (data / MIRRORS).is_dir():
        return None
    from recollect.storage.foreign.mirror import AgentMirror

    mirror = AgentMirror(agent, home, data)
    if mirrored_agent(mirror.root) is None:
        return None
    if mirror.problems:
        _refresh(mirror)  # what could not be read is gone too
    return structs.replace(home_at(mirror.root), origin=f"{origin}, deleted", agent=agent, source=home)


def _mirrored(agent: str, home: Path, origin: str, data: Path) -> HomeRoot:
    from recollect.storage.foreign.mirror import AgentMirror

    mirror = AgentMirror(agent, home, data)
    _refresh(mirror)
    root = home_at(mirror.root)
    return structs.replace(root, origin=origin, agent=agent, source=home)


def _refresh(mirror: AgentMirror) -> None:
    try:
        mirror.refresh()
    except OSError as cause:
        hint = "check its owner and mode, or name other homes with --home DIR"
        raise StorageError("read", Path(cause.filename or mirror.home), cause, hint=hint) from cause
    _looked_at[str(mirror.root)] = time.monotonic()
