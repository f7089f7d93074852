"""One SQLite file, opened safely, and what its complaints mean."""

from __future__ import annotations

import os
import threading
import zlib
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.index import cost_queries
from recollect.index.database import IndexDatabase, is_about_the_place, is_busy, is_full
from recollect.index.location import index_file
from recollect.index.response_queries import counted_responses
from recollect.index.schema import TABLES, VERSION


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.sqlite"


@given(st.lists(st.text(min_size=1).filter(lambda name: "\0" not in name), min_size=1))
def test_an_index_is_named_after_its_homes(names: list[str]) -> None:
    """By the checksum that versions before this one took from zlib, so that they find the same file."""
    homes = [f"/srv/{name}" for name in names]
    real = "\0".join(sorted(map(os.path.realpath, homes)))
    checksum = zlib.crc32(real.encode("utf-8", "surrogateescape"))

    assert f"/cache/index-v{VERSION}-{checksum:08x}.sqlite" == index_file(homes, "/cache")


def test_a_new_file_has_all_tables_and_its_version(path: Path) -> None:
    """Opening it again makes nothing twice."""
    IndexDatabase(path).close()
    again = IndexDatabase(path)
    made = {
        row[0]
        for row in again.rows(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%texts_%'"
        )
    }
    version = again.value("PRAGMA user_version")
    again.close()

    wanted = {
        line.split("(")[0].split()[-1] for line in TABLES.splitlines() if line.startswith("CREATE TABLE")
    }
    assert (VERSION, True) == (version, wanted <= made)


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


def test_a_file_is_mapped_only_for_answers_that_visit_much_of_it(path: Path) -> None:
    """A question for single responses does; sums by day read a few pages."""
    index = IndexDatabase(path)
    cost_queries.rolled(index, [(0, 1)], cost_queries.UsageRowFilter())
    before = index.connection.pragma("mmap_size")
    list(counted_responses(index))
    after = index.connection.pragma("mmap_size")
    index.close()

    assert (0, True) == (before, after > 0)


def test_a_reader_sees_one_moment(path: Path) -> None:
    """What is committed meanwhile is not there until the next look; the writer does not wait."""
    writer, reader = IndexDatabase(path), IndexDatabase(path, read_only=True)
    with reader.reading():
        before = reader.meta("x")
        with writer.transaction():
            writer.set_meta("x", 1)
        during = reader.meta("x")
    after = reader.meta("x")
    writer.close()
    reader.close()

    assert (None, None, 1) == (before, during, after)


def test_a_look_that_fails_ends_all_the_same(path: Path) -> None:
    """The next one starts anew."""
    index = IndexDatabase(path)

    def fail() -> None:
        with index.reading():
            raise SystemExit

    with pytest.raises(SystemExit):
        fail()
    with index.reading():
        assert index.meta("x") is None
    index.close()


def test_a_reader_cannot_write(path: Path) -> None:
    """Whoever only looks changes nothing by accident."""
    IndexDatabase(path).close()
    reader = IndexDatabase(path, read_only=True)
    with pytest.raises(apsw.ReadOnlyError) as caught:
        reader.set_meta("x", 1)
    reader.close()

    assert is_about_the_place(caught.value)


def test_a_second_writer_is_told_that_it_is_busy(path: Path) -> None:
    """After its patience, not at once and not for ever."""
    one, two = IndexDatabase(path), IndexDatabase(path)
    two.connection.set_busy_timeout(10)
    with one.transaction(), pytest.raises(apsw.BusyError) as caught:
        two.set_meta("x", 1)
    one.close()
    two.close()

    assert (True, False) == (is_busy(caught.value), is_about_the_place(caught.value))


def test_a_file_that_is_cut_while_it_is_open_is_about_the_file(path: Path) -> None:
    """Not about the disk: another file would do."""
    index = IndexDatabase(path)
    with index.transaction():
        index.connection.executemany(
            "INSERT INTO names(text) VALUES(?)", ((f"{n}" * 500,) for n in range(500))
        )
    index.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    index.close()
    os.truncate(path, 8_192)
    with pytest.raises(apsw.Error) as caught:
        IndexDatabase(path).rows("SELECT * FROM names")

    assert (False, False) == (is_about_the_place(caught.value), is_full(caught.value))


@pytest.mark.parametrize(
    ("problem", "is_place"),
    [
        (apsw.FullError("full"), True),
        (apsw.CantOpenError("closed"), True),
        (apsw.ReadOnlyError("read only"), True),
        (apsw.CorruptError("malformed"), False),
        (apsw.NotADBError("not a database"), False),
        (apsw.SQLError("no such table"), False),
        (OSError("something else"), False),
    ],
)
def test_what_is_wrong_with_the_place_is_told_from_what_is_wrong_with_the_file(
    problem: Exception, is_place: bool
) -> None:
    """The one needs room or rights, the other a new file."""
    assert is_place == is_about_the_place(problem)
