"""`recollect import`: sessions from anywhere, only their own files, into the home that was named, with one undo."""

from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path

import pytest

from recollect import Home
from recollect.cli.main import main
from tests.agents import tiny_homes
from tests.cli.test_cleanup import answer
from tests.small_home import ONE, TALK, TWO, put, state


def files(root: Path) -> dict[str, bytes]:
    return {name: kept[2] for name, kept in state(root).items() if (root / name).is_file()}


@pytest.fixture
def home(own_home: Path) -> Path:
    """The home to import into: empty."""
    root = own_home / ".claude"
    (root / "projects").mkdir(parents=True)
    return root


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another home: two sessions, one with everything a session can have, and files that are no session's."""
    root = tmp_path / "other"
    log = put(root, ONE, TALK)
    put(root, TWO, TALK, "/srv/two")
    for name in (
        f"{log.parent.relative_to(root)}/{ONE}/subagents/agent-a1.jsonl",
        f"file-history/{ONE}/0123456789abcdef@v1",
        f"todos/{ONE}-agent-{ONE}.json",
        f"session-env/{ONE}/hook.sh",
        "plans/secret-plan.md",
        "settings.json",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("[]")
        (root / name).chmod(0o755)
    return root


def test_another_home(home: Path, other: Path, own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Planned first; only files of the sessions, 0600, byte for byte; one undo; a second time nothing is new."""
    planned = answer(capsys, "import", str(other))
    assert {} == files(home)
    assert ("home", {ONE, TWO}) == (planned["kind"], {one["session"] for one in planned["sessions"]})
    done = answer(capsys, "import", str(other), "--apply")
    taken, there = files(home), files(other)
    again = answer(capsys, "import", str(other), "--apply")

    assert {name: there[name] for name in taken} == taken
    assert {"plans/secret-plan.md", "settings.json", f"session-env/{ONE}/hook.sh"} == set(there) - set(taken)
    assert {0o600} == {stat.S_IMODE((home / name).stat().st_mode) for name in taken}
    assert ["there", "there"] == [one["state"] for one in again["sessions"]]
    assert taken == files(home)
    answer(capsys, *done["undo"].split()[1:])
    assert {} == files(home)
    assert [] == list((own_home / "xdg-data" / "recollect").glob("import-*"))


def test_what_the_home_has_is_never_overwritten(
    home: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later state stays; another one, or one in another folder, is named and left out: exit 1."""
    put(home, ONE, [*TALK, TALK[0]])
    put(home, TWO, TALK[:1], "/srv/elsewhere")
    before = files(home)
    found = answer(capsys, "import", str(other), "--apply", code=1)

    assert {ONE: "there", TWO: "differs"} == {one["session"]: one["state"] for one in found["sessions"]}
    assert before == files(home)


def test_a_bundle(home: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Into the home that was named, or into the archive; the undo takes it out again."""
    elsewhere = ["--home", str(other), "--data", str(tmp_path / "data")]
    bundle = str(tmp_path / "laptop.tar")
    answer(capsys, *elsewhere, "protect", "now")
    answer(capsys, *elsewhere, "export", "--bundle", bundle)
    done = answer(capsys, "import", bundle, "--apply")
    assert ("bundle", 2) == (done["kind"], len(list(home.glob("projects/*/*.jsonl"))))
    assert not (home / "session-env").exists()
    kept = answer(capsys, "import", bundle, "--archive", "--apply")
    assert {ONE, TWO} == {one["id"] for one in answer(capsys, "protect", "list")["sessions"]}
    answer(capsys, *kept["undo"].split()[1:])
    assert [] == answer(capsys, "protect", "list")["sessions"]


def test_a_bundle_that_was_tampered_with_is_refused(home: Path, tmp_path: Path) -> None:
    """Nothing is imported: exit 4."""
    bundle = tmp_path / "evil.tar"
    (tmp_path / "x").write_text("x")
    with tarfile.open(bundle, "w") as tar:
        tar.add(tmp_path / "x", arcname="../../settings.json")

    assert 4 == main(["import", str(bundle), "--apply"])
    assert {} == files(home)


def test_a_directory_of_logs(
    home: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each log goes to the folder of its own directory, with its sub-agents; what is no session is named."""
    logs = tmp_path / "logs"
    (other / "projects").rename(logs)
    (logs / "notes.jsonl").write_text('{"type":"mode"}\n')
    found = answer(capsys, "import", str(logs), "--apply", code=1)

    assert ("directory of logs", [str(logs / "notes.jsonl")]) == (
        found["kind"],
        [one["path"] for one in found["skipped"]],
    )
    names = {path.relative_to(home).as_posix() for path in home.rglob("*.jsonl")}
    agent = f"projects/-srv-app/{ONE}/subagents/agent-a1.jsonl"
    assert {f"projects/-srv-app/{ONE}.jsonl", agent} <= names
    assert 3 == len(names)


def test_a_log_of_another_dialect(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It becomes a session that shows the same; without a directory it is left out with what to add."""
    log = tmp_path / "2026-01-01.jsonl"
    lines = [
        {"type": "user", "content": "Hello", "timestamp": "2026-01-01T10:00:00Z"},
        {
            "type": "assistant",
            "content": "Hi",
            "timestamp": "2026-01-01T10:00:01Z",
            "model": "claude-sonnet-4-5",
        },
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (left,) = answer(capsys, "import", str(log), code=1)["skipped"]
    assert "--cwd DIR" in left["reason"]
    done = answer(capsys, "import", str(log), "--cwd", "/srv/shop", "--apply")
    (session,) = done["sessions"]
    shown = answer(capsys, "show", session["session"])
    assert ("/srv/shop", 2) == (session["cwd"], shown["total"])
    again = answer(capsys, "import", str(log), "--cwd", "/srv/shop")
    assert [(session["session"], "there")] == [(one["session"], one["state"]) for one in again["sessions"]]


def test_without_a_home_it_says_that_there_is_none(
    home: Path, other: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not that it has found 0 of them."""
    home.rename(home.with_name("away"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    assert 2 == main(["import", str(other)])
    assert "import: there is no home to import into" in capsys.readouterr().err


def test_sessions_of_other_agents_are_left_out(
    home: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a bundle, of a directory that a restore made, of loose logs; the archive takes all of them."""
    tiny_homes.codex(tmp_path / "codex")
    tiny_homes.opencode_database(tmp_path / "opencode")
    there, bundle = ["--data", str(tmp_path / "data")], str(tmp_path / "laptop.tar")
    for place in (tmp_path / "codex", tmp_path / "opencode", other):
        answer(capsys, "--home", str(place), *there, "protect", "now")
    answer(capsys, *there, "export", "--bundle", bundle)
    answer(capsys, *there, "protect", "restore", "--all", "--to", str(tmp_path / "out"), "--apply")
    (tmp_path / "out" / "projects").rename(tmp_path / "logs")
    (tmp_path / "out").rename(tmp_path / "rest")
    answer(capsys, *there, "protect", "restore", "--all", "--to", str(tmp_path / "out"), "--apply")
    for source in (bundle, str(tmp_path / "out"), str(tmp_path / "logs")):
        assert 0 == main(["import", source])
        told = capsys.readouterr()
        assert (
            "other agents (2 of codex, 2 of opencode), since a Claude home takes only Claude's; " in told.err
        )
        assert f"recollect import {source} --archive --apply" in told.err
        assert (1, 2) == (told.err.count("left out"), told.out.count("Would import"))
        done = answer(capsys, "import", source, "--apply")
        assert {ONE, TWO} == {path.stem for path in home.glob("projects/*/*.jsonl")}
        assert 4 == sum(one["state"] == "foreign" for one in done["sessions"])
        answer(capsys, *done["undo"].split()[1:])
    kept = answer(capsys, "import", bundle, "--archive", "--apply")
    assert {"new"} == {one["state"] for one in kept["sessions"]}
    assert 6 == len(answer(capsys, "protect", "list")["sessions"])


def test_a_source_with_only_another_agents_sessions_is_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the way that leads on: into the archive, and from there to Claude."""
    tiny_homes.codex(tmp_path / "codex")
    mirror = Home(tmp_path / "codex", data=tmp_path / "data").homes[0].root
    assert 2 == main(["import", str(mirror), "--apply"])
    told = capsys.readouterr().err

    assert f"import {mirror}: 2 sessions of codex, and a Claude home takes only Claude's" in told
    assert f"recollect import {mirror} --archive --apply" in told
    assert "recollect export S --to claude" in told
    assert {} == files(home)
