"""A ``config.json`` with ``userSettings`` and ``projects`` into the files that clients read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import Busy, DamagedData, NotFound, UsageError
from recollect.services.settings.config_import import ConfigImport, imported, planned_import
from recollect.storage.changes.journal import ChangeJournal
from tests.permission_home import Place, place
from tests.small_home import open_in_this_process

__all__ = ["place"]


def config(place: Place, **more: Any) -> Path:
    entry = {
        "hasTrustDialogAccepted": True,
        "allowedTools": ["Bash(make test)", "B*"],
        "mcpServers": {"db": {"command": "docker"}},
        "projectOnboardingSeenCount": 3,
    }
    document = {
        "userSettings": {"model": "opus", "alwaysThinkingEnabled": True, "theme": "dark", "odd": 1},
        "projects": {str(place.project): entry},
        **more,
    }
    return place.write(place.root / "old" / "config.json", document)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def left(plan: ConfigImport) -> dict[str, str]:
    return {row.source.rpartition(".")[2]: row.why for row in plan.rows if row.file is None}


def test_every_value_has_its_place(place: Place) -> None:
    """User settings, rules of the project, servers of the project."""
    place.write(place.root / ".claude.json", {"numStartups": 4})
    imported(planned_import(place.home, config(place)), place.root / "own")
    entry = read(place.root / ".claude.json")["projects"][str(place.project)]

    assert {"model": "opus", "alwaysThinkingEnabled": True, "theme": "dark"} == read(place.home.settings_file)
    assert {"permissions": {"allow": ["Bash(make test)"]}} == read(
        place.project / ".claude" / "settings.local.json"
    )
    assert {"mcpServers": {"db": {"command": "docker"}}, "projectOnboardingSeenCount": 3} == entry
    assert 4 == read(place.root / ".claude.json")["numStartups"]


def test_what_has_no_place_is_told(place: Place) -> None:
    """An unknown key, a rule that the client would skip, trust that was not asked for."""
    plan = planned_import(place.home, config(place, other=1))

    assert {
        "odd": "no client has such a setting",
        "allowedTools": "a rule that the client would skip",
        "hasTrustDialogAccepted": "trust is only imported with --with-trust",
        "other": "no client keeps it in its settings",
    } == left(plan)


def test_trust_is_taken_over_only_by_name(place: Place) -> None:
    """A file that somebody hands you must not open a workspace."""
    imported(planned_import(place.home, config(place), with_trust=True), place.root / "own")

    assert read(place.root / ".claude.json")["projects"][str(place.project)]["hasTrustDialogAccepted"] is True


def test_what_is_set_already_stays(place: Place) -> None:
    """The file of today is right."""
    place.user({"model": "mine"})
    plan = planned_import(place.home, config(place))
    imported(plan, place.root / "own")

    assert "mine" == read(place.home.settings_file)["model"]
    assert "settings.json already has a value for it" == left(plan)["model"]


def test_nothing_is_written_before_it_is_applied_and_all_can_be_undone(place: Place) -> None:
    """One change per file."""
    plan = planned_import(place.home, config(place))
    assert not place.home.settings_file.exists()
    done = imported(plan, place.root / "own")
    for one in reversed(done):
        ChangeJournal(place.root / "own" / "undo").undo(one.id)

    assert [3, False, False] == [
        len(done),
        place.home.settings_file.exists(),
        (place.project / ".claude" / "settings.local.json").exists(),
    ]


def test_a_second_import_finds_nothing_to_do(place: Place) -> None:
    """It is idempotent."""
    imported(planned_import(place.home, config(place)), place.root / "own")

    assert [] == planned_import(place.home, config(place)).changes


def test_a_running_client_keeps_the_global_config_as_it_is(place: Place) -> None:
    """It would write its own idea over ours."""
    open_in_this_process(place.home.root, "3f2a9c1e-0000-4000-8000-000000000001")
    plan = planned_import(place.home, config(place))
    assert [os.getpid()] == plan.open_in
    with pytest.raises(Busy):
        imported(plan, place.root / "own")

    assert not place.home.settings_file.exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [("{", DamagedData), ("[]", DamagedData), ('{"projects": 4}', UsageError), (None, NotFound)],
)
def test_a_file_that_is_no_such_config_is_refused(
    place: Place, text: str | None, error: type[Exception]
) -> None:
    """Torn, a list, another shape, not there."""
    file = place.root / "old.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(error):
        planned_import(place.home, file)


def test_a_project_that_is_gone_keeps_its_rules_out(place: Place) -> None:
    """There is no directory to write to; relative and odd paths neither."""
    document = {
        "projects": {name: {"allowedTools": ["Read"]} for name in ("/nonexistent/x", "relative", "a\0b")}
    }
    plan = planned_import(place.home, place.write(place.root / "c.json", document))

    assert (3, []) == (len([row for row in plan.rows if row.file is None]), plan.changes)
