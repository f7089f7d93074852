"""A refresh reads what is new, notices what moved, changed or went, and keeps what deleted sessions cost."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from recollect.errors import StorageError
from recollect.index import messages
from recollect.index.database import IndexDatabase
from recollect.index.ingest import Ingest
from recollect.index.placed import ScannedLog
from recollect.services.indexing import extraction
from recollect.services.indexing import refresh as indexing
from recollect.services.indexing.refresh import RefreshResult, compare, refresh
from recollect.services.indexing.session_listing import ExtractionJob
from recollect.storage import home_walk
from recollect.storage.logs.reader import OpenLog
from tests.index.projection import differences, faults, projection, totals
from tests.index.world import settle_directories
from tests.talk import SONNET, assistant, encoded, log_at, user

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "projects").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexDatabase]:
    made = IndexDatabase(tmp_path / "index.sqlite")
    yield made
    made.close()


def session(home: Path, name: str = ONE, lines: int = 3, project: str = "-srv", start: int = 0) -> Path:
    """A log of a prompt and some answers."""
    spoken = [user(f"{name}-u", None, start, f"prompt of {name}")]
    spoken += [assistant(f"{name}-{n}", None, start + n + 1, f"answer {n} of {name}") for n in range(lines)]
    return log_at(home / "projects" / project / f"{name}.jsonl", spoken)


def append(path: Path, *lines: dict[str, Any]) -> int:
    data = encoded(list(lines))
    with path.open("ab") as log:
        log.write(data)
    return len(data)


def later(path: Path, seconds: int = 10) -> None:
    """Another file time, whatever the clock of the file system can tell apart."""
    time = path.stat().st_mtime_ns + seconds * 10**9
    os.utime(path, ns=(time, time))


def refreshed(index: IndexDatabase, *homes: Path) -> RefreshResult:
    """A refresh, after which the index equals a new one; directories that did not change look as if left alone."""
    settle_directories(*homes)
    done = refresh(index, homes)
    fresh = IndexDatabase(":memory:")
    refresh(fresh, homes)
    assert ([], []) == (differences(projection(fresh), projection(index)), faults(index))
    fresh.close()
    return done


def answers(index: IndexDatabase) -> int:
    return sum(counts[0] for counts in totals(index).values())


class TestLookingInsteadOfWalking:
    """Directories that neither gained nor lost a name are not read again."""

    def walked(self, index: IndexDatabase, *homes: Path) -> tuple[bool, RefreshResult]:
        """Whether a refresh read directories, and what it did."""
        with mock.patch.object(home_walk, "walk", side_effect=home_walk.walk) as walk:
            done = refresh(index, homes)
        return walk.called, done

    def test_an_appended_line_is_seen_without_a_walk(self, index: IndexDatabase, home: Path) -> None:
        """A look at the known logs is enough."""
        log = session(home)
        refreshed(index, home)
        added = append(log, assistant("new", None, 99, "more"))

        assert (False, RefreshResult(1, 1, added, 0, [])) == self.walked(index, home)

    @pytest.mark.parametrize("depth", ["-srv", "-new", f"-srv/{ONE}/subagents", f"-srv/{ONE}/tool-results"])
    def test_a_new_name_makes_it_walk(self, depth: str, index: IndexDatabase, home: Path) -> None:
        """In a known directory, or in one that was just made."""
        session(home)
        refreshed(index, home)
        log_at(home / "projects" / depth / "agent-a.jsonl", [assistant("new", None, 99, "more")])
        is_walked, done = self.walked(index, home)

        assert (True, 1) == (is_walked, done.read)

    def test_a_name_that_went_makes_it_walk(self, index: IndexDatabase, home: Path) -> None:
        """What it cost stays."""
        session(home).unlink()
        log = session(home, TWO)
        refreshed(index, home)
        log.unlink()
        is_walked, done = self.walked(index, home)

        assert (True, 1) == (is_walked, done.gone)

    def test_a_directory_that_changed_just_now_is_read_again(self, index: IndexDatabase, home: Path) -> None:
        """A second name within one tick of the clock would leave it the same time."""
        session(home)
        refresh(index, [home])

        assert (True, RefreshResult(1, 0, 0, 0, [])) == self.walked(index, home)

    def test_what_could_not_be_read_is_said_every_time(self, index: IndexDatabase, home: Path) -> None:
        """So there is no shortcut past it."""
        log = session(home)
        (log.parent / "pipe.jsonl").mkdir()
        refreshed(index, home)
        is_walked, done = self.walked(index, home)

        assert (True, [(str(log.parent / "pipe.jsonl"), "not a regular file")]) == (is_walked, done.problems)

    def test_a_log_with_two_names_makes_it_walk(self, index: IndexDatabase, home: Path) -> None:
        """The second name may come to lead elsewhere without any directory telling."""
        log = session(home)
        log.with_name(f"{TWO}.jsonl").symlink_to(log)
        refreshed(index, home)

        assert (True, RefreshResult(1, 0, 0, 0, [])) == self.walked(index, home)

    def test_another_set_of_homes_makes_it_walk(
        self, index: IndexDatabase, home: Path, tmp_path: Path
    ) -> None:
        """What was noted of one home says nothing of two."""
        session(home)
        refreshed(index, home)
        session(tmp_path / "other", TWO)

        is_walked, done = self.walked(index, home, tmp_path / "other")

        assert (True, 2) == (is_walked, done.logs)

    def test_an_agent_whose_lines_change_hands_is_given_to_its_new_session(
        self, index: IndexDatabase, home: Path
    ) -> None:
        """In the flat layout only the lines say whose agent it is, also where no directory was read."""
        log = log_at(
            home / "projects" / "-srv" / "agent-a.jsonl", [user("a", None, 0, "x") | {"sessionId": ONE}]
        )
        refreshed(index, home)
        before = index.value("SELECT session FROM files")
        log.write_bytes(encoded([user("b", None, 0, "yy") | {"sessionId": TWO}]))
        later(log)
        is_walked, _ = self.walked(index, home)

        assert (ONE, False, TWO) == (before, is_walked, index.value("SELECT session FROM files"))


class TestReadingOnlyWhatIsNew:
    def test_where_nothing_changed_nothing_is_read_or_written(self, index: IndexDatabase, home: Path) -> None:
        """One walk, no log opened, no page written."""
        session(home)
        refreshed(index, home)
        before = index.connection.total_changes()
        with (
            mock.patch.object(indexing, "_frames_here", side_effect=AssertionError),
            mock.patch.object(indexing, "_is_continued", side_effect=AssertionError),
        ):
            done = refresh(index, [home])

        assert (RefreshResult(1, 0, 0, 0, []), before) == (done, index.connection.total_changes())

    def test_only_added_bytes_are_read(self, index: IndexDatabase, home: Path) -> None:
        """However long the log is."""
        log = session(home, lines=50)
        session(home, TWO)
        refreshed(index, home)
        added = append(log, assistant("new", None, 99, "more"))
        done = refreshed(index, home)

        assert (1, added, 54) == (done.read, done.bytes, answers(index))

    def test_a_torn_line_is_read_once_it_is_whole(self, index: IndexDatabase, home: Path) -> None:
        """Not before, and then only it (S3)."""
        log = session(home, lines=1)
        line = encoded([assistant("new", None, 99, "more")])
        log.write_bytes(log.read_bytes() + line[:40])
        refreshed(index, home)
        before = answers(index)
        log.write_bytes(log.read_bytes() + line[40:])
        later(log)

        refreshed(index, home)

        assert (1, 2) == (before, answers(index))

    def test_a_log_that_was_moved_is_not_read_again(self, index: IndexDatabase, home: Path) -> None:
        """To another project or another name: the same rows under the new path."""
        log = session(home, lines=5)
        refreshed(index, home)
        target = home / "projects" / "-elsewhere" / f"{TWO}.jsonl"
        target.parent.mkdir()
        log.rename(target)
        with mock.patch.object(Ingest, "apply", side_effect=AssertionError):
            done = refresh(index, [home])

        assert (0, [(str(target), TWO, 0, 6)]) == (
            done.bytes,
            index.rows("SELECT path, session, gone, messages FROM files"),
        )
        refreshed(index, home)

    def test_progress_is_told_in_bytes_up_to_all_of_them(self, index: IndexDatabase, home: Path) -> None:
        """It never goes back, and ends at the total."""
        sizes = session(home, lines=20).stat().st_size + session(home, TWO, lines=20).stat().st_size
        told: list[tuple[int, int]] = []
        with mock.patch.object(extraction, "_FRAME_LINES", 4):
            refresh(index, [home], lambda done, total: told.append((done, total)))

        assert (sorted(told), (sizes, sizes)) == (told, told[-1])

    def test_logs_are_read_in_the_order_of_their_last_change(self, index: IndexDatabase, home: Path) -> None:
        """Text rows then stand nearly in the order of time, so that a search for the newest can stop early."""
        new, old = session(home, ONE), session(home, TWO)
        os.utime(new, ns=(2_000, 2_000))
        os.utime(old, ns=(1_000, 1_000))
        refresh(index, [home])

        assert [(TWO,), (ONE,)] == index.rows(
            "SELECT session FROM files JOIN messages ON file = files.id GROUP BY files.id ORDER BY min(messages.id)"
        )


class TestFrames:
    """Where a log is cut into frames depends on when it was read, and must not show."""

    def rows(self, index: IndexDatabase, home: Path, at_once: int) -> list[tuple[object, ...]]:
        with mock.patch.object(extraction, "_FRAME_LINES", at_once):
            refresh(index, [home])
        found = index.rows("SELECT at, forked, input, output, asked, tool, lines FROM usage")
        (home / "projects" / "-srv" / f"{ONE}.jsonl").unlink()
        return found

    def one_response(self, *changes: dict[str, Any]) -> list[dict[str, Any]]:
        lines = []
        for number, change in enumerate(changes):
            line = assistant(f"l{number}", change.pop("parent", None), change.pop("at", 5), "x", "m")
            line["message"]["usage"] = {"input_tokens": number, "output_tokens": change.pop("output", 1)}
            lines.append({**line, **change})
        return lines

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            # Of two equal lines the later one speaks.
            ([{}, {}], (1_767_225_605_000, 0, 1, 1, None, 0, 2)),
            # Whether a fork copied it does not matter between lines of one log.
            ([{}, {"forkedFrom": {"sessionId": "x"}}], (1_767_225_605_000, 1, 1, 1, None, 0, 2)),
            ([{"forkedFrom": {"sessionId": "x"}}, {}], (1_767_225_605_000, 0, 1, 1, None, 0, 2)),
            # What was asked is said by the first line, also where it says nothing.
            ([{"parent": None}, {"parent": "p"}], (1_767_225_605_000, 0, 1, 1, None, 0, 2)),
            ([{"parent": "p"}, {"parent": "q"}, {"parent": "r"}], (1_767_225_605_000, 0, 2, 1, "p", 0, 3)),
            # The best line speaks wherever it stands.
            (
                [{"output": 1}, {"output": 9}, {"output": 3, "at": 50}],
                (1_767_225_605_000, 0, 1, 9, None, 0, 3),
            ),
        ],
    )
    def test_one_line_a_frame_or_all_in_one(
        self, changes: list[dict[str, Any]], expected: tuple[object, ...], index: IndexDatabase, home: Path
    ) -> None:
        """Usage is the same."""
        lines = self.one_response(*changes)
        found = []
        for at_once in (1, 2, 2_000):
            log_at(home / "projects" / "-srv" / f"{ONE}.jsonl", lines)
            found.append(self.rows(index, home, at_once))
            index.connection.execute(
                "DELETE FROM usage; DELETE FROM responses; DELETE FROM rollup; DELETE FROM files"
            )

        assert [[expected]] * 3 == found

    def test_titles_are_the_last_ones_said(self, index: IndexDatabase, home: Path) -> None:
        """Set, set again, taken away."""
        titles: list[dict[str, Any]] = [
            {"type": "custom-title", "customTitle": "one"},
            {"type": "ai-title", "aiTitle": "made"},
            {"type": "custom-title", "customTitle": "two"},
            {"type": "custom-title", "customTitle": ""},
        ]
        seen = []
        log = home / "projects" / "-srv" / f"{ONE}.jsonl"
        for count in range(1, 5):
            log_at(log, titles[:count])
            later(log, count)
            refreshed(index, home)
            seen += index.rows("SELECT custom_title, ai_title FROM catalogue")

        assert [("one", None), ("one", "made"), ("two", "made"), ("", "made")] == seen


class TestNoticingChanges:
    def test_a_truncated_log_is_read_anew(self, index: IndexDatabase, home: Path) -> None:
        """What was cut off is neither found nor counted."""
        log = session(home, lines=5)
        refreshed(index, home)
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:3]))

        refreshed(index, home)

        assert 2 == answers(index)

    def test_other_bytes_of_the_same_length_are_read_anew(self, index: IndexDatabase, home: Path) -> None:
        """The time of the file gives them away, also where it begins and ends as before."""
        lines = [assistant(f"a{n}", None, n, f"answer {n} " * 100) for n in range(20)]
        log = log_at(home / "projects" / "-srv" / f"{ONE}.jsonl", lines)
        refreshed(index, home)
        before = log.stat().st_mtime_ns
        log.write_bytes(log.read_bytes().replace(b"answer 10", b"ANSWER XX").replace(b"msg_a10", b"msg_XXX"))
        os.utime(log, ns=(before + 10**9, before + 10**9))

        assert (1, 0) == (
            refreshed(index, home).read,
            index.value("SELECT count(*) FROM texts WHERE texts MATCH '\"answer 10\"'"),
        )

    def test_another_file_under_the_name_is_read_anew(self, index: IndexDatabase, home: Path) -> None:
        """Also where it begins and ends as the old one did and is longer: sed -i, then a client that goes on."""
        log = log_at(home / "projects/-srv" / f"{ONE}.jsonl", [user("u", None, 0, "padding " * 600)])
        secret = assistant("s", None, 5, "the key is alpha-one " + "padding " * 600)
        append(log, secret, *(assistant(f"p{n}", None, 6 + n, "padding " * 200) for n in range(5)))
        refreshed(index, home)
        redacted = log.with_name("temporary")
        redacted.write_bytes(log.read_bytes().replace(b"alpha-one", b"xxxxxxxxx"))
        redacted.replace(log)
        append(log, assistant("new", None, 99, "more"))

        refreshed(index, home)

        assert 0 == index.value("SELECT count(*) FROM texts WHERE texts MATCH 'alpha'")

    def test_a_log_that_was_only_touched_keeps_its_rows(self, index: IndexDatabase, home: Path) -> None:
        """It is read again, because its bytes may be others; nothing changes (S11)."""
        log = session(home)
        refreshed(index, home)
        before = projection(index)
        later(log)

        refreshed(index, home)

        assert (before.messages, before.usage) == (projection(index).messages, projection(index).usage)

    def test_two_logs_that_changed_names_are_told_apart(self, index: IndexDatabase, home: Path) -> None:
        """Each is read under its new name."""
        one, two = session(home, ONE, lines=2), session(home, TWO, lines=4)
        refreshed(index, home)
        between = home / "between"
        one.rename(between)
        two.rename(one)
        between.rename(two)

        refreshed(index, home)

        assert 6 == answers(index)

    def test_a_log_the_disk_refused_is_said_and_tried_again(self, index: IndexDatabase, home: Path) -> None:
        """Nothing of it is lost for good because of one bad moment."""
        log = session(home)
        refused = StorageError("read", log, OSError(errno.EIO, "Input/output error"), hint="look at the disk")
        with mock.patch.object(extraction, "OpenLog", side_effect=refused):
            done = refresh(index, [home])
        before = answers(index)

        refreshed(index, home)

        assert ([(str(log), f"read {log}: Input/output error")], 0, 3) == (
            done.problems,
            before,
            answers(index),
        )

    def test_a_log_the_disk_refused_in_its_middle_is_read_on(self, index: IndexDatabase, home: Path) -> None:
        """What was read before stays, the rest follows."""
        log = session(home, lines=40)
        original = OpenLog.read

        def failing(self: OpenLog, size: int, offset: int) -> bytes:
            if offset > 5_000:
                raise StorageError(
                    "read", log, OSError(errno.EIO, "Input/output error"), hint="look at the disk"
                )
            return original(self, min(size, 2_000), offset)

        with mock.patch.object(OpenLog, "read", failing), mock.patch.object(extraction, "_FRAME_LINES", 3):
            done = refresh(index, [home])
        before = answers(index)

        refreshed(index, home)

        assert (1, True, 40) == (len(done.problems), 0 < before < 40, answers(index))

    def test_a_refresh_that_died_is_finished_by_the_next(self, index: IndexDatabase, home: Path) -> None:
        """Logs that were listed and not yet read are read, those read in part are read on."""
        session(home, ONE, lines=9)
        session(home, TWO, lines=9)
        calls = 0
        original = Ingest.apply

        def dying(self: Ingest, *arguments: Any) -> bool:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise SystemExit
            return original(self, *arguments)

        with (
            mock.patch.object(Ingest, "apply", dying),
            mock.patch.object(extraction, "_FRAME_LINES", 3),
            mock.patch.object(indexing, "_BULK_COMMIT", 1),
            pytest.raises(SystemExit),
        ):
            refresh(index, [home])
        before, state = answers(index), index.meta("complete")

        done = refreshed(index, home)

        assert (True, None, 2, 18) == (0 < before < 18, state, done.read, answers(index))

    def test_a_bulk_load_that_died_does_not_leave_merging_off(self, index: IndexDatabase, home: Path) -> None:
        """Else every later refresh would add a segment for every search to look at."""
        session(home)
        indexing._tune(index, bulk=True)

        refreshed(index, home)

        assert 0 != index.value("SELECT v FROM texts_config WHERE k = 'automerge'")

    @pytest.mark.parametrize("commits", [1, 12])
    def test_a_new_line_after_a_first_build_never_rewrites_its_words(
        self, index: IndexDatabase, home: Path, commits: int
    ) -> None:
        """Sixteen segments on the level where new ones arrive would be merged at once, however large they are."""
        said = [
            assistant(f"{ONE}-{n}", None, n, " ".join(f"word{n}n{word}" for word in range(900)))
            for n in range(150)
        ]
        log = log_at(home / "projects" / "-srv" / f"{ONE}.jsonl", said)
        with (
            mock.patch.object(indexing, "_WORTH_A_PROCESS", -1),
            mock.patch.object(indexing, "_BULK_COMMIT", log.stat().st_size // commits),
            mock.patch.object(indexing, "_frames_elsewhere", lambda jobs, _: indexing._frames_here(jobs)),
            mock.patch.object(extraction, "_FRAME_LINES", 2),
        ):
            refresh(index, [home])
        pages = index.value("SELECT count(*) FROM texts_data")
        changes = []
        for number in range(63):
            append(log, assistant(f"{ONE}-later-{number}", None, 200 + number, "one more"))
            before = index.connection.total_changes()
            refresh(index, [home])
            changes.append(index.connection.total_changes() - before)

        assert isinstance(pages, int)
        assert pages > 300
        assert max(changes) < pages // 4
        assert ([], 213) == (faults(index), answers(index))

    def test_a_first_build_sees_what_another_process_wrote_meanwhile(
        self, index: IndexDatabase, home: Path
    ) -> None:
        """It looks up no id it has not met, but an id that came from elsewhere is there all the same."""
        log = session(home)
        append(
            log, assistant("c", None, 9, [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}])
        )
        ingest = Ingest(index)
        ingest.expect_many()
        other = IndexDatabase(index.path)
        refresh(other, [home])
        other.close()
        copy = home / "projects" / "-srv" / f"{TWO}.jsonl"
        copy.write_bytes(log.read_bytes())
        with ingest.transaction():
            file = ingest.add_file(ScannedLog(str(copy), str(home), 0, TWO, None, 1, 9, 10, 1))
            applied = [ingest.apply(file, frame) for frame in extraction.frames(ExtractionJob(str(copy)))]

        assert ([True], [], 4, 5, 1) == (
            applied,
            faults(index),
            answers(index),
            index.value("SELECT count(DISTINCT text) FROM messages"),
            index.value("SELECT sum(counted) FROM calls"),
        )

    def test_words_of_small_logs_are_written_together(self, index: IndexDatabase, home: Path) -> None:
        """A line that two of them have is found once, and each log is whole, wherever the writes were cut."""
        for number in range(40):
            session(home, f"{number:08d}-1111-4111-8111-111111111111", lines=4)
        shared = encoded([user("shared", None, 1, "a shared line")])
        for name in (ONE, TWO):
            (home / "projects" / "-srv" / f"{name}.jsonl").write_bytes(shared)
        with mock.patch.object(messages, "_AT_ONCE", 300):
            refresh(index, [home])
        pieces = projection(index)
        whole = IndexDatabase(":memory:")
        refresh(whole, [home])

        assert ([], pieces) == (faults(index), projection(whole))
        assert 1 == index.value("SELECT count(*) FROM texts WHERE texts MATCH 'shared'")


class TestGone:
    def test_a_deleted_session_still_costs_and_is_not_found(self, index: IndexDatabase, home: Path) -> None:
        """Its usage stays, marked as gone; its words go."""
        session(home, ONE, lines=2)
        log = session(home, TWO, lines=5)
        refreshed(index, home)
        log.unlink()
        done = refreshed(index, home)

        assert (1, 7, 0, [(TWO, 1)]) == (
            done.gone,
            answers(index),
            index.value("SELECT count(*) FROM texts WHERE texts MATCH ?", f'"{TWO}"'),
            index.rows("SELECT session, gone FROM files WHERE gone"),
        )

    def test_a_session_that_comes_back_counts_once(self, index: IndexDatabase, home: Path) -> None:
        """Out of the trash, under its old name."""
        log = session(home, lines=5)
        refreshed(index, home)
        log.rename(home / "trash")
        refreshed(index, home)
        (home / "trash").rename(log)

        refreshed(index, home)

        assert (5, []) == (answers(index), index.rows("SELECT path FROM files WHERE gone"))

    def test_a_session_moved_to_the_name_of_a_deleted_one_is_moved(
        self, index: IndexDatabase, home: Path
    ) -> None:
        """It is not counted as deleted; what the other cost goes with its name."""
        one, two = session(home, ONE, lines=2), session(home, TWO, lines=4)
        refreshed(index, home)
        two.unlink()
        refreshed(index, home)
        one.rename(two)

        refreshed(index, home)

        assert (2, [(TWO, 0)]) == (answers(index), index.rows("SELECT session, gone FROM files"))

    def test_the_copy_in_a_fork_counts_when_the_original_is_gone_for_good(
        self, index: IndexDatabase, home: Path
    ) -> None:
        """Deleted and overwritten: the fork speaks for the responses both had."""
        log = session(home, ONE, lines=3)
        fork = log.with_name(f"{TWO}.jsonl")
        fork.write_bytes(log.read_bytes())
        refreshed(index, home)
        log.write_bytes(encoded([user("other", None, 0, "another")]))
        later(log)

        refreshed(index, home)

        assert (3, [(TWO, 3)]) == (
            answers(index),
            index.rows(
                "SELECT session, count(*) FROM usage JOIN files ON files.id = file WHERE counted & 1 GROUP BY session"
            ),
        )

    def test_a_tool_output_that_is_gone_leaves_nothing(self, index: IndexDatabase, home: Path) -> None:
        """It cost nothing by itself."""
        output = home / "projects" / "-srv" / ONE / "tool-results" / "out.txt"
        output.parent.mkdir(parents=True)
        output.write_text("some output")
        refreshed(index, home)
        output.unlink()

        refreshed(index, home)

        assert [] == index.rows("SELECT path FROM files")

    def test_a_move_decides_anew_which_of_two_equal_copies_counts(
        self, index: IndexDatabase, home: Path
    ) -> None:
        """The smaller path does: it is the same in whatever order the logs were found."""
        log = session(home, ONE, project="-a")
        fork = session(home, TWO, project="-b")
        fork.write_bytes(log.read_bytes())
        refreshed(index, home)
        counted = "SELECT DISTINCT path FROM usage JOIN files ON files.id = file WHERE counted & 1"
        before = index.rows(counted)
        moved = home / "projects" / "-c" / log.name
        moved.parent.mkdir()
        log.rename(moved)

        refreshed(index, home)

        assert ([(str(log),)], [(str(fork),)]) == (before, index.rows(counted))


class TestAgents:
    def test_whose_agent_it_is_says_its_place_or_its_lines(self, index: IndexDatabase, home: Path) -> None:
        """By the directory in the nested layout, by the first line in the flat one."""
        project = home / "projects" / "-srv"
        log_at(project / ONE / "subagents" / "agent-a1.jsonl", [user("x", None, 0, "x", sessionId=TWO)])
        log_at(project / "agent-a2.jsonl", [user("y", None, 0, "y", sessionId=TWO)])
        refreshed(index, home)

        assert [("a1", ONE), ("a2", TWO)] == sorted(index.rows("SELECT agent, session FROM agents"))

    def test_it_stays_so_when_the_log_is_read_anew(self, index: IndexDatabase, home: Path) -> None:
        """A nested agent's log that was rewritten belongs to its directory as before."""
        log = log_at(
            home / "projects/-srv" / ONE / "subagents/agent-a1.jsonl",
            [user("x", None, 0, "x", sessionId=TWO)],
        )
        refreshed(index, home)
        log_at(log, [user("z", None, 0, "z", sessionId=TWO)])
        later(log)

        refreshed(index, home)

        assert [("a1", ONE)] == index.rows("SELECT agent, session FROM agents")

    def test_an_agent_that_moves_to_the_flat_layout_is_its_lines_session_s(
        self, index: IndexDatabase, home: Path
    ) -> None:
        """And one that moves into a directory is that directory's."""
        project = home / "projects" / "-srv"
        nested, flat = project / ONE / "subagents" / "agent-a1.jsonl", project / "agent-a1.jsonl"
        log_at(nested, [user("x", None, 0, "x", sessionId=TWO)])
        refreshed(index, home)
        nested.rename(flat)
        refreshed(index, home)
        by_lines = index.rows("SELECT agent, session FROM agents")
        flat.rename(nested)
        refreshed(index, home)

        assert ([("a1", TWO)], [("a1", ONE)]) == (by_lines, index.rows("SELECT agent, session FROM agents"))


