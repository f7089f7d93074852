"""The rows about growth: what is compared with what, and that homes of two sizes can be measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.corpora import Corpus
from bench.growth import FLAT, Growth, measured, rows
from bench.measured import Taken, typical
from bench.peers import Peers
from bench.workplace import Workplace
from tests.talk import assistant, log_at, user

NAMES = [f"{digit * 8}-1111-4111-8111-111111111111" for digit in "123"]


def taken(wall: float, cpu: float = 1.0, memory: int = 100) -> Taken:
    return Taken(wall, cpu, memory)


def test_rounds_give_their_median_and_their_spread() -> None:
    """One slow round changes neither figure of the table, and is seen beside it."""
    joined = typical([taken(0.1, 1), taken(0.9, 9, 300), taken(0.2, 2)])

    assert (0.2, 2, 300, "200 ms (100 ms to 900 ms)") == (
        joined.wall,
        joined.cpu,
        joined.memory,
        joined.wall_text,
    )


def test_a_home_ten_times_as_large_is_compared_by_megabyte_and_its_answers_as_they_are() -> None:
    """Building may take ten times as long; an answer may not, and stays visible where it does."""
    small = Growth("small", 10, taken(1, cpu=2), {"cost": taken(0.1)})
    large = Growth("large", 100, taken(9, cpu=20, memory=160), {"cost": taken(0.1 * FLAT * 1.1)})

    found = rows([small, large])

    assert [None, None, None, True, False, False] == [row.met for row in found]
    assert ["200.0 ms = 1.00", "0 MB = 1.60", "165 ms = 1.65"] == [row.measured for row in found[3:]]


def test_a_home_is_measured_with_and_without_archived_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archived session is deleted, and every question is answered all the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "corpus"
    for number, name in enumerate(NAMES):
        lines = [user(f"{name}-u", None, number, "which function"), assistant(f"{name}-a", None, number, "x")]
        log_at(home / "projects" / "-srv" / f"{name}.jsonl", lines)
    logs = Corpus("c10_1", home, {"bytes": 1_000_000, "sessions": 3})

    with Workplace(logs, Peers(None, None), is_full=False, rounds=1) as place:
        grown = [measured(place, logs), measured(place, logs, archived=1)]

    assert ["1 MB, 3 sessions", "1 MB, 3 sessions, 1 of them archived and deleted"] == [
        one.label for one in grown
    ]
    assert [{"search", "cost", "list"}] * 2 == [set(one.questions) for one in grown]
    assert all(one.build.cpu > 0 for one in grown)
