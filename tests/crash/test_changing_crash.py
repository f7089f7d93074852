"""Commands that take back, restore, fetch, fix, set up and clean, killed at any call: old or new, and nothing lost."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.archive import archive_at
from recollect.ask.library import Home
from recollect.ask.secrets.redactor import Fingerprints
from recollect.change import import_sessions, keeping, repair
from recollect.change import undo as undo_service
from recollect.change.fix import fixed, planned_fix
from recollect.change.plugin import planned_install
from recollect.change.redact import RedactionPlan, redact_everywhere, remove_secrets
from recollect.change.rewind import planned_restoration, restore, rewind
from recollect.change.settings.settings import changed
from recollect.cli.main import main
from recollect.model.files.history import FileVersion, VersionSource
from recollect.share.sync.pull import Pull
from recollect.store.changes.journal import ChangeJournal
from recollect.store.home import ClaudeHome
from recollect.system import scheduler
from tests.ask.secrets.test_everywhere import every_byte, kept_everywhere
from tests.cli.test_files import use
from tests.cli.test_protect import STAND_IN
from tests.crash.sweeps import Operation, Place, Tree, both_sides, expect, old_and_new, sweep, tree_of
from tests.crash.test_keeping_crash import OPERATIONS, a_project, move
from tests.model.repair.damaged import damaged_log
from tests.secret_home import OF_THE_SESSION, token
from tests.share.sync.machines import Machine
from tests.share.sync.memory_remote import MemoryRemote
from tests.small_home import ONE, TALK, TWO, link, prompt, put, reply

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")]


SEED = 9  # several kinds of damage that are errors; none is mended with the present time

# ---- one change of the journal ---------------------------------------------------------------------------------


def a_turn_with_changes(home: Path, _: Path) -> None:
    """A project inside the directory; its session made a file, then changed it and made another."""
    work = home / "work"
    work.mkdir()
    a, b = str(work / "a.txt"), str(work / "b.txt")

    def done(number: int, name: str, report: dict[str, Any]) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": name, "content": "ok"}
        message = {"role": "user", "content": [block]}
        return link(number, number - 1, type="user", message=message, toolUseResult=report)

    made = {"type": "create", "structuredPatch": []}
    edited = {"filePath": a, "oldString": "one", "newString": "two", "originalFile": "one\n"}
    talk = [
        prompt(1, None, "Make a"),
        reply(2, 1, use("t1", "Write", file_path=a, content="one\n")),
        done(3, "t1", {**made, "filePath": a, "content": "one\n"}),
        prompt(4, 3, "Change it"),
        reply(5, 4, use("t2", "Edit", file_path=a, old_string="one", new_string="two")),
        done(6, "t2", edited),
        reply(7, 6, use("t3", "Write", file_path=b, content="new\n")),
        done(8, "t3", {**made, "filePath": b, "content": "new\n"}),
    ]
    put(home / ".claude", ONE, talk, str(work))
    (work / "a.txt").write_text("two\n")
    (work / "b.txt").write_text("new\n")


def rewinding(home: Path, data: Path) -> object:
    return rewind(Home(home / ".claude").session(ONE), None, data)


def settings(home: Path, _: Path) -> None:
    (home / "settings.json").write_text('{\n  "model": "opus"\n}\n')


def installing_the_plugin(home: Path, data: Path) -> object:
    return changed(planned_install(ClaudeHome(home), ["archive", "status line"]).plan, data)


REMOTE = MemoryRemote()


def another_machine(home: Path, data: Path) -> None:
    """Another machine has sent its sessions; this one has a session of its own."""
    other = Machine(data / "other", lambda: REMOTE)
    other.talk()
    other.talk(TWO, "/srv/lib")
    other.push()
    (home.parent / "there").mkdir(exist_ok=True)
    put(home, "7c1d9c1e-0000-4000-8000-000000000003", TALK, "/srv/own")


def longer_there(home: Path, data: Path) -> None:
    """What was fetched before has grown since."""
    another_machine(home, data)
    pulling(home, data)
    other = Machine(data / "other", lambda: REMOTE)
    other.add(5)
    other.push()


def pulling(home: Path, _: Path) -> object:
    machine = Machine(home.parent, lambda: REMOTE)
    return machine.pull(), machine.install(home.parent / "there")


OF_A_FILE = FileVersion(path="/srv/app/deep/a.txt", source=VersionSource.WRITE, content="new\n")


def a_directory(home: Path, _: Path) -> None:
    (home / "out").mkdir()


def a_file_in_the_way(home: Path, data: Path) -> None:
    a_directory(home, data)
    (home / "out" / "a.txt").write_text("old\n")


def restoring(home: Path, data: Path) -> object:
    return restore(*planned_restoration(OF_A_FILE, home / "out", ONE, 1, overwrite=True), data)


def a_damaged_log(home: Path, _: Path) -> None:
    put(home, ONE, []).write_bytes(damaged_log(SEED))


def repairing(home: Path, data: Path) -> object:
    with repair.planned_repair(Home(home).session(ONE)) as plan:
        return repair.apply_in_place(plan, data)


CHANGES = {
    "repair --in-place": Operation(a_damaged_log, repairing),
    "files --rewind": Operation(a_turn_with_changes, rewinding),
    "files --restore": Operation(a_directory, restoring),
    "files --restore --overwrite": Operation(a_file_in_the_way, restoring),
    "plugin install": Operation(settings, installing_the_plugin),
    "sync pull": Operation(another_machine, pulling),
    "sync pull, grown": Operation(longer_there, pulling),
}


@both_sides
@pytest.mark.parametrize("name", OPERATIONS | CHANGES)
def test_a_killed_change_is_old_or_new(
    quick_directory: Path, name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After recovery every byte is old or new; then it can be done, and undone to the last byte."""
    operation = (OPERATIONS | CHANGES)[name]

    def laid_down(home: Path, data: Path) -> None:
        monkeypatch.setitem(globals(), "REMOTE", MemoryRemote())
        operation.lay_down(home, data)

    fresh = Operation(laid_down, operation.act)
    old, new = old_and_new(quick_directory, fresh)

    def judge(place: Place, ends: Counter[str]) -> None:
        journal = ChangeJournal(place.data / "undo")
        journal.recover()
        found = tree_of(place.home)
        ends["old" if found == old else "new" if found == new else "broken"] += 1
        if found != new:
            operation.act(place.home, place.data)
        ends["can be done"] += tree_of(place.home) == new
        last = next(one.id for one in journal.changes() if one.state == "done")
        undo_service.undo(place.data, undo_service.found_change(place.data, last))
        ends["undone"] += tree_of(place.home) == old

    ends = sweep(quick_directory, fresh, how, judge, name)
    expect(ends, "can be done", "undone")
    assert 0 == ends["broken"]


