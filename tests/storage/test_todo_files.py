"""Todo and task files: read leniently, written whole, under the client's own lock, and never through a link."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from recollect.errors import (
    DamagedData,
    IllegalTransition,
    InvalidId,
    LogLocked,
    NotFound,
    StorageError,
    UsageError,
)
from recollect.model.ids import AgentId, SessionId
from recollect.model.todo import TodoItem, TodoStatus
from recollect.storage.home import ClaudeHome
from recollect.storage.task_lock import locked_tasks
from recollect.storage.todo_files import OrphanTodoList, TodoFiles

S = SessionId("11111111-2222-4333-8444-555555555555")
OTHER = SessionId("99999999-2222-4333-8444-555555555555")
PENDING, IN_PROGRESS, COMPLETED = TodoStatus.PENDING, TodoStatus.IN_PROGRESS, TodoStatus.COMPLETED


@pytest.fixture
def files(tmp_path: Path) -> TodoFiles:
    return TodoFiles(ClaudeHome(tmp_path))


def snapshot(root: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def log_of(files: TodoFiles, session: SessionId) -> None:
    project = files.home.projects_dir / "-w"
    project.mkdir(parents=True, exist_ok=True)
    (project / f"{session}.jsonl").write_bytes(b"{}\n")


# ---- todos -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "lists", "filled"),
    [("1.0.24-print", 33, 1), ("2.0.28-print", 35, 0), ("2.0.76-interactive", 1, 1), ("2.1.30-print", 36, 1)],
)
def test_real_homes_are_mostly_empty_lists(shared: Path, client: str, lists: int, filled: int) -> None:
    """The client makes a list for every session and rarely puts anything in."""
    found = list(TodoFiles(ClaudeHome(shared / "samples/claude-home" / client / ".claude")).lists())

    assert (lists, filled) == (len(found), sum(not todos.empty for todos in found))
    assert all(todos.is_main for todos in found)


def test_a_missing_list_is_empty(files: TodoFiles) -> None:
    """No file and an empty file say the same; asking makes nothing."""
    assert (True, {}) == (files.read(S).empty, snapshot(files.home.root))


def test_what_is_written_is_read_back(files: TodoFiles) -> None:
    """Under the name the client looks for: the session's id twice, for the main agent."""
    files.write(S, [TodoItem("A", PENDING, "Doing A")])

    assert ["A"] == [item.content for item in files.read(S).items]
    assert [f"todos/{S}-agent-{S}.json"] == list(snapshot(files.home.root))


def test_a_sub_agent_has_a_list_of_its_own(files: TodoFiles) -> None:
    """The same session, another agent."""
    files.write(S, [TodoItem("main")])
    files.write(S, [TodoItem("sub")], AgentId("a753668"))

    assert [("main", True), ("sub", False)] == sorted(
        (todos.items[0].content, todos.is_main) for todos in files.lists()
    )


def test_a_step_is_written_and_nothing_else_changes(shared: Path, tmp_path: Path) -> None:
    """The real list of 2.1.30: its second item is completed, the rest stays byte for byte."""
    name = "a7b3ed97-6789-45ce-88c5-9bac0224b069"
    todos_dir = tmp_path / "todos"
    todos_dir.mkdir()
    shutil.copy(
        shared / f"samples/claude-home/2.1.30-print/.claude/todos/{name}-agent-{name}.json", todos_dir
    )
    files = TodoFiles(ClaudeHome(tmp_path))
    before = files.read(SessionId(name))
    text = before.path.read_bytes()

    files.move(before, 1, COMPLETED)

    assert text.replace(b"in_progress", b"completed") == before.path.read_bytes()


def test_a_step_that_does_not_exist_changes_nothing(files: TodoFiles) -> None:
    """Pending items cannot be completed at once."""
    todos = files.write(S, [TodoItem("A")])
    before = snapshot(files.home.root)

    with pytest.raises(IllegalTransition):
        files.move(todos, 0, COMPLETED)

    assert before == snapshot(files.home.root)


def test_a_list_that_somebody_changed_is_not_overwritten(files: TodoFiles) -> None:
    """The client wrote between our reading and our writing."""
    todos = files.write(S, [TodoItem("A")])
    files.write(S, [TodoItem("B")])

    with pytest.raises(UsageError, match="changed since"):
        files.move(todos, 0, IN_PROGRESS)

    assert ["B"] == [item.content for item in files.read(S).items]


def test_an_item_that_is_not_there_is_not_found(files: TodoFiles) -> None:
    """Neither beyond the end nor before the start."""
    todos = files.write(S, [TodoItem("A")])

    for index in (1, -1):
        with pytest.raises(NotFound):
            files.move(todos, index, IN_PROGRESS)


def test_a_damaged_list_hides_no_other(files: TodoFiles) -> None:
    """It is named among the problems; asked for by name it is an error."""
    files.write(OTHER, [TodoItem("A")])
    damaged = files.home.todos_dir / f"{S}-agent-{S}.json"
    damaged.write_bytes(b'[{"content":')

    assert [OTHER] == [todos.session for todos in files.lists()]
    assert [damaged] == [problem.path for problem in files.home.problems]
    with pytest.raises(DamagedData):
        files.read(S)


