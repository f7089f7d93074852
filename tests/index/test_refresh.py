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
from recollect.index import extraction
from recollect.index import refresh as indexing
from recollect.index.comparison import compare
from recollect.index.database import IndexDatabase
from recollect.index.extraction import ExtractionJob
from recollect.index.frame import ScannedLog
from recollect.index.ingest import Ingest
from recollect.index.refresh import RefreshResult, refresh
from recollect.store.logs.reader import OpenLog
from tests.index.projection import differences, faults, projection, totals
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
    """A refresh, after which the index equals a new one."""
    done = refresh(index, homes)
    fresh = IndexDatabase(":memory:")
    refresh(fresh, homes)
    assert ([], []) == (differences(projection(fresh), projection(index)), faults(index))
    fresh.close()
    return done


def answers(index: IndexDatabase) -> int:
    return sum(counts[0] for counts in totals(index).values())


class TestReadingOnlyWhatIsNew:
    def test_where_nothing_changed_nothing_is_read_or_written(self, index: IndexDatabase, home: Path) -> None:
        """One walk, no log opened, no page written."""
        session(home)
        refreshed(index, home)
        before = index.connection.total_changes()
        with (
            mock.patch.object(indexing, "numbered_frames", side_effect=AssertionError),
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


class TestNoticingChanges:
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
            mock.patch.object(indexing, "cores", return_value=1),
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


class TestAgents:
    def test_whose_agent_it_is_says_its_place_or_its_lines(self, index: IndexDatabase, home: Path) -> None:
        """By the directory in the nested layout, by the first line in the flat one."""
        project = home / "projects" / "-srv"
        log_at(project / ONE / "subagents" / "agent-a1.jsonl", [user("x", None, 0, "x", sessionId=TWO)])
        log_at(project / "agent-a2.jsonl", [user("y", None, 0, "y", sessionId=TWO)])
        refreshed(index, home)

        assert [("a1", ONE), ("a2", TWO)] == sorted(index.rows("SELECT agent, session FROM agents"))

    def test_an_agent_whose_lines_change_hands_is_given_to_its_new_session(
        self, index: IndexDatabase, home: Path
    ) -> None:
        """In the flat layout only the lines say whose agent it is."""
        log = log_at(
            home / "projects" / "-srv" / "agent-a.jsonl", [user("a", None, 0, "x") | {"sessionId": ONE}]
        )
        refreshed(index, home)
        before = index.value("SELECT session FROM files")
        log.write_bytes(encoded([user("b", None, 0, "yy") | {"sessionId": TWO}]))
        later(log)
        refreshed(index, home)

        assert (ONE, TWO) == (before, index.value("SELECT session FROM files"))


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
        found.gone,
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
