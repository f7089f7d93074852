"""Every command that keeps, moves or removes sessions, killed at any call: old or new, never between (G5, G12, Z4)."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from recollect.ask import archive as keep
from recollect.ask.library import Home
from recollect.ask.todos import move_item
from recollect.change import fork, label
from recollect.change.keeping import candidates, clean_up, remove
from recollect.change.migrations import step_named
from recollect.change.move import carry_out, planned_move, planned_split
from recollect.change.redact import redact
from recollect.errors import NotFound
from recollect.model.secrets import KEY_BYTES
from recollect.store.archive.archive import Archive
from recollect.store.archive.bundle import export_bundle, import_bundle
from recollect.store.changes.journal import ChangeJournal
from recollect.store.home import ClaudeHome
from recollect.store.trash import trash_at
from tests import secret_home
from tests.change.migrations.old_sessions import (
    CWD,
    main_talk,
    migrate_step,
    put_flat,
    put_flat_agents,
    put_inline,
    put_todos,
)
from tests.change.test_trash import put_far_apart
from tests.crash.sweeps import Operation, Place, Tree, both_sides, expect, sweep, tree_of
from tests.small_home import ONE, TALK, TWO, lines, prompt, put

THREE = "7c1d9c1e-0000-4000-8000-000000000003"
NOW = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
TODOS = [{"content": "Write it", "status": "pending", "activeForm": "Writing it"}]

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")]


def migrating(step: str) -> Callable[[Path, Path], object]:
    def act(home: Path, data: Path) -> object:
        return migrate_step(step_named(step), Home(home).session(ONE), data, CWD)

    return act


def a_project(home: Path, _: Path) -> None:
    """A session with an agent, one below it, prompts and the project's entry in the config."""
    log = put(home, ONE, TALK)
    put(home, TWO, TALK, f"{CWD}/lib")
    agent = log.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(lines([prompt(9, None, "Find it")]))
    (home / "history.jsonl").write_text(f'{{"display":"Q","project":"{CWD}"}}\n')
    (home / ".claude.json").write_text(f'{{"projects":{{"{CWD}":{{"x":1}}}}}}')


def move(home: Path, data: Path) -> object:
    found = planned_move(ClaudeHome(home, home / ".claude.json"), CWD, "/data/shop")
    return carry_out(found, data)


def a_shared_folder(home: Path, _: Path) -> None:
    put(home, ONE, TALK, "/srv/my-app")
    log = put(home, TWO, TALK, "/srv/my/app")
    (log.parent / "agent-1234567.jsonl").write_bytes(lines([prompt(9, None, "Find it")]))
    os.utime(log, (1_000_000_000, 1_000_000_000))


def split(home: Path, data: Path) -> object:
    return carry_out(planned_split(ClaudeHome(home), "/srv/my-app"), data)


def an_archived_session(home: Path, data: Path) -> None:
    """It is only in the archive; another session is still in the home."""
    a_project(home, data)
    keep.add_all(keep.archive_at(data), list(Home(home).sessions()), NOW)
    shutil.rmtree(home / "projects" / "-srv-app")


def restore(home: Path, data: Path) -> object:
    archive = keep.archive_at(data)
    return keep.restore(archive, archive.find(ONE), home)


def a_session_with_secrets(home: Path, data: Path) -> None:
    secret_home.make(home)
    # Another key would give other fingerprints, and so other bytes.
    (data / "fingerprint.key").write_text("5a" * KEY_BYTES)


def redaction(home: Path, data: Path) -> object:
    return redact(Home(home).session(ONE), data)


def a_session_with_todos(home: Path, data: Path) -> None:
    a_project(home, data)
    (home / "todos").mkdir()
    (home / "todos" / f"{ONE}-agent-{ONE}.json").write_text(json.dumps(TODOS))


def moving_a_todo(home: Path, data: Path) -> object:
    return move_item(Home(home), ONE, "1", "in_progress", data=data)


OPERATIONS = {
    "redact": Operation(a_session_with_secrets, redaction),
    "todos set": Operation(a_session_with_todos, moving_a_todo),
    "migrate flat to claude": Operation(lambda home, _: put_flat(home), migrating("1")),
    "migrate claude to flat": Operation(lambda home, _: put(home, ONE, main_talk()), migrating("2")),
    "migrate flat agents": Operation(lambda home, _: put_flat_agents(home), migrating("3")),
    "migrate todos": Operation(lambda home, _: put_todos(home, TODOS), migrating("4")),
    "migrate side chains": Operation(lambda home, _: put_inline(home), migrating("5")),
    "mv": Operation(a_project, move),
    "mv --split": Operation(a_shared_folder, split),
    "archive restore": Operation(an_archived_session, restore),
}


