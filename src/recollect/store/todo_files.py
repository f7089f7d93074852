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
import hashlib
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from recollect.errors import DamagedData, LogLocked, NotFound, RecollectError, StorageError, UsageError
from recollect.model.lines.damage import Line
from recollect.model.lines.draft import Draft
from recollect.model.lines.ids import AgentId, SessionId
from recollect.model.lines.json_text import loose_object
from recollect.model.todo import (
    Task,
    TodoItem,
    TodoStatus,
    decode_task,
    decode_todos,
    encode_todos,
)
from recollect.store.home import ClaudeHome, TodoFile
from recollect.store.logs.reader import read_lines
from recollect.store.store import SessionLog, marked
from recollect.system import fsops, openat
from recollect.system.fsops import as_storage_error
from recollect.system.peek import open_regular

STALE_SECONDS = 10.0
_PAUSE = 0.02

if sys.platform == "win32":

    def _try_flock(fd: int) -> bool:
        """Windows has no flock; there the directory alone is the lock."""
        return True

else:
    from recollect.system.lock import try_lock as _try_flock


@contextlib.contextmanager
def locked_tasks(directory: Path, *names: str, timeout: float = 30.0) -> Iterator[None]:
    """Hold the locks of ``names`` in a session's task directory: ``.lock`` for the list, ``3.json`` for a task.

    ``LogLocked`` after ``timeout`` seconds. A lock of a dead client is taken over
    after ten, so the timeout should be longer than that.
    """
    deadline = time.monotonic() + timeout

    def wait() -> None:
        if time.monotonic() >= deadline:
            raise LogLocked(directory, timeout, "a client or another program")
        time.sleep(_PAUSE)

    try:
        fd = fsops.open_lock_file(directory / ".lock")
    except OSError as cause:
        raise StorageError("lock", directory / ".lock", cause, hint=fsops.next_step(cause)) from cause
    try:
        while not _try_flock(fd):
            wait()
        with contextlib.ExitStack() as held:
            for name in sorted(set(names)):  # one order for all, to avoid deadlocks
                marker = directory / f"{name}.lock"
                while not _try_marker(marker):
                    wait()
                held.callback(_remove, marker)
            yield
    finally:
        fsops.close_quietly(fd)


def _try_marker(marker: Path) -> bool:
    """Create the directory that is the lock; first remove one whose owner has stopped refreshing it."""
    with contextlib.suppress(FileExistsError):
        marker.mkdir()
        return True
    with contextlib.suppress(FileNotFoundError):
        if time.time() - marker.stat().st_mtime > STALE_SECONDS:
            _remove(marker)
    return False


def _remove(marker: Path) -> None:
    with contextlib.suppress(OSError):
        marker.rmdir()


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

    @contextlib.contextmanager
    def open_task(self, session: SessionId, task_id: str) -> Iterator[tuple[Path, Task]]:
        """One task and its file, under the client's lock."""
        path = self._task_path(session, task_id)
        _bytes_of(path)  # before a lock file is created for a missing task
        with as_storage_error("write", path), locked_tasks(path.parent, path.name):
            yield path, _task(path, _bytes_of(path))

    def _task_path(self, session: SessionId, task_id: str) -> Path:
        if not re.fullmatch(r"[0-9]{1,9}", task_id, re.ASCII):
            raise UsageError(
                f"task {ascii(task_id)[:40]}: is not a number", hint="list the tasks of the session"
            )
        return openat.require_no_link(self.home.root / "tasks", (SessionId(session), f"{task_id}.json"))

    def _replace(self, path: Path, data: bytes) -> None:
        # The home's own directories may be links (``HomeBorder``); what is in them may not.
        room, *parts = path.relative_to(self.home.root).parts
        openat.require_no_link(self.home.root / room, tuple(parts))
        with as_storage_error("write", path):
            fsops.make_directories(path.parent)
            fsops.replace_file(path, data)


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
