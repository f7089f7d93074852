"""Todo and task files: read leniently, written whole, under the client's own lock, and never through a link."""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from pathlib import Path

import pytest

from recollect.errors import (
    DamagedData,
    InvalidId,
    LogLocked,
    StorageError,
)
from recollect.model.lines.ids import AgentId, SessionId
from recollect.model.todo import Task, TodoItem, TodoStatus, encode_task
from recollect.store.home import ClaudeHome
from recollect.store.todo_files import TodoFiles, locked_tasks

S = SessionId("11111111-2222-4333-8444-555555555555")
OTHER = SessionId("99999999-2222-4333-8444-555555555555")
PENDING, IN_PROGRESS, COMPLETED = TodoStatus.PENDING, TodoStatus.IN_PROGRESS, TodoStatus.COMPLETED


@pytest.fixture
def files(tmp_path: Path) -> TodoFiles:
    return TodoFiles(ClaudeHome(tmp_path))


def add(files: TodoFiles, session: SessionId, subject: str) -> None:
    """A task, as the client writes it."""
    directory = files.home.tasks_dir(session)
    directory.mkdir(parents=True, exist_ok=True)
    number = str(len(list(directory.glob("*.json"))) + 1)
    (directory / f"{number}.json").write_bytes(encode_task(Task(number, subject)))


def step(files: TodoFiles, session: SessionId, task_id: str, status: TodoStatus) -> Task:
    with files.open_task(session, task_id) as (path, task):
        path.write_bytes(encode_task(task.moved(status)))
        return task.moved(status)


def snapshot(root: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


# ---- todos -----------------------------------------------------------------------------------------------


def test_a_step_is_written_and_nothing_else_changes(transcripts: Path, tmp_path: Path) -> None:
    """The real list of 2.1.30: its second item is completed, the rest stays byte for byte."""
    name = "a7b3ed97-6789-45ce-88c5-9bac0224b069"
    todos_dir = tmp_path / "todos"
    todos_dir.mkdir()
    shutil.copy(
        transcripts / f"samples/claude-home/2.1.30-print/.claude/todos/{name}-agent-{name}.json", todos_dir
    )
    files = TodoFiles(ClaudeHome(tmp_path))
    before = files.read(SessionId(name))
    text = before.path.read_bytes()

    files.write(SessionId(name), before.moved(1, COMPLETED))

    assert text.replace(b"in_progress", b"completed") == before.path.read_bytes()


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
    for act in (
        lambda: files.write(S, [], AgentId(name)),
        lambda: files.open_task(SessionId(name), "1").__enter__(),
    ):
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


def test_a_damaged_task_hides_no_other(files: TodoFiles) -> None:
    """It is named among the problems."""
    add(files, S, "one")
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

    with pytest.raises(StorageError, match="not followed"), files.open_task(S, "1"):
        pytest.fail("it was followed")

    assert [] == list(target.iterdir())


@pytest.mark.parametrize("room", ["tasks", "todos"])
def test_a_home_may_keep_its_lists_behind_a_link(files: TodoFiles, tmp_path: Path, room: str) -> None:
    """The directories directly in a home are its owner's layout: they are followed, as by every command."""
    (tmp_path / "disk").mkdir()
    (files.home.root / room).symlink_to(tmp_path / "disk")
    add(files, S, "one")
    files.write(S, [TodoItem("A")])

    assert (["1"], 1) == ([task.id for task in files.tasks(S)], len(list((tmp_path / "disk").iterdir())))


def test_we_wait_for_a_client_that_holds_its_lock(files: TodoFiles) -> None:
    """The client's lock is a directory; ours comes after it is gone."""
    add(files, S, "one")
    marker = files.home.tasks_dir(S) / "1.json.lock"
    marker.mkdir()
    released: list[float] = []

    def release() -> None:
        time.sleep(0.2)
        released.append(time.monotonic())
        marker.rmdir()

    thread = threading.Thread(target=release)
    thread.start()
    step(files, S, "1", IN_PROGRESS)
    done = time.monotonic()
    thread.join()

    assert released[0] < done
    assert not marker.exists()


def test_a_lock_that_is_never_given_back_is_an_error(files: TodoFiles) -> None:
    """After the time we were told to wait, and the list is as it was."""
    add(files, S, "one")
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
    add(files, S, "one")
    marker = files.home.tasks_dir(S) / "1.json.lock"
    marker.mkdir()
    os.utime(marker, (time.time() - 11, time.time() - 11))

    assert IN_PROGRESS == step(files, S, "1", IN_PROGRESS).status


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
