"""Step 4: the todo list of a session (up to 2.1.30) becomes its task list (2.1.197 and later).

A session that has tasks already is refused: two lists have no order between them. Lists of sub-agents stay
where they are, for tasks belong to sessions.
"""

from __future__ import annotations

from recollect.errors import UsageError
from recollect.model.convert.loss import Loss, LossCode
from recollect.model.todo import Task, TodoItem, TodoStatus, encode_task
from recollect.storage.changes.plan import FileState
from recollect.storage.home import ClaudeHome, SessionFile
from recollect.storage.migrations.migration import Migration, SessionMeaning, change_for
from recollect.storage.todo_files import TodoFiles

_CLIENT_LISTS = {TodoStatus.PENDING, TodoStatus.IN_PROGRESS, TodoStatus.COMPLETED}


def planned(home: ClaudeHome, log: SessionFile, cwd: str | None) -> Migration | None:
    """One task for each item, numbered in their order."""
    del cwd
    session, files = log.id, TodoFiles(home)
    todos = files.read(session) if session is not None else None
    if session is None or todos is None or todos.empty:
        return None
    seen = FileState.at(todos.path)
    _refuse_unfit(session, todos.items, has_tasks=bool(home.tasks(session)))
    directory = home.tasks_dir(session)
    change = change_for(home, session)
    for number, item in enumerate(todos.items, 1):
        change.create(directory / f"{number}.json", encode_task(_task(number, item)), mtime_ns=seen.mtime_ns)
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
        _notes(todos.items),
    )


def _task(number: int, item: TodoItem) -> Task:
    return Task(str(number), item.content, item.content, item.active_form, item.status)


def _refuse_unfit(session: str, items: tuple[TodoItem, ...], *, has_tasks: bool) -> None:
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


def _notes(items: tuple[TodoItem, ...]) -> list[str]:
    hidden = sum(item.status not in _CLIENT_LISTS for item in items)
    return [f"{hidden} tasks have a status that the client does not list"] if hidden else []