@both_sides
def test_a_killed_undo_is_not_begun_or_done(quick_directory: Path, how: str) -> None:
    """The home is as changed or as it was before the change; then the undo can be done."""
    pristine: list[Tree] = []

    def a_moved_project(home: Path, data: Path) -> None:
        a_project(home, data)
        pristine[:] = [tree_of(home)]
        move(home, data)

    def undoing(_: Path, data: Path) -> object:
        (change,) = (one for one in ChangeJournal(data / "undo").changes() if one.state == "done")
        return undo_service.undo(data, undo_service.found_change(data, change.id))

    operation = Operation(a_moved_project, undoing)
    old, new = old_and_new(quick_directory, operation)
    assert new == pristine[0]

    def judge(place: Place, ends: Counter[str]) -> None:
        ChangeJournal(place.data / "undo").recover()
        found = tree_of(place.home)
        ends["old" if found == old else "new" if found == new else "broken"] += 1
        if found != new:
            undoing(place.home, place.data)
        ends["can be done"] += tree_of(place.home) == new

    ends = sweep(quick_directory, operation, how, judge, "undo")
    expect(ends, "can be done")
    assert 0 == ends["broken"]


# ---- several changes of one command ---------------------------------------------------------------------------


def several_changes(
    root: Path, operation: Operation, how: str, name: str, is_done: Callable[[Place], bool]
) -> None:
    """Each change of the command is done or not; all that is done can be taken back to the last byte."""
    place = Place(root, operation.lay_down)
    old = tree_of(place.home)
    operation.act(place.home, place.data)
    most = len(done_changes(place))
    assert (True, True) == (is_done(place), most > 1)

    def judge(place: Place, ends: Counter[str]) -> None:
        ChangeJournal(place.data / "undo").recover()
        count = len(done_changes(place))
        ends["old" if count == 0 else "new" if count == most else "between two changes"] += 1
        ends["undone at once"] += undone(place) == old
        operation.act(place.home, place.data)
        ends["can be done"] += is_done(place)
        ends["undone"] += undone(place) == old

    expect(sweep(root, operation, how, judge, name), "undone at once", "can be done", "undone")


def done_changes(place: Place) -> list[str]:
    """What can be taken back, the newest first; an undo is a change too."""
    every = ChangeJournal(place.data / "undo").changes()
    return [one.id for one in every if one.state == "done" and one.what != "undo"]


