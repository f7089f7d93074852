"""A first build of many logs: the newest come first, and who waits for all sees how far it is."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest

from recollect.ask.cost.report import costs
from recollect.ask.search.hits import iso_time
from recollect.ask.search.search import search
from recollect.errors import Busy
from recollect.index import access, background, refresh
from recollect.index.access import OpenIndex, _locked_after_first_build, index_path, open_index
from recollect.index.refresh import FirstNeed
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


def test_who_waits_for_it_sees_how_far_it_is(
    home: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has read a third of the log when it is looked at."""
    monkeypatch.setattr(access, "_LOOK_SECONDS", 0.05)
    other = OpenIndex([home], index_path([home], cache))
    other.open()
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

    with _locked_after_first_build(waiting, 30, progress):
        assert [(300, 900)] == seen
        with pytest.raises(Busy), other.lock(0):
            pass
    other.close()
    waiting.close()


def test_patience_has_an_end(home: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_LOOK_SECONDS", 0.05)
    opened = OpenIndex([home], index_path([home], cache))
    opened.open()

    with opened.lock(1), pytest.raises(Busy), _locked_after_first_build(opened, 0.2, None):
        pass
    opened.close()


# --- newest first --------------------------------------------------------------------------------------------

DAYS = [dt.datetime(2026, 11, day, 12, tzinfo=dt.UTC) for day in (1, 8, 15)]


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Three sessions a week apart; the last one begins with a copy of the first, whose response counts there."""
    home = tmp_path / "three"
    for number, day in enumerate(DAYS):
        name = f"{number}1111111-1111-4111-8111-111111111111"
        at = day.timestamp()
        lines = [
            {**assistant(f"{number}-{n}", None, n, f"walrus {n}"), "timestamp": iso_time(int(at + n) * 1000)}
            for n in range(3)
        ]
        if number == 2:
            first = {
                **assistant("0-0", None, 0, "walrus 0"),
                "timestamp": iso_time(int(DAYS[0].timestamp()) * 1000),
            }
            lines = [
                {
                    **first,
                    "sessionId": name,
                    "forkedFrom": {"sessionId": "01111111-1111-4111-8111-111111111111"},
                },
                *lines,
            ]
        log = log_at(home / "projects" / "-srv" / f"{name}.jsonl", lines)
        os.utime(log, (at + 60, at + 60))
    return home


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Any log is many logs here. What would have been started in the background."""
    monkeypatch.setattr(refresh, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(refresh, "_FIRST_BATCHES", ())
    monkeypatch.setattr(refresh, "_BATCH", 1)
    found: list[object] = []
    monkeypatch.setattr(background, "_start", lambda arguments, niceness: found.append((arguments, niceness)))
    return found


def spent(opened: OpenIndex, since: dt.datetime | None = None) -> list[tuple[str, int]]:
    report = costs(["day"], opened=opened, since=since, timezone="UTC")
    return [(row.keys["day"], row.responses) for row in report.rows]


def test_recent_days_are_answered_before_old_logs_are_read(
    three: Path, cache: Path, started: list[object]
) -> None:
    """What they cost is exact; the answer says how much is read, and the rest is read in the background."""
    with open_index([three], cache=cache, need=FirstNeed(DAYS[1], seconds=0.0)) as opened:
        assert [("2026-11-08", 3), ("2026-11-15", 3)] == spent(opened, DAYS[1])
        assert "2 of 3 sessions" == opened.coverage
        assert ["the index is being built, newest first: 2 of 3 sessions are in it"] == opened.notes
    assert [(["--cache", str(cache), str(three)], 5)] == started


def test_a_search_says_how_many_sessions_it_has_searched(
    three: Path, cache: Path, started: list[object]
) -> None:
    with open_index([three], cache=cache, need=FirstNeed(seconds=0.0)) as opened:
        found = search("walrus", opened=opened)
    assert (False, "1 of 3 sessions searched, the newest: the others are being read") == (
        found.is_complete,
        found.notes[0],
    )


def test_the_rest_is_read_by_whoever_comes_next(three: Path, cache: Path, started: list[object]) -> None:
    """Killed or not, in as many steps as it takes: the same figures and hits as an index that was built at once."""
    for _ in range(2):
        with open_index([three], cache=cache, need=FirstNeed(seconds=0.0)) as opened:
            assert opened.coverage
    with open_index([three], cache=cache) as opened:
        grown = spent(opened), [hit.uuid for hit in search("walrus", opened=opened).hits]
        assert ("", []) == (opened.coverage, opened.notes)
    with open_index([three], is_temporary=True) as opened:
        assert grown == (spent(opened), [hit.uuid for hit in search("walrus", opened=opened).hits])
    assert [("2026-11-01", 3), ("2026-11-08", 3), ("2026-11-15", 3)] == grown[0]
    assert ["2-2", "2-1", "2-0"] == grown[1][:3]


def test_small_homes_are_read_at_once(home: Path, cache: Path) -> None:
    with open_index([home], cache=cache, need=FirstNeed(seconds=0.0)) as opened:
        assert ("", True) == (opened.coverage, opened.is_complete)


def test_while_another_process_builds_its_newest_logs_answer(
    three: Path, cache: Path, started: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_LOOK_SECONDS", 0.05)
    need = FirstNeed(DAYS[1], seconds=0.0)
    with (
        open_index([three], cache=cache, need=need) as opened,
        opened.lock(1),
        open_index([three], cache=cache, need=need) as other,
    ):
        assert [("2026-11-08", 3), ("2026-11-15", 3)] == spent(other, DAYS[1])
        assert "2 of 3 sessions" == other.coverage
