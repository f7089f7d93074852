"""Looking at an index changes nothing, building it anew keeps what deleted sessions cost, vacuum only tidies."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from unittest import mock

import apsw
import pytest

from recollect.errors import DamagedData, NotFound, StorageError
from recollect.index import access
from recollect.index.access import index_path, open_index
from recollect.index.schema import VERSION
from recollect.index.upkeep import rebuild, status, vacuum
from tests.index.projection import faults, totals
from tests.small_disk import small_disk
from tests.talk import assistant, encoded, log_at, user

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two sessions, an agent, a tool's output: 2 + 3 + 1 answers."""
    home = tmp_path / "home"
    project = home / "projects" / "-srv"
    for name, count in ((ONE, 2), (TWO, 3)):
        lines = [assistant(f"{name}{n}", None, n, f"answer {n}", gitBranch="main") for n in range(count)]
        log_at(project / f"{name}.jsonl", [user(name, None, 0, "prompt"), *lines])
    log_at(
        project / ONE / "subagents" / "agent-a1.jsonl", [assistant("a", None, 9, "aside", isSidechain=True)]
    )
    (project / ONE / "tool-results").mkdir()
    (project / ONE / "tool-results" / "out.txt").write_text("output")
    return home


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def build(home: Path, cache: Path) -> None:
    with open_index([home], cache=cache):
        pass


def sums(home: Path, cache: Path) -> dict[str | None, tuple[object, ...]]:
    with open_index([home], cache=cache, is_refreshed=False) as opened:
        assert [] == faults(opened.database)
        return totals(opened.database)


