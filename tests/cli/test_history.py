"""`recollect show --prompts` and `recollect show --plan`: what was typed, by project and by words; the documents of plan mode."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.cli.test_cleanup import answer
from tests.small_home import ONE, TALK, put


@pytest.fixture
def home(own_home: Path) -> Path:
    root = own_home / ".claude"
    put(root, ONE, TALK)
    typed = [
        {
            "display": "Round the CENTS",
            "timestamp": 1_790_000_000_000,
            "project": "/srv/shop",
            "sessionId": ONE,
        },
        {
            "display": "run the tests",
            "timestamp": 1_790_000_001_000,
            "project": "/srv/shop",
            "sessionId": ONE,
        },
        {"display": "cents again", "timestamp": 1_790_000_002_000, "project": "/srv/other"},
    ]
    (root / "history.jsonl").write_text("".join(json.dumps(one) + "\n" for one in typed))
    (root / "plans").mkdir()
    for number, (name, text) in enumerate(
        {"quiet-otter": "# Rounding\n\ncents", "loud-fox": "\n## Tests\n\x1b[31m", "quiet-owl": ""}.items()
    ):
        (root / "plans" / f"{name}.md").write_text(text)
        os.utime(root / "plans" / f"{name}.md", (1_790_000_000 + number,) * 2)
    return root


def test_what_was_typed_is_found_by_all_its_words(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "show", "--prompts", "--find", "cents round")
    assert ["Round the CENTS"] == [one["text"] for one in found["commands"]]
    assert ["quiet-otter"] == [one["name"] for one in found["plans"]]
    assert [] == answer(capsys, "show", "--prompts", "--find", "nothing")["commands"]


def test_what_was_typed_is_counted_by_project(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The most recent first."""
    found = answer(capsys, "show", "--prompts", "--by", "project")["projects"]
    assert [("/srv/other", 1), ("/srv/shop", 2)] == [(one["project"], one["commands"]) for one in found]
    assert 0 == main(["show", "--prompts", "--by", "project"])
    assert "2 projects" in capsys.readouterr().out


def test_plans_are_listed_found_and_printed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest first, by heading; control characters of a plan are made visible."""
    assert ["quiet-owl", "loud-fox", "quiet-otter"] == [
        one["name"] for one in answer(capsys, "show", "--plan")["plans"]
    ]
    assert ["quiet-otter"] == [
        one["name"] for one in answer(capsys, "show", "--plan", "--find", "CENTS")["plans"]
    ]
    assert 0 == main(["show", "--plan"])
    told = capsys.readouterr().out
    assert ("Rounding" in told, "(empty)" in told, "3 plans" in told) == (True, True, True)
    assert 0 == main(["show", "loud", "--plan"])
    assert "\x1b[31m" not in capsys.readouterr().out
    assert (3, 3) == (main(["show", "quiet", "--plan"]), main(["show", "nothing", "--plan"]))
