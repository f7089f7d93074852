"""Everything left to do in all homes: todo lists and task lists as one kind of list.

Older clients kept a whole list in one file, newer ones a file per task; here both
are a list of items with a state. A list whose session has no log any more is an
orphan. What cannot be read is in the ``problems`` of its home.

``move_item`` takes one item a step further (``model/todo.py`` has the steps). The file is
replaced through the journal, so the step can be undone; a session that a client has
open is refused, because the client keeps its list in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, structs

from recollect.ask.homes import Homes
from recollect.ask.sessions.home_guard import refuse_open
from recollect.errors import NotFound, UsageError
from recollect.model.lines.ids import AgentId, SessionId
from recollect.model.todo import Task, TodoItem, TodoStatus, checked_step, encode_task, encode_todos
from recollect.store.changes.journal import ChangeJournal
from recollect.store.changes.plan import ChangePlan, FileState
from recollect.store.home import ClaudeHome
from recollect.store.todo_files import TodoFiles
from recollect.system.locations import agent_of
from recollect.system.paths import CLAUDE

WHAT = "todos"
ListKind = Literal["todos", "tasks"]


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

    kind: ListKind
    session: str
    agent: str | None
    path: Path
    orphan: bool
    items: tuple[SessionTodo, ...]


class TodosDocument(Struct, frozen=True):
    """Todo lists; ``show --todos --json`` also counts them and the empty ones."""

    lists: list[SessionTodoList]
    total: int | UnsetType = UNSET
    empty: int | UnsetType = UNSET


class TodoMove(Struct, frozen=True, kw_only=True):
    """One step of one item. ``number`` is its place in the list, or its own number; ``undo`` takes the step back.

    ``undo`` is the id of the change, in JSON a command; None where the step is only planned.
    """

    applied: bool = False
    undo: str | None = None
    session: str
    kind: ListKind
    agent: str | None
    number: str
    text: str
    before: str
    after: str
    path: Path


def to_do_lists(home: Homes) -> list[SessionTodoList]:
    """Every list of every home, todos before tasks, empty ones included."""
    return [one for root in home.homes for one in _lists(root)]


def lists_of(home: Homes, name: str) -> list[SessionTodoList]:
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


def move_item(
    home: Homes,
    name: str,
    number: str,
    status: TodoStatus | str,
    *,
    kind: ListKind | None = None,
    agent: str | None = None,
    data: Path | None = None,
) -> TodoMove:
    """Plan one item's next step; with ``data``, our own directory, also take it.

    ``IllegalTransition`` where the state machine has no such step, ``Busy`` where a client has the session open.
    """
    wanted = _status(status)
    chosen = _only_list(lists_of(home, name), name, kind, agent)
    root = next(one for one in home.homes if chosen.path.is_relative_to(one.root))
    _refuse_copy(root, chosen.session)
    place = _place(chosen, number)
    item = chosen.items[place]
    what = f"task {item.id}" if chosen.kind == "tasks" else f"todo {item.text[:40]!a}"
    path = chosen.path / f"{item.id}.json" if chosen.kind == "tasks" else chosen.path
    step = TodoMove(
        session=chosen.session,
        kind=chosen.kind,
        agent=chosen.agent,
        number=item.id or number,
        text=item.text,
        before=item.status,
        after=checked_step(what, item.status, wanted),
        path=path,
    )
    refuse_open(root, chosen.session)
    if data is None:
        return step
    return structs.replace(step, applied=True, undo=_stored(step, TodoFiles(root), place, data))


def _refuse_copy(home: ClaudeHome, session: str) -> None:
    agent = agent_of(str(home.root))
    if agent != CLAUDE:
        raise UsageError(
            f"session {session}: its list belongs to {agent}; what recollect has is a copy",
            hint=f"let {agent} change it; nothing was changed",
        )


def _stored(step: TodoMove, files: TodoFiles, place: int, data: Path) -> str:
    """Replace the file through the journal; gives the id of the change."""
    session, status = SessionId(step.session), TodoStatus(step.after)
    change, journal = ChangePlan(WHAT, step.session, files.home.root), ChangeJournal(data / "undo")
    if step.kind == "tasks":
        with files.open_task(session, step.number) as (path, task):
            change.replace(path, encode_task(task.moved(status)))
            return journal.apply(change).id
    seen = FileState.at(step.path)
    todos = files.read(session, AgentId(step.agent) if step.agent else None)
    change.replace(todos.path, encode_todos(todos.moved(place, status)), expected=seen)
    return journal.apply(change).id


def _status(status: TodoStatus | str) -> TodoStatus:
    try:
        return TodoStatus(status)
    except ValueError:
        raise UsageError(
            f"status {str(status)!a}: not known", hint=f"write one of {', '.join(TodoStatus)}"
        ) from None


def _only_list(
    lists: list[SessionTodoList], name: str, kind: ListKind | None, agent: str | None
) -> SessionTodoList:
    found = [one for one in lists if one.items and one.agent == agent and kind in (None, one.kind)]
    if not found:
        whose = f"agent {agent} of session" if agent else "session"
        raise NotFound(f"{whose} {name}: has nothing to do", hint="`recollect show --todos` shows all lists")
    if len(found) > 1:
        raise UsageError(
            f"session {name}: has several lists", hint="name one with --kind todos or --kind tasks"
        )
    return found[0]


def _place(chosen: SessionTodoList, number: str) -> int:
    """Where an item is: by its own id, else by its position, counted from 1."""
    ids = [one.id for one in chosen.items]
    if number in ids:
        return ids.index(number)
    is_position = number.isascii() and number.isdigit() and 0 < int(number) <= len(ids)
    if chosen.kind == "tasks" or not is_position or ids[int(number) - 1] is not None:
        raise NotFound(f"session {chosen.session}: no item {number!a}", hint=f"it has {len(ids)}")
    return int(number) - 1


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
