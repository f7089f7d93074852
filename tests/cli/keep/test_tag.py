"""`recollect tag`: a tag, planned first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.services.homes import Home
from tests.small_home import ONE, TALK, put, state


def test_without_apply_nothing_changes(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is printed with the line to type."""
    put(own_home / ".claude", ONE, TALK)
    before = state(own_home)

    assert (0, before) == (main(["tag", ONE, "urgent"]), state(own_home))
    assert f"recollect tag {ONE} urgent --apply" in capsys.readouterr().out


def test_a_tag_is_given_and_taken_away(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The undo of a first tag is the empty one."""
    put(own_home / ".claude", ONE, TALK)
    main(["tag", ONE, "urgent", "--apply", "--json"])
    document = json.loads(capsys.readouterr().out)
    tagged = Home().session(ONE).glance.tag
    main(["tag", ONE, "", "--apply"])

    assert ("urgent", None) == (tagged, Home().session(ONE).glance.tag)
    assert ("tag", "", "urgent", True, f"recollect tag {ONE} '' --apply") == tuple(
        document[key] for key in ("what", "before", "after", "applied", "undo")
    )


def test_an_unknown_session_is_not_found(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3."""
    put(own_home / ".claude", ONE, TALK)

    assert 3 == main(["tag", "nope", "urgent", "--apply"])
    assert "'nope'" in capsys.readouterr().err