FORK = "9c1d9c1e-0000-4000-8000-000000000009"


def renaming(home: Path, data: Path) -> None:
    label.apply(label.titled(Home(home).session(ONE), "Another title"), data)


def tagging(home: Path, data: Path) -> None:
    label.apply(label.tagged(Home(home).session(ONE), "kept"), data)


def forking(home: Path, _: Path) -> object:
    """With one name in every run, so that the results can be compared."""
    found = fork.planned_fork(Home(home).session(ONE))
    new, old = found.path.stem, found.path
    made = tuple(line.replace(new.encode(), FORK.encode()) for line in found.lines)
    return fork.apply(structs.replace(found, path=old.with_name(f"{FORK}.jsonl"), lines=made))


ADDITIONS: dict[str, Callable[[Path, Path], object]] = {"rename": renaming, "tag": tagging, "fork": forking}


@both_sides
@pytest.mark.parametrize("name", ADDITIONS)
def test_a_killed_addition_to_a_home_is_old_or_new(tmp_path: Path, name: str, how: str) -> None:
    """What was there keeps every byte; the new line or log is whole or absent; then it can be done."""
    operation = Operation(a_project, ADDITIONS[name])

    def seen(home: Path) -> Tree:
        # A copy that a killed process had not finished; ``redact --everywhere`` looks for it too.
        return {path: what for path, what in files_of(home).items() if not path.endswith(".tmp")}

    whole = Place(tmp_path, a_project)
    old = seen(whole.home)
    operation.act(whole.home, whole.data)
    new = seen(whole.home)
    assert old != new

    def judge(place: Place, ends: Counter[str]) -> None:
        found = seen(place.home)
        ends["old or new"] += found in (old, new)
        if found == old:
            operation.act(place.home, place.data)
        ends["can be done"] += seen(place.home) == new

    expect(sweep(tmp_path, operation, how, judge, name), "old or new", "can be done")