class TestHostileLogs:
    """What a log says must never stop an index from being built: every question would fail."""

    @pytest.mark.parametrize(
        "usage",
        [
            {"input_tokens": 10**30, "output_tokens": 5},
            {"input_tokens": -3, "output_tokens": 2**63},
            {"input_tokens": 1.5, "output_tokens": "x"},
            {"input_tokens": 1, "output_tokens": 1, "cache_creation": {"ephemeral_5m_input_tokens": 2**80}},
        ],
    )
    def test_counts_beyond_reason(self, usage: dict[str, Any], index: IndexDatabase, home: Path) -> None:
        """They count as none; the sound ones beside them stay."""
        log = session(home, lines=2)
        line = assistant("x", None, 9, "x")
        line["message"]["usage"] = usage
        append(log, line, assistant("y", None, 10, "y"))

        refreshed(index, home)

        assert 3 <= answers(index) <= 4

    @pytest.mark.parametrize(
        "cost", [b"1e400", b"1e999999999", b"-5", b"1e-999999999", b"9" * 5_000, b"0." + b"1" * 5_000]
    )
    def test_costs_beyond_reason(self, cost: bytes, index: IndexDatabase, home: Path) -> None:
        """Of a response, of a session, of a duration."""
        log = session(home, lines=1)
        line = encoded([assistant("x", None, 9, "x")])[:-2]
        with log.open("ab") as file:
            file.write(line + b',"costUSD":%s,"durationMs":%s}\n' % (cost, cost))
            file.write(
                b'{"type":"cost-state","totalCostUSD":%s,"modelUsage":{"m":{"costUSD":%s}}}\n' % (cost, cost)
            )

        refreshed(index, home)

        assert 2 == answers(index)

    def test_sums_of_the_largest_counts_stay_exact(self, index: IndexDatabase, home: Path) -> None:
        """A thousand responses at the limit: 1,000 x (2**40 - 1) is still a whole number."""
        lines = []
        for number in range(1_000):
            line = assistant(f"x{number}", None, 9, "x")
            line["message"]["usage"] = {"input_tokens": 2**40 - 1, "output_tokens": 2**40 - 1}
            lines.append(line)
        log_at(home / "projects" / "-srv" / f"{ONE}.jsonl", lines)

        refreshed(index, home)

        assert (1_000, 1_000 * (2**40 - 1)) == totals(index)[SONNET][:2]

    @pytest.mark.parametrize(
        "text",
        [
            "nul \0 inside",
            "\ud800 half",
            "\U0010ffff",
            "\r\n\x1b[31m",
            "a" * 70_000,
            "'; DROP TABLE files;--",
        ],
    )
    def test_any_text(self, text: str, index: IndexDatabase, home: Path) -> None:
        """Control characters, half characters, very long words, statements."""
        log = session(home, lines=1)
        append_ascii(log, user("x", None, 5, text), {"type": "custom-title", "customTitle": text})
        append_ascii(
            log, {**assistant(text, text, 6, text, text), "gitBranch": text, "cwd": text, "version": text}
        )

        refreshed(index, home)

        assert 2 == answers(index)

    def test_a_name_that_is_no_text_is_said_and_left_out(self, index: IndexDatabase, home: Path) -> None:
        """The other logs are indexed all the same."""
        session(home)
        odd = home / "projects" / "-srv" / os.fsdecode(b"\xff.jsonl")
        odd.write_bytes(b"{}\n")
        done = refreshed(index, home)

        assert (1, [(str(odd), "its name is not UTF-8, so it is not in the index")]) == (
            done.logs,
            done.problems,
        )

    def test_names_with_odd_characters_are_names(self, index: IndexDatabase, home: Path) -> None:
        """Newlines, quotes and emoji."""
        for number, name in enumerate(["a\nb", "it's", '"quoted"', "😀", " "]):
            session(home, name, lines=1, start=number * 10)

        assert 5 == refreshed(index, home).logs


