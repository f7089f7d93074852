"""Which paths of a home are files of one session: the one rule for everything that comes from elsewhere.

A team server names the files of a session by keys, a bundle by paths below a home. Neither is trusted. Both are
accepted only where ``is_session_path`` says so: the log, sub-agents and their notes, tool results, the title, file
backups, tasks and todos of exactly this session in exactly this project. Every other path is refused: files of other
sessions, a project's ``memory``, plans, shell environments, settings.

The archive of this machine also keeps what else lay in the session's own directories (``is_own_path``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from recollect.errors import UsageError
from recollect.store.home_walk import AGENT, LOG, role_of
from recollect.system.lock import FileLock

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


_ROOMS = ("projects", "file-history", "tasks", "todos", "plans", "session-env", "paste-cache")


class HomeBorder:
    """The real directories of one home: its root, and its own directories that are links to other places."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        rooms = [os.path.join(self.root, name) for name in _ROOMS]  # noqa: PTH118 - is a link there? Path may raise
        targets = [Path(os.path.realpath(room)) for room in rooms if os.path.islink(room)]  # noqa: PTH114
        # A link to a directory above would make everything there part of the home.
        self.areas = (self.root, *(one for one in targets if one not in (self.root, *self.root.parents)))

    def holds(self, path: Path) -> bool:
        """Whether a path, with every link on it followed, lies in the home."""
        above = Path(os.path.realpath(path)).parents
        return any(area in above for area in self.areas)

    def reason_not_to_change(self, path: Path) -> str | None:
        """Why a file must not be changed: it is a link, or lies behind one, that leads out; None where it may."""
        if self.holds(path):
            return None
        return (
            "it is a link that leads out of the home"
            if path.is_symlink()
            else "it lies outside the home, behind a link"
        )

    def require(self, path: Path) -> Path:
        """The real path of a file that is to be changed; ``UsageError`` where it lies outside."""
        reason = self.reason_not_to_change(path)
        if reason is not None:
            raise UsageError(
                f"{path}: {reason}", hint=f"nothing was changed; its real place is {os.path.realpath(path)}"
            )
        return Path(os.path.realpath(path))


def lock_path(log: Path, data: Path) -> Path:
    """The lock file of a log; two names of one file give one lock."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(log))).hexdigest()[:32]
    return data / "locks" / f"{name}.lock"


@contextlib.contextmanager
def hold_logs(logs: Iterable[Path], data: Path) -> Iterator[None]:
    """Our locks of some logs, taken in one order everywhere. ``data`` is our own directory."""
    with contextlib.ExitStack() as held:
        for log in sorted(set(logs)):
            held.enter_context(FileLock(lock_path(log, data), guards=log))
        yield
