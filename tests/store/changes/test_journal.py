"""Changes of a home: what a plan takes and refuses, what a change keeps, what an undo brings back."""

from __future__ import annotations

import datetime as dt
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recollect.errors import (
    Busy,
    DamagedData,
    NotFound,
    RecollectError,
    StorageError,
    UsageError,
)
from recollect.store.changes import steps as change_steps
from recollect.store.changes.journal import ChangeJournal, ChangePlan, FileState
from recollect.system import fsops, whole_files

LONG_AGO = 1_500_000_000_123_456_789


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one log of 4 bytes, mode 0640, from July 2017."""
    directory = tmp_path / "home"
    (directory / "projects" / "p").mkdir(parents=True)
    write(directory / "projects" / "p" / "log.jsonl", b"old\n")
    return directory


@pytest.fixture
def log(home: Path) -> Path:
    return home / "projects" / "p" / "log.jsonl"


@pytest.fixture
def journal(tmp_path: Path) -> ChangeJournal:
    return ChangeJournal(tmp_path / "data" / "undo")


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o640)
    os.utime(path, ns=(LONG_AGO, LONG_AGO))


def plan_for(home: Path) -> ChangePlan:
    return ChangePlan("repair", "3f2a", home)


def replacing(path: Path, data: bytes, **options: Any) -> ChangePlan:
    plan = plan_for(path.parents[2])
    plan.replace(path, data, **options)
    return plan


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def files(home: Path) -> dict[str, bytes]:
    """Every file of a home, hidden ones too."""
    return {
        path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*") if path.is_file()
    }


def kept(journal: ChangeJournal) -> list[bytes]:
    """What the journal keeps, by step."""
    return [path.read_bytes() for path in sorted(journal.root.glob("*/kept/*"))]


# --- planning ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "projects/../../outside",
        "projects/p/..",
        ".",
        "/etc/passwd",
        "away/file",
        "nul\0",
        "\udcff",
    ],
)
def test_a_path_outside_the_home_is_refused(tmp_path: Path, home: Path, name: str) -> None:
    """Neither dots nor a link in a parent lead out of the home; a name must be writable as text."""
    (tmp_path / "elsewhere").mkdir()
    (home / "away").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UsageError):
        plan_for(home).create(home / name, b"")


def test_links_inside_the_home_are_resolved(home: Path, log: Path, journal: ChangeJournal) -> None:
    """A directory reached by a link of the same home is that directory; the home itself may be a link."""
    (home / "link").symlink_to(home / "projects")
    (home.parent / "home2").symlink_to(home)
    plan = plan_for(home.parent / "home2")
    plan.replace(home.parent / "home2" / "link" / "p" / "log.jsonl", b"new")

    journal.apply(plan)

    assert ((log,), b"new") == (tuple(step.path for step in plan.steps), log.read_bytes())


def other(plan: ChangePlan, home: Path, log: Path) -> dict[str, Callable[[], None]]:
    """Requests that make no sense, by what is wrong with them."""
    (home / "link").symlink_to(log)
    (home / "dir").mkdir()
    write(home / "taken", b"")
    return {
        "replace a link": lambda: plan.replace(home / "link", b""),
        "remove a link": lambda: plan.remove(home / "link"),
        "move a link": lambda: plan.move(home / "link", home / "moved"),
        "replace a directory": lambda: plan.replace(home / "dir", b""),
        "remove a directory": lambda: plan.remove(home / "dir"),
        "create over a file": lambda: plan.create(home / "taken", b""),
        "create over a link": lambda: plan.create(home / "link", b""),
        "move over a file": lambda: plan.move(log, home / "taken"),
        "move over a directory": lambda: plan.move(log, home / "dir"),
        "move into itself": lambda: plan.move(home / "projects", home / "projects" / "p" / "q"),
        "move onto itself": lambda: plan.move(log, log),
        "replace what is not there": lambda: plan.replace(home / "missing", b""),
        "remove what is not there": lambda: plan.remove(home / "missing"),
        "move what is not there": lambda: plan.move(home / "missing", home / "x"),
        "change the home itself": lambda: plan.move(home, home / "x"),
    }


@pytest.mark.parametrize(
    "wrong",
    [
        "replace a link",
        "remove a link",
        "move a link",
        "replace a directory",
        "remove a directory",
        "create over a file",
        "create over a link",
        "move over a file",
        "move over a directory",
        "move into itself",
        "move onto itself",
        "replace what is not there",
        "remove what is not there",
        "move what is not there",
        "change the home itself",
    ],
)
def test_a_step_that_makes_no_sense_is_refused(home: Path, log: Path, wrong: str) -> None:
    """At once, while the plan is made, and the plan stays as it was."""
    plan = plan_for(home)
    request = other(plan, home, log)[wrong]

    with pytest.raises((UsageError, NotFound)):
        request()

    assert () == plan.steps


def test_a_file_belongs_to_one_step(home: Path, log: Path) -> None:
    """Two steps about one file are refused, also under its new name after a move."""
    plan = plan_for(home)
    plan.replace(log, b"")
    plan.move(home / "projects", home / "moved")

    for again in (log, home / "moved" / "p" / "log.jsonl", home / "projects" / "p" / "new"):
        with pytest.raises(UsageError):
            plan.remove(again)


def test_a_directory_cannot_move_where_a_step_makes_another(home: Path) -> None:
    """A file to be created in ``new/`` makes that directory, so nothing else can become it."""
    plan = plan_for(home)
    plan.create(home / "new" / "file", b"")

    with pytest.raises(UsageError):
        plan.move(home / "projects", home / "new")


# --- applying ----------------------------------------------------------------------------------------------


@pytest.mark.root
def test_root_does_not_take_a_file_from_its_owner(log: Path, journal: ChangeJournal) -> None:
    """A log of user 1234 is still theirs after root has repaired it."""
    os.chown(log, 1234, 4321)

    journal.apply(replacing(log, b"new"))

    assert (1234, 4321) == (log.stat().st_uid, log.stat().st_gid)


def test_the_hidden_name_is_one_that_no_client_lists(log: Path, journal: ChangeJournal) -> None:
    """While a change is prepared its file begins with a dot and does not end in .jsonl or .json."""
    seen: list[str] = []

    def data() -> Iterator[bytes]:
        seen.extend(path.name for path in log.parent.iterdir())
        yield b"new"

    plan = plan_for(log.parents[2])
    plan.replace(log, data())
    journal.apply(plan)

    assert re.fullmatch(r"\.\d{8}T\d{6}-1-[0-9a-f]{6}-0\.recollect", min(seen)), seen


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("size", 3, "it had 3 bytes and has 4"),
        ("mtime_ns", 5, "it was written to"),
        ("inode", 5, "another file has its name"),
        ("sha256", "0" * 64, "its bytes are different"),
    ],
)
def test_another_file_than_expected_is_not_touched(
    home: Path, log: Path, journal: ChangeJournal, name: str, value: object, says: str
) -> None:
    """Whatever differs from what the caller has read: refused, with nothing in the home or the journal."""
    seen = FileState.at(log, with_hash=True)
    fields = {field: getattr(seen, field) for field in FileState.__struct_fields__} | {name: value}
    plan = replacing(log, b"new", expected=FileState(**fields))

    with pytest.raises(Busy, match=says):
        journal.apply(plan)

    assert ({"projects/p/log.jsonl": b"old\n"}, []) == (files(home), journal.changes())


@pytest.mark.parametrize("kind", ["replace", "remove", "move"])
def test_a_file_written_to_since_the_plan_is_not_touched(
    home: Path, log: Path, journal: ChangeJournal, kind: str
) -> None:
    """The plan's own look counts where the caller gives none."""
    plan = plan_for(home)
    steps = {
        "replace": lambda: plan.replace(log, b"new"),
        "remove": lambda: plan.remove(log),
        "move": lambda: plan.move(log, home / "moved"),
    }
    steps[kind]()
    with log.open("ab") as file:
        file.write(b"client\n")

    with pytest.raises(Busy, match="it had 4 bytes and has 11"):
        journal.apply(plan)

    assert ({"projects/p/log.jsonl": b"old\nclient\n"}, []) == (files(home), journal.changes())


