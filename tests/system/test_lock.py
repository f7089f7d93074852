"""One writer at a time."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.errors import LogLocked, Outcome, StorageError
from recollect.system import fsops
from recollect.system import lock as lock_module
from recollect.system.lock import FileLock

SHORT = 0.05

HOLDER = """
import sys
from pathlib import Path
from recollect.system.lock import FileLock
with FileLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

# The parent holds the lock, forks, and tells what the child could and could not do.
FORK = """
import os, sys
from pathlib import Path
from recollect.errors import LogLocked
from recollect.system.lock import FileLock
lock = FileLock(Path(sys.argv[1]), timeout=0.05)
lock.acquire()
if os.fork() == 0:
    try:
        lock.acquire()
        os._exit(1)
    except LogLocked:
        os._exit(0)
print("child shut out:", os.waitstatus_to_exitcode(os.wait()[1]) == 0)
fresh = FileLock(Path(sys.argv[1]), timeout=0.05)
try:
    fresh.acquire()
    print("parent still holds: False")
except LogLocked:
    print("parent still holds: True")
lock.release()
if os.fork() == 0:
    lock.acquire()
    os._exit(0)
print("child got it later:", os.waitstatus_to_exitcode(os.wait()[1]) == 0)
"""

# A child that outlives its parent must not keep the parent's lock.
ORPHAN = """
import os, sys, time
from pathlib import Path
from recollect.system.lock import FileLock
lock = FileLock(Path(sys.argv[1]))
lock.acquire()
child = os.fork()
if child == 0:
    os.close(1)
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.lock"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until the test ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert "held\n" == process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def refused(lock: FileLock) -> bool:
    """Whether the lock cannot be had within its timeout."""
    try:
        lock.acquire()
    except LogLocked:
        return True
    lock.release()
    return False


def test_another_process_is_shut_out(path: Path, holder: subprocess.Popen[str]) -> None:
    """While one process holds the lock, no other gets it; the refusal says that nothing was stored."""
    with pytest.raises(LogLocked) as caught:
        FileLock(path, SHORT).acquire()

    assert Outcome.NOT_STORED == caught.value.outcome


def test_the_refusal_names_the_holder(path: Path, holder: subprocess.Popen[str]) -> None:
    """The message says which process has the lock, by number."""
    with pytest.raises(LogLocked) as caught:
        FileLock(path, SHORT).acquire()

    assert f"process {holder.pid} " in str(caught.value)


def test_a_dead_holder_holds_nothing(path: Path, holder: subprocess.Popen[str]) -> None:
    """The kernel gives the lock back when its process is killed."""
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()

    assert refused(FileLock(path, SHORT)) is False


def test_a_second_thread_is_shut_out(path: Path) -> None:
    """Threads that share one object share its descriptor, and are excluded all the same (S7)."""
    shared = FileLock(path, SHORT)
    answers: list[bool] = []

    with shared:
        thread = threading.Thread(target=lambda: answers.append(refused(shared)))
        thread.start()
        thread.join()

    assert [True] == answers


def test_the_holding_thread_is_told_at_once(path: Path) -> None:
    """The lock is not reentrant: a second acquire fails without waiting, and the first hold stays."""
    lock = FileLock(path, 60)

    with lock:
        with pytest.raises(LogLocked, match="this same thread"):
            lock.acquire()
        still_held = refused(FileLock(path, SHORT))

    assert still_held is True


def test_only_the_holding_thread_can_release(path: Path) -> None:
    """A release in another thread changes nothing."""
    lock = FileLock(path)

    with lock:
        thread = threading.Thread(target=lock.release)
        thread.start()
        thread.join()
        still_held = refused(FileLock(path, SHORT))

    assert still_held is True


def test_the_file_is_never_removed(path: Path) -> None:
    """The name of the lock file always leads to the same file: removal would allow two holders (S8)."""
    with FileLock(path) as lock:
        inode = path.stat().st_ino
    lock.close()
    with FileLock(path):
        pass

    assert inode == path.stat().st_ino


def test_a_removed_lock_file_is_noticed(path: Path) -> None:
    """If somebody else removes the file, the next holder holds the file that has the name now."""
    lock = FileLock(path)
    with lock:
        pass
    path.unlink()

    with lock:
        assert refused(FileLock(path, SHORT)) is True


def test_a_replaced_lock_file_is_noticed_while_waiting(path: Path) -> None:
    """A waiter that gets the lock of a file without a name starts over on the one that has it (S8)."""
    first, waiter, newcomer = FileLock(path), FileLock(path, 5), FileLock(path, 5)
    order: list[str] = []
    first.acquire()

    def wait() -> None:
        with waiter:
            order.append("waiter")

    thread = threading.Thread(target=wait)
    thread.start()
    while waiter._fd < 0:
        pass
    path.unlink()
    newcomer.acquire()
    first.release()
    thread.join(0.2)
    order.append("newcomer done")
    newcomer.release()
    thread.join()

    assert ["newcomer done", "waiter"] == order


def test_a_hostile_holder_line_is_made_harmless(path: Path) -> None:
    """The line in the file is only a hint: control characters and excess never reach the message (S14)."""
    with FileLock(path):
        path.write_bytes(b"\x1b]0;owned\x07\xff\xe2\x80\xae evil\n" + b"A" * 10_000)
        with pytest.raises(LogLocked) as caught:
            FileLock(path, SHORT).acquire()

    assert (True, True) == (caught.value.holder.isprintable(), len(caught.value.holder) <= 160)


def test_a_full_disk_does_not_stop_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder's line is for people; failing to write it must not fail the append (S12)."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(fsops, "overwrite_start", full)

    assert refused(FileLock(path, SHORT)) is False


def test_a_failed_unlock_still_frees_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If unlocking fails the descriptor is closed, and the kernel frees the lock with it."""
    lock = FileLock(path)
    lock.acquire()

    def fails(fd: int) -> None:
        raise OSError(errno.EIO, "")

    monkeypatch.setattr(lock_module, "_unlock", fails)
    lock.release()
    monkeypatch.undo()

    assert refused(FileLock(path, SHORT)) is False


