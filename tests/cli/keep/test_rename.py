"""`recollect rename`: a title, planned first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.services.homes import Home
from tests.small_home import ONE, TALK, TWO, put, state


def test_without_apply_it_only_says_what_it_would_do(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing changes below HOME; the line to type is complete."""
    put(own_home / ".claude", ONE, TALK)
    before = state(own_home)
    code = main(["rename", ONE[:4], "New name"])
    shown = capsys.readouterr().out

    assert (0, before) == (code, state(own_home))
    assert "Title of 3f2a9c1e: (none) -> New name" in shown
    assert f"recollect rename {ONE} 'New name' --apply" in shown


def test_with_apply_the_session_has_the_title_and_the_undo_works(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it prints as undo brings the old title back."""
    put(own_home / ".claude", ONE, TALK)
    main(["rename", "@last", "Old", "--apply"])
    main(["rename", "@last", "New", "--apply"])
    renamed = Home().session(ONE).title
    undo = capsys.readouterr().out.splitlines()[-1]
    main(undo.split()[3:])

    assert ("New", f"Undo with: recollect rename {ONE} Old --apply") == (renamed, undo)
    assert "Old" == Home().session(ONE).title


def test_its_json(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One document, with the command that takes it back."""
    log = put(own_home / ".claude", ONE, TALK)
    assert 0 == main(["rename", ONE, "", "--apply", "--json"])

    assert json.loads(capsys.readouterr().out) == {
        "session": ONE,
        "path": str(log),
        "what": "title",
        "before": "",
        "after": "",
        "applied": True,
        "undo": f"recollect rename {ONE} '' --apply",
    }


def test_the_commands_it_prints_repeat_the_global_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or they would act on another home."""
    put(tmp_path / "h", ONE, TALK)
    options = ["--home", str(tmp_path / "h"), "--data", str(tmp_path / "d")]
    main([*options, "rename", ONE, "X", "--apply"])

    assert f"recollect --home {tmp_path / 'h'} --data {tmp_path / 'd'} rename" in capsys.readouterr().out
    assert (tmp_path / "d" / "locks").is_dir()


def test_an_ambiguous_name_changes_nothing(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3, and both candidates are named."""
    put(own_home / ".claude", ONE, TALK)
    put(own_home / ".claude", TWO, TALK)
    before = state(own_home)

    assert 3 == main(["rename", "Q1", "X", "--apply"])
    assert before == state(own_home)
    assert {"3f2a9c1e", "5b1d9c1e"} <= set(capsys.readouterr().err.replace(",", " ").split())


def test_a_hostile_old_title_does_not_reach_the_terminal(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is shown in the plan and in the undo, made visible."""
    title = {"type": "custom-title", "customTitle": "\x1b[31mRed", "sessionId": ONE}
    put(own_home / ".claude", ONE, [*TALK, title])
    main(["rename", ONE, "Plain", "--apply"])
    shown = capsys.readouterr().out

    assert (False, 2) == ("\x1b" in shown, shown.count("\\x1b[31mRed"))


def test_a_title_nobody_can_see_is_a_usage_error(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, nothing written."""
    put(own_home / ".claude", ONE, TALK)
    before = state(own_home)

    assert (2, before) == (main(["rename", ONE, "a\x07b", "--apply"]), state(own_home))
    assert "U+0007" in capsys.readouterr().err


@pytest.mark.parametrize(
    "before", ["-dash", "fam \U0001f468\u200d\U0001f469 x", "it's", "two\nlines", "x" * 300]
)
def test_the_undo_brings_back_any_earlier_title(
    own_home: Path, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed command, typed into a shell as it stands, restores the title to the letter."""
    import json
    import shutil
    import subprocess
    import sys

    from recollect.sample import sample_home
    from recollect.services.homes import Home

    home = own_home / "copy"
    shutil.copytree(sample_home(), home)
    log = Home(home).session("6ada").path
    line = {"type": "custom-title", "customTitle": before, "sessionId": log.stem}
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    assert 0 == main(["--home", str(home), "rename", "6ada", "New", "--apply"])
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

    assert 3 == main(["--home", str(sample_home()), "rename", str(outside), "T", "--apply"])
    assert "just text\n" == outside.read_text()
    assert "not a session" in capsys.readouterr().err
