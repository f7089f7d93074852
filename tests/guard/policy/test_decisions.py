"""The rule table as data: each table of ``decisions.toml`` gives rules and a place, and what calls get there."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.guard.policy.terms import Mode
from recollect.model.settings.decision import Scope
from tests.guard.policy.worlds import TableWorld, engine, verdict

TABLES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("decisions.toml").read_text("utf-8"))[
    "table"
]
OF_THE_WORLD = ("links", "special", "identities")


def rows(table: dict[str, Any]) -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """Verdict, tool, argument, and everything that the engine is made of."""
    named = {
        key: value for key, value in table.items() if key not in ("name", "says", "tool", "verdicts", "rows")
    }
    modes = named.pop("modes", [named.get("mode", "default")])
    listed = [
        [word, table["tool"], call] for word, calls in table.get("verdicts", {}).items() for call in calls
    ]
    for mode in modes:
        for word, tool, argument, *own in (*listed, *table.get("rows", ())):
            yield word, tool, argument, {**named, "mode": mode, **(own[0] if own else {})}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["name"])
def test_calls_get_what_the_table_says(table: dict[str, Any]) -> None:
    wrong = []
    for word, tool, argument, given in rows(table):
        places = {key: given.pop(key) for key in OF_THE_WORLD if key in given}
        world = TableWorld(
            places.get("links", {}),
            set(places.get("special", ())),
            {path: tuple(numbers) for path, numbers in places.get("identities", {}).items()},
        )
        mode, scope = Mode(given.pop("mode")), Scope(given.pop("scope", "user"))
        directories = tuple(given.pop("directories", ()))
        made = engine(**given, mode=mode, scope=scope, directories=directories, world=world)
        if (actual := verdict(made, tool, argument)) != word:
            wrong.append((given, tool, argument, actual, word))
    assert [] == wrong


def test_the_table_is_not_empty() -> None:
    assert sum(1 for table in TABLES for _ in rows(table)) > 550
