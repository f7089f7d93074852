"""A large cost report is sorted and written in parts, and is the one that would be made in one piece."""

from __future__ import annotations

import io
import random

import msgspec
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest

from recollect.cli.team import team as command
from recollect.model.cost.prices import PriceList
from recollect.server import team
from recollect.server.database.records import UsageSum

DICE = random.Random(4)
SUMS = [
    UsageSum(
        1_967_000,
        "",
        None,
        f"r{number % 7}",
        None,
        f"p{number}",
        "claude-sonnet-4-5-20250929",
        None,
        0,
        1,
        DICE.randrange(4),
        *(0,) * 5,
    )
    for number in range(50)
]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 50])
def test_parts_of_a_report_are_the_whole(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with the same cost stay in the order of their names, across parts."""

    def costs() -> team.TeamCosts:
        made = team.TeamCosts(["person", "repository"], PriceList())
        for start in range(0, count, 20):
            made.take(SUMS[:count][start : start + 20])
        return made

    whole = team.cost_report(costs())
    monkeypatch.setattr(team, "_AT_ONCE", 8)
    monkeypatch.setattr(team, "_WRITTEN_AT_ONCE", 3)
    report = team.cost_report(costs())
    expected = sorted(
        report.rows, key=lambda row: (-row.pico_usd, -row.tokens.total, tuple(row.keys.values()))
    )
    assert report.rows == whole.rows == expected
    assert len(report.rows) == count
    assert b"".join(team.as_json(costs())) == msgspec.json.encode(whole)


@pytest.mark.parametrize("at_once", [1, 2, 50])
def test_sums_of_one_row_are_added_however_they_come(at_once: int) -> None:
    """In one batch or in several; models without a price are named, and models to be passed over are not there."""
    known, unknown, passed = "claude-sonnet-4-5-20250929", "gpt-nobody", "claude-passed-over"
    sums = [
        SUMS[0]._replace(person=person, model=model, messages=1, input=number + 1)
        for number, (person, model) in enumerate(
            [("ada", known), ("ada", known), ("bo", unknown), (None, None), ("bo", known), ("bo", passed)] * 3
        )
    ]
    costs = team.TeamCosts(["person"], PriceList(), without=[passed])
    for start in range(0, len(sums), at_once):
        costs.take(sums[start : start + at_once])
    total = costs.total()
    rows = {
        row.keys["person"]: (row.responses, row.tokens.input, row.pico_usd, row.unpriced)
        for row in costs.rows()
    }
    million = 3_000_000  # pico-dollars for a token that was sent
    assert rows == {
        "ada": (6, 1 + 2 + 7 + 8 + 13 + 14, 45 * million, []),
        "bo": (6, 3 + 5 + 9 + 11 + 15 + 17, (5 + 11 + 17) * million, [unknown]),
        "(none)": (3, 4 + 10 + 16, 0, ["(no model)"]),
    }
    assert (total.responses, total.pico_usd, total.unpriced) == (15, 78 * million, ["(no model)", unknown])


def test_a_row_of_which_nothing_is_priced_has_no_amount_in_any_format(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As in `cost`: unknown is not 0. A row that is priced in part has what is known."""
    known, unknown = "claude-sonnet-4-5-20250929", "gpt-nobody"
    sums = [
        SUMS[0]._replace(person=person, model=model, messages=1, input=1)
        for person, model in (("ada", known), ("ada", unknown), ("bo", unknown))
    ]

    def costs() -> team.TeamCosts:
        made = team.TeamCosts(["person"], PriceList())
        made.take(sums)
        return made

    usd = {row.keys["person"]: row.usd for row in costs().rows()}
    assert usd == {"ada": "0.000003", "bo": None}
    _, *lines = b"".join(team.as_csv(costs())).decode().splitlines()
    assert [line.split(",")[-2] for line in lines] == ["0.000003", ""]
    table = pyarrow.parquet.read_table(io.BytesIO(b"".join(team.as_parquet(costs()))))
    assert table["pico_usd"].to_pylist() == [3_000_000, None]
    command._say(msgspec.json.decode(b"".join(team.as_json(costs()))))
    shown = {line.split()[0]: line.split()[-1] for line in capsys.readouterr().out.splitlines()}
    assert (shown["ada"], shown["bo"]) == ("$0.00", "-")
