"""`recollect doctor --fix`: everything that is broken in a home is one plan, one command and one undo."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.errors import Busy
from tests.cli.test_cleanup import answer
from tests.small_home import ONE, TALK, TWO, link, open_in_this_process, prompt, put, reply, said, state

GONE = "9d1d9c1e-0000-4000-8000-000000000009"


def cut(home: Path, session: str, cwd: str) -> Path:
    """A log whose last turn follows a line that follows nothing: the client resumes only that turn."""
    lost = link(600, 98, type="progress", data={})
    talk = [*TALK, lost, prompt(601, 600, "Q3"), reply(602, 601, said("A3"))]
    return put(home, session, [{**entry, "cwd": cwd} for entry in talk], cwd)


@pytest.fixture
def home(own_home: Path, tmp_path: Path) -> Path:
    """A home with one of each: a cut history, a renamed project, a torn config, a todo list without its session."""
    root = own_home / ".claude"
    (tmp_path / "work" / "shop").mkdir(parents=True)
    there = tmp_path / "there"
    there.mkdir()
    cut(root, ONE, str(there))
    moved = [{**entry, "cwd": str(tmp_path / "work" / "old" / "shop")} for entry in TALK]
    put(root, TWO, moved, str(tmp_path / "work" / "old" / "shop"))
    (root / ".claude.json").write_text('{"projects": {"/srv/ap')
    backups = root / "backups"
    backups.mkdir()
    (backups / ".claude.json.backup.1790000000000").write_text('{"projects": {}, "numStartups": 3}')
    todos = root / "todos"
    todos.mkdir()
    (todos / f"{GONE}-agent-{GONE}.json").write_text(
        '[{"content": "x", "status": "pending", "activeForm": "x"}]'
    )
    return root


def files(home: Path) -> dict[str, bytes]:
    return {name: kept[2] for name, kept in state(home).items() if (home / name).is_file()}


def test_one_plan_one_command_one_undo(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors first, with what they cost; the plan changes nothing; the undo brings every byte back."""
    before = files(home)
    plan = answer(capsys, "doctor", "--fix")
    assert before == files(home)
    assert ["session", "directory", "config", "todos"] == [one["kind"] for one in plan["steps"]]
    session, directory, config, todos = plan["steps"]
    assert (ONE, "4 messages lost on resume", "mended") == (
        session["subject"],
        session["cost"],
        session["does"],
    )
    assert str(tmp_path / "work" / "shop") == directory["target"]
    assert "same name" in directory["does"]
    assert str(home / ".claude.json") == config["subject"]
    assert "1 list of deleted sessions" == todos["cost"]

    done = answer(capsys, "doctor", "--fix", "--apply")
    assert (True, 4) == (done["applied"], len(done["steps"]))
    assert "" == done["steps"][0]["result"]  # the session itself
    assert 6 == answer(capsys, "show", ONE)["total"]
    listed = {one["id"]: one["cwd"] for one in answer(capsys, "list")["sessions"]}
    assert str(tmp_path / "work" / "shop") == listed[TWO]
    assert 3 == json.loads((home / ".claude.json").read_text())["numStartups"]
    assert [] == list((home / "todos").iterdir())
    assert 1 == len(answer(capsys, "undo")["changes"])

    again = answer(capsys, "doctor", "--fix")
    assert [] == again["steps"]
    answer(capsys, *done["undo"].split()[1:])
    assert before == files(home)
    assert 4 == len(answer(capsys, "doctor", "--fix")["steps"])


def test_it_is_told_in_one_line_a_session(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["doctor", "--fix"])
    told = capsys.readouterr().out
    assert "3f2a9c1e Q1 4 messages lost on resume -> mended" in told
    assert "Nothing was changed. Do it with: recollect doctor --fix --apply" in told
    assert 0 == main(["doctor", "--fix", "--apply"])
    told = capsys.readouterr().out
    assert told.count("Undo with: recollect undo ") == 1
    assert f"mended; now: recollect resume {ONE}" in " ".join(told.split())


def test_what_fails_does_not_stop_the_others(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1 with the reason; the rest is done and can be undone."""
    before = files(home)

    def full(*_: object) -> None:
        raise Busy("no room", hint="try later")

    monkeypatch.setattr("recollect.change.fix.carry_out", full)
    done = answer(capsys, "doctor", "--fix", "--apply", code=1)
    assert ["", "no room", "", ""] == [one["problem"] for one in done["steps"]]
    answer(capsys, *done["undo"].split()[1:])
    assert before == files(home)


def test_an_open_session_is_left_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And so is the config, which every client rewrites."""
    open_in_this_process(home, ONE)
    plan = answer(capsys, "doctor", "--fix")
    assert {
        ("session", "a client has it open"),
        ("config", f"a client is running (process {os.getpid()})"),
    } == {(one["kind"], one["why"]) for one in plan["left"]}


def git(directory: Path, remote: str) -> Path:
    (directory / ".git").mkdir(parents=True)
    (directory / ".git" / "config").write_text(
        f'[remote "origin"]\n\turl = https://github.com/{remote}.git\n'
    )
    return directory


def with_repositories(home: Path, **paths: list[str]) -> None:
    names = {name.replace("__", "/"): found for name, found in paths.items()}
    (home / ".claude.json").write_text(json.dumps({"githubRepoPaths": names}))


def test_a_moved_repository_is_found_by_its_remote(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client noted where it saw it; a directory that only has the name is not taken for it."""
    old = str(tmp_path / "work" / "old" / "shop")
    new = git(tmp_path / "work" / "basket", "anna/shop")
    with_repositories(home, anna__shop=[old])
    (step,) = [one for one in answer(capsys, "doctor", "--fix")["steps"] if one["kind"] == "directory"]
    assert (str(new), True) == (step["target"], "same repository" in step["does"])

    git(tmp_path / "work" / "second", "anna/shop")
    (left,) = [one for one in answer(capsys, "doctor", "--fix")["left"] if one["kind"] == "directory"]
    assert left["why"].startswith("2 directories have its repository")


def test_a_name_alone_is_not_enough_where_it_is_used(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory of that name with sessions of its own may be another project; two may be anything; none is none."""
    third = "7c1d9c1e-0000-4000-8000-000000000003"
    shop = str(tmp_path / "work" / "shop")
    put(home, third, [{**entry, "cwd": shop, "sessionId": third} for entry in TALK], shop)
    (left,) = [one for one in answer(capsys, "doctor", "--fix")["left"] if one["kind"] == "directory"]
    assert f"{shop} has its name, and sessions of its own" == left["why"]
    (tmp_path / "work" / "b" / "shop").mkdir(parents=True)
    (left,) = [one for one in answer(capsys, "doctor", "--fix")["left"] if one["kind"] == "directory"]
    assert left["why"].startswith("2 directories have its name")


def test_a_sound_home_has_nothing_to_fix(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(own_home / ".claude", ONE, [{**entry, "cwd": str(tmp_path)} for entry in TALK], str(tmp_path))
    plan = answer(capsys, "doctor", "--fix", "--apply")
    assert ([], [], False, 1) == (plan["steps"], plan["left"], plan["applied"], plan["sessions"])


def test_no_home_is_an_error(own_home: Path) -> None:
    assert 3 == main(["--home", str(own_home / "nowhere"), "doctor", "--fix"])