@pytest.mark.parametrize("name", ["../x", "", "a/b", "..", "x\0"])
def test_no_name_leads_out_of_the_directory(files: TodoFiles, name: str) -> None:
    """Ids are checked before a path is built of them."""
    for act in (lambda: files.write(S, [], AgentId(name)), lambda: files.add_task(SessionId(name), "S")):
        with pytest.raises(InvalidId):
            act()

    assert {} == snapshot(files.home.root)


def test_a_link_in_the_place_of_a_list_is_not_written_through(files: TodoFiles, tmp_path: Path) -> None:
    """Neither the link nor what it points to is touched."""
    target = tmp_path / "precious"
    target.write_bytes(b"[]")
    files.home.todos_dir.mkdir()
    link = files.home.todos_dir / f"{S}-agent-{S}.json"
    link.symlink_to(target)

    with pytest.raises(StorageError, match="not followed"):
        files.write(S, [TodoItem("A")])

    assert (b"[]", True) == (target.read_bytes(), link.is_symlink())


def test_lists_are_for_their_owner_alone(files: TodoFiles) -> None:
    """Whatever the umask: 0600 for the file, 0700 for a directory we make."""
    old = os.umask(0)
    try:
        todos = files.write(S, [TodoItem("A")])
    finally:
        os.umask(old)

    assert (0o600, 0o700) == tuple(
        stat.S_IMODE(path.stat().st_mode) for path in (todos.path, todos.path.parent)
    )


# ---- tasks -----------------------------------------------------------------------------------------------


def test_real_tasks_are_read_in_order(shared: Path) -> None:
    """The sample of 2.1.325."""
    files = TodoFiles(ClaudeHome(shared / "samples/claude-home/2.1.325-print/.claude"))

    found = files.tasks(SessionId("35163f4c-e14f-4e2c-91c3-8ef14ee83d3c"))

    assert [("1", "First task", "completed"), ("2", "Second task", "pending")] == [
        (task.id, task.subject, task.status) for task in found
    ]


def test_a_new_task_and_its_blocker_know_each_other(files: TodoFiles) -> None:
    """As the client keeps it: both sides of the link, byte for byte the client's files."""
    files.add_task(S, "First task", "Do the first thing", active_form="Doing first")
    files.add_task(S, "Second task", "Do the second thing", blocked_by=["1"])

    directory = files.home.tasks_dir(S)
    assert {"id": "1", "subject": "First task", "description": "Do the first thing", "activeForm": "Doing first",
            "status": "pending", "blocks": ["2"], "blockedBy": []} == json.loads((directory / "1.json").read_bytes())  # fmt: skip
    assert ["1"] == json.loads((directory / "2.json").read_bytes())["blockedBy"]
    assert [".lock", "1.json", "2.json"] == sorted(path.name for path in directory.iterdir())


def test_a_number_is_never_given_twice(files: TodoFiles) -> None:
    """The client remembers the highest deleted number in ``.highwatermark``; gaps stay gaps."""
    files.add_task(S, "one")
    directory = files.home.tasks_dir(S)
    (directory / ".highwatermark").write_text("7")

    assert "8" == files.add_task(S, "two").id
    (directory / "20.json").write_text("{}")
    assert "21" == files.add_task(S, "three").id


def test_a_task_goes_its_way_step_by_step(files: TodoFiles) -> None:
    """Pending, in progress, completed, and no further."""
    files.add_task(S, "one")
    files.set_status(S, "1", IN_PROGRESS)
    files.set_status(S, "1", COMPLETED)

    with pytest.raises(IllegalTransition):
        files.set_status(S, "1", PENDING)

    assert ["completed"] == [task.status for task in files.tasks(S)]


@pytest.mark.parametrize("task_id", ["9", "../1", "x", ""])
def test_a_task_that_is_not_there_makes_nothing(files: TodoFiles, task_id: str) -> None:
    """No directory, no lock file."""
    with pytest.raises((NotFound, UsageError)):
        files.set_status(S, task_id, IN_PROGRESS)
    with pytest.raises((NotFound, UsageError)):
        files.add_task(S, "blocked", blocked_by=[task_id])

    assert [] == list(files.home.root.iterdir())


def test_a_damaged_task_hides_no_other(files: TodoFiles) -> None:
    """It is named among the problems."""
    files.add_task(S, "one")
    damaged = files.home.tasks_dir(S) / "2.json"
    damaged.write_bytes(b"not json")

    assert ["1"] == [task.id for task in files.tasks(S)]
    assert [damaged] == [problem.path for problem in files.home.problems]


def test_a_linked_task_list_is_not_written_to(files: TodoFiles, tmp_path: Path) -> None:
    """A directory that is a link may lead anywhere."""
    target = tmp_path / "elsewhere"
    target.mkdir()
    (tmp_path / "tasks").mkdir()
    files.home.tasks_dir(S).symlink_to(target)

    with pytest.raises(StorageError, match="not followed"):
        files.add_task(S, "one")

    assert [] == list(target.iterdir())


