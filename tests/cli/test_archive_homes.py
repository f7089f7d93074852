"""One session id in two homes: the archive keeps both, and says of which home each is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.agents import tiny_homes
from tests.cli.session_logs import SESSION, SessionLog

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command on both homes, or on those that are named; what it prints."""

    def told(*words: str, homes: tuple[str, ...] = ("a", "b"), code: int = 0) -> str:
        where = [word for name in homes for word in ("--home", str(tmp_path / name))]
        assert main([*where, "--data", str(tmp_path / "data"), *words]) == code
        said = capsys.readouterr()
        return said.out + said.err

    return told


def logs(place: Path) -> Iterator[Path]:
    return place.glob("*/projects/*/*.jsonl")


@pytest.fixture
def claude(tmp_path: Path) -> dict[Path, bytes]:
    """Two homes of Claude with one id and the same number of bytes in each."""
    SessionLog().prompt("k1", "Why is it red?").write(tmp_path / "a")
    SessionLog().prompt("k1", "Why is it big?").write(tmp_path / "b")
    return {log: log.read_bytes() for log in logs(tmp_path)}


def test_both_are_archived_listed_with_their_homes_verified_and_restored(
    tmp_path: Path, claude: dict[Path, bytes], run: Run
) -> None:
    for _ in range(2):
        run("protect", "now")
        listed = json.loads(run("protect", "list", "--json"))["sessions"]
        assert {one["home"] for one in listed} == {str(tmp_path / "a"), str(tmp_path / "b")}
        assert {one["earlier"] for one in listed} == {0}
    rows = run("protect", "list").splitlines()
    assert sorted(row.rpartition("  of ")[2] for row in rows) == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert "2 sessions: all bytes verified" in run("protect", "verify")
    for log in claude:
        log.unlink()
    assert run("list").count("archived") == 2
    run("protect", "restore", "--all", "--apply")
    assert {log: log.read_bytes() for log in logs(tmp_path)} == claude


def test_one_of_them_is_named_by_its_home(tmp_path: Path, claude: dict[Path, bytes], run: Run) -> None:
    run("protect", "now")
    for log in claude:
        log.unlink()
    said = run("protect", "restore", SESSION, "--apply", code=3)
    assert str(tmp_path / "a") in said
    assert str(tmp_path / "b") in said
    assert "its home with one --home" in said
    run("protect", "restore", SESSION, "--apply", homes=("b",))
    assert [*logs(tmp_path)] == [log for log in claude if log.is_relative_to(tmp_path / "b")]
    assert "Why is it big?" in run("show", SESSION, homes=("b",))
    # What is still only in the archive is found beside the one that is back.
    assert run("list").count("archived") == 1
    assert "Why is it red?" in run("show", SESSION, homes=("a",))
    said = run("protect", "restore", "--all", "--to", str(tmp_path / "out"), "--apply", code=2)
    assert "both had one" in said
    assert not (tmp_path / "out").exists()


def test_a_log_is_called_archived_only_where_its_own_bytes_are(
    tmp_path: Path, claude: dict[Path, bytes], run: Run
) -> None:
    for log in claude:
        os.utime(log, (1, 1))
    run("protect", "now", homes=("a",))
    soon = json.loads(run("--json"))["expiring"]
    assert (soon["sessions"], soon["not_archived"]) == (2, 1)


def test_a_home_with_two_names_is_one(tmp_path: Path, claude: dict[Path, bytes], run: Run) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "b")
    for name in ("a", "link", "b", "link"):
        run("protect", "now", homes=(name,))
    assert len(json.loads(run("protect", "list", "--json"))["sessions"]) == 2
    assert "2 sessions: all bytes verified" in run("protect", "verify")


def test_a_bundle_has_both(tmp_path: Path, claude: dict[Path, bytes], run: Run) -> None:
    run("protect", "now")
    run("export", "--bundle", str(tmp_path / "both.tar"))
    other = ["--data", str(tmp_path / "other")]
    run(*other, "import", str(tmp_path / "both.tar"), "--archive", "--apply")
    titles = {one["title"] for one in json.loads(run(*other, "protect", "list", "--json"))["sessions"]}
    assert titles == {"Why is it red?", "Why is it big?"}
    assert "2 sessions: all bytes verified" in run(*other, "protect", "verify")
    (tmp_path / "c" / "projects").mkdir(parents=True)
    said = run("import", str(tmp_path / "both.tar"), "--apply", homes=("c",), code=1)
    assert "another one of its id comes with it" in said
    assert len([*logs(tmp_path)]) == 3


def test_removing_one_from_the_archive_leaves_the_other(
    tmp_path: Path, claude: dict[Path, bytes], run: Run
) -> None:
    run("protect", "now")
    run("protect", "rm", SESSION, "--apply", homes=("a",))
    (left,) = json.loads(run("protect", "list", "--json"))["sessions"]
    assert left["home"] == str(tmp_path / "b")
    assert "1 session: all bytes verified" in run("protect", "verify")
    run("protect", "now")
    assert len(json.loads(run("protect", "list", "--json"))["sessions"]) == 2


def test_a_thread_in_two_homes_of_codex_is_kept_twice(tmp_path: Path, run: Run) -> None:
    for name in ("a", "b"):
        log = tiny_homes.codex(tmp_path / name)
        log.write_text(log.read_text().replace("ask ", f"{name} asks "))
    run("protect", "now")
    rows = [one for one in run("protect", "list").splitlines() if "  of " in one]
    assert {row.rpartition("  of ")[2] for row in rows} == {str(tmp_path / "a"), str(tmp_path / "b")}
    for name in ("a", "b"):
        out = tmp_path / f"out-{name}"
        run("protect", "restore", tiny_homes.CHANGED, "--to", str(out), "--apply", homes=(name,))
        (log,) = out.rglob(f"{tiny_homes.CHANGED}.jsonl")
        assert f"{name} asks {tiny_homes.CHANGED}" in log.read_text()


def test_a_home_that_was_moved_goes_on_with_what_it_had(
    tmp_path: Path, claude: dict[Path, bytes], run: Run
) -> None:
    run("protect", "now", homes=("a",))
    (tmp_path / "a").rename(tmp_path / "moved")
    run("protect", "now", homes=("moved",))
    (one,) = json.loads(run("protect", "list", "--json", homes=()))["sessions"]
    assert one["home"] == str(tmp_path / "moved")
