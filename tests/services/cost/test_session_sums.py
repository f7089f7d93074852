"""What the list says that sessions cost is what the report says, to the last digit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.index import cost_queries
from recollect.model.cost.prices import PriceList
from recollect.model.cost.usage import Tokens
from recollect.services.cost import session_sums as module
from recollect.services.cost.report import costs
from recollect.services.cost.session_sums import SessionSum, session_sums
from recollect.services.indexing.access import OpenIndex, open_index
from recollect.services.list import ListQuery, listed
from recollect.system.locations import home_at
from tests.made_corpora import SEEDS, make
from tests.small_home import ONE, TWO, prompt, put, reply, said


def _reported(opened: OpenIndex, home: Path) -> dict[str, SessionSum]:
    """The same from `cost --by session,model`."""
    found: dict[str, SessionSum] = {}
    for row in costs([home], ["session", "model"], opened=opened).rows:
        one = found.setdefault(row.keys["session"], SessionSum(0, Tokens(), {}))
        one.responses += row.responses
        one.tokens += row.tokens
        one.spent[row.keys["model"]] = None if row.unpriced_responses else row.pico_usd
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_made_home_costs_the_same(shared: Path, tmp_path: Path, seed: int) -> None:
    """Forks, agents in both layouts, cache writes, a model without a price."""
    made = make(shared, tmp_path / "made", seed)
    with open_index([made.home], cache=tmp_path / "cache") as opened:
        found = session_sums(opened, [made.home])
        assert found == _reported(opened, made.home)
        some = sorted(found)[::3]
        assert {name: found[name] for name in some} == session_sums(opened, [made.home], some)
    assert found


def test_the_samples_cost_the_same(shared: Path, tmp_path: Path) -> None:
    """Every home that clients wrote."""
    homes = sorted(path.parent for path in (shared / "samples").rglob("projects"))
    assert homes
    for number, home in enumerate(homes):
        with open_index([home], cache=tmp_path / str(number)) as opened:
            assert session_sums(opened, [home]) == _reported(opened, home), home


def _two(home: Path) -> None:
    put(home, ONE, [prompt(1, None, "Q"), reply(2, 1, said("A"), answer="a")])
    unknown = reply(2, 1, said("A"), answer="b", sessionId=TWO)
    unknown["message"]["model"] = "somebody-elses-7"
    put(home, TWO, [prompt(1, None, "Q", sessionId=TWO), unknown], cwd="/srv/b")


def test_amounts_by_hand(tmp_path: Path) -> None:
    """10 tokens in at $3 and 20 out at $15 a million are 330 millionths of a dollar; a model nobody knows is unpriced."""
    _two(tmp_path / "home")
    with open_index([tmp_path / "home"], cache=tmp_path / "cache") as opened:
        found = session_sums(opened, [tmp_path / "home"])
    assert {name: one.spent for name, one in found.items()} == {
        ONE: {"claude-sonnet-4-5-20250929": 330_000_000},
        TWO: {"somebody-elses-7": None},
    }


def test_a_price_with_a_gap_is_left_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tokens of one kind have no price, sums must be taken apart: the report does it."""
    _two(tmp_path / "home")
    nothing = SessionSum(0, Tokens(), {})
    gap = type("Gap", (), {"cost": lambda *_: None})()
    monkeypatch.setattr(module, "price_list", PriceList)
    monkeypatch.setattr(PriceList, "find", lambda *_: gap)
    monkeypatch.setattr(module, "_reported", lambda *_: {"from the report": nothing})
    with open_index([tmp_path / "home"], cache=tmp_path / "cache") as opened:
        assert session_sums(opened, [tmp_path / "home"]) == {"from the report": nothing}


def test_a_short_list_reads_the_sums_of_its_sessions_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are: ten of a thousand cost what ten of a hundred do."""
    _two(tmp_path / "home")
    asked: list[int] = []

    def counted(*given: Any) -> list[cost_queries.UsageSumRow]:
        rows = rolled(*given)
        asked.append(len(rows))
        return rows

    rolled = cost_queries.rolled
    monkeypatch.setattr(cost_queries, "rolled", counted)
    with open_index([tmp_path / "home"], cache=tmp_path / "cache") as opened:
        roots = [home_at(tmp_path / "home")]
        newest = listed(roots, opened, ListQuery(limit=1)).sessions
        every = listed(roots, opened).sessions

    assert [1, 2] == asked
    assert newest == every[:1]
