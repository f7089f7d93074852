"""Migrate, archive, restore, move and split, killed at any call: old or new, never between, and undo works (G5, G12, Z4)."""

from __future__ import annotations

import datetime as dt
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

from recollect.services import migrate
from recollect.services.archive import archive as keep
from recollect.services.homes import Home
from recollect.services.move.move import carry_out, planned_move
from recollect.services.move.split import planned_split
from recollect.storage.archive.archive import Archive
from recollect.storage.changes.journal import ChangeJournal
from recollect.storage.home import ClaudeHome
from recollect.storage.migrations.registry import step_named
from tests.crash.change_loop import Calls, end_process
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
DAILY = 6
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


OPERATIONS = {
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


def killed_at(work: Callable[[], object], nth: int, how: str) -> tuple[int, int]:
    """Work in a child that ends at its nth call; how it ended, and how many calls it made."""
    counted, told = os.pipe()
    child = os.fork()
    if child == 0:
        calls = Calls(end_process)
        calls.watch(setattr)
        calls.arm(nth, how)
        work()
        calls.disarm()
        os.write(told, b"%d" % len(calls.names))
        os._exit(0)
    os.close(told)
    _, status = os.waitpid(child, 0)
    made = os.read(counted, 100)
    os.close(counted)
    return os.waitstatus_to_exitcode(status), int(made or b"0")


def moments(calls: int) -> range:
    """All of them in a torture run, else a few that lie apart."""
    return range(1, calls + 1, 1 if TORTURE else max(1, calls // DAILY))


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
    print(f"\n{name} {how} {tried} of {calls} calls: {dict(ends)}")
    assert old != new
    assert (tried, tried, tried) == (ends["old"] + ends["new"], ends["can be done"], ends["undone"])
    # After the last calls, where they find nothing, nobody is killed: the work is done.
    assert ends["killed"] * 2 > tried


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
    print(f"\narchive add {how} {tried} of {calls} calls: {dict(ends)}")
    names = ("each old or new", "sound", "complete", "no half of a file", "home untouched")
    assert dict.fromkeys(names, tried) == {name: ends[name] for name in names}
    assert (True, True) == (old != new, ends["killed"] * 2 > tried)
