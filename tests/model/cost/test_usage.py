"""Token counts as the client counts them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recollect.model.lines.blocks import CacheCreation, Tokens, cache_writes
from recollect.model.views.facts import facts_of
from recollect.model.views.ledger import Ledger


@pytest.mark.parametrize(
    ("whole", "five", "hour", "expected"),
    [
        (500, 300, 200, (300, 200)),
        (500, 0, 0, (500, 0)),
        (900, 300, 200, (700, 200)),
        (100, 300, 200, (0, 100)),
        (500, 100, None, (500, 0)),
        (500, None, 100, (400, 100)),
        (0, 300, 200, (300, 200)),
        (None, 300, 200, (300, 200)),
    ],
)
def test_the_sum_of_cache_writes_is_believed_and_the_split_says_which_live_an_hour(
    whole: int | None, five: int | None, hour: int | None, expected: tuple[int, int]
) -> None:
    """Each row was asked of client 2.1.325; a split of 0/0 beside a sum is five-minute writes."""
    assert cache_writes(whole, CacheCreation(five, hour)) == expected


# --- advisors -------------------------------------------------------------------------------------


def line(iterations: object, **usage: Any) -> bytes:
    """An answer of Opus 5.5 with 1,000 tokens of input that asked advisors."""
    said = {"input_tokens": 1000, "output_tokens": 7, **usage, "iterations": iterations}
    message = {"id": "m", "model": "claude-opus-5-5", "content": [], "stop_reason": "end_turn", "usage": said}
    return json.dumps({"type": "assistant", "sessionId": "s", "requestId": "r", "message": message}).encode()


def advisor(**more: Any) -> dict[str, Any]:
    return {
        "type": "advisor_message",
        "model": "claude-opus-4-8",
        "input_tokens": 1000,
        "output_tokens": 0,
        **more,
    }


def total(*lines: bytes) -> Ledger:
    ledger = Ledger()
    for one in lines:
        ledger.add(facts_of(one))
    return ledger


def test_an_advisor_is_a_response_of_its_own_model() -> None:
    """Opus 5.5 costs $4 for a million tokens of input and $20 of output, its advisor Opus 4.8 $5."""
    ledger = total(line([advisor()]))

    assert ledger.responses == 2
    assert ledger.total().tokens == Tokens(input=2000, output=7)
    assert ledger.total().pico_usd == 1000 * 4_000_000 + 7 * 20_000_000 + 1000 * 5_000_000


def test_each_advisor_counts_once_however_many_lines_repeat_it() -> None:
    """A response is spread over several lines; the first of them may have the counts of the stream's start."""
    lines = [line([]), line([advisor(), advisor(input_tokens=1)]), line([advisor(), advisor(input_tokens=1)])]

    assert total(*lines).total() == total(lines[1]).total()
    assert total(*lines).responses == 3


@pytest.mark.parametrize(
    "other",
    [
        advisor(type="message"),
        advisor(type="compaction"),
        advisor(model=None),
        {key: value for key, value in advisor().items() if key != "model"},
        "advisor_message",
    ],
)
def test_other_iterations_are_parts_of_the_response_itself(other: object) -> None:
    """Asked of client 2.1.325: only an advisor's message that names its model is added."""
    assert total(line([other])).total() == total(line([])).total()
