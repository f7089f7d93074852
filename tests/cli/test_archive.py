"""`recollect protect list`: in, verified, out again, with an undo; what to set up."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from recollect.system import fsops
from tests.agents.tiny_homes import CHANGED, UNTOUCHED, codex
from tests.cli.test_cleanup import answer
from tests.small_home import ONE, TALK, TWO, put, state

THREE = "7c1d9c1e-0000-4000-8000-000000000003"


@pytest.fixture
def home(own_home: Path) -> Path:
    """Two sessions, one with a sub-agent."""
    root = own_home / ".claude"
    log = put(root, ONE, TALK)
    put(root, TWO, TALK, "/srv/other")
    agents = log.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-a1.jsonl").write_text('{"type":"user"}\n')
    return root


def files_of(home: Path) -> dict[str, bytes]:
    return {name: found[2] for name, found in state(home).items() if (home / name).is_file()}


def stored(archive: Path) -> dict[str, bytes]:
    """What the archive holds; its lock names the last process."""
    return {name: data for name, data in files_of(archive).items() if name != "archive.lock"}


def without(home: Path, session: str) -> Path:
    """The client deleted a session and what lay beside it."""
    (log,) = home.glob(f"projects/*/{session}.jsonl")
    for path in sorted(log.with_suffix("").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    log.unlink()
    return log


def test_all_sessions_go_in_and_the_figures_come_out(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Raw and stored bytes, which are new; the second time nothing is written."""
    first = answer(capsys, "protect", "now")
    again = answer(capsys, "protect", "now")

    assert sum(map(len, files_of(home).values())) == first["raw_bytes"] == again["raw_bytes"]
    assert (True, 0) == (first["new_bytes"] > 0, again["new_bytes"])
    assert [True, True, False, False] == [one["changed"] for one in first["sessions"] + again["sessions"]]


@pytest.mark.parametrize("fails", ["write_all", "replace_file"])
def test_a_full_disk_is_named_with_what_to_do(
    home: Path,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fails: str,
) -> None:
    """While a file is stored, and when the manifest is: the place that is full, not the session's file."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(fsops, fails, refuse)
        code = main(["--home", str(home), "protect", "now"])
    told = capsys.readouterr().err

    assert 1 == code
    place = own_home / "xdg-data" / "recollect" / "archive"
    assert f"not archived: {ONE}: archive {place}" in told
    assert "No space left on device; " in told
    assert told.count("free space on that disk, then archive again") == 2
    assert 0 == main(["--home", str(home), "protect", "now"])


def test_a_restored_session_is_what_it_was(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every byte of log and agent; the plan alone brings nothing back."""
    before = files_of(home)
    answer(capsys, "protect", "now", ONE)
    log = without(home, ONE)
    answer(capsys, "protect", "restore", ONE[:8])
    assert not log.exists()
    answer(capsys, "protect", "restore", ONE[:8], "--apply")

    assert before == files_of(home)


def test_a_restore_can_be_undone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The printed command takes back what was restored, and no more."""
    answer(capsys, "protect", "now", ONE)
    without(home, ONE)
    before = files_of(home)
    done = answer(capsys, "protect", "restore", ONE, "--apply")
    answer(capsys, *done["undo"][0].split()[1:])

    assert before == files_of(home)


def test_a_restore_elsewhere_leaves_the_home_alone(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--to DIR is laid out as a home."""
    answer(capsys, "protect", "now")
    before = files_of(home)
    answer(capsys, "protect", "restore", "--all", "--to", str(tmp_path / "copy"), "--apply")

    assert (before, before) == (files_of(home), files_of(tmp_path / "copy"))


