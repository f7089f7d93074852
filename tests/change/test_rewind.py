"""Undo of a whole turn's file changes, for sessions of our agent and of a client that kept no backups."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.ask.sessions.session import Session
from recollect.change import undo
from recollect.change.rewind import RewoundFile, planned_rewind, rewind
from recollect.errors import NotFound
from tests.guard.agent.workshop import Script, Workshop, call


def worked(workshop: Workshop) -> Session:
    """Two turns: the first changes a and makes b, the second changes a again and makes c by a sub-agent."""
    a, b, c = (str(workshop.project / name) for name in "abc")
    workshop.file("a", b"one\r\n")
    script = Script(
        [call("Read", {"file_path": a}, "t1")],
        [
            call("Edit", {"file_path": a, "old_string": "one", "new_string": "two"}, "t2"),
            call("Write", {"file_path": b, "content": "b1"}, "t3"),
        ],
        "First.",
        [call("Edit", {"file_path": a, "old_string": "two", "new_string": "three"}, "t4")],
        [call("Agent", {"description": "c", "prompt": "Make c"}, "t5")],
        [call("Write", {"file_path": c, "content": "c1"}, "t6")],
        "Made.",
        "Second.",
    )
    agent = workshop.agent(script)
    agent.run("Turn one")
    agent.run("Turn two")
    return workshop.read_back()


def contents(workshop: Workshop) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(workshop.project.iterdir())}


def test_the_last_turn_is_undone_with_its_sub_agents_and_the_undo_is_undone(tmp_path: Path) -> None:
    """Bytes as before the prompt, new files gone; ``undo`` brings the later state back."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    session = worked(workshop)
    after = contents(workshop)

    change = rewind(session, None, workshop.data)

    assert ("Turn two", {"a": b"two\r\n", "b": b"b1"}) == (change.text, contents(workshop))
    assert {"a": b"three\r\n", "b": b"b1", "c": b"c1"} == after
    assert change.undo is not None
    undo.undo(workshop.data, undo.found_change(workshop.data, change.undo))
    assert after == contents(workshop)


def test_an_earlier_prompt_undoes_all_later_turns(tmp_path: Path) -> None:
    """As the client's ``--rewind-files``."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    session = worked(workshop)
    first = next(entry.uuid for entry in session.conversation().entries() if entry.kind == "user")
    assert first is not None

    rewind(session, first[:8], workshop.data)

    assert {"a": b"one\r\n"} == contents(workshop)


def test_nothing_changes_without_carrying_it_out_and_twice_is_nothing(tmp_path: Path) -> None:
    """A plan only looks; what is already as before needs no change."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    session = worked(workshop)
    before = contents(workshop)

    planned_rewind(session)
    assert before == contents(workshop)
    rewind(session, None, workshop.data)

    report, plan = planned_rewind(session)
    assert ((), None) == (report.files, plan)


def test_without_backups_the_reported_contents_count(tmp_path: Path) -> None:
    """A client in print mode keeps no backups: what its own calls report is used where it is exact."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    session = worked(workshop)
    kept = [line for line in session.path.read_bytes().splitlines() if b"file-history-snapshot" not in line]
    session.path.write_bytes(b"\n".join(kept) + b"\n")

    report, _ = planned_rewind(Home(workshop.home.root, data=workshop.data).session(session.id))

    a, c = (str(workshop.project / name) for name in "ac")
    assert (
        RewoundFile(a, "leave", why="its line ends or encoding are not recorded"),
        RewoundFile(c, "remove"),
    ) == report.files


def test_a_log_leads_to_no_file_outside_its_directory(tmp_path: Path) -> None:
    """Paths of a transcript are hostile: outside the session's directory, or through a link, nothing is done."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("mine")
    (workshop.project / "link").symlink_to(outside)
    workshop.agent(
        Script([call("Write", {"file_path": str(workshop.project / "n"), "content": "x"}, "t1")], "Done.")
    ).run("Go")
    text = workshop.session.log.path.read_text()
    for name in (
        str(outside / "x"),
        str(workshop.project / "link" / "x"),
        f"{workshop.project}/../outside/x",
    ):
        workshop.session.log.path.write_text(
            text.replace(str(workshop.project / "n"), name).replace('"n"', f'"{name}"')
        )
        (one,) = planned_rewind(workshop.read_back())[0].files
        assert "leave" == one.action, name

    assert "mine" == (outside / "x").read_text()


def test_a_session_that_changed_nothing_has_nothing_to_undo(tmp_path: Path) -> None:
    """And a prompt that is not there is not found."""
    workshop = Workshop(tmp_path)
    workshop.agent(Script("Hello.")).run("Hi")

    with pytest.raises(NotFound, match="no turn that changed files"):
        planned_rewind(workshop.read_back())
    with pytest.raises(NotFound, match="no prompt"):
        planned_rewind(workshop.read_back(), "ffffffff")
