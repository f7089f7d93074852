"""Files as they were before a turn are put aside where the client and ``recollect files`` find them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recollect.guard.agent import ToolRunner
from recollect.model.files.history import FileVersion, VersionSource, rewound
from recollect.model.lines import draft
from recollect.store.file_backups import backup_body, touched_files
from tests.guard.agent.workshop import Workshop, call


def prompt(workshop: Workshop, runner: ToolRunner, text: str) -> str:
    (entry_id,) = workshop.session.log.put(draft.user(text))
    runner.history.at_prompt(entry_id)
    return entry_id


def edit(runner: ToolRunner, path: str, old: str, new: str) -> None:
    runner.run(call("Read", {"file_path": path}))
    ran = runner.run(call("Edit", {"file_path": path, "old_string": old, "new_string": new}))
    assert not ran.outcome.is_error, ran.block


def at(workshop: Workshop, prompt_id: str) -> dict[str, FileVersion]:
    entries = [item for item in workshop.session.log.entries() if not hasattr(item, "reason")]
    session = workshop.session.log.id
    return rewound(
        entries,  # type: ignore[arg-type]  # a log of ours has no damage
        prompt_id,
        str(workshop.project),
        body_of=lambda name: backup_body(workshop.home, session, name),
    )


def content(version: FileVersion) -> Any:
    return version.content if version.existed else None


def test_a_turn_can_be_taken_back(tmp_path: Path) -> None:
    """Before each of two turns: the bytes of the edited file, and no file where one was made."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    old, new = workshop.file("old.txt", b"caf\xc3\xa9\r\n"), str(workshop.project / "new.txt")
    runner = workshop.runner()
    first = prompt(workshop, runner, "One")
    edit(runner, old, "caf", "CAF")
    runner.run(call("Write", {"file_path": new, "content": "made\n"}))
    second = prompt(workshop, runner, "Two")
    edit(runner, old, "CAF", "Caf")

    found = {
        name: {path: content(version) for path, version in at(workshop, prompt_id).items()}
        for name, prompt_id in (("first", first), ("second", second))
    }

    assert {
        "first": {old: b"caf\xc3\xa9\r\n", new: None},
        "second": {old: b"CAF\xc3\xa9\r\n", new: b"made\n"},
    } == found


def test_a_file_is_put_aside_once_a_turn(tmp_path: Path) -> None:
    """The second edit of a turn adds no version: a rewind goes to where the turn began."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    path = workshop.file("a.txt", "1")
    runner = workshop.runner()
    prompt(workshop, runner, "One")
    edit(runner, path, "1", "2")
    edit(runner, path, "2", "3")

    kept = list(workshop.home.file_history_dir(workshop.session.log.id).iterdir())

    assert [b"1"] == [one.read_bytes() for one in kept]


def test_the_backup_is_there_before_the_change(tmp_path: Path) -> None:
    """The order of lines: snapshot of the prompt, snapshot with the file, then the result."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    path = workshop.file("a.txt", "1")
    runner = workshop.runner()
    owner = prompt(workshop, runner, "One")
    edit(runner, path, "1", "2")

    lines = workshop.lines()

    kinds = ["user", "file-history-snapshot", "user", "file-history-snapshot", "user"]
    assert kinds == [line["type"] for line in lines]
    added = lines[3]
    assert (True, owner, ["a.txt"]) == (
        added["isSnapshotUpdate"],
        added["snapshot"]["messageId"],
        list(added["snapshot"]["trackedFileBackups"]),
    )


def test_readers_tell_the_versions(tmp_path: Path) -> None:
    """``recollect files`` sees what was put aside for the prompt, and what was edited."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    path = workshop.file("a.txt", "1")
    runner = workshop.runner()
    prompt(workshop, runner, "One")
    edit(runner, path, "1", "2")

    versions = touched_files(workshop.home, workshop.read_back().file)[path]

    assert [(VersionSource.BACKUP, b"1"), (VersionSource.EDIT, "2")] == [
        (version.source, version.content) for version in versions
    ]


def test_a_resumed_session_goes_on_counting(tmp_path: Path) -> None:
    """A second runner over the same log knows the files of the first and their versions."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    path = workshop.file("a.txt", "1")
    runner = workshop.runner()
    prompt(workshop, runner, "One")
    edit(runner, path, "1", "2")

    later = workshop.runner()
    prompt(workshop, later, "Two")

    backup = workshop.last()["snapshot"]["trackedFileBackups"]["a.txt"]
    assert (2, True) == (backup["version"], backup["backupFileName"].endswith("@v2"))


def test_a_hostile_log_does_not_make_us_copy_files(tmp_path: Path) -> None:
    """Paths of an old log are words: what lies outside the project is not read for a backup."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    outside = tmp_path / "outside.txt"
    outside.write_text("private")
    tracked = {
        name: {"backupFileName": None, "version": 1, "backupTime": "2026-01-01T00:00:00.000Z"}
        for name in (str(outside), "../outside.txt", "link/outside.txt")
    }
    (workshop.project / "link").symlink_to(tmp_path)
    taken = {"messageId": "x", "trackedFileBackups": tracked, "timestamp": "2026-01-01T00:00:00.000Z"}
    workshop.session.log.put(
        draft.metadata("file-history-snapshot", messageId="x", snapshot=taken, isSnapshotUpdate=False)
    )

    prompt(workshop, workshop.runner(), "One")

    assert not workshop.home.file_history_dir(workshop.session.log.id).exists()
