"""Decisions follow the shell's directory, and no rule is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.guard.agent.calls import PermissionGate
from recollect.model.settings.decision import Verdict
from tests.guard.agent.workshop import Workshop


@pytest.mark.parametrize("command", ["cat ../secret", "cat ./../secret", "cp ../secret x", "cat ../s*"])
def test_a_deny_of_the_first_directory_holds_after_cd(tmp_path: Path, command: str) -> None:
    """``Read(./secret)`` means the file beside the start, wherever the shell is now (C06)."""
    workshop = Workshop(tmp_path, allow=["Bash"], deny=["Read(./secret)"])
    workshop.file("secret", "s")
    workshop.file("sub/x", "")

    decision = PermissionGate(workshop.permit).decide(
        "Bash", {"command": command}, str(workshop.project / "sub")
    )

    assert Verdict.DENY is decision.verdict


def test_an_ask_of_the_first_directory_holds_after_cd(tmp_path: Path) -> None:
    """The same for a rule that wants to be asked."""
    workshop = Workshop(tmp_path, allow=["Bash"], asks=["Read(./secret)"])
    workshop.file("secret", "s")
    workshop.file("sub/x", "")

    decision = PermissionGate(workshop.permit).decide(
        "Bash", {"command": "cat ../secret"}, str(workshop.project / "sub")
    )

    assert Verdict.ASK is decision.verdict


def test_looking_around_inside_is_still_allowed(tmp_path: Path) -> None:
    """A command that is harmless at the start is harmless below it; the start may be read from there."""
    workshop = Workshop(tmp_path)
    workshop.file("a.txt", "")
    workshop.file("sub/x", "")
    gate = PermissionGate(workshop.permit)

    verdicts = {
        command: gate.decide("Bash", {"command": command}, str(workshop.project / "sub")).verdict
        for command in ("ls", "cat x", "cat ../a.txt", "cat ../../other")
    }

    assert {
        "ls": Verdict.ALLOW,
        "cat x": Verdict.ALLOW,
        "cat ../a.txt": Verdict.ALLOW,
        "cat ../../other": Verdict.ASK,
    } == verdicts


def test_a_decision_holds_only_for_its_directory(tmp_path: Path) -> None:
    """The same words elsewhere are another call (E10)."""
    workshop = Workshop(tmp_path)
    workshop.file("sub/x", "")
    gate, arguments = PermissionGate(workshop.permit), {"command": "ls"}
    here, there = str(workshop.project), str(workshop.project / "sub")
    decision = gate.decide("Bash", arguments, here)

    assert (True, False) == (
        gate.still_holds(decision, "Bash", arguments, here),
        gate.still_holds(decision, "Bash", arguments, there),
    )


def test_directories_are_compared_by_components(tmp_path: Path) -> None:
    """``work-evil`` is not inside ``work`` (C01), and a link counts for where it leads."""
    workshop = Workshop(tmp_path)
    workshop.file("sub/x", "")
    (tmp_path / "work-evil").mkdir()
    (workshop.project / "out").symlink_to(tmp_path)
    gate = PermissionGate(workshop.permit)

    paths = [workshop.project / "sub", tmp_path / "work-evil", workshop.project / "out", workshop.project]

    assert [True, False, False, True] == [gate.holds_directory(str(path)) for path in paths]