@pytest.mark.parametrize("kind", ["create", "move"])
def test_a_name_taken_since_the_plan_is_not_overwritten(
    home: Path, log: Path, journal: ChangeJournal, kind: str
) -> None:
    """A file made there meanwhile stays."""
    plan = plan_for(home)
    if kind == "create":
        plan.create(home / "new", b"ours")
    else:
        plan.move(log, home / "new")
    (home / "new").write_bytes(b"theirs")

    with pytest.raises(Busy, match="the path is taken now"):
        journal.apply(plan)

    assert {"projects/p/log.jsonl": b"old\n", "new": b"theirs"} == files(home)


def test_a_parent_that_became_a_link_is_refused(tmp_path: Path, home: Path, journal: ChangeJournal) -> None:
    """A directory swapped for a link since the plan leads nowhere."""
    (home / "dir").mkdir()
    plan = plan_for(home)
    plan.create(home / "dir" / "new", b"")
    (home / "dir").rmdir()
    (home / "dir").symlink_to(tmp_path)

    with pytest.raises(UsageError, match="link"):
        journal.apply(plan)

    assert not (tmp_path / "new").exists()


def test_the_journal_is_not_part_of_a_change(home: Path) -> None:
    """A plan that would move our own directory is refused."""
    journal = ChangeJournal(home / "projects" / "data" / "undo")
    plan = plan_for(home)
    plan.move(home / "projects", home / "elsewhere")

    with pytest.raises(UsageError, match="journal"):
        journal.apply(plan)


