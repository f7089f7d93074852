"""The right session, the right directory, the right command."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.ask.resume import found_session, resumption
from recollect.errors import Ambiguous, NotFound
from tests.small_home import ONE, TALK, TWO, prompt, put, reply, said

QUARTERLY = [
    prompt(101, None, "Please fix the Rounding of totals"),
    reply(102, 101, said("The basket is done")),
    prompt(103, 102, "and the café invoice"),
]


@pytest.fixture
def home(own_home: Path) -> Path:
    """The home a client started from here would use, with two sessions of one directory."""
    root = own_home / ".claude"
    work = own_home / "work"
    work.mkdir()
    put(root, TWO, TALK, str(work))
    put(root, ONE, QUARTERLY, str(work))
    log = next(root.rglob(f"{TWO}.jsonl"))
    os.utime(log, (1, 1))
    return root


@pytest.mark.parametrize(
    "query",
    [
        "rounding INVOICE",
        "café",
        "CAFÉ fix",
        "total",
        ONE[:6],
        ONE,
        "@last",
        "Please fix the Rounding of totals",
    ],
)
def test_it_is_found_by_what_one_remembers(home: Path, query: str) -> None:
    """Words of any prompt in any order and case, parts of words, id, title, the newest."""
    assert ONE == found_session(Home(), query).id


@pytest.mark.parametrize("query", ["basket", "rounding zebra", "zebra", " "])
def test_only_the_users_own_words_count(home: Path, query: str) -> None:
    """A word only the assistant used, or that nobody used, finds nothing."""
    with pytest.raises(NotFound):
        found_session(Home(), query)


def test_escaped_letters_are_found_too(home: Path) -> None:
    """JSON may write é as \\u00e9."""
    log = next(home.rglob(f"{ONE}.jsonl"))
    assert b"\\u00e9" in log.read_bytes()

    assert ONE == found_session(Home(), "café").id


def test_several_that_fit_are_not_guessed_at(home: Path) -> None:
    """Both are named, the newest first; ``newest`` takes it."""
    put(home, "7c1d9c1e-0000-4000-8000-000000000003", QUARTERLY)
    with pytest.raises(Ambiguous) as several:
        found_session(Home(), "invoice rounding")

    assert ["7c1d9c1e", "3f2a9c1e"] == [match[:8] for match in several.value.matches]
    assert "7c1d9c1e" == found_session(Home(), "invoice rounding", newest=True).id[:8]


def test_the_client_is_started_where_it_looks_for_the_session(home: Path, own_home: Path) -> None:
    """Not where the session ended: a later cd changes ``cwd``, but not the project directory."""
    inner = own_home / "work" / "inner"
    inner.mkdir()
    log = next(home.rglob(f"{ONE}.jsonl"))
    with log.open("a") as file:
        file.write(json.dumps({**prompt(4, 3, "more"), "cwd": str(inner)}) + "\n")
    way = resumption(Home().session(ONE))

    assert (str(own_home / "work"), f"claude --resume {ONE}") == (way.cwd, way.command)


def test_a_directory_that_is_gone_is_said_to_be(home: Path, own_home: Path) -> None:
    """With places of the same name that other sessions know, and the log by its path."""
    elsewhere = own_home / "new" / "work"
    elsewhere.mkdir(parents=True)
    put(home, "7c1d9c1e-0000-4000-8000-000000000003", TALK, str(elsewhere))
    (own_home / "work").rmdir()
    way = resumption(Home().session(ONE))

    assert (False, (str(elsewhere),)) == (way.cwd_exists, way.nearby)


def test_another_directory_takes_the_log_by_its_path(home: Path, tmp_path: Path) -> None:
    """The client does not look into other projects for an id, but it takes a path from anywhere."""
    way = resumption(Home().session(ONE), str(tmp_path))

    assert (str(tmp_path), f"claude --resume {next(home.rglob(f'{ONE}.jsonl'))}") == (way.cwd, way.command)


def test_a_session_of_another_home_is_named_by_its_path(home: Path, tmp_path: Path, own_home: Path) -> None:
    """A client started here looks into its own home only."""
    log = put(tmp_path / "backup", TWO, TALK, str(own_home / "work"))
    way = resumption(Home(tmp_path / "backup").session(TWO))

    assert ("claude", "--resume", str(log)) == way.argv


def test_a_log_with_another_kind_of_name_is_named_by_its_path(home: Path, own_home: Path) -> None:
    """The client refuses ids that are no UUIDs."""
    log = put(home, "my-notes", QUARTERLY, str(own_home / "work"))
    way = resumption(Home().session(str(log)))

    assert ("claude", "--resume", str(log)) == way.argv


@pytest.mark.parametrize("cwd", ["relative", "/has\0nul", ""])
def test_a_hostile_directory_is_no_directory(home: Path, cwd: str) -> None:
    """A transcript may hold anything where a directory should be."""
    log = put(home, "8c1d9c1e-0000-4000-8000-000000000004", [{**prompt(1, None, "hostile"), "cwd": cwd}])
    log.write_text(json.dumps({**prompt(1, None, "hostile"), "cwd": cwd}) + "\n")
    way = resumption(Home().session("8c1d9c1e"))

    assert ("", False) == (way.cwd, way.cwd_exists)
