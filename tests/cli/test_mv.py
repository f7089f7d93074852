"""`recollect mv` and `recollect undo`: history follows its project, in one change."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from recollect.model.project_key import project_key
from tests.cli.test_cleanup import answer
from tests.small_home import ONE, TALK, TWO, open_in_this_process, put, state, written

THREE = "7c1d9c1e-0000-4000-8000-000000000003"


@pytest.fixture
def home(own_home: Path) -> Path:
    """A project with a session, one below it, a neighbour with a similar name, history and config."""
    root = own_home / ".claude"
    put(root, ONE, TALK, "/srv/app")
    put(root, TWO, TALK, "/srv/app/lib")
    put(root, THREE, TALK, "/srv/app-old")
    agents = root / "projects" / project_key("/srv/app") / ONE / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-a1.jsonl").write_text(
        json.dumps({"type": "user", "cwd": "/srv/app", "uuid": "u"}) + "\n"
    )
    prompts = [{"display": "Hi /srv/app", "project": "/srv/app"}, {"display": "x", "project": "/srv/app-old"}]
    (root / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in prompts))
    config = {
        "numStartups": 3,
        "projects": {"/srv/app": {"hasTrustDialogAccepted": True}, "/srv/app-old": {}},
    }
    (own_home / ".claude.json").write_text(json.dumps(config, indent=2))
    return root


def test_everything_that_names_the_directory_goes_along(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logs, agents, history and config say the new path; the neighbour with a similar name stays."""
    done = answer(capsys, "mv", "/srv/app", "/data/shop", "--apply")
    moved = home / "projects" / project_key("/data/shop") / f"{ONE}.jsonl"
    below = home / "projects" / project_key("/data/shop/lib") / f"{TWO}.jsonl"
    agent = moved.with_suffix("") / "subagents" / "agent-a1.jsonl"
    assert {"/data/shop"} == {entry["cwd"] for entry in written(moved)}
    assert {"/data/shop/lib"} == {entry["cwd"] for entry in written(below)}
    assert {"/data/shop"} == {entry["cwd"] for entry in written(agent)}
    assert ["/data/shop", "/srv/app-old"] == [line["project"] for line in written(home / "history.jsonl")]
    assert "Hi /srv/app" == written(home / "history.jsonl")[0]["display"]
    config = json.loads((home.parent / ".claude.json").read_text())
    assert {"/data/shop": {"hasTrustDialogAccepted": True}, "/srv/app-old": {}} == config["projects"]
    assert (home / "projects" / project_key("/srv/app-old") / f"{THREE}.jsonl").exists()
    assert (2, 1) == (len(done["sessions"]), done["prompts"])