# --- others at the same moment ------------------------------------------------------------------------------


def at_the_last_moment(
    monkeypatch: pytest.MonkeyPatch, name: str, path: Path, act: Callable[[Path], object]
) -> None:
    """Let somebody else act once, just before our call that gives or takes this name."""
    real, todo = getattr(fsops, name), [act]

    def call(*arguments: Path) -> Any:
        if todo and path in arguments:
            todo.pop()(path)
        return real(*arguments)

    monkeypatch.setattr(fsops, name, call)


def client_appends(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"client\n")


def client_replaces(log: Path) -> None:
    log.with_name("temporary").write_bytes(b"client's own\n")
    log.with_name("temporary").replace(log)


@pytest.mark.parametrize(
    ("act", "stays"), [(client_appends, b"old\nclient\n"), (client_replaces, b"client's own\n")]
)
def test_a_client_that_is_faster_keeps_its_bytes(
    home: Path,
    log: Path,
    journal: ChangeJournal,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Path], None],
    stays: bytes,
) -> None:
    """Even between our last look and the swap: what it wrote stands in its place, and nothing of ours does."""
    write(home / "first", b"first")
    plan = plan_for(home)
    plan.replace(home / "first", b"changed")
    plan.replace(log, b"new")
    at_the_last_moment(monkeypatch, "exchange", log, act)

    with pytest.raises(Busy, match="nothing was changed"):
        journal.apply(plan)

    assert {"projects/p/log.jsonl": stays, "first": b"first"} == files(home)
    assert ["rolled-back"] == [one.state for one in journal.changes()]


