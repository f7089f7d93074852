"""What a client's running total adds to the logs of its session, and that nothing is counted twice."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from recollect.model.cost.line_usage import MAIN, SIDECHAIN, ResponseCopy
from recollect.model.cost.prices import PriceList
from recollect.model.cost.reconcile import LoggedCopy, RecordedCost, TokenCounts, rests

SONNET, OPUS, NEW = "claude-sonnet-5-5", "claude-opus-5-5", "claude-nightly-20261101"
OWNERS = {1: "a", 2: "a", 3: "b", 4: "c"}  # log 2 is an agent's of session a; b and c are others
INPUT = {SONNET: 2_000_000, OPUS: 4_000_000}  # pico-dollars for a token


def tokens(count: int) -> TokenCounts:
    return (count, 0, 0, 0, 0, 0)


def said(
    log: int, message: str | None, count: int, model: str = OPUS, at: int = 0, **more: int
) -> LoggedCopy:
    copy = ResponseCopy("r", more.pop("speaker", MAIN), more.pop("output", 0), True, at, False, f"/{log}")
    return LoggedCopy(log, message, copy, model, more.pop("variant", 0), tokens(count))


def recorded(
    log: int, count: int, model: str = OPUS, started: int | None = None, pico: int = 0
) -> RecordedCost:
    return RecordedCost(0, log, model, pico or count * INPUT[model], counts=tokens(count), started=started)


def found(
    records: Sequence[RecordedCost], copies: Sequence[LoggedCopy]
) -> list[tuple[int, str | None, int, int, bool]]:
    """Log, model, tokens, what they cost, whether the logs lack them."""
    answer = rests(records, copies, OWNERS, PriceList())
    return [(one.log, one.model, one.counts[0], one.pico_usd, one.is_unlogged) for one in answer]


def test_a_total_that_the_logs_explain_adds_nothing() -> None:
    """The session's own log and its agent's, each response once."""
    copies = [said(1, "m", 10), said(2, "n", 5, SONNET), said(2, "m", 10, speaker=SIDECHAIN)]

    assert [] == found([recorded(1, 10), recorded(1, 5, SONNET)], copies)


def test_tokens_that_the_logs_lack_are_unlogged() -> None:
    """A compaction of seven tokens; and one by a model that no log names."""
    assert [(1, OPUS, 7, 28_000_000, True)] == found([recorded(1, 17)], [said(1, "m", 10)])
    assert [(1, SONNET, 5, 10_000_000, True)] == found(
        [recorded(1, 10), recorded(1, 5, SONNET)], [said(1, "m", 10)]
    )


def test_another_price_for_the_same_tokens_is_not_unlogged() -> None:
    """The client has no price for some old models and takes another's: the list price stands."""
    assert [] == found([recorded(1, 10, pico=99_000_000)], [said(1, "m", 10)])


def test_a_model_is_the_same_under_the_name_of_another_cloud() -> None:
    """The total names what was asked for, the log what answered."""
    total = recorded(1, 10)._replace(model="us.anthropic.claude-opus-5-5-v1:0")

    assert [] == found([total], [said(1, "m", 10, "claude-opus-5-5")])


def test_a_model_the_log_does_not_name_adds_no_more_than_the_session_exceeds_its_logs() -> None:
    """The total is under a name that says nothing; the log has all of it under the real one."""
    assert [] == found([recorded(1, 10)._replace(model="arn:profile/x")], [said(1, "m", 10)])


def test_the_total_stands_for_responses_without_a_price() -> None:
    """Then it is not unlogged: its tokens are counted already. Fast mode of Sonnet has no price either."""
    assert [(1, NEW, 0, 77, False)] == found(
        [recorded(1, 10)._replace(model=NEW, pico_usd=77)], [said(1, "m", 10, NEW)]
    )
    assert [(1, SONNET, 0, 20_000_000, False)] == found(
        [recorded(1, 10, SONNET)], [said(1, "m", 10, SONNET, variant=4)]
    )


def test_logs_that_go_on_after_the_total_lower_nothing() -> None:
    """A client that was killed wrote no new total."""
    assert [] == found([recorded(1, 10)], [said(1, "m", 10), said(1, "n", 10)])


# --- forks ------------------------------------------------------------------------------------------


def test_a_fork_takes_its_parents_total_along() -> None:
    """Its copy of the parent's line is in its own log: nothing is missing."""
    copies = [said(1, "m", 10, at=1), said(3, "m", 10, at=1), said(3, "n", 5, at=9)]

    assert [] == found([recorded(1, 10, started=7), recorded(3, 15, started=7)], copies)


def test_what_parent_and_fork_both_recorded_is_unlogged_once() -> None:
    """Compacted at 5, forked at 9 with nothing but what follows the summary; both went on."""
    copies = [
        said(1, "m", 10, at=1),
        said(1, "n", 10, at=7),
        said(1, "p", 10, at=20),
        said(3, "n", 10, at=7),
        said(3, "o", 10, at=9),
    ]
    records = [recorded(1, 44, started=7), recorded(3, 34, started=7)]

    assert [14 * 4_000_000] == [pico for *_, pico, _ in found(records, copies)]
    assert [4 * 4_000_000] == [
        pico for *_, pico, _ in found([recorded(1, 34, started=7), recorded(3, 34, started=7)], copies)
    ]


def test_sessions_that_began_apart_are_compared_apart() -> None:
    records = [recorded(1, 11, started=7), recorded(3, 12, started=8), recorded(4, 13)]
    copies = [said(1, "m", 10), said(3, "n", 10), said(4, "o", 10)]

    assert [1, 2, 3] == sorted(count for _, _, count, *_ in found(records, copies))


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 3, 4]), st.integers(0, 5), st.integers(0, 9)), max_size=12),
    st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60)),
    st.booleans(),
)
def test_a_session_adds_no_more_than_its_total_exceeds_its_own_logs(
    lines: list[tuple[int, int, int]], totals: tuple[int, int, int], is_family: bool
) -> None:
    """Whatever is copied where."""
    copies = [said(log, f"m{message}", count, at=message) for log, message, count in lines]
    records = [
        recorded(log, count, started=7 if is_family else None)
        for log, count in zip((1, 3, 4), totals, strict=True)
        if count
    ]
    for log, _, count, pico, is_unlogged in found(records, copies):
        own = {one.message for one in copies if OWNERS[one.log] == OWNERS[log]}
        smallest = {name: min(one.counts[0] for one in copies if one.message == name) for name in own}
        total = next(record for record in records if record.log == log)
        assert is_unlogged
        assert 0 < pico <= total.pico_usd - sum(smallest.values()) * INPUT[OPUS]
        assert 0 < count <= total.counts[0] - sum(smallest.values())
