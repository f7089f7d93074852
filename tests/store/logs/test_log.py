"""The durable log: what it writes, what it answers, what it refuses."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.errors import (
    AppendFailed,
    IdConflict,
    LogUnusable,
    Outcome,
    SyncFailed,
    UsageError,
)
from recollect.store.logs import log as log_module
from recollect.store.logs.log import AppendResult, Log
from recollect.system import fsops
from tests.descriptors import open_descriptors

A = b'{"uuid":"a","n":1}'
B = b'{"uuid":"b","n":2}'
C = b'{"uuid":"c","n":3}'

# A child forked from a process with an open log appends beside its parent.
FORK = """
import os, sys
from pathlib import Path
from recollect.store.logs.log import Log
log = Log(Path(sys.argv[1]))
log.append(b"parent 1")
if os.fork() == 0:
    log.append(b"child 1")
    log.append(b"child 2")
    log.close()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
log.append(b"parent 2")
log.close()
"""

# The fork happens while another thread is inside an append; the alarm ends a child that waits for ever.
FORK_INSIDE_AN_APPEND = """
import os, signal, sys, threading, time
from pathlib import Path
from recollect.system import fsops
from recollect.store.logs.log import Log
log = Log(Path(sys.argv[1]))
syncing = threading.Event()
real = fsops.sync_data
def slow(fd):
    syncing.set()
    time.sleep(0.2)
    real(fd)
fsops.sync_data = slow
thread = threading.Thread(target=log.append, args=(b"thread of the parent",))
thread.start()
syncing.wait()
child = os.fork()
if child == 0:
    signal.alarm(120)
    log.append(b"child")
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The syncs that were asked for, in order: "data" of the file, or the name of a directory."""
    asked: list[str] = []
    real_data, real_dir = fsops.sync_data, fsops.sync_dir

    def data(fd: int) -> None:
        asked.append("data")
        real_data(fd)

    def directory(path: Path) -> None:
        asked.append(path.name)
        real_dir(path)

    monkeypatch.setattr(fsops, "sync_data", data)
    monkeypatch.setattr(fsops, "sync_dir", directory)
    return asked


def failing(number: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def fail_write_after(monkeypatch: pytest.MonkeyPatch, count: int, error: BaseException) -> None:
    """The next write stores ``count`` bytes of the line and then ends with ``error``."""

    def partly(fd: int, data: bytes) -> None:
        os.write(fd, data[:count])
        raise error

    monkeypatch.setattr(fsops, "write_all", partly)


# --- what is written -----------------------------------------------------------


def test_many_lines_are_one_write_and_one_sync(
    path: Path, syncs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of three costs what one line costs (S13)."""
    writes: list[bytes] = []
    real = fsops.write_all

    def counted(fd: int, data: bytes) -> None:
        writes.append(data)
        real(fd, data)

    monkeypatch.setattr(fsops, "write_all", counted)
    with Log(path) as log:
        answers = log.append_many([(b"one", None), (b"two", None), (b"three", None)])

    assert ([b"one\ntwo\nthree\n"], 1, [0, 4, 8]) == (
        writes,
        syncs.count("data"),
        [answer.offset for answer in answers],
    )


def test_nothing_is_created_before_the_first_append(path: Path) -> None:
    """A log that is opened and closed leaves no trace (H10)."""
    with Log(path):
        pass

    assert [] == list(path.parent.iterdir())


@pytest.mark.parametrize("line", [b"", b"\n", b"a\nb", b"a\n"])
def test_what_is_not_one_line_is_refused(path: Path, line: bytes) -> None:
    """An empty line is no entry, and a newline inside would make two."""
    with Log(path) as log, pytest.raises(UsageError):
        log.append(line)

    assert [] == list(path.parent.iterdir())


def test_bytes_are_stored_as_given(path: Path) -> None:
    """The log knows bytes, not text: every byte but the newline goes through (P5)."""
    line = bytes(number for number in range(256) if number != 0x0A)

    with Log(path) as log:
        log.append(line)

    assert line + b"\n" == path.read_bytes()


def test_files_are_private_under_any_umask(path: Path) -> None:
    """Log and lock are 0600, a directory made for them 0700, under an open umask."""
    before = os.umask(0)
    with Log(path.parent / "made" / "x.jsonl") as log:
        log.append(b"x")
    os.umask(before)

    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.rglob("*")}

    assert {"made": 0o700, "x.jsonl": 0o600, "x.jsonl.lock": 0o600} == modes


