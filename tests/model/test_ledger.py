"""One response counts once."""

from __future__ import annotations

from recollect.model.ledger import Ledger
from recollect.model.scan import UsageRecord
from recollect.model.usage import Tokens, Usage


def record(
    output: int,
    message: str | None = "m",
    request: str | None = "r",
    stop: str | None = None,
    side: bool = False,
) -> UsageRecord:
    """A line's usage with ``output`` tokens of an unpriced model."""
    usage = Usage(input_tokens=10, output_tokens=output)
    return UsageRecord(usage, message, request, "x", stop, is_sidechain=side)


def counted(*records: UsageRecord) -> tuple[int, int]:
    """Responses and output tokens after adding the records in order."""
    ledger = Ledger()
    for one in records:
        ledger.add(one)
    return ledger.responses, ledger.total().tokens.output


def test_copies_of_a_response_count_once_with_the_largest_output() -> None:
    """In whatever order the start-of-stream and the final copies stand."""
    assert (1, 90) == counted(record(3), record(90), record(3))
    assert (1, 90) == counted(record(90), record(3))


def test_another_request_or_message_is_another_response() -> None:
    """Both ids together make a response."""
    assert (3, 15) == counted(record(5), record(5, request="r2"), record(5, message="m2"))


def test_a_sidechain_copy_loses_even_when_it_is_larger() -> None:
    """Side questions replay parent messages; the original is the one that was billed."""
    assert (1, 5) == counted(record(99, side=True), record(5))
    assert (1, 5) == counted(record(5), record(99, side=True))


def test_lines_without_ids_are_responses_of_their_own() -> None:
    """The flat dialect has no ids, so nothing can be a copy."""
    ledger = Ledger()
    for _ in range(3):
        ledger.add(record(7, message=None, request=None))

    assert 3 == ledger.responses
    assert Tokens(input=30, output=21) == ledger.total().tokens
    assert frozenset(["x"]) == ledger.total().unpriced
