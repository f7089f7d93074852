"""Nothing that is wrong with the index keeps a question from being answered, and all of it is said."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from unittest import mock

import apsw
import pytest

from recollect.errors import DamagedData, StorageError
from recollect.index import access
from recollect.index.access import OpenIndex, index_path, open_index
from recollect.index.database import IndexDatabase
from recollect.index.refresh import refresh
from recollect.index.schema import VERSION
from recollect.system.lock import FileLock
from tests.index.projection import differences, faults, projection, totals
from tests.small_disk import small_disk
from tests.talk import assistant, encoded, log_at, user

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three sessions of forty lines each."""
    for number in range(3):
        lines = [user("u", None, 0, f"prompt {number}")]
        lines += [assistant(f"{number}-{n}", "u", n, f"answer number {n} {'word ' * 50}") for n in range(40)]
        log_at(tmp_path / "home" / "projects" / "-srv" / f"{number}.jsonl", lines)
    return tmp_path / "home"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def logs_of(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*.jsonl")}


def responses(opened: OpenIndex) -> object:
    return opened.database.value("SELECT sum(messages) FROM rollup")


def assert_as_if_fresh(opened: OpenIndex, home: Path) -> None:
    """It holds what a new one would, and no invariant is broken."""
    fresh = IndexDatabase(":memory:")
    refresh(fresh, [home])
    assert ([], []) == (differences(projection(fresh), projection(opened.database)), faults(opened.database))
    fresh.close()


class TestFirstTime:
    def test_a_question_makes_the_index(self, home: Path, cache: Path) -> None:
        """120 answers; nothing to be said about it."""
        with open_index([home], cache=cache) as opened:
            assert (120, []) == (responses(opened), opened.notes)
            assert_as_if_fresh(opened, home)

    @pytest.mark.skipif(os.name != "posix", reason="there are no such modes on Windows")
    def test_only_its_owner_can_read_it(self, home: Path, cache: Path) -> None:
        """Names of directories and branches are in it: 0600 in 0700, under any umask."""
        before = os.umask(0)
        try:
            with open_index([home], cache=cache):
                modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()}
        finally:
            os.umask(before)

        assert (0o700, {0o600}) == (stat.S_IMODE(cache.stat().st_mode), set(modes.values()))

    def test_no_text_of_a_transcript_is_in_it(self, home: Path, cache: Path) -> None:
        """Words are, for the search; sentences are not."""
        with open_index([home], cache=cache):
            pass

        assert b"answer number" not in index_path([home], cache).read_bytes()

    def test_every_set_of_homes_has_its_own(self, home: Path, cache: Path, tmp_path: Path) -> None:
        """Whatever their order and spelling; another set, another file."""
        other = tmp_path / "other"
        other.mkdir()
        (tmp_path / "link").symlink_to(home)

        assert index_path([home, other], cache) == index_path([other, tmp_path / "link"], cache)
        assert index_path([home], cache) != index_path([home, other], cache)


class TestRefreshing:
    def test_without_a_refresh_the_answer_is_as_of_the_last(self, home: Path, cache: Path) -> None:
        """What was appended since is not in it."""
        with open_index([home], cache=cache):
            pass
        with (home / "projects/-srv/0.jsonl").open("ab") as log:
            log.write(encoded([assistant("new", "u", 99, "more")]))

        with open_index([home], cache=cache, is_refreshed=False) as opened:
            before = responses(opened)
        with open_index([home], cache=cache) as opened:
            after = responses(opened)

        assert (120, 121) == (before, after)

    def test_one_that_was_never_finished_is_finished_first(self, home: Path, cache: Path) -> None:
        """Also by a question that wants no refresh: half an index is no answer."""
        opened = OpenIndex([home], index_path([home], cache))
        opened.open()
        opened.close()

        with open_index([home], cache=cache, is_refreshed=False) as opened:
            assert 120 == responses(opened)

    def test_while_another_refreshes_the_last_state_answers(self, home: Path, cache: Path) -> None:
        """Nobody waits, and it is said."""
        with open_index([home], cache=cache):
            pass
        with (
            FileLock(index_path([home], cache).with_suffix(".lock")),
            open_index([home], cache=cache) as opened,
        ):
            assert 120 == responses(opened)
            assert [
                "another process is refreshing the index: the answer shows its last refresh"
            ] == opened.notes

    def test_while_another_builds_the_first_one_the_impatient_read_the_logs(
        self, home: Path, cache: Path
    ) -> None:
        """Half an index would be a wrong answer."""
        path = index_path([home], cache)
        path.parent.mkdir()
        with FileLock(path.with_suffix(".lock")), open_index([home], cache=cache, patience=0) as opened:
            assert opened.is_temporary
            assert "the index is not complete yet; reading the logs instead" == opened.notes[-1]


