"""`recollect rename`, `tag` and `fork`: planned first, then done, with an undo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.cli.main import main
from tests.small_home import ONE, TALK, put, state, uuid_of


def test_with_apply_the_session_has_the_title_and_the_undo_works(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it prints as undo brings the old title back."""
    put(own_home / ".claude", ONE, TALK)
    main(["rename", "@last", "Old"])
    main(["rename", "@last", "New"])
    renamed = Home().session(ONE).title
    undo = capsys.readouterr().out.splitlines()[-1]
    main(undo.split()[3:])

    assert ("New", f"Undo with: recollect rename {ONE} Old") == (renamed, undo)
    assert "Old" == Home().session(ONE).title


def test_the_commands_it_prints_repeat_the_global_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or they would act on another home."""
    put(tmp_path / "h", ONE, TALK)
    options = ["--home", str(tmp_path / "h"), "--data", str(tmp_path / "d")]
    main([*options, "rename", ONE, "X"])

    assert f"recollect --home {tmp_path / 'h'} --data {tmp_path / 'd'} rename" in capsys.readouterr().out
    assert (tmp_path / "d" / "locks").is_dir()


def test_a_title_nobody_can_see_is_a_usage_error(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, nothing written."""
    put(own_home / ".claude", ONE, TALK)
    before = state(own_home)

    assert (2, before) == (main(["rename", ONE, "a\u0007b"]), state(own_home))
    assert "U+0007" in capsys.readouterr().err


@pytest.mark.parametrize(
    "before", ["-dash", "fam \U0001f468\u200d\U0001f469 x", "it's", "two\nlines", "x" * 300]
)
def test_the_undo_brings_back_any_earlier_title(
    own_home: Path, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed command, typed into a shell as it stands, restores the title to the letter."""
    import shutil
    import subprocess
    import sys

    from recollect.ask.library import Home
    from recollect.sample import sample_home

    home = own_home / "copy"
    shutil.copytree(sample_home(), home)
    log = Home(home).session("6ada").path
    line = {"type": "custom-title", "customTitle": before, "sessionId": log.stem}
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    assert 0 == main(["--home", str(home), "rename", "6ada", "New"])
    undo = capsys.readouterr().out.split("Undo with: ")[1].strip()
    typed = undo.replace("recollect", f"{sys.executable} -m recollect", 1)
    subprocess.run(["bash", "-c", typed], check=True, capture_output=True)

    # From the line itself: lists show the first 200 characters of a title.
    assert before == json.loads(log.read_bytes().splitlines()[-1])["customTitle"]


def test_a_file_outside_every_home_is_only_read(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A text file is no session, and a copy of a log elsewhere is not renamed."""
    from recollect.sample import sample_home

    outside = own_home / "notes.jsonl"
    outside.write_text("just text\n")

    assert 3 == main(["--home", str(sample_home()), "rename", str(outside), "T"])
    assert "just text\n" == outside.read_text()
    assert "not a session" in capsys.readouterr().err


def test_a_tag_is_given_and_taken_away(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The undo of a first tag is the empty one."""
    put(own_home / ".claude", ONE, TALK)
    main(["tag", ONE, "urgent", "--json"])
    document = json.loads(capsys.readouterr().out)
    tagged = Home().session(ONE).glance.tag
    main(["tag", ONE, ""])

    assert ("urgent", None) == (tagged, Home().session(ONE).glance.tag)
    assert ("tag", "", "urgent", True, f"recollect tag {ONE} ''") == tuple(
        document[key] for key in ("what", "before", "after", "applied", "undo")
    )


def test_with_apply_there_is_a_new_session_and_the_undo_removes_it(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The home is then as it was before."""
    home = own_home / ".claude"
    put(home, ONE, TALK)
    before = state(home)
    main(["fork", ONE, "--at", uuid_of(2), "--title", "Again", "--json"])
    document = json.loads(capsys.readouterr().out)
    fork = Home().session(document["new"])
    texts, title = [message.text for message in fork.conversation().messages], fork.title
    main(document["undo"].split()[1:])

    assert (["Q1", "A1"], "Again", str(fork.path)) == (texts, title, document["path"])
    assert before == state(home)


@pytest.mark.parametrize(("at", "code"), [("ffff", 3), ("", 3)])
def test_an_entry_that_is_not_there_is_not_found(
    own_home: Path, capsys: pytest.CaptureFixture[str], at: str, code: int
) -> None:
    """Exit 3 and no new file."""
    put(own_home / ".claude", ONE, TALK)
    before = state(own_home)

    assert (code, before) == (main(["fork", ONE, "--at", at]), state(own_home))
    assert "recollect:" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["rename", "tag"])
def test_undo_lists_a_title_and_a_tag_and_takes_them_back(
    word: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also twice, and the undo itself; the log only grows. A newer one is not overwritten unless it is forced."""
    log = put(own_home / ".claude", ONE, TALK)

    def given() -> str | None:
        session = Home().session(ONE)
        return session.title if word == "rename" else session.glance.tag

    def listed() -> list[dict[str, str]]:
        capsys.readouterr()
        assert 0 == main(["undo", "--json"])
        changes: list[dict[str, str]] = json.loads(capsys.readouterr().out)["changes"]
        return changes

    main([word, ONE, "Old"])
    main([word, ONE, "New"])
    before = log.read_bytes()
    new, old = listed()
    assert [(word, ONE, "done")] * 2 == [(one["what"], one["subject"], one["state"]) for one in (new, old)]
    assert 0 == main(["undo", new["id"]])
    assert before == log.read_bytes()
    assert 0 == main(["undo", new["id"], "--apply"])
    assert "Old" == given()
    assert log.read_bytes().startswith(before)
    back, undone, _ = listed()
    assert ("undone", new["id"]) == (undone["state"], back["undoes"])
    assert 2 == main(["undo", new["id"], "--apply"])
    assert 0 == main(["undo", back["id"], "--apply"])
    assert "New" == given()
    assert 2 == main(["undo", old["id"], "--apply"])
    assert "since" in capsys.readouterr().err
    assert 0 == main(["undo", old["id"], "--apply", "--force"])
    assert given() in {None, "Q1"}
    assert b"Old" not in (own_home / "xdg-data/recollect/labels.jsonl").read_bytes()