def undone(place: Place) -> Tree:
    for change in done_changes(place):
        undo_service.undo(place.data, undo_service.found_change(place.data, change))
    return tree_of(place.home)


def a_broken_home(home: Path, data: Path) -> None:
    """A cut history, a renamed project, a torn config, a todo list without its session."""
    from tests.cli.test_fix import GONE, cut

    work = data / "work"
    for directory in ("shop", "there"):
        (work / directory).mkdir(parents=True)
    cut(home, ONE, str(work / "there"))
    gone = str(work / "old" / "shop")
    put(home, TWO, [{**entry, "cwd": gone} for entry in TALK], gone)
    (home / ".claude.json").write_text('{"projects": {"/srv/ap')
    (home / "backups").mkdir()
    (home / "backups" / ".claude.json.backup.1790000000000").write_text('{"projects": {}, "numStartups": 3}')
    (home / "todos").mkdir()
    todo = [{"content": "x", "status": "pending", "activeForm": "x"}]
    (home / "todos" / f"{GONE}-agent-{GONE}.json").write_text(json.dumps(todo))


@both_sides
def test_a_killed_fix_has_done_each_step_or_not(quick_directory: Path, how: str) -> None:
    """The next fix does the rest."""

    def fixing(home: Path, data: Path) -> object:
        opened = Home(home, data=data)
        return fixed(opened, planned_fix(opened, data), data)

    def is_done(place: Place) -> bool:
        return not planned_fix(Home(place.home, data=place.data), place.data).steps

    several_changes(quick_directory, Operation(a_broken_home, fixing), how, "fix", is_done)


@both_sides
def test_a_killed_import_has_each_session_whole_or_not_at_all(quick_directory: Path, how: str) -> None:
    """The next import takes in the rest, and leaves no copies behind."""

    def two_homes(home: Path, data: Path) -> None:
        put(home, "7c1d9c1e-0000-4000-8000-000000000003", TALK, "/srv/own")
        a_project(data / "source", data)

    def importing(home: Path, data: Path) -> object:
        with import_sessions.staged(data / "source", data) as stage:
            found = import_sessions.candidates(stage, home)
            return import_sessions.import_into_home(stage, home, found)

    def is_done(place: Place) -> bool:
        names = {one.id for one in Home(place.home).sessions()}
        return {ONE, TWO} <= names and not list(place.data.glob("import-*"))

    several_changes(quick_directory, Operation(two_homes, importing), how, "import", is_done)


# ---- outside the journal ---------------------------------------------------------------------------------------


