"""What only the archive has is in the index like all else, and costs a question nothing as long as nothing changes."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from recollect.ask import archive as keep
from recollect.ask.library import Home
from recollect.index.comparison import compare
from recollect.index.database import IndexDatabase
from recollect.index.refresh import RefreshResult, refresh
from recollect.store.archive import archive as archives
from recollect.store.archive.manifest import decoded
from tests.index.projection import faults, totals
from tests.talk import assistant, log_at, user

SESSIONS = [f"{n}{n}{n}{n}{n}{n}{n}{n}-1111-4111-8111-111111111111" for n in range(1, 6)]
NOW = dt.datetime(2026, 11, 16, tzinfo=dt.UTC)
_LONG_AGO = 10**18


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for number, name in enumerate(SESSIONS):
        spoken = [
            user(f"{name}-u", None, number, "hello"),
            assistant(f"{name}-a", None, number + 1, "answer"),
        ]
        log_at(tmp_path / "home" / "projects" / "-srv" / f"{name}.jsonl", spoken)
    return tmp_path / "home"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexDatabase]:
    made = IndexDatabase(tmp_path / "index.sqlite")
    yield made
    made.close()


@pytest.fixture
def archive(tmp_path: Path, home: Path) -> Path:
    """All sessions are in it, and all but the last were deleted."""
    made = keep.archive_at(tmp_path / "data")
    keep.add_all(made, list(Home(home).sessions()), NOW)
    for name in SESSIONS[:-1]:
        log_of(home, name).unlink()
    return made.root


def log_of(home: Path, name: str) -> Path:
    return home / "projects" / "-srv" / f"{name}.jsonl"


def settle(archive: Path) -> None:
    """As if nothing had been added or removed for long."""
    for number, directory in enumerate([archive / "sessions", *(archive / "sessions").iterdir()]):
        os.utime(directory, ns=(_LONG_AGO + number, _LONG_AGO + number))


def opened(index: IndexDatabase, home: Path, archive: Path) -> tuple[int, RefreshResult]:
    """How many manifests a refresh read, and what it did."""
    with mock.patch.object(archives, "decoded", side_effect=decoded) as reading:
        done = refresh(index, [home], archive=archive)
    return reading.call_count, done


def answers(index: IndexDatabase) -> int:
    assert not faults(index)
    return sum(counts[0] for counts in totals(index).values())


def test_archived_sessions_are_read_once(index: IndexDatabase, home: Path, archive: Path) -> None:
    """No manifest is read again as long as no name came or went."""
    settle(archive)
    first = opened(index, home, archive)

    assert (4, 5, 5, 5) == (first[0], first[1].logs, first[1].read, answers(index))
    assert (0, RefreshResult(5, 0, 0, 0, [])) == opened(index, home, archive)


def test_a_session_that_is_put_back_counts_once(index: IndexDatabase, home: Path, archive: Path) -> None:
    """The archive has it still, but its log is in the home again."""
    log = log_of(home, SESSIONS[0])
    settle(archive)
    refresh(index, [home], archive=archive)
    log_at(
        log, [user(f"{SESSIONS[0]}-u", None, 0, "hello"), assistant(f"{SESSIONS[0]}-a", None, 1, "answer")]
    )
    manifests, done = opened(index, home, archive)

    assert (3, 5, 1, 1) == (manifests, done.logs, done.read, done.gone)
    assert 5 == answers(index)


def test_a_session_that_is_archived_and_deleted_later_is_found(
    index: IndexDatabase, home: Path, archive: Path
) -> None:
    """Its log is read from the archive, and it counts once."""
    settle(archive)
    refresh(index, [home], archive=archive)
    log_of(home, SESSIONS[-1]).unlink()
    manifests, done = opened(index, home, archive)

    assert (5, 5, 1) == (manifests, done.logs, done.read)
    assert 5 == answers(index)


@pytest.mark.parametrize("is_archive_gone", [False, True], ids=["a manifest", "the archive"])
def test_what_leaves_the_archive_is_gone(
    is_archive_gone: bool, index: IndexDatabase, home: Path, archive: Path
) -> None:
    """As a log that leaves a home is."""
    settle(archive)
    refresh(index, [home], archive=archive)
    if is_archive_gone:
        archive.rename(archive.with_name("elsewhere"))
    else:
        (archive / "sessions" / "-srv" / f"{SESSIONS[0]}.json").unlink()
    _, done = opened(index, home, archive)

    assert (4 if is_archive_gone else 1) == done.gone
    assert 5 == answers(index)


def test_a_manifest_that_was_replaced_is_read(index: IndexDatabase, home: Path, archive: Path) -> None:
    """A later state of a session has another object."""
    log = log_of(home, SESSIONS[-1])
    settle(archive)
    refresh(index, [home], archive=archive)
    before = compare(index, [home], archive)
    log_at(log, [user("u", None, 1, "hello"), assistant("a", None, 2, "one"), assistant("b", None, 3, "two")])
    keep.add_all(keep.archive_at(archive.parent), list(Home(home).sessions()), NOW)
    log.unlink()
    refresh(index, [home], archive=archive)

    assert ([], []) == (before.changed, before.gone)
    assert 4 + 2 + 1 == answers(index)  # an answer that only an earlier state of the log had stays counted


def test_a_damaged_manifest_is_looked_at_until_it_is_mended(
    index: IndexDatabase, home: Path, archive: Path
) -> None:
    """A copy may be put over it, which its directory does not tell."""
    manifest = archive / "sessions" / "-srv" / f"{SESSIONS[0]}.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-9])
    settle(archive)
    refresh(index, [home], archive=archive)
    missed = answers(index)
    manifest.write_bytes(whole)
    _, done = opened(index, home, archive)

    assert (4, 1, 5) == (missed, done.read, answers(index))


def test_an_archived_log_that_could_not_be_read_is_tried_again(
    index: IndexDatabase, home: Path, archive: Path
) -> None:
    """Not only when a name changes."""
    settle(archive)
    stored = next((archive / "objects").glob("*/*.zst"))
    whole = stored.read_bytes()
    stored.write_bytes(b"damaged")
    _, first = opened(index, home, archive)
    stored.write_bytes(whole)
    _, second = opened(index, home, archive)

    assert (1, 0) == (len(first.problems), len(second.problems))
    assert 5 == answers(index)


def test_files_of_equal_bytes_are_one_row(tmp_path: Path, index: IndexDatabase, home: Path) -> None:
    """The archive has one object for the same result of a tool in two sessions."""
    for name in SESSIONS[:2]:
        result = home / "projects" / "-srv" / name / "tool-results" / "r.txt"
        result.parent.mkdir(parents=True)
        result.write_text("the same")
    made = keep.archive_at(tmp_path / "data")
    keep.add_all(made, list(Home(home).sessions()), NOW)
    for name in SESSIONS[:2]:
        log_of(home, name).unlink()
        (home / "projects" / "-srv" / name / "tool-results" / "r.txt").unlink()

    assert 6 == refresh(index, [home], archive=made.root).logs
    assert ([], []) == (compare(index, [home], made.root).changed, compare(index, [home], made.root).gone)
