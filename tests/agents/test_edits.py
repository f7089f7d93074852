"""What other agents changed in files: every version that their logs show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import recollect
from recollect.agents.blocks import in_patch
from recollect.model.files.history import file_versions
from recollect.model.lines.damage import Damage
from tests.agents import tiny_homes
from tests.agents.samples import codex_samples, other_samples

BEFORE, AFTER, NEW = "one\ntwo\nthree\n", "one\nTWO\nthree\n", "brand new\n"


def versions(home: Path, data: Path) -> dict[str, list[tuple[str, object]]]:
    """Path to (source, content) of every version, of all sessions together."""
    found: dict[str, list[tuple[str, object]]] = {}
    for session in recollect.Home(home, data=data, index=False).sessions():
        entries = [one for one in session.entries() if not isinstance(one, Damage)]
        for path, states in file_versions(entries, session.cwd).items():
            found.setdefault(path, []).extend((one.source.value, one.content) for one in states)
    return found


@pytest.mark.parametrize(
    ("name", "is_original_known"),
    [
        ("gemini-0.24.5", False),
        ("gemini-0.38.2", True),
        ("gemini-0.61.0", True),
        ("qwen-0.24.4", True),
        ("opencode-0.5.29", False),
        ("opencode-1.1.34", True),
        ("opencode-1.18.33", False),
    ],
)
def test_edits_and_writes_are_versions_of_their_files(
    transcripts: Path, tmp_path: Path, name: str, is_original_known: bool
) -> None:
    agent = name.partition("-")[0]
    sample = next(one for one in other_samples(transcripts, agent) if one.name == name)
    found = versions(sample.home, tmp_path / "data")
    (edited,) = (states for path, states in found.items() if path.endswith("/src/a.txt"))
    (made,) = (states for path, states in found.items() if path.endswith("/src/new.txt"))
    # A fork has them a second time.
    assert edited[:2] == ([("found", BEFORE), ("write", AFTER)] if is_original_known else [("edit", None)])
    assert made[:2] == [("found", None), ("write", NEW)]


def test_an_edit_that_a_resumed_session_repeats_is_one_change(transcripts: Path, tmp_path: Path) -> None:
    """Gemini 0.61 writes its messages again on resume: their calls stand on the branch that was left, too."""
    sample = next(one for one in other_samples(transcripts, "gemini") if one.name == "gemini-0.61.0")
    session = recollect.Home(sample.home, data=tmp_path, index=False).session("139b23b9")
    assert len(session.branches()) > 1
    entries = [one for one in session.entries() if not isinstance(one, Damage)]
    for path, states in file_versions(entries, session.cwd).items():
        assert [one.source.value for one in states] == ["found", "write"], path


def test_calls_that_a_service_numbers_from_0_are_changes_of_their_own(tmp_path: Path) -> None:
    """Two answers, each with a call "t1": what they wrote is not the same."""
    file = tiny_homes.gemini_lines(tmp_path / "home")
    first = json.loads(file.read_text().splitlines()[2])
    call = first["toolCalls"][0]
    call |= {"resultDisplay": {**call["resultDisplay"], "newContent": "y"}}
    with file.open("a") as log:
        log.write(json.dumps({**first, "id": "later"}) + "\n")
    found = versions(tmp_path / "home", tmp_path / "data")["/w/a"]
    assert ("write", "y") in found
    assert ("write", "x") in found


@pytest.mark.parametrize("name", ["0.20.0/tools", "0.36.0/tools", "0.58.0/tools", "0.166.0/tools"])
def test_patches_of_codex_are_versions_of_their_files(transcripts: Path, tmp_path: Path, name: str) -> None:
    """A tool of its own, a function, or a text in a shell; one that failed is none."""
    sample = next(one for one in codex_samples(transcripts) if one.name == name)
    found = versions(sample.home, tmp_path / "data")
    assert found
    for path, states in found.items():
        assert Path(path).name.startswith("made"), path
        assert states == [("found", None), ("write", "line one\nline two\n")]


def test_a_patch_adds_updates_moves_and_deletes() -> None:
    patch = """*** Begin Patch
*** Add File: a/new.py
+first
+
*** Update File: b.py
@@ def f():
 kept
-old
+new
@@
-x
+y
*** Update File: old.py
*** Move to: moved.py
@@
-1
+2
*** Delete File: c.py
*** End Patch"""
    edits = [
        {"old_string": "kept\nold", "new_string": "kept\nnew", "replace_all": False},
        {"old_string": "x", "new_string": "y", "replace_all": False},
    ]
    assert in_patch(f"apply_patch <<'E'\n{patch}\nE", "/srv/app") == [
        {"filePath": "/srv/app/a/new.py", "content": "first\n\n", "type": "create"},
        {"filePath": "/srv/app/b.py", "edits": edits},
        {"filePath": "/srv/app/old.py", "type": "delete"},
        {
            "filePath": "/srv/app/moved.py",
            "edits": [{"old_string": "1", "new_string": "2", "replace_all": False}],
        },
        {"filePath": "/srv/app/c.py", "type": "delete"},
    ]
    assert in_patch("echo '*** Update File: x'") == []


def test_blame_and_log_name_the_session_of_another_agent(
    transcripts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from recollect.cli.main import main

    sample = next(one for one in other_samples(transcripts, "gemini") if one.name == "gemini-0.61.0")
    home = tmp_path / "home"
    path = tmp_path / "a.txt"
    path.write_text(AFTER)
    for log in sample.home.rglob("*.jsonl"):
        target = home / log.relative_to(sample.home)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(log.read_text().replace("/home/user/My Proj.x/src/a.txt", str(path)))
    words = ["--home", str(home), "--data", str(tmp_path / "data")]
    assert main([*words, "blame", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [line["writing"] for line in told["lines"]] == [None, 0, None]
    (writing,) = told["writings"]
    assert writing["prompt"].startswith("use tools")
    assert main([*words, "files", str(path), "--json"]) == 0
    assert writing["session"] in capsys.readouterr().out