# --- torn tails and other writers --------------------------------------------


def test_a_torn_tail_costs_itself_and_nothing_else(path: Path) -> None:
    """The next line starts afresh, and no byte of the fragment is destroyed (S2, P4)."""
    path.write_bytes(b"whole\ntorn")

    with Log(path) as log:
        answer = log.append(b"next")

    assert (b"whole\ntorn\nnext\n", AppendResult(11, 5, False)) == (path.read_bytes(), answer)


def test_a_tail_torn_by_another_program_while_open_is_healed(path: Path) -> None:
    """Not only at opening: every append looks at the tail if the file does not end where it left it."""
    with Log(path) as log:
        log.append(b"one")
        with path.open("ab") as other:
            other.write(b"torn")
        log.append(b"two")

    assert b"one\ntorn\ntwo\n" == path.read_bytes()


def test_a_replaced_file_is_opened_anew(path: Path) -> None:
    """After a rename over the log, lines go to the file that has the name, not to the old one (S6)."""
    with Log(path) as log:
        log.append(b"one")
        (path.parent / "repaired").write_bytes(b"one, repaired\n")
        (path.parent / "repaired").rename(path)
        log.append(b"two")

    assert b"one, repaired\ntwo\n" == path.read_bytes()


def test_a_deleted_file_is_made_anew(path: Path) -> None:
    """After a deletion the next line starts a new file instead of vanishing with the old one."""
    with Log(path) as log:
        log.append(b"one")
        path.unlink()
        answer = log.append(b"two")

    assert (b"two\n", AppendResult(0, 4, False)) == (path.read_bytes(), answer)


def test_a_symbolic_link_is_refused(path: Path) -> None:
    """A link in the place of the log is not followed, and the hint says what stands there."""
    (path.parent / "target").touch()
    path.symlink_to(path.parent / "target")

    with Log(path) as log, pytest.raises(AppendFailed) as caught:
        log.append(b"x")

    assert (Outcome.NOT_STORED, b"", True) == (
        caught.value.outcome,
        (path.parent / "target").read_bytes(),
        "symbolic link" in caught.value.hint,
    )


