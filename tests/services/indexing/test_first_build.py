"""A first build of many logs: the logs answer meanwhile, and who needs the index sees how far it is."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recollect.errors import Busy
from recollect.services.indexing import background_refresh, first_build
from recollect.services.indexing.access import OpenIndex, index_path, is_built, open_index
from recollect.services.indexing.first_build import left_to_background, locked_after_first_build
from tests.talk import assistant, log_at, user


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One session of forty answers."""
    lines = [user("u", None, 0, "prompt"), *(assistant(f"a{n}", "u", n, "answer") for n in range(40))]
    log_at(tmp_path / "home" / "projects" / "-srv" / "1.jsonl", lines)
    return tmp_path / "home"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], int]]:
    """Any log is many logs here. What would have been started in the background, and how nice."""
    found: list[tuple[list[str], int]] = []
    monkeypatch.setattr(first_build, "_SOON_BUILT", 0)
    monkeypatch.setattr(
        background_refresh, "_start", lambda arguments, niceness: found.append((arguments, niceness))
    )
    return found


def test_the_logs_answer_while_it_is_built(home: Path, cache: Path, started: list[object]) -> None:
    with open_index([home], cache=cache, is_first_awaited=False) as opened:
        assert (None, "") == (opened.database, opened.refused)
        assert ["the index is being built in the background; reading the logs instead"] == opened.notes
    assert [(["--cache", str(cache), str(home)], 5)] == started


def test_what_is_built_in_no_time_is_built_at_once(
    home: Path, cache: Path, started: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_build, "_SOON_BUILT", 64 << 20)

    with open_index([home], cache=cache, is_first_awaited=False) as opened:
        assert (True, []) == (opened.is_complete, opened.notes)
    assert [] == started


def test_one_that_is_built_is_used(home: Path, cache: Path, started: list[object]) -> None:
    with open_index([home], cache=cache):
        pass

    with open_index([home], cache=cache, is_first_awaited=False) as opened:
        assert (True, []) == (opened.is_complete, opened.notes)
    assert [] == started


def test_an_older_index_is_asked_for_deleted_sessions_first(
    home: Path, cache: Path, started: list[object]
) -> None:
    """After an update of recollect the totals must not fall, not even for one answer."""
    with open_index([home], cache=cache):
        pass
    path = index_path([home], cache)
    path.rename(path.with_name(path.name.replace("index-v", "index-v0")))
    (home / "projects" / "-srv" / "1.jsonl").unlink()
    log_at(home / "projects" / "-srv" / "2.jsonl", [assistant("b", None, 0, "answer")])

    with open_index([home], cache=cache, is_first_awaited=False) as opened:
        assert opened.database is not None
        assert 41 == opened.database.value("SELECT sum(messages) FROM rollup")
    assert [] == started


def test_who_waits_for_it_sees_how_far_it_is(
    home: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has read a third of the log when it is looked at."""
    monkeypatch.setattr(first_build, "_LOOK_SECONDS", 0.05)
    other = OpenIndex([home], index_path([home], cache))
    other.open()
    assert other.database is not None
    other.database.connection.execute(
        "INSERT INTO files(path, home, role, device, inode, size, mtime, consumed)"
        " VALUES('/a.jsonl', '/', 0, 1, 1, 900, 0, 300)"
    )
    waiting = OpenIndex([home], other.path)
    waiting.open()
    seen: list[tuple[int, int]] = []
    lock = other.lock(1)
    lock.acquire()

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        lock.release()  # the other one has finished

    with locked_after_first_build(waiting, 30, progress):
        assert [(300, 900)] == seen
        with pytest.raises(Busy), other.lock(0):
            pass
    other.close()
    waiting.close()


def test_patience_has_an_end(home: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_build, "_LOOK_SECONDS", 0.05)
    opened = OpenIndex([home], index_path([home], cache))
    opened.open()

    with opened.lock(1), pytest.raises(Busy), locked_after_first_build(opened, 0.2, None):
        pass
    opened.close()


def test_a_first_report_of_many_logs_waits_for_no_index(tmp_path: Path) -> None:
    """The real command over 70 MB: the same report before and after the index is there, and nobody is left behind."""
    text = "tool output " * 6_000
    for number in range(20):
        lines = [assistant(f"{number}-{n}", None, n, text) for n in range(50)]
        log_at(tmp_path / "home" / "projects" / "-srv" / f"{number}.jsonl", lines)
    data, home = tmp_path / "data", tmp_path / "home"
    command = [sys.executable, "-m", "recollect", "--home", str(home), "--data", str(data), "cost", "--json"]

    first = subprocess.run(command, capture_output=True, text=True, check=True)

    assert "being built in the background" in first.stderr
    path = index_path([home], data / "cache")
    deadline = time.monotonic() + 120
    while not is_built(path) and time.monotonic() < deadline:
        time.sleep(0.1)
    second = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "" == second.stderr
    before, after = json.loads(first.stdout), json.loads(second.stdout)
    assert (1000, before["rows"], before["totals"]) == (
        after["totals"]["messages"],
        after["rows"],
        after["totals"],
    )


def test_left_to_background_starts_one_builder(home: Path, cache: Path, started: list[object]) -> None:
    """The next report within a moment also reads the logs, and starts none."""
    opened = OpenIndex([home], index_path([home], cache))
    opened.path.parent.mkdir()

    assert [True, True] == [left_to_background(opened), left_to_background(opened)]
    assert 1 == len(started)


def test_one_that_failed_in_the_background_is_built_here(
    home: Path, cache: Path, started: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk every answer would promise an index that never comes. While another process builds, it is awaited."""
    opened = OpenIndex([home], index_path([home], cache))
    opened.path.parent.mkdir()
    assert left_to_background(opened)
    monkeypatch.setattr(background_refresh, "PAUSE_SECONDS", 0.0)

    assert not left_to_background(opened)
    with contextlib.closing(opened.lock(1)) as lock, lock:
        assert left_to_background(opened)