def test_a_client_that_replaces_a_file_we_remove_keeps_it(
    home: Path, log: Path, journal: ChangeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that we took away by mistake comes back."""
    plan = plan_for(home)
    plan.remove(log)
    at_the_last_moment(monkeypatch, "rename_new", log, client_replaces)

    with pytest.raises(Busy, match="another file has its name"):
        journal.apply(plan)

    assert {"projects/p/log.jsonl": b"client's own\n"} == files(home)


def test_a_client_that_makes_the_file_first_keeps_it(
    home: Path, journal: ChangeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new file never replaces one, however late that one comes."""
    plan = plan_for(home)
    plan.create(home / "new", b"ours")
    at_the_last_moment(monkeypatch, "rename_new", home / "new", lambda path: path.write_bytes(b"theirs"))

    with pytest.raises(Busy, match="another program created it meanwhile"):
        journal.apply(plan)

    assert b"theirs" == (home / "new").read_bytes()


def test_lines_written_through_an_open_descriptor_are_not_lost(log: Path, journal: ChangeJournal) -> None:
    """A client still has the old file open: what it appends is kept, told, and comes back with an undo (S6)."""
    with log.open("ab", buffering=0) as client:
        done = journal.apply(replacing(log, b"new"))
        client.write(b"late\n")
    told = journal.find(done.id).late_bytes
    journal.undo(done.id)

    assert (5, b"old\nlate\n") == (told, log.read_bytes())


def test_a_line_that_comes_during_the_change_takes_it_back(
    home: Path, log: Path, journal: ChangeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written to the old file before the change was complete: the old file stays, line and all."""
    write(home / "second", b"second")
    plan = replacing(log, b"new")
    plan.replace(home / "second", b"changed")
    with log.open("ab", buffering=0) as client:
        at_the_last_moment(monkeypatch, "exchange", home / "second", lambda _: client.write(b"late\n"))

        with pytest.raises(Busy, match="it had 4 bytes and has 9"):
            journal.apply(plan)

    assert {"projects/p/log.jsonl": b"old\nlate\n", "second": b"second"} == files(home)


def test_a_line_in_a_file_of_ours_that_is_taken_back_is_set_aside(
    home: Path, log: Path, journal: ChangeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client opened the new file before the change failed: its line is in the journal, and listed."""
    write(home / "second", b"second")
    plan = replacing(log, b"new\n")
    plan.replace(home / "second", b"changed")
    at_the_last_moment(monkeypatch, "exchange", home / "second", client_appends_to(log, home / "second"))

    with pytest.raises(Busy):
        journal.apply(plan)

    aside = [path.read_bytes() for path in journal.changes()[0].set_aside]
    assert ([b"new\nclient\n"], b"old\n") == (aside, log.read_bytes())


def client_appends_to(log: Path, second: Path) -> Callable[[Path], None]:
    """One client appends to the file that was replaced already; another makes the change fail."""

    def act(_: Path) -> None:
        client_appends(log)
        client_appends(second)

    return act


# --- failing -----------------------------------------------------------------------------------------------


def test_a_stream_that_fails_changes_nothing(home: Path, log: Path, journal: ChangeJournal) -> None:
    """The error of whoever makes the bytes comes through as it is."""

    def data() -> Iterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    plan = plan_for(home)
    plan.create(home / "deep" / "new", b"made")
    plan.replace(log, data())

    with pytest.raises(ZeroDivisionError):
        journal.apply(plan)

    assert ({"projects/p/log.jsonl": b"old\n"}, False) == (files(home), (home / "deep").exists())


def test_a_failure_that_cannot_be_put_back_says_how_it_will_be(
    home: Path, log: Path, journal: ChangeJournal
) -> None:
    """Nothing works any more: the change is unfinished, and the next one ends it first."""
    plan = replacing(log, b"new")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsops, "exchange", failing(errno.EIO))
        patch.setattr(fsops, "unlink", failing(errno.EROFS))
        with pytest.raises(StorageError, match=r"unfinished: once the cause is gone") as caught:
            journal.apply(plan)
    unfinished = [one.id for one in journal.unfinished()]
    write(home / "other", b"")
    other_plan = plan_for(home)
    other_plan.remove(home / "other")
    journal.apply(other_plan)

    assert unfinished[0] in str(caught.value)
    assert (["done", "rolled-back"], {"projects/p/log.jsonl": b"old\n"}) == (
        [one.state for one in journal.changes()],
        files(home),
    )


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_change_whose_last_record_could_not_be_synced_is_done(
    log: Path, journal: ChangeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is there, and if the power takes it away the files say the same: nothing is taken back."""
    real = fsops.sync_dir

    def sync_dir(path: Path) -> None:
        if (path / "change.json").exists() and '"state": "done"' in (path / "change.json").read_text():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(path)

    monkeypatch.setattr(fsops, "sync_dir", sync_dir)

    applied = journal.apply(replacing(log, b"new"))

    assert ("done", b"new", ["done"]) == (
        applied.state,
        log.read_bytes(),
        [one.state for one in journal.changes()],
    )


# --- undoing -----------------------------------------------------------------------------------------------


def status(path: Path) -> tuple[bytes, int, int]:
    return path.read_bytes(), mode(path), path.stat().st_mtime_ns


def everything(home: Path) -> ChangePlan:
    """A plan with each kind of step, in a home that has ``gone`` and ``dir/inner``."""
    plan = plan_for(home)
    plan.replace(home / "projects" / "p" / "log.jsonl", b"new", mtime_ns=LONG_AGO + 1)
    plan.create(home / "made" / "here", b"made", mode=0o604, mtime_ns=LONG_AGO + 2)
    plan.remove(home / "gone")
    plan.move(home / "dir", home / "deep" / "er")
    return plan


def described(home: Path) -> dict[str, tuple[bytes, int, int] | int]:
    return {
        path.relative_to(home).as_posix(): status(path) if path.is_file() else mode(path)
        for path in sorted(home.rglob("*"))
    }


@pytest.fixture
def full_home(home: Path) -> Path:
    write(home / "gone", b"gone")
    write(home / "dir" / "inner", b"inner")
    return home


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a second file system")
def test_a_change_works_across_file_systems(
    full_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The journal in memory, the home on disk, or the other way round: changed, undone, changed again."""
    memory = Path("/dev/shm")
    other = tmp_path_factory.getbasetemp() if full_home.is_relative_to(memory) else memory
    place = other / f"recollect-test-{os.getpid()}-{full_home.parent.name}"
    assert other.stat().st_dev != full_home.stat().st_dev
    journal = ChangeJournal(place / "undo")
    before = described(full_home)
    try:
        done = journal.apply(everything(full_home))
        after = described(full_home)
        undone = journal.undo(done.id)
        seen = [described(full_home)]
        journal.undo(undone.id)
        seen.append(described(full_home))
    finally:
        for path in sorted(place.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        place.rmdir()

    assert [before, after] == seen


CHANGES_SINCE: dict[str, tuple[Callable[[Path], object], str]] = {
    "appended": (
        lambda home: client_appends(home / "projects/p/log.jsonl"),
        "log.jsonl has 10 bytes; after the change it had 3",
    ),
    "rewritten": (
        lambda home: (home / "projects/p/log.jsonl").write_bytes(b"NEW"),
        "log.jsonl has other bytes",
    ),
    "deleted": (lambda home: (home / "projects/p/log.jsonl").unlink(), "log.jsonl is gone"),
    "made deleted": (lambda home: (home / "made/here").unlink(), "here is gone"),
    "made again": (lambda home: (home / "gone").write_bytes(b"again"), "gone exists again"),
    "added in a moved directory": (
        lambda home: (home / "deep/er/more").touch(),
        "er holds other or changed files",
    ),
    "written in a moved directory": (
        lambda home: client_appends(home / "deep/er/inner"),
        "er holds other or changed files",
    ),
    "a file where a directory was": (lambda home: (home / "dir").write_bytes(b"file"), "dir exists again"),
}


def test_what_was_moved_goes_back_with_all_that_is_in_it_now(full_home: Path, journal: ChangeJournal) -> None:
    """Lines and files added since the move are in the directory when it is back."""
    done = journal.apply(everything(full_home))
    client_appends(full_home / "deep/er/inner")
    (full_home / "deep/er/more").write_bytes(b"more")

    journal.undo(done.id, force=True)

    assert {"inner": b"innerclient\n", "more": b"more"} == files(full_home / "dir")


@pytest.mark.parametrize("obstacle", ["dir", "projects/p/log.jsonl"])
def test_a_directory_in_the_way_stops_even_a_forced_undo(
    full_home: Path, journal: ChangeJournal, obstacle: str
) -> None:
    """A directory cannot be kept as a file is; the message says that it has to be moved away."""
    done = journal.apply(everything(full_home))
    (full_home / obstacle).unlink(missing_ok=True)
    (full_home / obstacle).mkdir()
    before = described(full_home)

    with pytest.raises(UsageError, match="in the way"):
        journal.undo(done.id, force=True)

    assert before == described(full_home)


def test_a_move_whose_target_is_gone_cannot_be_undone(full_home: Path, journal: ChangeJournal) -> None:
    """A move keeps no copy; the message says so."""
    done = journal.apply(everything(full_home))
    (full_home / "deep/er").rename(full_home / "taken away")

    with pytest.raises(UsageError, match="er is gone"):
        journal.undo(done.id, force=True)


def test_directories_made_for_a_change_go_with_it_unless_they_are_used(
    full_home: Path, journal: ChangeJournal
) -> None:
    """``made`` is empty after the undo and goes; ``deep`` holds a file of somebody else and stays."""
    done = journal.apply(everything(full_home))
    (full_home / "deep" / "other").write_bytes(b"")

    journal.undo(done.id)

    assert (False, True) == ((full_home / "made").exists(), (full_home / "deep" / "other").exists())


@pytest.mark.parametrize("harm", ["changed", "shortened", "gone"])
def test_a_damaged_journal_changes_nothing(log: Path, journal: ChangeJournal, harm: str) -> None:
    """What is kept is compared before it comes back."""
    done = journal.apply(replacing(log, b"new"))
    (original,) = journal.root.glob("*/kept/*")
    if harm == "gone":
        original.unlink()
    else:
        original.write_bytes(b"OLD\n" if harm == "changed" else b"old")

    with pytest.raises(DamagedData):
        journal.undo(done.id)

    assert b"new" == log.read_bytes()


# --- recovering --------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process ends here: nothing is cleaned up."""


def crashed(work: Callable[[], object], *, after: int) -> None:
    """Carry out so many steps of a change and no more, as if the process had been killed then."""
    real = change_steps.ChangeSteps.carry_out

    def carry_out(self: change_steps.ChangeSteps, number: int) -> None:
        if number == after:
            raise Crash
        real(self, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_steps.ChangeSteps, "carry_out", carry_out)
        patch.setattr("recollect.store.changes.run._give_up", lambda *_: None)
        patch.setattr("recollect.store.changes.run._finish", lambda *_: crash())
        with pytest.raises(Crash):
            work()


def crash() -> None:
    raise Crash


def test_lines_that_a_client_added_after_a_crash_are_set_aside(
    full_home: Path, journal: ChangeJournal
) -> None:
    """It found our new file and went on with it; the old one returns, and ours is in the journal with its line."""
    crashed(lambda: journal.apply(everything(full_home)), after=1)
    client_appends(full_home / "projects/p/log.jsonl")

    (ended,) = journal.recover()

    assert ([b"newclient\n"], b"old\n") == (
        [path.read_bytes() for path in ended.set_aside],
        (full_home / "projects/p/log.jsonl").read_bytes(),
    )


def test_a_file_that_a_client_put_there_after_a_crash_stays(full_home: Path, journal: ChangeJournal) -> None:
    """It is not ours to take away; the original stays kept, and is listed."""
    crashed(lambda: journal.apply(everything(full_home)), after=1)
    client_replaces(full_home / "projects/p/log.jsonl")

    (ended,) = journal.recover()

    assert ([b"old\n"], b"client's own\n") == (
        [path.read_bytes() for path in ended.set_aside],
        (full_home / "projects/p/log.jsonl").read_bytes(),
    )


def test_a_file_made_where_a_directory_was_moved_away_is_set_aside(
    full_home: Path, journal: ChangeJournal
) -> None:
    """The directory returns after a crash all the same."""
    plan = plan_for(full_home)
    plan.move(full_home / "dir", full_home / "moved")
    plan.create(full_home / "new", b"")
    crashed(lambda: journal.apply(plan), after=1)
    (full_home / "dir").write_bytes(b"in the way")

    (ended,) = journal.recover()

    assert ([b"in the way"], {"inner": b"inner"}) == (
        [path.read_bytes() for path in ended.set_aside],
        files(full_home / "dir"),
    )


def test_a_directory_made_where_one_was_moved_away_does_not_undo_the_move(
    full_home: Path, journal: ChangeJournal
) -> None:
    """Every step had been done before the crash: the change is done, whatever has come there since."""
    crashed(lambda: journal.apply(everything(full_home)), after=99)
    write(full_home / "dir" / "new session", b"")

    (ended,) = journal.recover()

    assert "done" == ended.state


def test_a_directory_made_where_one_was_moved_away_stops_the_recovery(
    full_home: Path, journal: ChangeJournal
) -> None:
    """With something in it, it is somebody's; the message names it, and once it is gone the recovery works."""
    plan = plan_for(full_home)
    plan.move(full_home / "dir", full_home / "moved")
    plan.create(full_home / "new", b"")
    crashed(lambda: journal.apply(plan), after=1)
    write(full_home / "dir" / "new session", b"")

    with pytest.raises(StorageError, match="/dir: another file is in its place: move that away"):
        journal.recover()
    (full_home / "dir").rename(full_home / "dir2")
    ended = journal.recover()

    assert (["rolled-back"], {"inner": b"inner"}) == ([one.state for one in ended], files(full_home / "dir"))


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_forced_undo_that_was_interrupted_is_taken_back(
    full_home: Path, journal: ChangeJournal, steps: int
) -> None:
    """The file that was in the way of the directory is there again, and the directory where the change put it."""
    done = journal.apply(everything(full_home))
    (full_home / "dir").write_bytes(b"in the way")
    before = described(full_home)
    crashed(lambda: journal.undo(done.id, force=True), after=steps)

    (ended,) = journal.recover()

    assert ("rolled-back", before) == (ended.state, described(full_home))


def test_a_file_taken_away_by_mistake_survives_a_crash(
    home: Path, log: Path, journal: ChangeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client replaced the file that we remove, we crashed before we noticed, and it made another one since."""
    plan = plan_for(home)
    plan.remove(log)
    at_the_last_moment(monkeypatch, "rename_new", log, client_replaces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_steps.ChangeSteps, "_let_go", lambda *_: crash())
        patch.setattr("recollect.store.changes.run._give_up", lambda *_: None)
        with pytest.raises(Crash):
            journal.apply(plan)
    log.write_bytes(b"made since")

    (ended,) = journal.recover()

    assert ({b"old\n", b"client's own\n"}, {"projects/p/log.jsonl": b"made since"}) == (
        {path.read_bytes() for path in ended.set_aside},
        files(home),
    )


# --- the journal -------------------------------------------------------------------------------------------


def test_what_is_forgotten_is_gone(log: Path, journal: ChangeJournal) -> None:
    """Its bytes are nowhere any more, it says so, and it cannot be undone."""
    done = journal.apply(replacing(log, b"new"))

    forgotten = journal.forget(done.id)

    assert (("forgotten", 0), []) == ((forgotten.state, forgotten.kept_bytes), kept(journal))
    with pytest.raises(UsageError, match="forgotten"):
        journal.undo(done.id)


def test_forgetting_an_undo_does_not_make_the_change_done_again(log: Path, journal: ChangeJournal) -> None:
    """What happened stays known, though its bytes are given up."""
    done = journal.apply(replacing(log, b"new"))
    undo = journal.undo(done.id)

    journal.forget(undo.id)

    assert ["forgotten", "undone"] == [one.state for one in journal.changes()]


def test_a_forgetting_that_was_interrupted_is_completed(
    log: Path, journal: ChangeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record says forgotten first; recovery removes the bytes that are still there."""
    done = journal.apply(replacing(log, b"new"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsops, "unlink", failing(errno.EIO))
        with pytest.raises(StorageError):
            journal.forget(done.id)

    journal.recover()

    assert ([], "forgotten") == (kept(journal), journal.find(done.id).state)


def test_order_does_not_depend_on_the_clock(
    log: Path, journal: ChangeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock goes back a year between two changes: the later one is still the newer (P10)."""
    first = journal.apply(replacing(log, b"new"))

    year_2001 = SimpleNamespace(now=lambda tz: dt.datetime(2001, 1, 1, tzinfo=tz))
    monkeypatch.setattr("recollect.store.changes.journal.dt", SimpleNamespace(datetime=year_2001, UTC=dt.UTC))
    second = journal.apply(replacing(log, b"newer"))

    assert [second.id, first.id] == [one.id for one in journal.changes()]


def test_an_unreadable_record_hides_nothing_else(log: Path, journal: ChangeJournal) -> None:
    """It is listed as damaged; the other changes are there, and new ones can be made."""
    broken = journal.apply(replacing(log, b"new"))
    (journal.root / broken.id / "change.json").write_bytes(b"{")
    done = journal.apply(replacing(log, b"newer"))

    assert [(done.id, "done"), (broken.id, "damaged")] == [(one.id, one.state) for one in journal.changes()]


def test_a_record_that_leads_out_of_the_home_is_damaged(log: Path, journal: ChangeJournal) -> None:
    """A path with dots in a record is not followed."""
    done = journal.apply(replacing(log, b"new"))
    record = journal.root / done.id / "change.json"
    record.write_text(record.read_text().replace("projects/p/log.jsonl", "../../outside"))

    assert ["damaged"] == [one.state for one in journal.changes()]


def test_a_subject_that_is_no_text_is_written_down_all_the_same(
    home: Path, log: Path, journal: ChangeJournal
) -> None:
    """A project's name may hold any bytes."""
    plan = ChangePlan("mv", "/srv/\udcff", home)
    plan.replace(log, b"new")

    assert "/srv/\\udcff" == journal.apply(plan).subject


def test_every_error_is_one_of_ours(
    home: Path, log: Path, journal: ChangeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when not even looking is possible."""
    plan = replacing(log, b"new")
    monkeypatch.setattr(Path, "lstat", failing(errno.EACCES))

    for work in (lambda: journal.apply(plan), lambda: plan_for(home).remove(log)):
        with pytest.raises(RecollectError):
            work()


# --- whole files -------------------------------------------------------------------------------------------


def test_a_copy_that_differs_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk took the bytes and gives back others: the copy is not believed."""
    (tmp_path / "source").write_bytes(b"bytes")
    real = fsops.write_all
    monkeypatch.setattr(fsops, "write_all", lambda fd, data: real(fd, data.upper()))

    with pytest.raises(OSError, match="the copy differs from the source"):
        whole_files.copy_verified(tmp_path / "source", tmp_path / "copy")