def test_a_line_that_follows_a_foreign_one_has_its_true_offset(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program without a lock may append just before our write; the answer still points at our line."""
    real = fsops.write_all

    def beaten(fd: int, data: bytes) -> None:
        with path.open("ab") as other:
            other.write(b"foreign\n")
        real(fd, data)

    monkeypatch.setattr(fsops, "write_all", beaten)
    with Log(path) as log:
        answer = log.append(b"ours")

    assert (b"foreign\nours\n", AppendResult(8, 5, False)) == (path.read_bytes(), answer)


def test_a_line_glued_to_a_foreign_fragment_is_not_acknowledged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a foreign fragment slips in before our line, we do not say that the line is stored (P6)."""
    real = fsops.write_all

    def glued(fd: int, data: bytes) -> None:
        with path.open("ab") as other:
            other.write(b"half a li")
        real(fd, data)

    monkeypatch.setattr(fsops, "write_all", glued)
    with Log(path) as log, pytest.raises(AppendFailed) as caught:
        log.append(b"ours")

    assert Outcome.UNKNOWN == caught.value.outcome


# --- failures ----------------------------------------------------------------


def test_foreign_bytes_are_never_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If somebody appended behind our fragment everything stays, and the outcome is "unknown" (P4)."""

    def overtaken(fd: int, data: bytes) -> None:
        os.write(fd, data[:3])
        with path.open("ab") as other:
            other.write(b"foreign\n")
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(fsops, "write_all", overtaken)
    with Log(path) as log, pytest.raises(AppendFailed) as caught:
        log.append(b"ours")

    assert (b"oursforeign\n".replace(b"s", b"", 1), Outcome.UNKNOWN) == (
        path.read_bytes(),
        caught.value.outcome,
    )


def test_foreign_bytes_in_front_are_never_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same when they slipped in before our fragment: the file then does not start with it."""

    def overtaken(fd: int, data: bytes) -> None:
        with path.open("ab") as other:
            other.write(b"f\n")
        os.write(fd, data[:3])
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(fsops, "write_all", overtaken)
    with Log(path) as log, pytest.raises(AppendFailed) as caught:
        log.append(b"ours and more")

    assert (b"f\nour", Outcome.UNKNOWN) == (path.read_bytes(), caught.value.outcome)


def test_what_is_taken_back_is_synced(path: Path, syncs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """ "Not stored" must stay true after a loss of power, so the cut is synced."""
    with Log(path) as log:
        log.append(b"one")
        syncs.clear()
        fail_write_after(monkeypatch, 2, OSError(errno.ENOSPC, ""))
        with pytest.raises(AppendFailed):
            log.append(b"two")

    assert ["data"] == syncs


def test_a_failed_sync_is_final(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed sync the object refuses everything, even though a second sync might succeed (S4)."""
    log = Log(path)
    log.append(b"one")
    monkeypatch.setattr(fsops, "sync_data", failing(errno.EIO))
    with pytest.raises(SyncFailed) as caught:
        log.append(b"two")
    monkeypatch.undo()

    with pytest.raises(LogUnusable, match="an earlier sync failed"):
        log.append(b"three")
    log.close()

    assert (Outcome.UNKNOWN, True) == (caught.value.outcome, log.failed)


def test_a_line_whose_sync_failed_does_not_look_stored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeat through a new object is written anew: the old bytes may exist in memory only (S4)."""
    monkeypatch.setattr(fsops, "sync_data", failing(errno.EIO))
    with Log(path) as log, pytest.raises(SyncFailed):
        log.append(A, "a")
    monkeypatch.undo()

    with Log(path) as log:
        answer = log.append(A, "a")

    assert (AppendResult(0, 19, False), A + b"\n") == (answer, path.read_bytes())


def test_a_closed_log_refuses(path: Path) -> None:
    """After close nothing can be appended; closing again does nothing."""
    log = Log(path)
    log.append(b"one")
    log.close()
    log.close()

    with pytest.raises(LogUnusable, match="the log is closed"):
        log.append(b"two")

    assert b"one\n" == path.read_bytes()


# --- when it syncs -----------------------------------------------------------


def test_always_syncs_each_line_and_a_new_name_once(path: Path, syncs: list[str]) -> None:
    """First line: bytes, then the directory. Later lines: bytes only (P7)."""
    with Log(path) as log:
        log.append(b"one")
        log.append(b"two")

    assert ["data", path.parent.name, "data"] == syncs


def test_an_existing_file_has_its_name_synced_too(path: Path, syncs: list[str]) -> None:
    """Whoever created it may have died before the directory was synced."""
    path.write_bytes(b"zero\n")

    with Log(path) as log:
        log.append(b"one")

    assert ["data", path.parent.name] == syncs


def test_new_directories_are_durable_before_the_file_is_made(tmp_path: Path, syncs: list[str]) -> None:
    """Parents outermost first, then the bytes, then the file's own directory."""
    with Log(tmp_path / "a" / "b" / "x.jsonl") as log:
        log.append(b"one")

    assert [tmp_path.name, "a", "data", "b"] == syncs


# --- repeats (P9) -------------------------------------------------------------


def test_a_repeat_is_answered_with_the_first_place(path: Path) -> None:
    """The same id and bytes again: nothing is written, and the answer says where and that it was there."""
    with Log(path) as log:
        log.append(A, "a")
        log.append(B, "b")
        answer = log.append(A, "a")

    assert (AppendResult(0, 19, True), A + b"\n" + B + b"\n") == (answer, path.read_bytes())


def test_a_repeat_of_an_unsynced_line_is_synced_first(path: Path, syncs: list[str]) -> None:
    """Its writer may have died before the sync, and our answer promises durability (P1)."""
    path.write_bytes(A + b"\n")

    with Log(path) as log:
        log.append(A, "a")
        log.append(A, "a")

    assert ["data", path.parent.name] == syncs


def test_the_same_id_with_other_bytes_is_refused(path: Path) -> None:
    """Two different entries must not share an id; the second is not stored."""
    with Log(path) as log:
        log.append(A, "a")
        with pytest.raises(IdConflict) as caught:
            log.append(b'{"uuid":"a","n":2}', "a")

    assert (Outcome.NOT_STORED, A + b"\n") == (caught.value.outcome, path.read_bytes())


def test_an_id_inside_another_entry_is_not_that_entry(path: Path) -> None:
    """A line that quotes an entry, id and all, does not stand in that entry's way."""
    path.write_bytes(b'{"uuid":"p","data":{"uuid":"a"}}\n{"text":"{\\"uuid\\":\\"a\\"}"}\n')

    with Log(path) as log:
        answer = log.append(A, "a")

    assert answer.repeated is False


def test_the_first_of_two_equal_ids_counts(path: Path) -> None:
    """If the file holds two lines with one id, a repeat of the first is a repeat (L8)."""
    path.write_bytes(A + b"\n" + b'{"uuid":"a","n":9}\n')

    with Log(path) as log:
        answer = log.append(A, "a")

    assert AppendResult(0, 19, True) == answer


@pytest.mark.parametrize(
    "junk", [b"\xff\xfe", b'{"uuid":', b'{"uuid":7}', b'["uuid"]', b'{"uuid":' + b"[" * 5000]
)
def test_damaged_lines_in_the_tail_are_passed_over(path: Path, junk: bytes) -> None:
    """Whatever stands in the file, looking for ids never fails (P3)."""
    path.write_bytes(junk + b"\n" + A + b"\n")

    with Log(path) as log:
        answer = log.append(A, "a")

    assert answer.repeated is True


def test_an_id_beyond_the_window_is_stored_twice(path: Path) -> None:
    """64 KiB of newer lines hide an id from a new object; readers keep the first of the two."""
    path.write_bytes(A + b"\n" + b"x" * 65_536 + b"\n")

    with Log(path) as log:
        answer = log.append(A, "a")

    assert AppendResult(19 + 65_537, 19, False) == answer


def test_repeats_inside_one_batch_are_stored_once(path: Path) -> None:
    """The second of two equal lines of a batch has the place of the first."""
    with Log(path) as log:
        answers = log.append_many([(A, "a"), (B, "b"), (A, "a")])

    assert ([AppendResult(0, 19, False), AppendResult(19, 19, False), AppendResult(0, 19, True)], 38) == (
        answers,
        path.stat().st_size,
    )


def test_a_conflict_refuses_its_whole_batch(path: Path) -> None:
    """Lines appended together are stored together or not at all."""
    with Log(path) as log:
        log.append(A, "a")
        with pytest.raises(IdConflict):
            log.append_many([(B, "b"), (b'{"uuid":"a","n":2}', "a")])
        answer = log.append(B, "b")

    assert (A + b"\n" + B + b"\n", False) == (path.read_bytes(), answer.repeated)


# --- many threads -------------------------------------------------------------


def test_threads_share_a_sync(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven appends that come while one is being synced are one batch: two syncs for eight lines (S13)."""
    joined, first_is_syncing = threading.Event(), threading.Event()
    data_syncs: list[int] = []
    answers: list[AppendResult] = []
    log = Log(path)

    def slow(fd: int) -> None:
        data_syncs.append(fd)
        first_is_syncing.set()
        joined.wait(120)

    monkeypatch.setattr(fsops, "sync_data", slow)
    threads = [threading.Thread(target=lambda: answers.append(log.append(b"xyz"))) for _ in range(8)]
    threads[0].start()
    first_is_syncing.wait(120)
    for thread in threads[1:]:
        thread.start()
    while len(log._waiting) < 7:
        pass
    joined.set()
    for thread in threads:
        thread.join()
    log.close()

    assert (2, list(range(0, 32, 4))) == (len(data_syncs), sorted(answer.offset for answer in answers))


def gathered(
    log: Log, monkeypatch: pytest.MonkeyPatch, name: str, effect: Callable[..., None]
) -> list[object]:
    """Two appends in one batch, whose commit meets ``effect`` in ``fsops.name``; what each came back with."""
    came_back: list[object] = []

    def append(line: bytes, entry_id: str | None) -> None:
        try:
            came_back.append(log.append(line, entry_id))
        except (AppendFailed, KeyboardInterrupt) as error:
            came_back.append(error)

    threads = [threading.Thread(target=append, args=(line, None)) for line in (b"one", b"two")]
    with log._turn:
        for number, thread in enumerate(threads):
            thread.start()
            while len(log._waiting) <= number:
                pass
        monkeypatch.setattr(fsops, name, effect)
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    return came_back


def test_a_failed_batch_fails_everyone_in_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each caller is told "not stored", by an exception of its own."""
    with Log(path) as log:
        log.append(b"zero")
        errors = gathered(log, monkeypatch, "write_all", failing(errno.ENOSPC))

    assert ([Outcome.NOT_STORED] * 2, True, b"zero\n") == (
        [error.outcome for error in errors if isinstance(error, AppendFailed)],
        errors[0] is not errors[1],
        path.read_bytes(),
    )


def test_a_failed_sync_fails_everyone_in_the_batch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each caller is told "unknown"."""
    with Log(path) as log:
        log.append(b"zero")
        errors = gathered(log, monkeypatch, "sync_data", failing(errno.EIO))

    assert [SyncFailed, SyncFailed] == [type(error) for error in errors]


def test_a_conflict_does_not_fail_its_neighbours(path: Path) -> None:
    """Of several jobs in one batch only the conflicting one is refused."""
    with Log(path) as log:
        log.append(A, "a")
        jobs = [log_module.checked_job([pair]) for pair in ((B, "b"), (b"other", "a"), (C, "c"))]
        log.join(jobs)
        log.commit(jobs)

        assert ([False, True, False], A + b"\n" + B + b"\n" + C + b"\n") == (
            [isinstance(job.error, IdConflict) for job in jobs],
            path.read_bytes(),
        )


def test_a_repeat_in_a_failed_batch_is_not_called_unstored(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is in the file, only its batch failed: the true answer is "unknown, safe to repeat" (P8)."""
    with Log(path) as log:
        log.append(A, "a")
        jobs = [log_module.checked_job([pair]) for pair in ((A, "a"), (B, "b"))]
        monkeypatch.setattr(fsops, "write_all", failing(errno.ENOSPC))
        log.join(jobs)
        log.commit(jobs)

    assert [Outcome.UNKNOWN, Outcome.NOT_STORED] == [
        job.error.outcome for job in jobs if isinstance(job.error, AppendFailed)
    ]


# --- other circumstances ------------------------------------------------------


def test_a_forked_child_opens_its_own_descriptors(path: Path) -> None:
    """Parent and child of a fork append beside each other, each with its own lock (S7)."""
    ran = subprocess.run(
        [sys.executable, "-c", FORK, str(path)], capture_output=True, text=True, check=False, timeout=60
    )

    assert ("0\n", "", b"parent 1\nchild 1\nchild 2\nparent 2\n") == (
        ran.stdout,
        ran.stderr,
        path.read_bytes(),
    )


def test_a_fork_inside_an_append_leaves_the_child_free(path: Path) -> None:
    """The child inherits neither the append that another thread is in, nor its locks."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_INSIDE_AN_APPEND, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ("0\n", "", b"thread of the parent\nchild\n") == (ran.stdout, ran.stderr, path.read_bytes())


def test_a_network_file_system_is_warned_of_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first append warns, with the type of the file system; the line is stored (S1)."""
    monkeypatch.setattr(fsops, "_file_system_type", lambda device: "nfs4")

    with Log(path) as log:
        with pytest.warns(fsops.NetworkFileSystem, match="nfs4"):
            log.append(b"one")
        log.append(b"two")  # a second warning would be an error here

    assert b"one\ntwo\n" == path.read_bytes()


def test_a_network_file_system_that_forgets_a_write_is_noticed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the length is checked after each write: a file shorter than that is not acknowledged (H11)."""
    monkeypatch.setattr(fsops, "_file_system_type", lambda device: "nfs4")
    monkeypatch.setattr(fsops, "size_of", lambda fd: 0)

    with Log(path) as log, pytest.warns(fsops.NetworkFileSystem), pytest.raises(AppendFailed) as caught:
        log.append(b"one")

    assert Outcome.UNKNOWN == caught.value.outcome


def test_no_descriptor_is_left_open(path: Path) -> None:
    """A closed log and a forgotten one give back what they opened."""
    before = open_descriptors()
    with Log(path) as log:
        log.append(b"one")
    forgotten = Log(path)
    forgotten.append(b"two")
    del forgotten, log

    assert before == open_descriptors()