@both_sides
@pytest.mark.parametrize("is_known", [False, True], ids=["new", "grown"])
def test_a_killed_team_show_leaves_whole_lines_and_the_next_one_fetches_the_rest(
    quick_directory: Path, how: str, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fetches into our own store, the only thing on this machine that a command of the team changes."""

    def fetching(home: Path, _: Path) -> object:
        machine = Machine(home.parent, lambda: REMOTE)
        return Pull(machine.client(), REMOTE).one(ONE)

    def laid_down(home: Path, data: Path) -> None:
        monkeypatch.setitem(globals(), "REMOTE", MemoryRemote())
        another_machine(home, data)
        if is_known:
            fetching(home, data)
            other = Machine(data / "other", lambda: REMOTE)
            other.add(5)
            other.push()

    def stored(place: Place) -> bytes:
        return b"".join(one.read_bytes() for one in (place.data / "store").glob(f"projects/*/{ONE}.jsonl"))

    before = Place(quick_directory, laid_down)
    home, old = tree_of(before.home), stored(before)

    def judge(place: Place, ends: Counter[str]) -> None:
        sent, found = Machine(place.data / "other", lambda: REMOTE).log().read_bytes(), stored(place)
        ends["old" if found == old else "new" if found == sent else "between"] += 1
        is_beginning = sent.startswith(found) and found[-1:] in (b"", b"\n") and len(found) >= len(old)
        ends["whole lines"] += is_beginning
        fetching(place.home, place.data)
        ends["can be done"] += stored(place) == sent
        ends["home as it was"] += tree_of(place.home) == home

    ends = sweep(quick_directory, Operation(laid_down, fetching), how, judge, "team show")
    expect(ends, "whole lines", "can be done", "home as it was")


OWN_LINE = "0 5 * * * /usr/bin/backup # mine"


@both_sides
def test_a_killed_protect_leaves_the_crontab_and_the_settings_old_or_new(
    quick_directory: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own lines stay; then it can be set up, and removed with every byte as before."""
    programs = quick_directory / "bin"
    programs.mkdir()
    (programs / "crontab").write_text(STAND_IN)
    (programs / "crontab").chmod(0o755)
    table = programs / "table"
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setattr(scheduler, "_has_systemd", lambda: False)
    monkeypatch.setattr(keeping, "rehearsal", lambda _: "")

    def a_crontab(home: Path, data: Path) -> None:
        a_project(home, data)
        settings(home, data)
        table.write_text(f"{OWN_LINE}\n")

    def run(place: Place, *words: str) -> int:
        return main(["--home", str(place.home), "--data", str(place.data), "protect", *words, "--apply"])

    def protecting(home: Path, data: Path) -> None:
        where = ["--home", str(home), "--data", str(data)]
        assert 0 == main([*where, "protect", "--keep-days", "365", "--scheduler", "cron", "--apply"])

    def entries() -> tuple[list[str], int]:
        lines = table.read_text().splitlines()
        return [line for line in lines if "recollect-protect" not in line], len(lines) - 1

    operation = Operation(a_crontab, protecting)
    old, new = old_and_new(quick_directory, operation)

    def judge(place: Place, ends: Counter[str]) -> None:
        ChangeJournal(place.data / "undo").recover()
        own, ours = entries() if table.exists() else ([], 0)
        found = tree_of(place.home)
        ends["own lines"] += own == [OWN_LINE] and ours in (0, 1)
        states = {(found == old, found == new), (ours == 0, ours == 1)}
        ends["old or new"] += found in (old, new)
        ends["old" if states == {(True, False)} else "new" if states == {(False, True)} else "between"] += 1
        ends["archive sound"] += archive_at(place.data).verify() == []
        protecting(place.home, place.data)
        both = {one.session for one in archive_at(place.data).manifests()} == {ONE, TWO}
        ends["can be done"] += tree_of(place.home) == new and entries() == ([OWN_LINE], 1) and both
        run(place, "off")
        ends["undone"] += tree_of(place.home) == old and entries() == ([OWN_LINE], 0)

    ends = sweep(quick_directory, operation, how, judge, "protect")
    expect(ends, "own lines", "old or new", "archive sound", "can be done", "undone")


def of_one_session(home: Path, data: Path) -> RedactionPlan:
    return redact_everywhere(Home(home).own_session(ONE), data, data / "cache")


def of_all_sessions(home: Path, data: Path) -> RedactionPlan:
    digits = {Fingerprints(data)(token(place, kind)) for place, kind in OF_THE_SESSION.items()}
    return remove_secrets(Home(home, data=data), digits, data, data / "cache")


@both_sides
@pytest.mark.parametrize("remove", [of_one_session, of_all_sessions])
def test_a_killed_redaction_everywhere_leaves_each_copy_old_or_clean(
    quick_directory: Path, remove: Callable[[Path, Path], RedactionPlan], how: str
) -> None:
    """The home is old or new; no copy is broken; another run removes what is left, and nothing else is lost."""
    begin = Place(quick_directory, kept_everywhere)
    template = quick_directory / "template"
    for name in ("home", "data"):
        shutil.copytree(quick_directory / name, template / name, symlinks=True)

    def copied(home: Path, data: Path) -> None:
        for name, target in (("home", home), ("data", data)):
            shutil.copytree(template / name, target, symlinks=True, dirs_exist_ok=True)

    operation = Operation(copied, remove)
    old, new = old_and_new(quick_directory, operation)
    secrets = [token(place, kind) for place, kind in OF_THE_SESSION.items()]
    assert not any(secret in every_byte(begin.home, begin.data) for secret in secrets)

    def judge(place: Place, ends: Counter[str]) -> None:
        ChangeJournal(place.data / "undo").recover()
        found = tree_of(place.home)
        # The copy of a killed process is deleted after the change; it is no part of the session.
        whole = {path: what for path, what in found.items() if not path.endswith(".tmp")}
        known = [
            {path: what for path, what in one.items() if not path.endswith(".tmp")} for one in (old, new)
        ]
        ends["old" if whole == known[0] else "new" if whole == known[1] else "broken"] += 1
        ends["archive sound"] += archive_at(place.data).verify() == []
        result = remove(place.home, place.data)
        text = every_byte(place.home, place.data)
        ends["none left"] += not result.left and not any(secret in text for secret in secrets)
        ends["can be done"] += tree_of(place.home) == new and archive_at(place.data).verify() == []

    ends = sweep(quick_directory, operation, how, judge, "redact --everywhere", every=3)
    expect(ends, "archive sound", "none left", "can be done")
    assert 0 == ends["broken"]
