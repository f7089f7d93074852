"""Migrations: checked after the change, refused while a client is there, taken back where they fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from recollect.ask.library import Home
from recollect.change import migration, undo
from recollect.change.migration import Migration, MigrationStep, SessionMeaning
from recollect.change.migrations import step_named
from recollect.errors import Busy, DamagedData, NotFound
from recollect.store.changes.journal import ChangeJournal
from recollect.store.home import ClaudeHome, SessionFile
from tests.change.migrations.old_sessions import migrate_step, put_inline
from tests.small_home import ONE, TALK, TWO, open_in_this_process, put, state

SIDE_CHAINS = step_named("5")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a 1.0 session and one that has nothing to migrate."""
    put_inline(tmp_path / "home")
    put(tmp_path / "home", TWO, TALK, "/srv/other")
    return tmp_path / "home"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Our own directory."""
    return tmp_path / "data"


def forgetful(failure: Exception | None) -> MigrationStep:
    """A step whose result means something else, or cannot be read."""

    def after() -> SessionMeaning:
        if failure is not None:
            raise failure
        return SessionMeaning()

    def planned(home: ClaudeHome, log: SessionFile, cwd: str | None) -> Migration | None:
        plan = SIDE_CHAINS.planned(home, log, cwd)
        return None if plan is None else structs.replace(plan, after=after)

    return structs.replace(SIDE_CHAINS, planned=planned)


@pytest.mark.parametrize("failure", [None, DamagedData("unreadable", hint="none")])
def test_what_does_not_mean_the_same_is_rolled_back(
    home: Path, data: Path, failure: Exception | None
) -> None:
    """At once, every byte; also where the result cannot even be read."""
    before = state(home)
    with pytest.raises(DamagedData):
        migrate_step(forgetful(failure), Home(home).session(ONE), data)

    assert before == state(home)
    assert ["done", "undone"] == [one.state for one in ChangeJournal(data / "undo").changes()]


def test_a_session_that_a_client_has_open_is_refused(home: Path, data: Path) -> None:
    """In the plan and when it comes to it; the other session is not concerned."""
    open_in_this_process(home, ONE)
    before = state(home)
    outcome = migration.planned_steps([SIDE_CHAINS], Home(home).sessions())
    with pytest.raises(Busy):
        migrate_step(SIDE_CHAINS, Home(home).session(ONE), data)

    assert ([], [ONE], 1) == (outcome.planned, [one.session for one in outcome.refused], outcome.untouched)
    assert before == state(home)


def test_rolling_back_is_refused_while_a_client_has_it_open(home: Path, data: Path) -> None:
    """It would take the log away under it."""
    done = migrate_step(SIDE_CHAINS, Home(home).session(ONE), data)
    assert done is not None
    open_in_this_process(home, ONE)
    before = state(home)
    with pytest.raises(Busy):
        undo.undo(data, undo.found_change(data, done.id))

    assert before == state(home)


def test_a_plan_writes_nothing(home: Path, data: Path) -> None:
    """Neither to the home nor to our own directory."""
    before = state(home)
    outcome = migration.planned_steps([SIDE_CHAINS], Home(home).sessions())

    assert ([ONE], 1) == ([one.session for _, one in outcome.planned], outcome.untouched)
    assert (before, False) == (state(home), data.exists())


@pytest.mark.parametrize(
    ("target", "expected"), [(ONE[:8], {ONE}), ("/srv/other", {TWO}), ("other", {TWO}), (None, {ONE, TWO})]
)
def test_sessions_are_chosen_by_name_project_or_all(
    home: Path, target: str | None, expected: set[str]
) -> None:
    """A project is named by its directory or a part of its name."""
    assert expected == {one.id for one in migration.chosen(Home(home), target)}


def test_what_is_neither_session_nor_project_is_not_found(home: Path) -> None:
    """The error is that of a session."""
    with pytest.raises(NotFound, match="nowhere"):
        migration.chosen(Home(home), "nowhere")