class TestStatus:
    def test_where_there_is_none_none_is_made(self, home: Path, cache: Path) -> None:
        """Only the logs are counted."""
        found = status([home], cache)

        size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
        assert (False, False, False, size, False) == (
            found.exists,
            found.is_complete,
            found.is_current,
            found.log_bytes,
            cache.exists(),
        )

    def test_it_counts_what_is_there(self, home: Path, cache: Path) -> None:
        """Logs by role, rows by table: two prompts, six answers and an output are nine messages."""
        build(home, cache)
        found = status([home], cache)

        assert (2, 1, 1, 0) == (found.sessions, found.agents, found.tool_outputs, found.gone_sessions)
        assert (4, 9, 9, 6, 6) == tuple(
            found.rows[table] for table in ("files", "messages", "texts", "usage", "responses")
        )
        assert (True, True, VERSION, True) == (
            found.is_complete,
            found.is_current,
            found.version,
            found.bytes >= found.path.stat().st_size > 0,
        )
        assert found.share == round(found.bytes / found.log_bytes, 4)
        assert found.segments >= 1

    def test_logs_that_changed_since_are_counted(self, home: Path, cache: Path) -> None:
        """Grown, new and gone ones; the index stays as it is."""
        build(home, cache)
        project = home / "projects" / "-srv"
        with (project / f"{ONE}.jsonl").open("ab") as log:
            log.write(encoded([user("n", None, 50, "new")]))
        log_at(project / "new.jsonl", [user("m", None, 60, "newer")])
        (project / f"{TWO}.jsonl").unlink()
        first, again = status([home], cache), status([home], cache)

        assert (2, 1, False) == (first.changed_logs, first.missing_logs, first.is_current)
        assert (2, 1) == (again.changed_logs, again.missing_logs)

    def test_when_it_was_refreshed_is_known(self, home: Path, cache: Path) -> None:
        """Also where that refresh had nothing to write."""
        build(home, cache)
        os.utime(index_path([home], cache).with_suffix(".lock"), (1_000, 1_000))
        old = status([home], cache).refreshed_at
        build(home, cache)
        new = status([home], cache).refreshed_at

        assert old is not None
        assert new is not None
        assert (1_000, True) == (old.timestamp(), new.timestamp() > 1_000)

    def test_one_that_is_damaged_says_so(self, home: Path, cache: Path) -> None:
        """It is left for the next question to set aside."""
        cache.mkdir()
        path = index_path([home], cache)
        path.write_bytes(b"garbage" * 1_000)
        found = status([home], cache)

        assert (True, False, b"garbage" * 1_000) == (
            found.problem is not None,
            found.is_current,
            path.read_bytes(),
        )

    def test_one_that_is_just_being_made_is_not_damaged(self, home: Path, cache: Path) -> None:
        """An empty file is how every index begins."""
        cache.mkdir()
        index_path([home], cache).touch()
        found = status([home], cache)

        assert (True, False, None) == (found.exists, found.is_complete, found.problem)

    def test_damage_in_the_middle_is_found(self, home: Path, cache: Path) -> None:
        """Every page is looked at."""
        build(home, cache)
        path = index_path([home], cache)
        data = bytearray(path.read_bytes())
        data[len(data) // 2 & ~0xFFF : (len(data) // 2 & ~0xFFF) + 4096] = b"\xff" * 4096
        path.write_bytes(data)

        assert status([home], cache).problem is not None


class TestRebuild:
    def test_it_is_as_it_was(self, home: Path, cache: Path) -> None:
        """Four logs read, nothing left over."""
        build(home, cache)
        before = sums(home, cache)
        done = rebuild([home], cache)

        assert (4, 0, [], before) == (done.logs, done.gone_sessions, done.problems, sums(home, cache))
        assert {".sqlite", ".lock"} == {
            path.suffix for path in cache.iterdir() if path.suffix in (".sqlite", ".lock", ".aside")
        }
        assert done.bytes == index_path([home], cache).stat().st_size

    def test_deleted_sessions_stay_in_the_totals(self, home: Path, cache: Path) -> None:
        """Also one that was deleted since the last refresh, its agents, and rebuilt twice."""
        build(home, cache)
        before = sums(home, cache)
        project = home / "projects" / "-srv"
        (project / f"{TWO}.jsonl").unlink()
        build(home, cache)
        (project / f"{ONE}.jsonl").unlink()
        shutil.rmtree(project / ONE)
        first, second = rebuild([home], cache), rebuild([home], cache)

        assert (2, 2, before) == (first.gone_sessions, second.gone_sessions, sums(home, cache))

    def test_what_is_kept_of_a_deleted_session_is_all_that_reports_ask_for(
        self, home: Path, cache: Path
    ) -> None:
        """Directory, branch, times, messages, and which copy counts."""
        build(home, cache)
        question = (
            "SELECT path, home, role, session, agent, first_at, last_at, messages, gone,"
            " (SELECT text FROM names WHERE id = cwd), (SELECT text FROM names WHERE id = branch) FROM files WHERE gone"
        )
        (home / "projects" / "-srv" / f"{TWO}.jsonl").unlink()
        with open_index([home], cache=cache) as opened:
            before = opened.database.rows(question)
        rebuild([home], cache)
        with open_index([home], cache=cache) as opened:
            after = opened.database.rows(question)

        assert (1, before) == (len(before), after)

    def test_a_session_that_is_back_is_read_from_its_log(self, home: Path, cache: Path) -> None:
        """Not taken over and counted as gone."""
        build(home, cache)
        log = home / "projects" / "-srv" / f"{TWO}.jsonl"
        data = log.read_bytes()
        log.unlink()
        build(home, cache)
        log.write_bytes(data)
        done = rebuild([home], cache)

        assert (0, 2) == (done.gone_sessions, status([home], cache).sessions)

    def test_what_cannot_be_read_of_the_old_one_is_said_and_kept(self, home: Path, cache: Path) -> None:
        """It may have known of deleted sessions."""
        path = index_path([home], cache)
        cache.mkdir()
        path.write_bytes(b"garbage" * 1_000)
        done = rebuild([home], cache)

        assert ([path.with_suffix(".aside")], b"garbage" * 1_000) == (
            done.unread,
            path.with_suffix(".aside").read_bytes(),
        )

    def test_where_it_fails_the_old_one_is_back(self, home: Path, cache: Path) -> None:
        """As if nothing had been asked for."""
        build(home, cache)
        before = sums(home, cache)
        with (
            mock.patch.object(access, "refresh", side_effect=apsw.FullError("database or disk is full")),
            pytest.raises(StorageError) as caught,
        ):
            rebuild([home], cache)

        assert ("the old index was put back", 74, before) == (
            caught.value.hint.partition(";")[0],
            caught.value.exit_code,
            sums(home, cache),
        )

    def test_a_disk_that_fills_up_leaves_the_old_one(self, home: Path, cache: Path) -> None:
        """On a real one."""
        with small_disk(cache, "size=512k"):
            build(home, cache)
            before = sums(home, cache)
            left = shutil.disk_usage(cache).free
            (cache / "ballast").write_bytes(b"b" * (left - 100_000))
            with pytest.raises(StorageError):
                rebuild([home], cache)
            (cache / "ballast").unlink()
            assert before == sums(home, cache)


class TestVacuum:
    def test_it_makes_it_smaller_and_changes_no_answer(self, home: Path, cache: Path) -> None:
        """One segment, no free pages."""
        log = home / "projects" / "-srv" / "long.jsonl"
        for number in range(6):
            with log.open("ab") as file:
                file.write(
                    encoded([user(f"l{number}-{n}", None, n, f"words {number} {n} " * 30) for n in range(60)])
                )
            build(home, cache)
        log.unlink()
        build(home, cache)
        before = sums(home, cache)
        done = vacuum([home], cache)
        after = status([home], cache)

        assert (True, 1, before) == (done.bytes_after < done.bytes_before, after.segments, sums(home, cache))
        assert (True, []) == (after.is_current, done.removed)

    def test_where_there_is_none_it_says_so(self, home: Path, cache: Path) -> None:
        """Exit code 3, and how to make one."""
        with pytest.raises(NotFound) as caught:
            vacuum([home], cache)

        assert (3, True, False) == (
            caught.value.exit_code,
            "index rebuild" in caught.value.hint,
            cache.exists(),
        )

    def test_one_that_is_damaged_says_so(self, home: Path, cache: Path) -> None:
        """Exit code 4, and what helps."""
        cache.mkdir()
        index_path([home], cache).write_bytes(b"garbage" * 1_000)
        with pytest.raises(DamagedData) as caught:
            vacuum([home], cache)

        assert (4, True) == (caught.value.exit_code, "index rebuild" in caught.value.hint)

    def test_what_older_versions_and_accidents_left_is_removed(self, home: Path, cache: Path) -> None:
        """With their side files. A newer version's index, locks and strangers' files stay."""
        build(home, cache)
        path = index_path([home], cache)
        mine, others = path.stem.rpartition("-")[2], "00000000"
        stale = [
            f"index-v0-{mine}.sqlite",
            f"index-v0-{mine}.sqlite-wal",
            f"index-v0-{mine}.sqlite-shm",
            f"index-v{VERSION}-{mine}.aside",
            f"index-v{VERSION}-{mine}.aside-wal",
        ]
        kept = [
            f"index-v{VERSION + 1}-{mine}.sqlite",
            f"index-v0-{others}.sqlite",  # of other homes, whose new index was never built: it may know more
            f"index-v{VERSION}-{others}.aside",
            "index-v0-notes.txt",
            "notes.aside",
        ]
        for name in (*stale, *kept):
            (cache / name).write_bytes(b"x")
        (cache / f"index-v{VERSION}-{mine}.aside-2").mkdir()
        announced = status([home], cache).stale
        done = vacuum([home], cache)

        assert sorted(stale) == [path.name for path in done.removed] == [path.name for path in announced]
        assert (set(), set(kept)) == (
            {name for name in stale if (cache / name).exists()},
            {name for name in kept if (cache / name).exists()},
        )
