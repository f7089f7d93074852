"""Sums become rows: priced, grouped, ordered, and honest about what is missing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from recollect.model.budget import blocks
from recollect.model.cost.aggregator import CostAggregator, CostQuery, one_total_a_session
from recollect.model.cost.calendar import Timeline
from recollect.model.cost.money import Usd
from recollect.model.cost.prices import BATCH, UNCERTAIN, PriceList
from recollect.model.cost.reconcile import RecordedCost
from recollect.model.cost.report import KEYS, CostReport, UncertainUsage, UsageGroup, UsageLog
from recollect.model.lines.blocks import Tokens

PRICES = PriceList()
SONNET, OPUS, NEW, OLD = "claude-sonnet-4-5", "claude-opus-4-5", "claude-nightly-20261101", "claude-2.1"
NOON = 1_994_160  # a quarter of 2026-11-15, at 12:00 UTC
LOGS = {
    1: UsageLog("/h/a.jsonl", "a", project="/srv/shop"),
    2: UsageLog("/h/b.jsonl", "b", project="/srv/notes"),
    3: UsageLog("/h/a/subagents/agent-x.jsonl", "a", "x", "/srv/shop"),
}
MILLION = 1_000_000
DOLLAR = 10**12


def one(model: str | None = SONNET, quarter: int = NOON, **more: int | str | None) -> UsageGroup:
    """One response with a million tokens of input, $3 on Sonnet 4.5."""
    given = {
        "log": 1,
        "branch": None,
        "tool": None,
        "variant": 0,
        "responses": 1,
        "input": MILLION,
        "output": 0,
    }
    empty = {"cache_write_5m": 0, "cache_write_1h": 0, "cache_read": 0, "web_searches": 0}
    return UsageGroup(quarter=quarter, model=model, **{**given, **empty, **more})  # type: ignore[arg-type]


def report(
    sums: Iterable[UsageGroup],
    by: Sequence[str] = (),
    mode: str = "calculate",
    records: Sequence[RecordedCost] = (),
    rests: Sequence[RecordedCost] = (),
    **more: int,
) -> CostReport:
    quarters = [NOON - 30, NOON - 20, NOON, NOON + 25]
    timeline = Timeline(by, lambda _: 0, [NOON // 96 - 1, NOON // 96, NOON // 96 + 1], blocks(quarters))
    asked = CostQuery(tuple(by), timeline, PRICES, mode, **more)  # type: ignore[arg-type]
    return CostAggregator(asked, LOGS, one_total_a_session(records, LOGS), rests).report(sums)


def unpriced(found: CostReport) -> list[tuple[str, int, Tokens]]:
    return [(missing.model, missing.responses, missing.tokens) for missing in found.unpriced]


def money(found: CostReport) -> list[tuple[str, ...]]:
    return [(*row.keys.values(), f"{row.pico_usd / DOLLAR:g}") for row in found.rows]


# --- money ------------------------------------------------------------------------------------------


def test_rows_under_several_keys() -> None:
    """Days rise; models keep one order under every day, the dearest of all days first."""
    found = report([one(), one(OPUS), one(quarter=NOON + 96)], ["day", "model"])

    assert [("2026-11-15", SONNET, "3"), ("2026-11-15", OPUS, "5"), ("2026-11-16", SONNET, "3")] == money(
        found
    )


def test_what_is_not_a_time_goes_from_the_dearest_to_the_cheapest() -> None:
    """Three Sonnet responses at $3 stand before one of Opus at $5."""
    assert [(SONNET, "9"), (OPUS, "5")] == money(report([one(), one(OPUS), one(), one()], ["model"]))


def test_a_model_without_a_price_is_named_and_never_free() -> None:
    """Its tokens are in the row, its money is not, and the row says so."""
    found = report([one(), one(NEW, output=7)], ["day"])

    assert [(NEW, 1, Tokens(MILLION, 7))] == unpriced(found)
    assert [(2, 2 * MILLION, 3 * DOLLAR, 1)] == [
        (row.responses, row.tokens.input, row.pico_usd, row.unpriced_responses) for row in found.rows
    ]


def test_a_sum_with_tokens_that_have_no_price_is_to_be_taken_apart() -> None:
    """Claude 2 had no cache: only the response that claims to have used it is unpriced, not its neighbour."""
    asked = CostQuery((), Timeline([], lambda _: 0), PRICES)
    coarse = CostAggregator(asked, LOGS)
    coarse.report([one(OLD, responses=2, cache_read=5)])
    fine = CostAggregator(asked, LOGS)
    exact = fine.report([one(OLD), one(OLD, input=0, cache_read=5)])

    assert coarse.has_gap
    assert (8 * DOLLAR, [(OLD, 1, Tokens(cache_read=5))]) == (exact.totals.pico_usd, unpriced(exact))


def test_uncertain_counts_are_said() -> None:
    """Client 2.1.30 wrote the output of the stream's start: it is counted, and named as uncertain."""
    found = report([one(output=3, variant=UNCERTAIN), one()])

    # A million in at $3, three tokens out at $15 a million: what is in the sum.
    assert (UncertainUsage(SONNET, 1, 3, Usd("3.000045")),) == found.uncertain


# --- records ----------------------------------------------------------------------------------------


def test_a_running_total_covers_its_session_and_the_agents_of_it() -> None:
    """The total of session a stands for both of its logs; session b has none."""
    sums = [one(log=1, recorded=1), one(log=3, recorded=1), one(log=2, recorded=5)]
    found = report(sums, ["session"], "display", [RecordedCost(NOON + 96, 1, SONNET, 9)])

    assert {"a": 9, "b": 5} == {row.keys["session"]: row.pico_usd for row in found.rows}