def append_ascii(path: Path, *lines: dict[str, Any]) -> None:
    """As other writers do it: everything that is not ASCII escaped, half characters too."""
    with path.open("ab") as log:
        log.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


class TestTwoHomes:
    def test_a_response_counts_once_over_all_homes(
        self, index: IndexDatabase, home: Path, tmp_path: Path
    ) -> None:
        """A backup of a home beside it adds nothing."""
        log = session(home, lines=3)
        copy = tmp_path / "backup" / "projects" / "-srv" / log.name
        copy.parent.mkdir(parents=True)
        copy.write_bytes(log.read_bytes())

        refreshed(index, home, tmp_path / "backup")

        assert (3, 2) == (answers(index), index.value("SELECT count(*) FROM files"))

    def test_homes_that_share_a_directory_share_its_logs(
        self, index: IndexDatabase, home: Path, tmp_path: Path
    ) -> None:
        """A link from one to the other makes no second copy, not even of answers without ids."""
        flat = {
            "type": "assistant",
            "content": "x",
            "model": SONNET,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        log_at(home / "projects" / "-srv" / f"{ONE}.jsonl", [flat])
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "projects").symlink_to(home / "projects")

        refreshed(index, home, tmp_path / "other")

        assert (1, 1) == (answers(index), index.value("SELECT count(*) FROM files"))

    def test_a_log_that_moves_to_another_home_moves_in_the_index(
        self, index: IndexDatabase, home: Path, tmp_path: Path
    ) -> None:
        """The row says where it lies now."""
        log = session(home)
        other = tmp_path / "other"
        (other / "projects" / "-srv").mkdir(parents=True)
        refreshed(index, home, other)
        log.rename(other / "projects" / "-srv" / log.name)

        refreshed(index, home, other)

        assert [(str(other), 0)] == index.rows("SELECT home, gone FROM files")