def flipped(path: Path, seed: int) -> None:
    """A thousand bytes in the second half of the file become others."""
    chance = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(1_000):
        data[chance.randrange(len(data) // 2, len(data))] ^= 0xFF
    path.write_bytes(data)


FOREIGN = (
    "CREATE TABLE files(x); CREATE TABLE meta(y)",
    f"CREATE TABLE x(y); PRAGMA user_version = {VERSION}",
)


def database_of(statements: str) -> bytes:
    database = apsw.Connection(":memory:")
    database.execute(statements)
    return database.serialize("main") or b""


class TestDamage:
    @pytest.mark.parametrize(
        "garbage",
        [b"garbage", b"x" * 100_000, b"SQLite format 3\0" + b"\xff" * 9_000, *map(database_of, FOREIGN)],
        ids=["garbage", "text", "header", "tables of somebody else", "our version with no tables"],
    )
    def test_what_is_no_index_of_ours_is_set_aside_and_built_anew(
        self, garbage: bytes, home: Path, cache: Path
    ) -> None:
        """Said, kept under another name, and the answer is right."""
        before = logs_of(home)
        path = index_path([home], cache)
        cache.mkdir()
        path.write_bytes(garbage)

        with open_index([home], cache=cache) as opened:
            assert_as_if_fresh(opened, home)
            assert opened.notes[0].startswith("the index was damaged (")
            assert f"it was set aside as {path.stem}.aside" in opened.notes[0]

        aside = path.with_suffix(".aside").read_bytes()
        assert (garbage[:16], before) == (aside[:16], logs_of(home))

    @pytest.mark.parametrize("size", [1, 100, 4_096, 5_000, 40_000])
    def test_a_file_that_was_cut_is_built_anew(self, size: int, home: Path, cache: Path) -> None:
        """At any length: the answer is right, at the latest when asked again."""
        with open_index([home], cache=cache):
            pass
        os.truncate(index_path([home], cache), size)

        assert_right_when_asked_again(home, cache)

    @pytest.mark.parametrize("seed", range(12))
    def test_flipped_bytes_never_end_in_a_traceback(self, seed: int, home: Path, cache: Path) -> None:
        """Found while refreshing or in the middle of an answer: said, set aside, and right when asked again."""
        with open_index([home], cache=cache):
            pass
        flipped(index_path([home], cache), seed)
        with (home / "projects/-srv/0.jsonl").open("ab") as log:
            log.write(encoded([assistant("new", "u", 99, "more")]))

        assert_right_when_asked_again(home, cache)

    def test_a_directory_in_its_place_is_set_aside_with_what_it_holds(self, home: Path, cache: Path) -> None:
        """Whoever put it there finds it again."""
        path = index_path([home], cache)
        path.mkdir(parents=True)
        (path / "somebody's file").write_text("kept")

        with open_index([home], cache=cache) as opened:
            assert (120, 1) == (responses(opened), len(opened.notes))
        shutil.rmtree(cache / f"{path.name}-wal", ignore_errors=True)
        path.unlink()
        path.mkdir()
        with open_index([home], cache=cache) as opened:
            assert 120 == responses(opened)

        asides = sorted(cache.glob("*.aside*"))
        assert [f"{path.stem}.aside", f"{path.stem}.aside-2"] == [aside.name for aside in asides]
        assert "kept" == (asides[0] / "somebody's file").read_text()

    def test_damage_in_the_middle_of_an_answer_is_said_and_the_next_answer_is_right(
        self, home: Path, cache: Path
    ) -> None:
        """The question that met it fails with exit code 4 and what to do."""
        with pytest.raises(DamagedData) as caught, open_index([home], cache=cache):
            raise apsw.CorruptError("database disk image is malformed")
        with open_index([home], cache=cache) as opened:
            right = responses(opened)

        assert (4, "run the command again: it is rebuilt from the logs", 120) == (
            caught.value.exit_code,
            caught.value.hint,
            right,
        )

    def test_one_that_cannot_be_set_aside_is_left_and_the_logs_are_read(
        self, home: Path, cache: Path
    ) -> None:
        """Another program may hold it, or the directory may be closed."""
        with open_index([home], cache=cache):
            pass
        refused = PermissionError(13, "Permission denied")
        with (
            mock.patch.object(OpenIndex, "set_aside", side_effect=refused),
            mock.patch.object(access, "build", side_effect=apsw.CorruptError("malformed")),
            open_index([home], cache=cache) as opened,
        ):
            assert (True, 120) == (opened.is_temporary, responses(opened))
            assert "could not be set aside" in opened.notes[0]

    def test_a_disk_that_fails_in_the_middle_of_an_answer_is_said(self, home: Path, cache: Path) -> None:
        """With the way around it; exit code 74."""
        with pytest.raises(StorageError) as caught, open_index([home], cache=cache):
            raise apsw.IOError("disk I/O error")

        assert (74, True) == (caught.value.exit_code, "--no-index" in caught.value.hint)


def assert_right_when_asked_again(home: Path, cache: Path) -> None:
    """Twice is enough; each failure is one of ours, and the logs stay as they are."""
    before = logs_of(home)
    for _ in range(2):
        with contextlib.suppress(DamagedData), open_index([home], cache=cache) as opened:
            assert_as_if_fresh(opened, home)
    with open_index([home], cache=cache) as opened:
        assert_as_if_fresh(opened, home)
    assert before == logs_of(home)


AS_NOBODY = """
import os, sys
from pathlib import Path
from recollect.index.access import open_index
if os.geteuid() == 0:
    os.setuid(65534)
with open_index([Path(sys.argv[1])], cache=Path(sys.argv[2])) as opened:
    print(opened.is_temporary, len(opened.notes), opened.notes[0].startswith("no index: "), opened.notes[0].endswith("; reading the logs instead"))
"""


def opened_to_all(path: Path) -> None:
    for place in (*path.parents, path):
        if place.stat().st_uid == os.geteuid() and place != Path("/"):
            place.chmod(place.stat().st_mode | 0o755)


class TestNoPlace:
    @pytest.mark.skipif(os.name != "posix", reason="there are no such modes on Windows")
    def test_a_read_only_directory_means_no_index_and_no_crash(self, home: Path, cache: Path) -> None:
        """Said once; the caller reads the logs."""
        cache.mkdir()
        opened_to_all(home)
        opened_to_all(cache)
        cache.chmod(0o555)
        ran = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(home), str(cache)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

        assert ("True 1 True True\n", "") == (ran.stdout, ran.stderr)

    def test_a_file_where_the_directory_should_be_means_no_index(self, home: Path, cache: Path) -> None:
        """Said, with the reason."""
        cache.write_text("not a directory")

        with open_index([home], cache=cache / "deeper") as opened:
            assert (True, 1) == (opened.is_temporary, len(opened.notes))
            assert "Not a directory" in opened.notes[0]

    def test_a_lock_that_cannot_be_had_means_no_refresh_and_no_crash(self, home: Path, cache: Path) -> None:
        """A directory in the place of the lock file."""
        index_path([home], cache).with_suffix(".lock").mkdir(parents=True)

        with open_index([home], cache=cache) as opened:
            assert (True, True) == (opened.is_temporary, "could not be locked" in opened.notes[0])

    def test_a_link_in_its_place_is_not_followed(self, home: Path, cache: Path, tmp_path: Path) -> None:
        """Somebody else's file is never written to."""
        victim = tmp_path / "victim"
        victim.write_text("precious")
        cache.mkdir()
        index_path([home], cache).symlink_to(victim)

        with open_index([home], cache=cache) as opened:
            assert (True, "precious") == (opened.is_temporary, victim.read_text())


# A limit on the size of files is what an ordinary user can have in place of a full disk.
LIMITED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
from recollect.index.access import open_index
with open_index([Path(sys.argv[1])], cache=Path(sys.argv[2])) as opened:
    print(opened.is_temporary, any("reading the logs instead" in note for note in opened.notes))
"""


class TestNoRoom:
    @pytest.mark.root
    def test_a_first_index_that_does_not_fit_is_taken_away_and_the_logs_are_read(
        self, home: Path, cache: Path
    ) -> None:
        """It would only take the room that is missing; with more room it is built."""
        before = logs_of(home)
        with small_disk(cache, "size=220k"):
            with open_index([home], cache=cache) as opened:
                assert opened.is_temporary
                assert "could not be written (database or disk is full) and was removed" in opened.notes[0]
                assert "free some space or check the disk, then try again" == opened.notes[-1]
            left = [path.suffix for path in cache.iterdir()]
            subprocess.run(["mount", "-o", "remount,size=8m", str(cache)], check=True)
            with open_index([home], cache=cache) as opened:
                assert 120 == responses(opened)

        assert ([".lock"], before) == (left, logs_of(home))

    @pytest.mark.root
    def test_a_whole_index_stays_as_it_was_when_more_does_not_fit(self, home: Path, cache: Path) -> None:
        """The answer then comes from the logs; with more room the index goes on where it was."""
        with small_disk(cache, "size=8m"):
            with open_index([home], cache=cache):
                pass
            (cache / "ballast").write_bytes(b"b" * (8 << 20 >> 1))
            with contextlib.suppress(OSError), (cache / "ballast").open("ab") as ballast:
                while True:
                    ballast.write(b"b" * 4096)
                    ballast.flush()
            # Enough for the files SQLite needs to open it, not for what is to be written.
            os.truncate(cache / "ballast", (cache / "ballast").stat().st_size - 100_000)
            lines = [assistant(f"new-{n}", "u", n, f"text {n} " * 500) for n in range(200)]
            with (home / "projects/-srv/0.jsonl").open("ab") as log:
                log.write(encoded(lines))
            with open_index([home], cache=cache) as opened:
                assert opened.is_temporary
                assert "and is unchanged" in opened.notes[0]
            (cache / "ballast").unlink()
            with open_index([home], cache=cache) as opened:
                assert 320 == responses(opened)
                assert_as_if_fresh(opened, home)

    @pytest.mark.skipif(os.name != "posix", reason="there are no such limits on Windows")
    @pytest.mark.parametrize("limit", [8_192, 65_536, 150_000])
    def test_a_file_size_limit_is_no_crash(self, limit: int, home: Path, cache: Path) -> None:
        """The same with the limit an ordinary user can meet."""
        before = logs_of(home)
        ran = subprocess.run(
            [sys.executable, "-c", LIMITED, str(home), str(cache), str(limit)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert ("True True\n", "") == (ran.stdout, ran.stderr)

        with open_index([home], cache=cache) as opened:
            assert 120 == responses(opened)
        assert before == logs_of(home)


class TestVersions:
    def test_indexes_of_other_versions_stay_where_they_are(self, home: Path, cache: Path) -> None:
        """Two versions of recollect on one machine do not disturb each other."""
        path = index_path([home], cache)
        others = [path.with_name(path.name.replace(f"v{VERSION}", f"v{VERSION + step}")) for step in (-1, 1)]
        cache.mkdir()
        for other in others:
            other.write_bytes(b"of another version")

        with open_index([home], cache=cache) as opened:
            assert 120 == responses(opened)

        assert [b"of another version"] * 2 == [other.read_bytes() for other in others]

    def test_deleted_sessions_are_taken_over_from_an_older_version(self, home: Path, cache: Path) -> None:
        """A newer schema builds a new file; what only the old one knew stays in the totals."""
        path = index_path([home], cache)
        with open_index([home], cache=cache) as opened:
            before = totals(opened.database)
        (home / "projects/-srv/1.jsonl").unlink()
        path.rename(path.with_name(path.name.replace(f"v{VERSION}", "v0")))

        with open_index([home], cache=cache) as opened:
            assert ["in the totals of the new index: 1 deleted sessions"] == opened.notes
            assert (before, []) == (totals(opened.database), faults(opened.database))
            assert [(1,)] == opened.database.rows("SELECT gone FROM files WHERE path LIKE '%/1.jsonl'")

    def test_an_older_index_that_cannot_be_read_is_said(self, home: Path, cache: Path) -> None:
        """Then nothing is left that knows what was deleted."""
        path = index_path([home], cache)
        cache.mkdir()
        older = path.with_name(path.name.replace(f"v{VERSION}", "v0"))
        older.write_bytes(b"unreadable")

        with open_index([home], cache=cache) as opened:
            assert [
                f"{older.name} could not be read: deleted sessions it knew are missing from the totals"
            ] == opened.notes

    def test_what_a_damaged_index_knew_of_deleted_sessions_is_saved_where_it_can_be(
        self, home: Path, cache: Path
    ) -> None:
        """Damage elsewhere in the file does not cost the totals."""
        with open_index([home], cache=cache) as opened:
            before = totals(opened.database)
        (home / "projects/-srv/2.jsonl").unlink()
        with open_index([home], cache=cache):
            pass
        with pytest.raises(DamagedData), open_index([home], cache=cache):
            raise apsw.CorruptError("a page of the words")

        with open_index([home], cache=cache) as opened:
            assert before == totals(opened.database)


def find_broken(home: Path, cache: Path, seen: multiprocessing.synchronize.Barrier, told: object) -> None:
    """A process that finds the index broken at the same moment as others."""
    original = OpenIndex.open
    waits = [60]  # once: a later try may meet the other process while it builds

    def together(self: OpenIndex) -> None:
        try:
            original(self)
        except Exception:
            if waits:
                seen.wait(waits.pop())
            raise

    with mock.patch.object(OpenIndex, "open", together), open_index([home], cache=cache) as opened:
        # On a busy machine the later one may find the other still at work, and says so: that is no word of damage.
        notes = [note for note in opened.notes if not note.startswith("another process is refreshing")]
        told.put((responses(opened), len(notes)))  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_two_that_find_it_broken_at_the_same_moment_build_one(home: Path, cache: Path) -> None:
    """The second does not set aside what the first has just built; both answer right, one speaks of damage.

    Two things are said in all: that it was damaged, and that what it knew of deleted sessions is lost.
    """
    cache.mkdir()
    path = index_path([home], cache)
    path.write_bytes(b"broken" * 1_000)
    context = multiprocessing.get_context("fork")
    seen, told = context.Barrier(2), context.Queue()
    both = [context.Process(target=find_broken, args=(home, cache, seen, told)) for _ in range(2)]
    for one in both:
        one.start()
    answers = sorted(told.get(timeout=60) for _ in both)
    for one in both:
        one.join(60)

    assert ([120, 120], 2) == ([right for right, _ in answers], sum(notes for _, notes in answers))
    assert b"broken" * 1_000 == path.with_suffix(".aside").read_bytes()


def test_an_index_that_was_replaced_meanwhile_is_opened_anew_before_it_is_written(
    home: Path, cache: Path
) -> None:
    """Who gets the lock looks first whether the file is still the one it opened."""
    with open_index([home], cache=cache):
        pass
    path = index_path([home], cache)
    opened = OpenIndex([home], path)
    opened.open()
    other = OpenIndex([home], path)
    other.open()
    other.set_aside()
    other.open()
    other.close()

    assert opened.is_replaced
    access._refresh(opened, None, True, None)

    assert (False, 120) == (opened.is_replaced, responses(opened))
    opened.close()
