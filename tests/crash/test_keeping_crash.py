"""Every command that keeps, moves or removes sessions, killed at any call: old or new, never between (G5, G12, Z4)."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shutil
import signal
import stat
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import structs

from recollect.errors import NotFound
from recollect.model.secrets.fingerprint import KEY_BYTES
from recollect.services import fork, label, migrate
from recollect.services.archive import archive as keep
from recollect.services.archive.cleanup import candidates, clean_up
from recollect.services.homes import Home
from recollect.services.move.move import carry_out, planned_move
from recollect.services.move.split import planned_split
from recollect.services.secrets.redact import redact
from recollect.services.todos import move_item
from recollect.services.trash import remove, trash_at
from recollect.storage.archive.archive import Archive
from recollect.storage.archive.bundle import export_bundle, import_bundle
from recollect.storage.changes.journal import ChangeJournal
from recollect.storage.home import ClaudeHome
from recollect.storage.migrations.registry import step_named
from tests import secret_home
from tests.crash.change_loop import LOOKING, Calls, end_process, never_returning
from tests.services.test_trash import put_far_apart
from tests.small_home import ONE, TALK, TWO, lines, prompt, put
from tests.storage.migrations.old_sessions import (
    CWD,
    main_talk,
    put_flat,
    put_flat_agents,
    put_inline,
    put_todos,
)

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
# How many moments of each operation are tried on an ordinary day.
DAILY = 3
THREE = "7c1d9c1e-0000-4000-8000-000000000003"
NOW = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
TODOS = [{"content": "Write it", "status": "pending", "activeForm": "Writing it"}]
Tree = dict[str, tuple[int, bytes]]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")]


class Operation(NamedTuple):
    """Something that changes a home: what there is before, and what is done to it."""

    lay_down: Callable[[Path, Path], object]
    act: Callable[[Path, Path], object]


def tree_of(root: Path) -> Tree:
    """Every name, hidden ones too: modes, and the bytes of files."""
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        found[path.relative_to(root).as_posix()] = (mode, path.read_bytes() if path.is_file() else b"")
    return found


def migrating(step: str) -> Callable[[Path, Path], object]:
    def act(home: Path, data: Path) -> object:
        return migrate.carried_out(step_named(step), Home(home).session(ONE), data, CWD)

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


class Place:
    """A fresh home and our own directory, for one case."""

    def __init__(self, root: Path, lay_down: Callable[[Path, Path], object]) -> None:
        self.home, self.data = root / "home", root / "data"
        for directory in (self.home, self.data):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        lay_down(self.home, self.data)


def killed_at(work: Callable[[], object], nth: int, how: str) -> tuple[int, list[int]]:
    """Work in a child that ends at its nth call; how it ended, and which of its calls changed anything."""
    counted, told = os.pipe()
    child = os.fork()
    if child == 0:
        with never_returning():
            calls = Calls(end_process)
            calls.watch(setattr)
            calls.arm(nth, how)
            work()
            calls.disarm()
            changing = [
                number for number, name in enumerate(calls.names, 1) if name not in (*LOOKING, "pread")
            ]
            os.write(told, json.dumps(changing).encode())
    os.close(told)
    _, status = os.waitpid(child, 0)
    made = os.read(counted, 1 << 16)
    os.close(counted)
    return os.waitstatus_to_exitcode(status), json.loads(made or b"[]")


def moments(calls: list[int]) -> list[int]:
    """All of them in a torture run, else a few that lie apart."""
    return calls[:: 1 if TORTURE else max(1, len(calls) // DAILY)]


@pytest.mark.parametrize("how", ["killed before", "killed after"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_any_call_it_is_old_or_new(tmp_path: Path, name: str, how: str) -> None:
    """After recovery every name and byte is old or new; then it can be done, and undone to the last byte."""
    lay_down, act = OPERATIONS[name]
    whole = Place(tmp_path, lay_down)
    old = tree_of(whole.home)
    _, calls = killed_at(partial(act, whole.home, whole.data), 0, how)
    new = tree_of(whole.home)
    ends = Counter[str]()
    for nth in moments(calls):
        place = Place(tmp_path, lay_down)
        code, _ = killed_at(partial(act, place.home, place.data), nth, how)
        journal = ChangeJournal(place.data / "undo")
        journal.recover()
        found = tree_of(place.home)
        ends["killed"] += code == -signal.SIGKILL
        ends["old" if found == old else "new" if found == new else f"broken at {nth}"] += 1
        if found == old:
            act(place.home, place.data)
        ends["can be done"] += tree_of(place.home) == new
        journal.undo(next(one.id for one in journal.changes() if one.state == "done"))
        ends["undone"] += tree_of(place.home) == old

    tried = len(moments(calls))
    print(f"\n{name} {how} {tried} of {len(calls)} calls: {dict(ends)}")
    assert old != new
    assert (tried, tried, tried) == (ends["old"] + ends["new"], ends["can be done"], ends["undone"])
    # After the last calls, where they find nothing, nobody is killed: the work is done.
    assert ends["killed"] * 2 > tried


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


@pytest.mark.parametrize("how", ["killed before", "killed after"])
@pytest.mark.parametrize("name", ADDITIONS)
def test_a_killed_addition_to_a_home_is_old_or_new(tmp_path: Path, name: str, how: str) -> None:
    """What was there keeps every byte; the new line or log is whole or absent; then it can be done."""
    act = ADDITIONS[name]

    def seen(home: Path) -> Tree:
        # A copy that a killed process had not finished; ``redact --everywhere`` looks for it too.
        return {path: what for path, what in files_of(home).items() if not path.endswith(".tmp")}

    whole = Place(tmp_path, a_project)
    old = seen(whole.home)
    _, calls = killed_at(partial(act, whole.home, whole.data), 0, how)
    new = seen(whole.home)
    ends = Counter[str]()
    for nth in moments(calls):
        place = Place(tmp_path, a_project)
        code, _ = killed_at(partial(act, place.home, place.data), nth, how)
        found = seen(place.home)
        ends["killed"] += code == -signal.SIGKILL
        ends["old" if found == old else "new" if found == new else f"broken at {nth}"] += 1
        if found == old:
            act(place.home, place.data)
        ends["can be done"] += seen(place.home) == new

    tried = len(moments(calls))
    print(f"\n{name} {how} {tried} of {len(calls)} calls: {dict(ends)}")
    assert old != new
    assert (tried, tried) == (ends["old"] + ends["new"], ends["can be done"])
    assert ends["killed"] > 0


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
@pytest.mark.parametrize("how", ["killed before", "killed after"])
@pytest.mark.parametrize("name", REMOVALS)
def test_a_killed_removal_is_old_or_new(
    quick_directory: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str, is_far: bool
) -> None:
    """After recovery each session is whole in the home or whole in the trash; then all of it goes, and returns.

    Far: the trash is on another file system, where files are copied.
    """
    if is_far:
        put_far_apart(monkeypatch)
    lay_down, act = REMOVALS[name]
    whole = Place(quick_directory, lay_down)
    begin, complete = files_of(whole.home), files_of_all(whole)
    whole = Place(quick_directory, lay_down)
    _, calls = killed_at(partial(act, whole.home, whole.data), 0, how)
    end = files_of(whole.home)
    between = (
        {path: found for path, found in complete.items() if ONE not in path},
        {path: found for path, found in complete.items() if TWO not in path},
    )
    ends = Counter[str]()
    for nth in moments(calls):
        place = Place(quick_directory, lay_down)
        code, _ = killed_at(partial(act, place.home, place.data), nth, how)
        ChangeJournal(place.data / "undo").recover()
        found = files_of(place.home)
        ends["killed"] += code == -signal.SIGKILL
        ends["old or new"] += found in (begin, end, *(between if name == "cleanup" else ()))
        with contextlib.suppress(NotFound):  # all of it was done
            act(place.home, place.data)
        ends["can be done"] += files_of(place.home) == end
        ends["no remains"] += not list(quick_directory.rglob("*.recollect"))
        ends["nothing lost"] += files_of_all(place) == complete

    tried = len(moments(calls))
    print(f"\n{name}, {'far' if is_far else 'near'}, {how} {tried} of {len(calls)} calls: {dict(ends)}")
    names = ("old or new", "nothing lost", "can be done", "no remains")
    assert dict.fromkeys(names, tried) == {one: ends[one] for one in names}
    assert (True, True) == (begin != end, ends["killed"] * 2 > tried)


def files_of_all(place: Place) -> Tree:
    """The home after everything came out of the trash."""
    trash_restore(place.home, place.data)
    return files_of(place.home)


@pytest.mark.parametrize("how", ["killed before", "killed after"])
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

    whole = Place(quick_directory, lay_down)
    _, calls = killed_at(partial(taken_in, whole.home, whole.data), 0, how)

    def contents(archive: Archive) -> dict[str, list[tuple[str, str]]]:
        return {
            one.session: [(file.path, file.stored.sha256) for file in one.files]
            for one in archive.manifests()
        }

    new = contents(keep.archive_at(whole.data))
    ends = Counter[str]()
    for nth in moments(calls):
        place = Place(quick_directory, lay_down)
        code, _ = killed_at(partial(taken_in, place.home, place.data), nth, how)
        archive = keep.archive_at(place.data)
        found = contents(archive)
        ends["killed"] += code == -signal.SIGKILL
        ends["whole or absent"] += all(new[one] == files for one, files in found.items())
        ends["sound"] += archive.verify() == []
        taken_in(place.home, place.data)
        ends["complete"] += {one.session for one in archive.manifests()} == set(
            new
        ) and archive.verify() == []
        ends["no half of a file"] += not list(archive.objects.root.glob(".*"))

    tried = len(moments(calls))
    print(f"\narchive import {how} {tried} of {len(calls)} calls: {dict(ends)}")
    names = ("whole or absent", "sound", "complete", "no half of a file")
    assert dict.fromkeys(names, tried) == {name: ends[name] for name in names}
    assert (2, True) == (len(new), ends["killed"] * 2 > tried)


@pytest.mark.parametrize("how", ["killed before", "killed after"])
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
    _, calls = killed_at(partial(add, whole.home, whole.data), 0, how)
    new = states(keep.archive_at(whole.data))
    ends = Counter[str]()
    for nth in moments(calls):
        place = Place(tmp_path, lay_down)
        code, _ = killed_at(partial(add, place.home, place.data), nth, how)
        archive = keep.archive_at(place.data)
        found = states(archive)
        ends["killed"] += code == -signal.SIGKILL
        ends["each old or new"] += all(found.get(one) in (old.get(one), new[one]) for one in new)
        ends["sound"] += archive.verify() == []
        add(place.home, place.data)
        ends["complete"] += states(archive) == new and archive.verify() == []
        ends["no half of a file"] += not list(archive.objects.root.glob(".*"))
        ends["home untouched"] += tree_of(place.home) == home_before

    tried = len(moments(calls))
    print(f"\narchive add {how} {tried} of {len(calls)} calls: {dict(ends)}")
    names = ("each old or new", "sound", "complete", "no half of a file", "home untouched")
    assert dict.fromkeys(names, tried) == {name: ends[name] for name in names}
    assert (True, True) == (old != new, ends["killed"] * 2 > tried)