def sessions_with_everything(home: Path, data: Path) -> None:
    """Two old sessions: one with an agent, a backup, a task, a todo, a link and an empty directory."""
    a_project(home, data)
    for name in (f"file-history/{ONE}/abc@v1", f"tasks/{ONE}/1.json", f"todos/{ONE}-agent-{ONE}.json"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    (home / "session-env" / ONE).mkdir(parents=True)
    (home / "projects" / "-srv-app" / ONE / "link").symlink_to("/nowhere")


def rm(home: Path, data: Path) -> object:
    return remove(Home(home).session(ONE), data)


def cleanup(home: Path, data: Path) -> object:
    found = candidates(Home(home).sessions(), NOW)
    return clean_up(found, keep.archive_at(data), data, NOW)


def a_removed_session(home: Path, data: Path) -> None:
    sessions_with_everything(home, data)
    rm(home, data)


def trash_restore(_: Path, data: Path) -> object:
    trash = trash_at(data)
    return [trash.restore(batch) for batch in trash.batches()]


REMOVALS = {
    "rm": Operation(sessions_with_everything, rm),
    "cleanup": Operation(sessions_with_everything, cleanup),
    "trash restore": Operation(a_removed_session, trash_restore),
}


def files_of(root: Path) -> Tree:
    """Files and links; directories that a clean-up leaves empty are no part of a session."""
    return {name: found for name, found in tree_of(root).items() if not (root / name).is_dir()}


@pytest.mark.parametrize("is_far", [False, True], ids=["near", "far"])
@both_sides
@pytest.mark.parametrize("name", REMOVALS)
def test_a_killed_removal_is_old_or_new(
    quick_directory: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str, is_far: bool
) -> None:
    """After recovery each session is whole in the home or whole in the trash; then all of it goes, and returns.

    Far: the trash is on another file system, where files are copied.
    """
    if is_far:
        put_far_apart(monkeypatch)
    operation = REMOVALS[name]
    whole = Place(quick_directory, operation.lay_down)
    begin, complete = files_of(whole.home), files_of_all(whole)
    whole = Place(quick_directory, operation.lay_down)
    operation.act(whole.home, whole.data)
    end = files_of(whole.home)
    assert begin != end
    between = [{path: what for path, what in complete.items() if one not in path} for one in (ONE, TWO)]

    def judge(place: Place, ends: Counter[str]) -> None:
        ChangeJournal(place.data / "undo").recover()
        ends["old or new"] += files_of(place.home) in (begin, end, *(between if name == "cleanup" else ()))
        with contextlib.suppress(NotFound):  # all of it was done
            operation.act(place.home, place.data)
        ends["can be done"] += files_of(place.home) == end
        ends["no remains"] += not list(quick_directory.rglob("*.recollect"))
        ends["nothing lost"] += files_of_all(place) == complete

    ends = sweep(quick_directory, operation, how, judge, f"{name}, {'far' if is_far else 'near'}")
    expect(ends, "old or new", "nothing lost", "can be done", "no remains")


def files_of_all(place: Place) -> Tree:
    """The home after everything came out of the trash."""
    trash_restore(place.home, place.data)
    return files_of(place.home)


@both_sides
def test_a_killed_import_leaves_a_sound_archive(quick_directory: Path, how: str) -> None:
    """Each session of the bundle is in the archive whole or not at all; the next import leaves nothing behind."""

    def lay_down(home: Path, data: Path) -> None:
        a_project(home, data)
        source = keep.archive_at(data / "source")
        keep.add_all(source, list(Home(home).sessions()), NOW)
        export_bundle(source, source.manifests(), data / "two.bundle")

    def taken_in(_: Path, data: Path) -> None:
        archive = keep.archive_at(data)
        with archive.adding():
            import_bundle(archive, data / "two.bundle")

    def contents(archive: Archive) -> dict[str, list[tuple[str, str]]]:
        return {
            one.session: [(file.path, file.stored.sha256) for file in one.files]
            for one in archive.manifests()
        }

    operation = Operation(lay_down, taken_in)
    whole = Place(quick_directory, lay_down)
    taken_in(whole.home, whole.data)
    new = contents(keep.archive_at(whole.data))
    assert 2 == len(new)

    def judge(place: Place, ends: Counter[str]) -> None:
        archive = keep.archive_at(place.data)
        ends["whole or absent"] += all(new[one] == files for one, files in contents(archive).items())
        ends["sound"] += archive.verify() == []
        taken_in(place.home, place.data)
        ends["complete"] += contents(archive).keys() == new.keys() and archive.verify() == []
        ends["no half of a file"] += not list(archive.objects.root.glob(".*"))

    ends = sweep(quick_directory, operation, how, judge, "archive import")
    expect(ends, "whole or absent", "sound", "complete", "no half of a file")


@both_sides
def test_a_killed_addition_leaves_a_sound_archive(tmp_path: Path, how: str) -> None:
    """The session is in it as it was or as it is; every byte verifies; the next addition leaves nothing behind."""

    def lay_down(home: Path, data: Path) -> None:
        a_project(home, data)
        add(home, data)
        with (home / "projects" / "-srv-app" / f"{ONE}.jsonl").open("ab") as log:
            log.write(lines([prompt(8, 4, "One more")]))
        put(home, THREE, TALK, "/srv/new")

    def add(home: Path, data: Path) -> None:
        added, failed = keep.add_all(keep.archive_at(data), list(Home(home).sessions()), NOW)
        assert ([], True) == (failed, bool(added))

    def states(archive: Archive) -> dict[str, str]:
        return {one.session: one.log.stored.sha256 for one in archive.manifests()}

    whole = Place(tmp_path, lay_down)
    old, home_before = states(keep.archive_at(whole.data)), tree_of(whole.home)
    add(whole.home, whole.data)
    new = states(keep.archive_at(whole.data))
    assert old != new

    def judge(place: Place, ends: Counter[str]) -> None:
        archive = keep.archive_at(place.data)
        found = states(archive)
        ends["each old or new"] += all(found.get(one) in (old.get(one), new[one]) for one in new)
        ends["sound"] += archive.verify() == []
        add(place.home, place.data)
        ends["complete"] += states(archive) == new and archive.verify() == []
        ends["no half of a file"] += not list(archive.objects.root.glob(".*"))
        ends["home untouched"] += tree_of(place.home) == home_before

    ends = sweep(tmp_path, Operation(lay_down, add), how, judge, "archive add")
    expect(ends, "each old or new", "sound", "complete", "no half of a file", "home untouched")
