"""Todo lists and task lists of a home: read all, change one at a time.

``todos/<session>-agent-<agent>.json`` holds a whole list; most are ``[]``, created for every session and
never used (``TodoList.empty``). The first clients named the main agent's list by its session alone; such a
file is read and changed where it is. ``tasks/<session>/<n>.json`` holds one task. The root is a Claude home or
our own store; both have the same layout.

Nothing is written unless a writing function is called. Each file is replaced as a whole: readers see the old
or the new one. Unknown fields survive. Tasks are changed under the client's own lock (``task_lock``); for
todo lists clients have none, so a list that changed since it was read is refused instead of overwritten.
Links are not written through. Nothing here deletes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from recollect.errors import DamagedData, NotFound, RecollectError, StorageError, UsageError
from recollect.model.ids import AgentId, SessionId
from recollect.model.todo import (
    Task,
    TodoItem,
    TodoStatus,
    decode_task,
    decode_todos,
    encode_task,
    encode_todos,
    next_task_id,
)
from recollect.storage.home import ClaudeHome, TodoFile
from recollect.storage.task_lock import locked_tasks
from recollect.system import fsops, openat
from recollect.system.peek import open_regular

_LIST_LOCK = ".lock"
_HIGH_WATER_MARK = ".highwatermark"


class TodoList(msgspec.Struct, frozen=True):
    """The todos of one agent. ``agent`` is None in files named by their session alone."""

    path: Path
    session: SessionId | None
    agent: AgentId | None
    items: tuple[TodoItem, ...]

    @property
    def empty(self) -> bool:
        """Whether it has no items, like most."""
        return not self.items

    @property
    def is_main(self) -> bool:
        """Whether it is the list of the session itself, not of a sub-agent."""
        return self.agent is None or str(self.agent) == self.session

    def moved(self, index: int, status: TodoStatus) -> tuple[TodoItem, ...]:
        """The items with one of them a step further; ``IllegalTransition`` where that is not allowed."""
        if not 0 <= index < len(self.items):
            raise NotFound(
                f"{self.path.name}: there is no todo {index + 1}", hint=f"it has {len(self.items)}"
            )
        return (*self.items[:index], self.items[index].moved(status), *self.items[index + 1 :])


class OrphanTodoList(msgspec.Struct, frozen=True):
    """A list whose session has no log."""

    kind: Literal["todos", "tasks"]
    session: SessionId
    path: Path
    empty: bool


class TodoFiles:
    """The todos and tasks below one root."""

    def __init__(self, home: ClaudeHome) -> None:
        self.home = home

    # --- todos --------------------------------------------------------------------------------

    def lists(self) -> Iterator[TodoList]:
        """Every todo list that can be read, by name; the others are in ``home.problems``."""
        for file in self.home.todos():
            found = self._noted(file)
            if found is not None:
                yield found

    def read(self, session: SessionId, agent: AgentId | None = None) -> TodoList:
        """One list, by default the main agent's. A missing file is an empty list."""
        path, owner = self._todo_path(session, agent), AgentId(agent or session)
        data = _bytes_or_none(path)
        return TodoList(path, SessionId(session), owner, () if data is None else _todos(path, data))

    def write(self, session: SessionId, items: Iterable[TodoItem], agent: AgentId | None = None) -> TodoList:
        path, owner = self._todo_path(session, agent), AgentId(agent or session)
        kept = tuple(items)
        self._replace(path, encode_todos(kept))
        return TodoList(path, SessionId(session), owner, kept)

    def move(self, todos: TodoList, index: int, status: TodoStatus) -> TodoList:
        """Move one item a step further; ``IllegalTransition`` where that is not allowed.

        The file must still equal ``todos``: changes of other programs are never undone.
        """
        items = todos.moved(index, status)
        data = _bytes_or_none(todos.path)
        if data is None or _todos(todos.path, data) != todos.items:
            raise UsageError(f"{todos.path.name}: changed since it was read", hint="read it again, then move")
        self._replace(todos.path, encode_todos(items))
        return msgspec.structs.replace(todos, items=items)

    def _todo_path(self, session: SessionId, agent: AgentId | None) -> Path:
        session, owner = SessionId(session), AgentId(agent or session)
        usual = self.home.todos_dir / f"{session}-agent-{owner}.json"
        early = self.home.todos_dir / f"{session}.json"
        is_early = str(owner) == session and not usual.exists() and early.is_file()
        return early if is_early else usual

    def _noted(self, file: TodoFile) -> TodoList | None:
        try:
            data = _bytes_or_none(file.path)
            return (
                None
                if data is None
                else TodoList(file.path, file.session, file.agent, _todos(file.path, data))
            )
        except RecollectError as problem:
            self.home.note_problem(file.path, problem.message)
            return None

    # --- tasks --------------------------------------------------------------------------------

    def tasks(self, session: SessionId) -> list[Task]:
        """The tasks of a session by number; what cannot be read is in ``home.problems``."""
        found = []
        for file in self.home.tasks(session):
            if file.number is None:
                continue
            try:
                data = _bytes_or_none(file.path)
                if data is not None:
                    found.append(_task(file.path, data))
            except RecollectError as problem:
                self.home.note_problem(file.path, problem.message)
        return found

    def add_task(
        self,
        session: SessionId,
        subject: str,
        description: str = "",
        *,
        active_form: str | None = None,
        blocked_by: Sequence[str] = (),
    ) -> Task:
        """A new task with the next number. Tasks that block it get a reference to it, as in the client."""
        blockers = [self._task_path(session, blocker) for blocker in dict.fromkeys(blocked_by)]
        for path in blockers:
            _bytes_of(path)  # before anything is created for a task that cannot be added
        directory = self._task_directory(session)
        with (
            _as_storage_error(directory),
            locked_tasks(directory, _LIST_LOCK, *(path.name for path in blockers)),
        ):
            blocking = [(path, _task(path, _bytes_of(path))) for path in blockers]
            numbers = (file.number or 0 for file in self.home.tasks(session))
            new_id = next_task_id(numbers, _high_water_mark(directory))
            task = Task(
                new_id, subject, description, active_form, blocked_by=tuple(dict.fromkeys(blocked_by))
            )
            fsops.replace_file(directory / f"{new_id}.json", encode_task(task))
            for path, blocker in blocking:
                updated = msgspec.structs.replace(blocker, blocks=(*blocker.blocks, new_id))
                fsops.replace_file(path, encode_task(updated))
        return task

    def set_status(self, session: SessionId, task_id: str, status: TodoStatus) -> Task:
        """Move one task a step further; ``IllegalTransition`` where that is not allowed."""
        with self.open_task(session, task_id) as (path, task):
            moved = task.moved(status)
            fsops.replace_file(path, encode_task(moved))
        return moved

    @contextlib.contextmanager
    def open_task(self, session: SessionId, task_id: str) -> Iterator[tuple[Path, Task]]:
        """One task and its file, under the client's lock."""
        path = self._task_path(session, task_id)
        _bytes_of(path)  # before a lock file is created for a missing task
        with _as_storage_error(path), locked_tasks(path.parent, path.name):
            yield path, _task(path, _bytes_of(path))

    def _task_directory(self, session: SessionId) -> Path:
        directory = openat.require_no_link(self.home.root / "tasks", (SessionId(session),))
        with _as_storage_error(directory):
            fsops.make_directories(directory)
        return directory

    def _task_path(self, session: SessionId, task_id: str) -> Path:
        if not re.fullmatch(r"[0-9]{1,9}", task_id, re.ASCII):
            raise UsageError(
                f"task {ascii(task_id)[:40]}: is not a number", hint="list the tasks of the session"
            )
        return openat.require_no_link(self.home.root / "tasks", (SessionId(session), f"{task_id}.json"))

    # --- both ---------------------------------------------------------------------------------

    def orphans(self) -> list[OrphanTodoList]:
        """Lists of sessions that have no log in this home, todos first."""
        alive = {session.id for session in self.home.sessions() if session.id is not None}
        found = [
            OrphanTodoList("todos", todos.session, todos.path, todos.empty)
            for todos in self.lists()
            if todos.session is not None and todos.session not in alive
        ]
        found += [
            OrphanTodoList("tasks", session, self.home.tasks_dir(session), not self.home.tasks(session))
            for session in self.home.task_lists()
            if session not in alive
        ]
        return found

    def _replace(self, path: Path, data: bytes) -> None:
        # The home's own directories may be links (``HomeBorder``); what is in them may not.
        room, *parts = path.relative_to(self.home.root).parts
        openat.require_no_link(self.home.root / room, tuple(parts))
        with _as_storage_error(path):
            fsops.make_directories(path.parent)
            fsops.replace_file(path, data)


