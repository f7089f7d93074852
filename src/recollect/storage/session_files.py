"""Which paths of a home are files of one session: the one rule for everything that comes from elsewhere.

A team server names the files of a session by keys, a bundle by paths below a home. Neither is trusted. Both are
accepted only where ``is_session_path`` says so: the log, sub-agents and their notes, tool results, the title, file
backups, tasks and todos of exactly this session in exactly this project. Every other path is refused: files of other
sessions, a project's ``memory``, plans, shell environments, settings.

The archive of this machine also keeps what else lay in the session's own directories (``is_own_path``).
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.storage.home_walk import AGENT, LOG, role_of

META = ".meta.json"
PROJECTS, SUBAGENTS, RESULTS, TITLE = "projects", "subagents", "tool-results", "custom-title.json"
BACKUPS, TASKS, TODOS = "file-history", "tasks", "todos"
TODO_MARK = "-agent-"
# How many directories of agents lie within one another at most.
DEEPEST = 5
_ENVIRONMENTS, _PLANS, _PASTES = "session-env", "plans", "paste-cache"
# A directory of the project itself: a session of this name would own its notes.
_MEMORY = "memory"


def log_parts(project: str, session: str) -> tuple[str, ...]:
    """The path of a session's log below its home."""
    return (PROJECTS, project, f"{session}{LOG}")


def is_session_path(parts: Sequence[str], project: str, session: str) -> bool:
    """Whether a path below a home, given by its parts, is a file of this session in this project."""
    if session == _MEMORY or role_of(f"{session}{LOG}") != "session":
        return False
    first, *rest = parts
    if first == PROJECTS and rest[:1] == [project]:
        return _is_in_project(rest[1:], session)
    if first in (BACKUPS, TASKS):
        return len(rest) == 2 and rest[0] == session
    return first == TODOS and len(rest) == 1 and _todo_owner(rest[0]) == session


def is_own_path(parts: Sequence[str], project: str, session: str) -> bool:
    """Whether a path may be in the archive of this machine: also what else lies in the session's directories,
    the plans that its entries name, and the pastes of its prompts.
    """
    if is_session_path(parts, project, session):
        return True
    if tuple(parts[:3]) == (PROJECTS, project, session):
        return len(parts) > 3
    if parts[0] in (BACKUPS, TASKS, _ENVIRONMENTS):
        return len(parts) > 2 and parts[1] == session
    named = {_PLANS: ".md", _PASTES: ".txt"}.get(parts[0])
    return named is not None and len(parts) == 2 and parts[1].endswith(named)


def is_flat_agent_log(parts: Sequence[str]) -> bool:
    """Whether it is the log of an agent beside the session's: only its lines say whose it is."""
    return len(parts) == 3 and parts[0] == PROJECTS and role_of(parts[2]) == "agent"


def is_flat_agent_note(parts: Sequence[str]) -> bool:
    """Whether it is the note beside such a log."""
    return len(parts) == 3 and parts[0] == PROJECTS and _is_agent_file(parts[2]) and parts[2].endswith(META)


def _is_in_project(names: Sequence[str], session: str) -> bool:
    if len(names) == 1:
        return names[0] == f"{session}{LOG}" or _is_agent_file(names[0])
    if len(names) < 2 or names[0] != session:
        return False
    first, *rest = names[1:]
    if first == TITLE:
        return not rest
    if first == RESULTS:
        return len(rest) == 1
    return first == SUBAGENTS and 0 < len(rest) <= DEEPEST and _is_agent_file(rest[-1])


def _is_agent_file(name: str) -> bool:
    return name.startswith(AGENT) and name.endswith((LOG, META))


def _todo_owner(name: str) -> str | None:
    """The session that a todo list belongs to, by its name."""
    return name.removesuffix(".json").partition(TODO_MARK)[0] if name.endswith(".json") else None
