"""One SQLite file, opened safely, and what its complaints mean."""

from __future__ import annotations

import contextlib
import shutil
import threading
from pathlib import Path

import apsw
import pytest

from recollect.index.database import IndexDatabase
from recollect.index.refresh import refresh
from tests.index.projection import differences, faults, projection
from tests.talk import assistant, encoded, log_at, user


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.sqlite"


def test_a_file_that_another_process_is_making_is_waited_for(path: Path) -> None:
    """SQLite refuses the switch to WAL at once while another writes, even with a busy timeout."""
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE made (x); BEGIN IMMEDIATE")
    ended = threading.Timer(0.1, lambda: other.execute("COMMIT"))
    ended.start()
    opened = IndexDatabase(path)
    mode = opened.connection.pragma("journal_mode")
    opened.close()
    ended.join()
    other.close()

    assert mode == "wal"


SESSION = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def grown(tmp_path: Path) -> tuple[Path, Path]:
    """A home whose log grew after its first index, and the index."""
    home, path = tmp_path / "home", tmp_path / "index.sqlite"
    log = log_at(home / "projects" / "-srv" / f"{SESSION}.jsonl", [user("u", None, 0, "hello")])
    for number in range(4):
        with contextlib.closing(IndexDatabase(path)) as index:
            refresh(index, [home])
        with log.open("ab") as end:
            end.write(encoded([assistant(f"a{number}", "u", number + 1, f"answer {number}")]))
    return home, path


def test_a_refresh_does_not_wait_for_the_disk(grown: tuple[Path, Path]) -> None:
    """Nor does the next reader: the file is as it was, and both find the new line in the WAL."""
    home, path = grown
    before = path.read_bytes()
    with contextlib.closing(IndexDatabase(path)) as index:
        refresh(index, [home])
    counts = []
    for is_read_only in (True, False):
        with contextlib.closing(IndexDatabase(path, read_only=is_read_only)) as index:
            counts.append(index.value("SELECT count(*) FROM usage"))

    assert ([4, 4], before) == (counts, path.read_bytes())


def test_a_wal_that_was_cut_off_is_read_on_from(grown: tuple[Path, Path], tmp_path: Path) -> None:
    """A power cut: whatever part of it reached the disk, the next refresh makes a whole index of it."""
    home, path = grown
    log = path.with_name(path.name + "-wal").read_bytes()
    with contextlib.closing(IndexDatabase(":memory:")) as fresh:
        refresh(fresh, [home])
        wanted = projection(fresh)
    assert len(log) > 20 * 4096
    for number in range(24):
        copy = tmp_path / f"{number}.sqlite"
        shutil.copy(path, copy)
        copy.with_name(copy.name + "-wal").write_bytes(log[: len(log) * number // 23])
        with contextlib.closing(IndexDatabase(copy)) as index:
            refresh(index, [home])
            assert ([], []) == (differences(wanted, projection(index)), faults(index)), number


@pytest.mark.parametrize("is_read", [False, True])
def test_a_long_wal_is_emptied_unless_someone_reads(grown: tuple[Path, Path], is_read: bool) -> None:
    """A merge of words writes many pages at once, and each process reads the whole WAL before its first query."""
    home, path = grown
    with contextlib.closing(IndexDatabase(path)) as index:
        index.connection.execute("CREATE TABLE large (page BLOB)")
        with index.transaction():
            index.connection.execute("INSERT INTO large VALUES (zeroblob(6000000))")
    log = path.with_name(path.name + "-wal")
    before = log.stat().st_size
    with (
        contextlib.closing(IndexDatabase(path, read_only=True)) as reader,
        reader.reading() if is_read else contextlib.nullcontext(),
        contextlib.closing(IndexDatabase(path)) as index,
    ):
        reader.value("SELECT count(*) FROM usage")
        refresh(index, [home])
        assert index.value("SELECT count(*) FROM usage") == 4

    assert (before > 6_000_000, log.stat().st_size > 6_000_000) == (True, is_read)