def test_a_copied_log_repeats_its_running_total_in_vain() -> None:
    """Two logs of one session with a total each: the larger stands."""
    records = [RecordedCost(NOON, 1, SONNET, 4), RecordedCost(NOON, 3, SONNET, 9)]

    assert 9 == report([one()], mode="display", records=records).totals.pico_usd


def test_auto_takes_the_record_only_where_there_is_no_price() -> None:
    """Sonnet is calculated; the unknown model costs what the client wrote down."""
    found = report([one(recorded=7), one(NEW, recorded=11)], mode="auto")

    assert (3 * DOLLAR + 11, ()) == (found.totals.pico_usd, found.unpriced)


def test_auto_takes_a_running_total_for_models_without_a_price() -> None:
    """Of the total only the part of the unknown model is taken, and its responses are not unpriced."""
    records = [RecordedCost(NOON, 1, SONNET, 400), RecordedCost(NOON, 1, NEW, 11)]
    found = report(
        [one(), one(NEW, unrecorded=1)], ["model"], mode="auto", records=records, rests=records[1:]
    )

    assert (3 * DOLLAR + 11, ()) == (found.totals.pico_usd, found.unpriced)
    assert [(SONNET, "3"), (NEW, "1.1e-11")] == money(found)


def test_what_only_the_client_knows_is_a_row_of_its_own() -> None:
    """Beside the row of the same keys, with its tokens; the total holds both. Records are nothing to `calculate`."""
    rest = RecordedCost(NOON, 1, OPUS, 2 * DOLLAR, counts=(7, 5, 0, 0, 0, 0), is_unlogged=True)
    found = report([one(), one(OPUS)], ["model"], mode="auto", records=[rest], rests=[rest])

    assert [(OPUS, "5"), (OPUS, "2"), (SONNET, "3")] == money(found)
    assert [UNSET, True, UNSET] == [row.is_unlogged for row in found.rows]
    assert (0, Tokens(7, 5)) == (found.rows[1].responses, found.rows[1].tokens)
    assert 10 * DOLLAR == found.totals.pico_usd


def test_auto_says_what_has_neither_price_nor_record() -> None:
    """Then it is unpriced, as ever."""
    assert [NEW] == [missing.model for missing in report([one(NEW, unrecorded=1)], mode="auto").unpriced]


# --- more about a row -------------------------------------------------------------------------------


def test_an_explained_row_says_where_it_comes_from() -> None:
    """Two logs, five lines for two responses, the price, and the difference to what was recorded."""
    sums = [
        one(log=1, lines=3, recorded=DOLLAR),
        one(log=3, lines=1, unrecorded=1),
        one(log=2, responses=0, input=0, lines=1),
    ]
    (row,) = report(sums, mode="calculate", is_explained=True).rows
    why = row.explain

    assert why
    assert (3, 3) == (why.logs, why.copies_dropped)
    assert ("/h/a.jsonl", "/h/a/subagents/agent-x.jsonl", "/h/b.jsonl") == why.paths
    assert (Usd(1), 1, Usd(5)) == (why.recorded_cost_usd, why.unrecorded_responses, why.difference_usd)
    assert [f"{SONNET}: "] == [price[: len(SONNET) + 2] for price in why.prices]


def test_copies_alone_make_no_row() -> None:
    """A fork that only repeats its parent is in no row; what was dropped is in the total."""
    found = report([one(), one(log=2, responses=0, input=0, lines=4)], ["session"], is_explained=True)

    assert ["a"] == [row.keys["session"] for row in found.rows]
    assert found.totals.explain
    assert 3 == found.totals.explain.copies_dropped


# --- always -----------------------------------------------------------------------------------------

sums_of_anything = st.lists(
    st.builds(
        one,
        st.sampled_from([SONNET, OPUS, NEW, "<synthetic>", None]),
        st.sampled_from([0, NOON - 30, NOON, NOON + 25, NOON + 96]),
        log=st.sampled_from([1, 2, 3]),
        branch=st.sampled_from([None, "main", "fix"]),
        tool=st.sampled_from([None, "Bash"]),
        variant=st.sampled_from([0, 1, 2, BATCH, UNCERTAIN]),
        input=st.integers(0, 10**7),
        output=st.integers(0, 10**5),
        cache_read=st.integers(0, 10**8),
        recorded=st.integers(0, 10**13),
        unrecorded=st.integers(0, 1),
    ),
    max_size=12,
)


@given(sums_of_anything, st.sampled_from(["calculate", "display", "auto"]), st.booleans())
def test_every_view_has_the_same_total(sums: list[UsageGroup], mode: str, is_recorded: bool) -> None:
    """Whatever the keys: the rows add up to the total, and all totals are one."""
    records = [RecordedCost(NOON, 1, SONNET, 5), RecordedCost(NOON, 1, NEW, 7)] if is_recorded else []
    views = [(), *((key,) for key in KEYS), *itertools.islice(itertools.permutations(KEYS, 2), 20)]
    unlogged = [RecordedCost(NOON, 1, OPUS, 3, counts=(1, 2, 3, 4, 5, 6), is_unlogged=True)]
    rests = unlogged if is_recorded and mode == "auto" else []
    reports = [report(sums, by, mode, records, rests) for by in views]

    totals = [(found.totals.responses, found.totals.tokens, found.totals.pico_usd) for found in reports]
    assert totals == [totals[0]] * len(views)
    for found in reports:
        assert found.totals.pico_usd == sum(row.pico_usd for row in found.rows)
        assert found.totals.tokens == sum((row.tokens for row in found.rows), Tokens())
        assert found.unpriced == reports[0].unpriced