def test_a_comparison_changes_nothing(index: IndexDatabase, home: Path) -> None:
    """It says what a refresh would read and what it would miss."""
    log = session(home, ONE)
    session(home, TWO)
    refresh(index, [home])
    log.unlink()
    append(home / "projects" / "-srv" / f"{TWO}.jsonl", user("n", None, 99, "new"))
    before = index.connection.total_changes()
    found = compare(index, [home])

    assert (1, [TWO], [str(log)], before) == (
        found.logs,
        [one.session for one in found.changed],
        [row.path for row in found.missing],
        index.connection.total_changes(),
    )


class TestIngest:
    """The door everything comes in by."""

    def placed(self, path: str = "/h/projects/p/s.jsonl") -> ScannedLog:
        return ScannedLog(path, "/h", 0, "s", None, 1, 2, 3, 4)

    def test_a_frame_that_was_applied_is_refused_the_second_time(
        self, index: IndexDatabase, tmp_path: Path
    ) -> None:
        """A process that died may leave us the frames it had sent already."""
        log = log_at(tmp_path / "s.jsonl", [user("a", None, 0, "x"), assistant("b", "a", 1, "y")])
        (frame,) = extraction.frames(ExtractionJob(str(log)))
        ingest = Ingest(index)
        with ingest.transaction():
            file = ingest.add_file(self.placed())
            once, again = ingest.apply(file, frame), ingest.apply(file, frame)

        assert (True, False, 2, []) == (
            once,
            again,
            index.value("SELECT count(*) FROM messages"),
            faults(index),
        )

    def test_forgetting_a_copy_leaves_the_text_to_the_other(
        self, index: IndexDatabase, tmp_path: Path
    ) -> None:
        """Whichever of the two came first: found once, as long as one of them is there."""
        log = log_at(tmp_path / "s.jsonl", [user("a", None, 0, "shared words")])
        (frame,) = extraction.frames(ExtractionJob(str(log)))
        found = []
        ingest = Ingest(index)
        with ingest.transaction():
            first, second = ingest.add_file(self.placed("/h/one")), ingest.add_file(self.placed("/h/two"))
            ingest.apply(first, frame)
            ingest.apply(second, frame)
        for forgotten in (first, second):
            found.append(index.value("SELECT count(*) FROM texts WHERE texts MATCH 'shared'"))
            with ingest.transaction():
                ingest.drop(forgotten)
        found.append(index.value("SELECT count(*) FROM texts WHERE texts MATCH 'shared'"))

        assert ([1, 1, 0], []) == (found, faults(index))

    def test_a_transaction_that_fails_leaves_nothing(self, index: IndexDatabase) -> None:
        """All of it or nothing."""

        def fail() -> None:
            with index.transaction():
                Ingest(index).add_file(self.placed())
                raise SystemExit

        with pytest.raises(SystemExit):
            fail()

        assert [] == index.rows("SELECT * FROM files")
