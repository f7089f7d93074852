"""What the list says that sessions cost is what the report says, to the last digit."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.ask.cost import price as module
from recollect.ask.cost.price import session_sums
from recollect.ask.cost.report import costs
from recollect.index.access import OpenIndex, open_index
from recollect.model.cost.money import Spending
from recollect.model.cost.prices import Price, PriceList
from tests.made_corpora import SEEDS, make
from tests.small_home import ONE, TWO, prompt, put, reply, said


def _reported(opened: OpenIndex) -> dict[str, Spending]:
    """The same from `cost --by session,model`."""
    found: dict[str, Spending] = {}
    for row in costs(["session", "model"], opened=opened).rows:
        model = frozenset([row.keys["model"]])
        unpriced = model if row.unpriced_responses else frozenset[str]()
        spent = Spending(row.tokens, row.pico_usd, unpriced, responses=row.responses, models=model)
        found[row.keys["session"]] = found.get(row.keys["session"], Spending()) + spent
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_made_home_costs_the_same(tmp_path: Path, seed: int) -> None:
    """Forks, agents in both layouts, cache writes, a model without a price."""
    made = make(tmp_path / "made", seed)
    with open_index([made.home], cache=tmp_path / "cache") as opened:
        found = session_sums(opened)
        assert found == _reported(opened)
        some = sorted(found)[::3]
        assert {name: found[name] for name in some} == session_sums(opened, some)
    assert found


def test_the_samples_cost_the_same(transcripts: Path, tmp_path: Path) -> None:
    """Every home that clients wrote."""
    homes = sorted(path.parent for path in (transcripts / "samples").rglob("projects"))
    assert homes
    for number, home in enumerate(homes):
        with open_index([home], cache=tmp_path / str(number)) as opened:
            assert session_sums(opened) == _reported(opened), home


def _two(home: Path) -> None:
    put(home, ONE, [prompt(1, None, "Q"), reply(2, 1, said("A"), answer="a")])
    unknown = reply(2, 1, said("A"), answer="b", sessionId=TWO)
    unknown["message"]["model"] = "somebody-elses-7"
    put(home, TWO, [prompt(1, None, "Q", sessionId=TWO), unknown], cwd="/srv/b")


def test_amounts_by_hand(tmp_path: Path) -> None:
    """10 tokens in at $3 and 20 out at $15 a million are 330 millionths of a dollar; a model nobody knows is unpriced."""
    _two(tmp_path / "home")
    with open_index([tmp_path / "home"], cache=tmp_path / "cache") as opened:
        found = session_sums(opened)
    amounts = {name: (one.models, one.pico_usd, one.unpriced) for name, one in found.items()}
    unknown = frozenset({"somebody-elses-7"})
    assert amounts == {
        ONE: (frozenset({"claude-sonnet-4-5-20250929"}), 330_000_000, frozenset()),
        TWO: (unknown, 0, unknown),
    }


def test_a_price_with_a_gap_counts_as_far_as_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a price for output, 10 tokens of input still cost what they cost."""
    _two(tmp_path / "home")
    monkeypatch.setattr(module, "price_list", PriceList)
    monkeypatch.setattr(PriceList, "find", lambda *_: Price(3_000_000, None, None, None, None, None))
    with open_index([tmp_path / "home"], cache=tmp_path / "cache") as opened:
        one = session_sums(opened)[ONE]
    assert (30_000_000, frozenset({"claude-sonnet-4-5-20250929"})) == (one.pico_usd, one.unpriced)