@contextlib.contextmanager
def _as_storage_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        hint = "check the disk and its permissions, then look at the list before trying again"
        raise StorageError("write", path, cause, hint=hint) from cause


def _todos(path: Path, data: bytes) -> tuple[TodoItem, ...]:
    try:
        return decode_todos(data)
    except ValueError as problem:
        raise _damaged(path, problem) from None


def _task(path: Path, data: bytes) -> Task:
    try:
        return decode_task(data)
    except ValueError as problem:
        raise _damaged(path, problem) from None


def _damaged(path: Path, problem: ValueError) -> DamagedData:
    return DamagedData(f"{path}: {problem}", hint="look at the file; it was not changed")


def _bytes_or_none(path: Path) -> bytes | None:
    try:
        with open_regular(path) as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise StorageError("read", path, cause, hint="check its permissions") from cause


def _bytes_of(path: Path) -> bytes:
    data = _bytes_or_none(path)
    if data is None:
        raise NotFound(f"no task at {path}", hint="list the tasks of the session")
    return data


def _high_water_mark(directory: Path) -> int:
    """The highest number the client ever deleted; it never reuses one."""
    text = (_bytes_or_none(directory / _HIGH_WATER_MARK) or b"").strip()
    return int(text) if re.fullmatch(rb"[0-9]{1,9}", text) else 0
