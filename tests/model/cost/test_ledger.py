"""One response counts once."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recollect.model.cost.line_usage import (
    AGENT_PROGRESS,
    AMOUNTS,
    BELONGS,
    BOTH,
    MAIN,
    SIDECHAIN,
    ResponseCopy,
    ResponseUsage,
    better,
    counted,
    marks,
)
from recollect.model.cost.prices import PriceList
from recollect.model.lines.blocks import Tokens, Usage
from recollect.model.views.facts import LineFacts, milliseconds
from recollect.model.views.ledger import Ledger


def said(
    usage: Usage,
    message: str | None = "m",
    request: str | None = "r",
    model: str = "x",
    at: str | None = None,
    *,
    stop: bool = False,
    side: bool = False,
    forked: bool = False,
) -> LineFacts:
    """What a line says of a response."""
    speaker = SIDECHAIN if side else MAIN
    response = ResponseUsage(usage, speaker, message, request or "", model, stop)
    return LineFacts("assistant", at=milliseconds(at), is_forked=forked, response=response)


def record(
    output: int, message: str | None = "m", request: str | None = "r", *, side: bool = False, **more: Any
) -> LineFacts:
    """A line's usage with ``output`` tokens of an unpriced model."""
    return said(Usage(input_tokens=10, output_tokens=output), message, request, side=side, **more)


def places(copies: list[ResponseCopy]) -> list[int]:
    """The copies that responses belong with."""
    return [one[0] for one in counted(copies)]


# --- Which copy counts ---------------------------------------------------------------------------


def test_each_rule_decides_before_the_next() -> None:
    """Speaker, no fork, output, stop reason, time, path: a copy ahead in one is behind in all that follow."""
    best_first = [
        ResponseCopy("r", MAIN, 1, False, 1, True, "z"),
        ResponseCopy("r", SIDECHAIN, 7, False, 1, False, "z"),
        ResponseCopy("r", SIDECHAIN, 9, False, 1, True, "z"),
        ResponseCopy("r", SIDECHAIN, 8, True, 1, True, "z"),
        ResponseCopy("r", SIDECHAIN, 8, False, 9, True, "z"),
        ResponseCopy("r", SIDECHAIN, 8, False, 8, True, "a"),
        ResponseCopy("r", SIDECHAIN, 8, False, 8, True, "b"),
        ResponseCopy("r", AGENT_PROGRESS, 99, True, 99, False, ""),
    ]

    for place, one in enumerate(best_first):
        assert [better(one, other) for other in best_first] == [place < at for at in range(len(best_first))]


def test_a_response_that_spans_midnight_belongs_to_its_last_line() -> None:
    """Equal copies before and after midnight: the later one counts."""
    assert [1] == places([ResponseCopy("r", MAIN, 5, True, at) for at in (86_399_000, 86_401_000)])


def test_where_the_conversation_speaks_a_response_belongs_to_it() -> None:
    """A side question replays a parent's message under another request id, and that is no response of its own."""
    copies = [
        ResponseCopy("replayed", SIDECHAIN, 99, True),
        ResponseCopy("r", MAIN, 5),
        ResponseCopy("r", MAIN, 7),
    ]

    assert [(2, 2)] == counted(copies)


def test_the_amounts_are_those_of_the_largest_output_whoever_speaks() -> None:
    """The conversation kept the stream's first counts; an agent's log has the final ones of the same request."""
    copies = [
        ResponseCopy("r", MAIN, 5, at=9),
        ResponseCopy("r", SIDECHAIN, 900, True, 8),
        ResponseCopy("r", AGENT_PROGRESS, 70, True),
    ]

    assert [(0, 1)] == counted(copies)
    assert [BELONGS, AMOUNTS, 0] == marks(copies)
    assert [BOTH] == marks(copies[:1])


def test_a_forks_copy_may_have_the_amounts_and_never_the_place() -> None:
    """The conversation a response was made in keeps it, whatever another session's copy counted."""
    copies = [ResponseCopy("r", MAIN, 5, path="z"), ResponseCopy("r", MAIN, 50, True, 9, True, "a")]

    assert [(0, 1)] == counted(copies)


def test_of_equal_outputs_one_with_a_stop_reason_is_believed() -> None:
    """Its counts are final; otherwise the copy the response belongs with has the amounts too."""
    assert [(0, 1)] == counted([ResponseCopy("r", MAIN, 5), ResponseCopy("r", SIDECHAIN, 5, True)])
    assert [(0, 0)] == counted([ResponseCopy("r", MAIN, 5), ResponseCopy("r", SIDECHAIN, 5)])