@pytest.mark.parametrize("room", ["tasks", "todos"])
def test_a_home_may_keep_its_lists_behind_a_link(files: TodoFiles, tmp_path: Path, room: str) -> None:
    """The directories directly in a home are its owner's layout: they are followed, as by every command."""
    (tmp_path / "disk").mkdir()
    (files.home.root / room).symlink_to(tmp_path / "disk")
    files.add_task(S, "one")
    files.write(S, [TodoItem("A")])

    assert (["1"], 1) == ([task.id for task in files.tasks(S)], len(list((tmp_path / "disk").iterdir())))


def test_eight_processes_add_tasks_and_none_is_lost(files: TodoFiles) -> None:
    """Eight times ten tasks make the numbers 1 to 80, each once."""
    script = (
        "import sys; from pathlib import Path\n"
        "from recollect.storage.home import ClaudeHome; from recollect.storage.todo_files import TodoFiles\n"
        "from recollect.model.ids import SessionId\n"
        "files = TodoFiles(ClaudeHome(Path(sys.argv[1])))\n"
        "for number in range(10): files.add_task(SessionId(sys.argv[2]), sys.argv[3])\n"
    )
    command = [sys.executable, "-c", script, str(files.home.root), S]
    running = [subprocess.Popen([*command, str(number)]) for number in range(8)]

    assert [0] * 8 == [process.wait() for process in running]
    assert [str(number) for number in range(1, 81)] == [task.id for task in files.tasks(S)]


def test_we_wait_for_a_client_that_holds_its_lock(files: TodoFiles) -> None:
    """The client's lock is a directory; ours comes after it is gone."""
    files.add_task(S, "one")
    marker = files.home.tasks_dir(S) / "1.json.lock"
    marker.mkdir()
    released: list[float] = []

    def release() -> None:
        time.sleep(0.2)
        released.append(time.monotonic())
        marker.rmdir()

    thread = threading.Thread(target=release)
    thread.start()
    files.set_status(S, "1", IN_PROGRESS)
    done = time.monotonic()
    thread.join()

    assert released[0] < done
    assert not marker.exists()


def test_a_lock_that_is_never_given_back_is_an_error(files: TodoFiles) -> None:
    """After the time we were told to wait, and the list is as it was."""
    files.add_task(S, "one")
    directory = files.home.tasks_dir(S)
    (directory / ".lock.lock").mkdir()

    with pytest.raises(LogLocked), locked_tasks(directory, ".lock", timeout=0.05):
        pytest.fail("two held the lock")

    assert (directory / ".lock.lock").is_dir()


def test_programs_of_ours_wait_for_each_other_before_the_client_is_asked(tmp_path: Path) -> None:
    """While one of us holds the empty lock file, another does not even try to take over a dead client's lock."""
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / ".lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LogLocked), locked_tasks(tmp_path, "1.json", timeout=0.05):
            pytest.fail("two held the lock")

    assert [".lock"] == [path.name for path in tmp_path.iterdir()]


def test_the_lock_of_a_dead_client_is_taken_over(files: TodoFiles) -> None:
    """A lock directory older than ten seconds belongs to nobody."""
    files.add_task(S, "one")
    marker = files.home.tasks_dir(S) / "1.json.lock"
    marker.mkdir()
    os.utime(marker, (time.time() - 11, time.time() - 11))

    assert IN_PROGRESS == files.set_status(S, "1", IN_PROGRESS).status


def test_our_lock_is_seen_by_a_client_while_we_hold_it(tmp_path: Path) -> None:
    """It stands under the client's name and is gone afterwards, also after an error."""
    seen: list[str] = []

    def fails() -> None:
        with locked_tasks(tmp_path, ".lock", "3.json"):
            seen.extend(sorted(path.name for path in tmp_path.iterdir() if path.is_dir()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()

    assert [".lock.lock", "3.json.lock"] == seen
    assert [".lock"] == [path.name for path in tmp_path.iterdir()]


# ---- orphans ---------------------------------------------------------------------------------------------


def test_lists_of_deleted_sessions_are_orphans(files: TodoFiles) -> None:
    """A session with a log keeps its lists; one without has left them behind."""
    log_of(files, S)
    for session in (S, OTHER):
        files.write(session, [])
        files.write(session, [TodoItem("x")], AgentId("a1"))
        files.add_task(session, "t")

    todos = files.home.todos_dir
    assert [
        OrphanTodoList("todos", OTHER, todos / f"{OTHER}-agent-{OTHER}.json", empty=True),
        OrphanTodoList("todos", OTHER, todos / f"{OTHER}-agent-a1.json", empty=False),
        OrphanTodoList("tasks", OTHER, files.home.tasks_dir(OTHER), empty=False),
    ] == files.orphans()


def test_reading_writes_nothing(files: TodoFiles) -> None:
    """Someone else's house: only explicit calls change anything."""
    files.write(S, [TodoItem("x")])
    files.add_task(S, "t")
    before = snapshot(files.home.root)

    list(files.lists())
    files.read(OTHER)
    files.tasks(S)
    files.orphans()

    assert before == snapshot(files.home.root)