def test_a_refusing_file_system_is_a_typed_error(tmp_path: Path) -> None:
    """A lock that cannot be opened is a StorageError with its cause."""
    (tmp_path / "file").touch()

    with pytest.raises(StorageError) as caught:
        FileLock(tmp_path / "file" / "x.lock").acquire()

    assert isinstance(caught.value.cause, NotADirectoryError)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_acquire_leaves_the_lock_free(
    path: Path, monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException]
) -> None:
    """Whatever ends an acquire half way, nobody is shut out afterwards."""
    lock = FileLock(path)

    def interrupted() -> None:
        raise interrupt

    monkeypatch.setattr(lock, "_say_who", interrupted)
    with pytest.raises(interrupt):
        lock.acquire()
    monkeypatch.undo()

    assert [False, False] == [refused(lock), refused(FileLock(path, SHORT))]


def test_a_forked_child_does_not_share_the_lock(path: Path) -> None:
    """A child neither owns nor loses its parent's lock, and can take it once it is free (S7)."""
    ran = subprocess.run(
        [sys.executable, "-c", FORK, str(path)], capture_output=True, text=True, check=False, timeout=60
    )

    assert (
        "child shut out: True\nparent still holds: True\nchild got it later: True\n",
        "",
    ) == (ran.stdout, ran.stderr)


def test_a_child_does_not_keep_the_lock_of_a_dead_parent(path: Path) -> None:
    """The parent's lock dies with the parent although its child lives on."""
    process = subprocess.Popen([sys.executable, "-c", ORPHAN, str(path)], stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate(timeout=60)

    shut_out = refused(FileLock(path, 1))
    os.kill(int(output), signal.SIGKILL)

    assert shut_out is False
