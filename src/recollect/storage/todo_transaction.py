"""An entry and the todo list it leads to, stored as one.

The list is a field of the entry's own line (``todos``, where clients 2.0 have it), so one durable line holds
both: that is the commit. Then the list's file is replaced. After a crash in between, ``settle_todos`` replaces the
file from the log, which is the truth. The line also holds the hash of the list before, so a file that
another program has changed since is never overwritten.

Only logs of the claude layout: the flat one has no todos.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from recollect.errors import UsageError
from recollect.model.damage import Line
from recollect.model.draft import Draft
from recollect.model.ids import AgentId, SessionId
from recollect.model.json.text import loose_object
from recollect.model.todo import TodoItem, decode_todos, encode_todos
from recollect.storage.logs.reader import read_lines
from recollect.storage.store import SessionLog, marked
from recollect.storage.todo_files import TodoFiles, TodoList

_BEFORE = "recollectTodosBefore"


class TodoTransaction:
    """One change of a todo list: ``draft`` carries it in the log, ``finish`` brings the file there."""

    def __init__(
        self, files: TodoFiles, session: SessionId, items: Iterable[TodoItem], agent: AgentId | None = None
    ) -> None:
        self._files, self._session, self._agent = files, session, agent
        self._items = tuple(items)
        self._before = _digest(files.read(session, agent).items)

    def draft(self, draft: Draft) -> Draft:
        """The entry with the list on its line; storing it is the commit."""
        todos = msgspec.json.decode(encode_todos(self._items))
        return marked(draft, todos=todos, **{_BEFORE: self._before})

    def finish(self) -> TodoList:
        """Replace the list's file. If this fails, ``settle_todos`` does it later."""
        return self._files.write(self._session, self._items, self._agent)


def append_with_todos(
    log: SessionLog,
    files: TodoFiles,
    draft: Draft,
    items: Iterable[TodoItem],
    *,
    entry_id: str | None = None,
) -> str:
    """Store an entry and a todo list, both or neither; returns the entry's id after the sync."""
    if log.is_flat:
        raise UsageError("flat layout: has no todo lists", hint="use a store with layout='claude'")
    settle_todos(log, files)
    change = TodoTransaction(files, log.id, items, log.place.agent)
    stored = log.append(change.draft(draft), entry_id=entry_id)
    change.finish()
    return stored


def settle_todos(log: SessionLog, files: TodoFiles) -> bool:
    """Finish what a crash left between the log and the list's file; whether there was anything."""
    last = _last_change(log)
    if last is None:
        return False
    before, items = last
    current = files.read(log.id, log.place.agent).items
    if current == items or _digest(current) != before:
        return False
    files.write(log.id, items, log.place.agent)
    return True


def _last_change(log: SessionLog) -> tuple[str, tuple[TodoItem, ...]] | None:
    """The last list in the log, with the hash of the one before."""
    if not log.path.exists():
        return None
    sought, found = f'"{_BEFORE}"'.encode(), None
    for line in read_lines(log.path):
        if isinstance(line, Line) and sought in line.data:
            found = line.data
    fields = loose_object(found) if found is not None else {}
    before, todos = fields.get(_BEFORE), fields.get("todos")
    if not isinstance(before, str) or not isinstance(todos, list):
        return None
    return before, decode_todos(msgspec.json.encode(todos))


def _digest(items: Sequence[TodoItem]) -> str:
    return hashlib.sha256(encode_todos(tuple(items))).hexdigest()
