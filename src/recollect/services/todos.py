"""Everything left to do in all homes: todo lists and task lists as one kind of list.

Older clients kept a whole list in one file, newer ones a file per task; here both
are a list of items with a state. A list whose session has no log any more is an
orphan. Read-only; what cannot be read is in the ``problems`` of its home.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from recollect.errors import NotFound
from recollect.model.todo import Task, TodoItem
from recollect.services.homes import Home
from recollect.storage.home import ClaudeHome
from recollect.storage.todo_files import TodoFiles


class SessionTodo(Struct, frozen=True):
    """One thing to do. ``id`` is a task's number; todos have one in the earliest clients only."""

    text: str
    status: str
    id: str | None = None
    active_form: str | None = None
    description: str = ""
    blocked_by: tuple[str, ...] = ()


class SessionTodoList(Struct, frozen=True):
    """The list of a session, or of one of its sub-agents (``agent``)."""

    kind: Literal["todos", "tasks"]
    session: str
    agent: str | None
    path: Path
    orphan: bool
    items: tuple[SessionTodo, ...]


def to_do_lists(home: Home) -> list[SessionTodoList]:
    """Every list of every home, todos before tasks, empty ones included."""
    return [one for root in home.homes for one in _lists(root)]


def lists_of(home: Home, name: str) -> list[SessionTodoList]:
    """The lists of one session; of one whose log is gone, by its id or the start of it."""
    lists = to_do_lists(home)
    try:
        session = home.session(name).id
    except NotFound:
        found = {one.session for one in lists if one.orphan and name and one.session.startswith(name)}
        if len(found) != 1:
            raise
        session = found.pop()
    return [one for one in lists if one.session == session]


def _lists(home: ClaudeHome) -> Iterator[SessionTodoList]:
    files = TodoFiles(home)
    alive = {str(log.id) for log in home.sessions() if log.id is not None}
    for todos in files.lists():
        session = str(todos.session or "")
        agent = None if todos.is_main or todos.agent is None else str(todos.agent)
        items = tuple(map(_todo, todos.items))
        yield SessionTodoList("todos", session, agent, todos.path, session not in alive, items)
    for owner in home.task_lists():
        items = tuple(map(_task, files.tasks(owner)))
        path = home.tasks_dir(owner)
        yield SessionTodoList("tasks", str(owner), None, path, str(owner) not in alive, items)


def _todo(item: TodoItem) -> SessionTodo:
    return SessionTodo(item.content, str(item.status), item.id, item.active_form)


def _task(task: Task) -> SessionTodo:
    return SessionTodo(
        task.subject, str(task.status), task.id, task.active_form, task.description, task.blocked_by
    )