def test_what_is_there_is_never_overwritten(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A session that is still in the home is refused."""
    answer(capsys, "protect", "now")
    before = state(home)

    assert 2 == main(["protect", "restore", ONE, "--apply"])
    assert before == state(home)


def test_verify_names_the_session_of_a_flipped_bit(
    home: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 0 and verified before, exit 1 and the session after."""
    answer(capsys, "protect", "now", ONE)
    assert answer(capsys, "protect", "verify")["verified"]
    stored = max((own_home / "xdg-data").rglob("*.zst"), key=lambda path: path.stat().st_size)
    data = bytearray(stored.read_bytes())
    data[len(data) // 2] ^= 4
    stored.write_bytes(data)

    assert 1 == main(["protect", "verify", "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (False, [ONE]) == (document["verified"], [one["session"] for one in document["problems"]])


def test_a_bundle_carries_sessions_to_another_archive(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exported here, imported there, listed and sound there."""
    answer(capsys, "protect", "now")
    bundle = str(tmp_path / "two.bundle")
    answer(capsys, "export", "--bundle", bundle)
    other = ["--data", str(tmp_path / "elsewhere")]
    answer(capsys, *other, "import", bundle, "--archive", "--apply")

    assert {ONE, TWO} == {one["id"] for one in answer(capsys, *other, "protect", "list")["sessions"]}
    assert answer(capsys, *other, "protect", "verify")["verified"]


def test_a_left_over_that_is_the_same_or_went_on_stays(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sub-agent's log that the client left behind is no obstacle: plan and execution agree."""
    answer(capsys, "protect", "now", ONE)
    (log,) = home.glob(f"projects/*/{ONE}.jsonl")
    agent = log.with_suffix("") / "subagents" / "agent-a1.jsonl"
    log.unlink()
    agent.write_bytes(agent.read_bytes() + b"{}\n")
    grown = agent.read_bytes()
    (planned,) = answer(capsys, "protect", "restore", ONE)["sessions"]
    (done,) = answer(capsys, "protect", "restore", ONE, "--apply")["sessions"]

    assert ([str(log)], [str(agent)], []) == (planned["paths"], planned["there"], planned["obstacles"])
    assert planned["paths"] == done["paths"]
    assert (True, grown) == (log.exists(), agent.read_bytes())


def test_a_plan_names_what_a_restore_would_refuse(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another file under the name of one that would come back: exit 1 and no command to apply it."""
    answer(capsys, "protect", "now", ONE)
    (log,) = home.glob(f"projects/*/{ONE}.jsonl")
    agent = log.with_suffix("") / "subagents" / "agent-a1.jsonl"
    log.unlink()
    agent.write_text("other")
    (planned,) = answer(capsys, "protect", "restore", ONE, code=1)["sessions"]
    assert 1 == main(["protect", "restore", ONE])
    told = capsys.readouterr().out

    assert [str(agent)] == planned["obstacles"]
    assert (True, False) == (f"in the way: {agent}" in told, "Do it with" in told)
    assert 2 == main(["protect", "restore", ONE, "--apply"])
    assert "other" == agent.read_text()


def test_a_session_leaves_the_archive_and_comes_back(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Planned first; objects that another session uses stay; --forget deletes the bytes for good."""
    answer(capsys, "protect", "now")
    archive = home.parent / "xdg-data/recollect/archive"
    before = stored(archive)
    assert 2 < len(before)
    answer(capsys, "protect", "rm", ONE)
    assert before == stored(archive)
    removed = answer(capsys, "protect", "rm", ONE, "--apply")
    assert [TWO] == [one["id"] for one in answer(capsys, "protect", "list")["sessions"]]
    assert answer(capsys, "protect", "verify")["verified"]
    (undo,) = removed["undo"]
    answer(capsys, *undo.split()[1:])
    assert before == stored(archive)
    (undo,) = answer(capsys, "protect", "rm", ONE, "--apply")["undo"]
    change = archive.parent / "undo" / undo.split()[2]
    assert list(change.glob("kept/*"))
    answer(capsys, *undo.split()[1:], "--forget")

    assert [] == list(change.glob("kept/*"))


@pytest.fixture
def of_codex(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The archive here, with two sessions of Codex and one of Claude from another machine."""
    codex(tmp_path / "codex")
    put(tmp_path / "claude", THREE, TALK, "/srv/three")
    there, bundle = ["--data", str(tmp_path / "there")], str(tmp_path / "laptop.tar")
    for place in ("codex", "claude"):
        answer(capsys, "--home", str(tmp_path / place), *there, "protect", "now")
    answer(capsys, *there, "export", "--bundle", bundle)
    shutil.rmtree(tmp_path / "there")
    answer(capsys, "import", bundle, "--archive", "--apply")
    return home


def test_a_session_of_another_agent_is_not_restored_into_a_claude_home(
    of_codex: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither into the usual one nor into one that is named; another directory takes it, byte for byte."""
    before = files_of(of_codex)
    for words in (
        ["protect", "restore", CHANGED, "--apply"],
        ["--home", str(of_codex), "protect", "restore", CHANGED, UNTOUCHED],
        ["protect", "restore", CHANGED, "--to", str(of_codex), "--apply"],
        ["protect", "restore", CHANGED, "--to", str(of_codex / "below"), "--apply"],
    ):
        assert 2 == main(words)
        told = capsys.readouterr().err
        assert "of codex, and a Claude home takes only Claude's" in told
        assert "--to DIR" in told
        assert f" export {'S' if UNTOUCHED in words else CHANGED} --to claude" in told
    answer(capsys, "protect", "restore", CHANGED, "--to", str(tmp_path / "out"), "--apply")

    assert before == files_of(of_codex)
    assert [CHANGED] == [path.stem for path in (tmp_path / "out").rglob("*.jsonl")]


def test_a_restore_of_many_leaves_other_agents_out_and_says_so(
    of_codex: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with what to do; the document names each of them without a place."""
    assert 0 == main(["protect", "restore", "--all"])
    told = capsys.readouterr()
    done = answer(capsys, "protect", "restore", "--all", "--apply")

    assert "left out: 2 sessions of codex, since a Claude home takes only Claude's; " in told.err
    assert (1, 1) == (told.err.count("left out"), told.out.count("Would restore"))
    assert {THREE: True, CHANGED: False, UNTOUCHED: False} == {
        one["id"]: "to" in one for one in done["sessions"]
    }
    assert {ONE, TWO, THREE} == {path.stem for path in of_codex.glob("projects/*/*.jsonl")}


def test_a_session_of_claude_is_not_restored_into_a_mirror(
    of_codex: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A home of another agent beside Claude's is not a second place that could be meant."""
    codex(own_home / ".codex")
    planned = answer(capsys, "protect", "restore", THREE)

    assert [str(of_codex)] == [one["to"] for one in planned["sessions"]]


@pytest.mark.usefixtures("home")
def test_a_mirror_gets_its_own_session_back(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was archived here out of a mirror is restored to it."""
    codex(own_home / ".codex")
    answer(capsys, "protect", "now")
    (log,) = (own_home / "xdg-data" / "recollect" / "agents").rglob(f"{CHANGED}.jsonl")
    before = log.read_bytes()
    answer(capsys, "rm", CHANGED, "--apply")
    assert not log.exists()
    answer(capsys, "protect", "restore", CHANGED, "--apply")

    assert before == log.read_bytes()