def test_two_requests_of_the_conversation_are_two_responses() -> None:
    """One winner for each request id, a missing one being an id of its own."""
    assert [0, 1, 3] == places(
        [ResponseCopy("a", MAIN, 1), ResponseCopy("b", MAIN, 1), ResponseCopy("b"), ResponseCopy("", MAIN, 1)]
    )


def test_where_only_others_speak_one_copy_counts_for_the_whole_message() -> None:
    """Whatever request ids the replays have."""
    assert [1] == places(
        [
            ResponseCopy("a", SIDECHAIN, 5),
            ResponseCopy("b", SIDECHAIN, 6),
            ResponseCopy("a", AGENT_PROGRESS, 9),
        ]
    )


def test_between_equal_replays_their_order_does_not_decide() -> None:
    """The smaller request id does, so that an index and a scan keep the same one."""
    one, other = ResponseCopy("a", SIDECHAIN, 5), ResponseCopy("b", SIDECHAIN, 5)

    assert ([0], [1]) == (places([one, other]), places([other, one]))


_COPIES = st.lists(
    st.builds(
        ResponseCopy,
        st.sampled_from(["", "a", "b"]),
        st.sampled_from([MAIN, SIDECHAIN, AGENT_PROGRESS]),
        st.integers(0, 2),
        st.booleans(),
        st.integers(0, 1),
        st.booleans(),
        st.sampled_from(["p", "q"]),
    ),
    max_size=8,
)


def _by_value(copies: list[ResponseCopy]) -> list[tuple[ResponseCopy, ResponseCopy]]:
    return sorted((copies[place], copies[amounts]) for place, amounts in counted(copies))


@given(_COPIES, st.randoms(use_true_random=False))
def test_the_order_in_which_copies_are_found_does_not_matter(
    copies: list[ResponseCopy], random: Random
) -> None:
    """The same copies count, with the same amounts."""
    shuffled = list(copies)
    random.shuffle(shuffled)

    assert _by_value(copies) == _by_value(shuffled)


@given(_COPIES)
def test_every_response_has_one_place_and_amounts_no_copy_of_its_request_exceeds(
    copies: list[ResponseCopy],
) -> None:
    """Marks tell both apart again: which amounts are whose is told by the request, or there is one response."""
    has_main = any(copy.speaker == MAIN for copy in copies)
    found = marks(copies)
    for place, amounts in counted(copies):
        among = [copy for copy in copies if not has_main or copy.request_id == copies[place].request_id]
        assert copies[amounts].output == max(copy.output for copy in among)
        assert (copies[place].speaker == MAIN) is has_main
        named = [at for at, mark in enumerate(found) if mark & AMOUNTS and copies[at] in among]
        assert [amounts] == named
    assert len(counted(copies)) == sum(bool(mark & BELONGS) for mark in found)


# --- Adding up -----------------------------------------------------------------------------------


def test_lines_without_ids_are_responses_of_their_own() -> None:
    """The flat dialect has no ids, so nothing can be a copy."""
    ledger = Ledger()
    for _ in range(3):
        ledger.add(record(7, message=None, request=None))

    assert 3 == ledger.responses
    assert Tokens(input=30, output=21) == ledger.total().tokens
    assert frozenset(["x"]) == ledger.total().unpriced


def test_each_response_is_priced_at_its_own_time() -> None:
    """A context of 300,000 tokens on Opus 4.6 cost $10 per million before 2026-03-13, and $5 since."""
    ledger = Ledger()
    for message, day in (("m1", "2026-03-12T23:59:59.999Z"), ("m2", "2026-03-13T00:00:00.000Z")):
        usage = Usage(input_tokens=300_000)
        ledger.add(said(usage, message, "r", "claude-opus-4-6", day))

    assert 3_000_000_000_000 + 1_500_000_000_000 == ledger.total().pico_usd


def test_own_prices_are_those_of_the_ledger_or_of_the_question() -> None:
    """Given when it is made, or when it is asked."""
    own = PriceList({"x": {"input": "1", "output": "2"}})
    asked, made = Ledger(), Ledger(own)
    for ledger in (asked, made):
        ledger.add(record(5))

    assert (10 * 1_000_000 + 5 * 2_000_000, frozenset()) == (made.total().pico_usd, made.total().unpriced)
    assert made.total() == asked.total(own)
