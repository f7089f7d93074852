"""Random histories of changes, undos, crashes and foreign writers, against a dictionary of files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from recollect.errors import NotFound, UsageError
from recollect.store.changes.journal import ChangeJournal, ChangePlan
from tests.crash.change_loop import DIE, DONE, Calls, Stopped

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
DIRECTORIES = ["d1", "d2", "d3"]
NAMES = [f"{directory}/f{number}" for directory in DIRECTORIES for number in (1, 2)]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("replace"), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("create"), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("remove"), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("move"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("move"), st.sampled_from(DIRECTORIES), st.sampled_from(DIRECTORIES)),
    ),
    min_size=1,
    max_size=4,
)
# Nought: nothing stops it. A change of four steps makes some hundred calls.
STOP = st.one_of(st.just(0), st.integers(1, 250))
Files = dict[str, bytes]


class Change(NamedTuple):
    """The files before and after; what was ``moved`` (or is in a directory that was) is part of the change."""

    before: Files
    after: Files
    moved: frozenset[str]


class Histories(RuleBasedStateMachine):
    """The machine. ``files`` is what the home must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        self.home = self.top / "home"
        self.home.mkdir()
        self.calls = Calls(self.stop)
        self.real: list[tuple[Any, str, Any]] = []
        self.calls.watch(self.patch)
        self.files: Files = {}
        self.written = 0
        self.changes: dict[str, Change] = {}
        self.replaced: list[bytes] = []

    def stop(self) -> None:
        self.calls.stop()

    def patch(self, owner: Any, name: str, wrapper: Any) -> None:
        self.real.append((owner, name, getattr(owner, name)))
        setattr(owner, name, wrapper)

    def teardown(self) -> None:
        for owner, name, real in self.real:
            setattr(owner, name, real)
        shutil.rmtree(self.top)

    def journal(self) -> ChangeJournal:
        """As a new process would have it."""
        return ChangeJournal(self.top / "undo", lock_timeout=0.2)

    def new_bytes(self) -> bytes:
        """Bytes that nobody has written before, so that equal means the same."""
        self.written += 1
        return b"version %d\n" % self.written

    @rule(name=st.sampled_from(NAMES))
    def client_writes(self, name: str) -> None:
        path = self.home / name
        path.parent.mkdir(exist_ok=True)
        data = self.new_bytes()
        with path.open("ab") as file:
            file.write(data)
        self.files = {**self.files, name: self.files.get(name, b"") + data}

    @rule(steps=STEPS, nth=STOP, how=st.sampled_from([DIE, DONE]))
    def apply(self, steps: list[tuple[str, str, str]], nth: int, how: str) -> None:
        plan, after, moved = ChangePlan("test", "s", self.home), dict(self.files), frozenset[str]()
        for kind, name, target in steps:
            data = self.new_bytes()
            try:
                self.add(plan, kind, name, target, data)
            except (UsageError, NotFound):
                continue
            after = changed(after, kind, name, target, data)
            if kind == "move":
                moved |= {name, target}
        if plan.steps:
            self.carry_out(lambda: self.journal().apply(plan).id, after, moved, nth, how)

    def add(self, plan: ChangePlan, kind: str, name: str, target: str, data: bytes) -> None:
        if kind == "move":
            plan.move(self.home / name, self.home / target)
        elif kind == "remove":
            plan.remove(self.home / name)
        elif kind == "create":
            plan.create(self.home / name, data)
        else:
            plan.replace(self.home / name, iter([data[:3], data[3:]]))

    def carry_out(
        self, work: Callable[[], str], after: Files, moved: frozenset[str], nth: int, how: str
    ) -> None:
        """Make a change, perhaps stopped; it happened, or it did not."""
        before, known = self.files, {one.id for one in self.journal().changes()}
        self.calls.arm(nth, how)
        try:
            work()
        except Stopped:
            pass
        finally:
            self.calls.disarm()
        self.journal().recover()
        new = [one for one in self.journal().changes() if one.id not in known and one.state == "done"]
        if new:
            self.files = after
            self.changes[new[0].id] = Change(before, after, moved)
            self.replaced += [data for name, data in before.items() if after.get(name) != data]

    @precondition(lambda self: self.changes)
    @rule(data=st.data(), force=st.booleans(), nth=STOP, how=st.sampled_from([DIE, DONE]))
    def undo(self, data: st.DataObject, force: bool, nth: int, how: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.changes)))
        change = self.changes[name]
        is_done = self.journal().find(name).state == "done"
        touched = {one for one in {**change.before, **change.after} if self.is_about(change, one)}
        touched |= {one for one in self.files if is_among(one, change.moved)}
        is_unchanged = all(self.files.get(one) == change.after.get(one) for one in touched)
        after = {one: bytes_ for one, bytes_ in self.files.items() if one not in touched}
        after |= {one: bytes_ for one, bytes_ in change.before.items() if one in touched}
        if force and change.moved and not is_unchanged:
            return  # what was moved goes back as it is now: told in the tests of undo, one by one
        if not is_done or not (is_unchanged or force):
            with pytest.raises(UsageError):
                self.journal().undo(name, force=force)
        elif self.files != after:
            self.carry_out(lambda: self.journal().undo(name, force=force).id, after, change.moved, nth, how)

    def is_about(self, change: Change, name: str) -> bool:
        return is_among(name, change.moved) or change.before.get(name) != change.after.get(name)

    @invariant()
    def the_home_is_what_the_model_says(self) -> None:
        found = {
            path.relative_to(self.home).as_posix(): path.read_bytes()
            for path in self.home.rglob("*")
            if path.is_file()
        }
        assert self.files == found

    @invariant()
    def no_byte_is_destroyed(self) -> None:
        held = [path.read_bytes() for path in (self.top / "undo").glob("*/*/*")]
        held += self.files.values()
        assert [] == [data for data in self.replaced if not any(one.startswith(data) for one in held)]


def changed(files: Files, kind: str, name: str, target: str, data: bytes) -> Files:
    """What a step makes of the files."""
    if kind == "remove":
        return {one: bytes_ for one, bytes_ in files.items() if one != name}
    if kind == "move":
        return {renamed(one, name, target): bytes_ for one, bytes_ in files.items()}
    return {**files, name: data}


def is_among(name: str, moved: frozenset[str]) -> bool:
    return name in moved or name.partition("/")[0] in moved


def renamed(name: str, source: str, target: str) -> str:
    if name == source:
        return target
    return target + name.removeprefix(source) if name.startswith(source + "/") else name


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=1000 if TORTURE else 40, stateful_step_count=20 if TORTURE else 12
)