def test_the_printed_undo_brings_every_byte_back(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes, modes and times of every file are those of before."""
    before = {name: kept for name, kept in state(home).items() if (home / name).is_file()}
    config = (home.parent / ".claude.json").read_bytes()
    done = answer(capsys, "mv", "/srv/app", "/data/shop", "--apply")
    answer(capsys, *done["undo"][0].split()[1:])
    assert before == {name: kept for name, kept in state(home).items() if (home / name).is_file()}
    assert config == (home.parent / ".claude.json").read_bytes()


def test_a_session_that_is_open_stops_it(home: Path) -> None:
    """Nothing moves while a client would go on writing to the old place."""
    open_in_this_process(home, ONE)
    before = state(home)
    assert 5 == main(["mv", "/srv/app", "/data/shop", "--apply"])
    assert before == state(home)


def test_a_session_of_the_same_id_at_the_target_stays(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is overwritten; the others go."""
    put(home, ONE, TALK[:2], "/data/shop")
    before = (home / "projects" / project_key("/data/shop") / f"{ONE}.jsonl").read_bytes()
    done = answer(capsys, "mv", "/srv/app", "/data/shop", "--apply")
    assert [ONE] == [one["session"] for one in done["conflicts"]]
    assert before == (home / "projects" / project_key("/data/shop") / f"{ONE}.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [("/srv/none", "/data/x", 3), ("/srv/app", "/srv/app/lib", 2), ("/srv/app", "/srv/app", 2)],
)
def test_wrong_use_is_refused(home: Path, old: str, new: str, code: int) -> None:
    """A directory nobody worked in, and a target inside the source."""
    assert code == main(["mv", old, new])


def test_changes_are_listed_and_can_be_let_go(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`undo` alone lists; --forget drops the originals, after which there is nothing to undo."""
    answer(capsys, "mv", "/srv/app", "/data/shop", "--apply")
    (change,) = answer(capsys, "undo")["changes"]
    assert ("mv", "/srv/app", "done") == (change["what"], change["subject"], change["state"])
    forgotten: dict[str, Any] = answer(capsys, "undo", change["id"], "--forget", "--apply")
    assert forgotten["applied"]
    assert 2 == main(["undo", change["id"], "--apply"])


# ---- --split ---------------------------------------------------------------------------------------------

FOUR = "8d1d9c1e-0000-4000-8000-000000000004"
SHARED = "-srv-my-app"


@pytest.fixture
def shared_folder(own_home: Path) -> Path:
    """/srv/my-app (newer), /srv/my/app with agents in both layouts, and a log that belongs elsewhere."""
    root = own_home / ".claude"
    put(root, ONE, TALK, "/srv/my-app")
    other = put(root, TWO, TALK, "/srv/my/app")
    stranger = put(root, THREE, TALK, "/srv/else")
    stranger.rename(root / "projects" / SHARED / stranger.name)
    (root / "projects" / SHARED / f"{FOUR}.jsonl").write_text('{"type":"summary","summary":"x"}\n')
    nested = other.with_suffix("") / "subagents"
    nested.mkdir(parents=True)
    (nested / "agent-a1.jsonl").write_text("{}\n")
    flat = other.with_name("agent-1234567.jsonl")
    flat.write_text(json.dumps({"type": "user", "sessionId": TWO}) + "\n")
    os.utime(other, (1_000_000_000, 1_000_000_000))
    return root


def where(home: Path) -> dict[str, set[str]]:
    """Every file below projects/, by folder."""
    found: dict[str, set[str]] = {}
    for path in (home / "projects").rglob("*.jsonl"):
        folder, *rest = path.relative_to(home / "projects").parts
        found.setdefault(folder, set()).add("/".join(rest))
    return found


def test_a_shared_folder_is_split_by_directory(
    shared_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newer directory keeps the folder, the other gets its own, the stranger goes home; no byte changes."""
    before = {path.name: path.read_bytes() for path in shared_folder.rglob("*.jsonl")}
    done = answer(capsys, "mv", f"--split={SHARED}", "--apply")
    places = where(shared_folder)
    (apart,) = [folder for folder in places if folder.startswith(f"{SHARED}-split-")]
    assert {f"{ONE}.jsonl", f"{FOUR}.jsonl"} == places[SHARED]
    assert {f"{TWO}.jsonl", f"{TWO}/subagents/agent-a1.jsonl", "agent-1234567.jsonl"} == places[apart]
    assert {f"{THREE}.jsonl"} == places["-srv-else"]
    assert before == {path.name: path.read_bytes() for path in shared_folder.rglob("*.jsonl")}
    assert {TWO, THREE} == {one["session"] for one in done["sessions"]}


def test_the_named_directory_keeps_the_folder(
    shared_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--keep turns it round; the folder may be named by a directory that shares it."""
    answer(capsys, "mv", "--split", "/srv/my/app", "--keep", "/srv/my/app", "--apply")
    assert f"{TWO}.jsonl" in where(shared_folder)[SHARED]
    assert f"{ONE}.jsonl" not in where(shared_folder)[SHARED]


def test_a_split_is_planned_first_and_can_be_undone(
    shared_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan changes nothing; the undo brings back every name, byte and time."""
    before = state(shared_folder / "projects")
    assert 0 == main(["mv", f"--split={SHARED}"])
    assert f"recollect mv --split={SHARED} --apply" in capsys.readouterr().out
    assert before == state(shared_folder / "projects")
    done = answer(capsys, "mv", f"--split={SHARED}", "--apply")
    answer(capsys, *done["undo"][0].split()[1:])
    assert before == state(shared_folder / "projects")


def test_after_a_split_the_check_finds_no_collision(
    shared_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `check` calls a path collision is gone."""
    rule = ["doctor", "--no-secrets", "--code", "path-collision", "--json"]
    main(rule)
    assert 1 == len(json.loads(capsys.readouterr().out)["findings"])
    answer(capsys, "mv", f"--split={SHARED}", "--apply")
    main(rule)
    assert [] == json.loads(capsys.readouterr().out)["findings"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--split", "-srv-none"], 3),
        (["--split", SHARED, "--keep", "/srv/else"], 2),
        (["--split", SHARED, "/srv/a"], 2),
        (["/srv/a", "/srv/b", "--keep", "/srv/a"], 2),
        (["/srv/a"], 2),
        ([], 2),
    ],
)
def test_wrong_use_of_a_split_is_refused(shared_folder: Path, arguments: list[str], code: int) -> None:
    """No such folder; a keeper that does not share it; options that do not go together."""
    before = state(shared_folder)
    split = [f"--split={arguments[1]}", *arguments[2:]] if arguments[:1] == ["--split"] else arguments
    assert code == main(["mv", *split, "--apply"])
    assert before == {name: kept for name, kept in state(shared_folder).items() if name in before}


def test_many_sessions_of_one_directory_are_one_line(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(5):
        put(own_home / ".claude", f"{ONE[:-1]}{number}", TALK)

    assert 0 == main(["mv", "/srv/app", "/data/shop"])
    assert 1 == capsys.readouterr().out.count("Would move 5 sessions  -srv-app -> -data-shop")
