"""A server's bytes are bounded before they are parsed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.mcp.framing import BrokenFrame, LineSplitter, MessageRateLimit, require_small
from recollect.mcp.limits import McpLimits

SMALL = McpLimits(message_bytes=100, depth=4, values=10, messages_per_second=10, message_burst=5)


@given(
    st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line and not line.endswith(b"\r"))),
    st.data(),
)
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    """A pipe may cut anywhere."""
    stream, cutter, found = b"".join(line + b"\n" for line in lines), LineSplitter(SMALL), list[bytes]()
    while stream:
        length = data.draw(st.integers(1, len(stream)))
        found += cutter.feed(stream[:length])
        stream = stream[length:]

    assert lines == found


@pytest.mark.parametrize(
    "chunks", [[b"x" * 101], [b"x" * 60, b"x" * 60], [b"x\n" + b"y" * 101], [b"x" * 101 + b"\n"]]
)
def test_a_line_that_does_not_end_is_given_up(chunks: list[bytes]) -> None:
    """When it is too long, whether or not its newline has come."""
    cutter = LineSplitter(SMALL)

    with pytest.raises(BrokenFrame, match="more than 100 bytes"):
        [cutter.feed(chunk) for chunk in chunks]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"[[[[[1]]]]]", "deeper than 4"),
        (b'{"a":{"a":{"a":{"a":{}}}}}', "deeper than 4"),
        (b"[" * 9, "deeper than 4"),
        (b"[1,1,1,1,1,1,1,1,1,1,1]", "more than 10 values"),
        (b"[[],[],[],[],[],[]]", "more than 10 values"),
        (b"[" + b"1" * 100, "more than 100 bytes"),
    ],
)
def test_a_message_is_counted_before_it_is_built(message: bytes, words: str) -> None:
    """Depth, values and bytes each have a bound."""
    with pytest.raises(BrokenFrame, match=words):
        require_small(message, SMALL)


@pytest.mark.parametrize("text", ["[" * 90, "," * 90, '\\"[[[[[[', '"' * 20 + "[" * 20, "\\" * 20 + "[" * 10])
def test_brackets_and_commas_inside_a_text_do_not_count(text: str) -> None:
    """A file's content may look like anything."""
    require_small(json.dumps([text]).encode(), SMALL)


def test_a_burst_is_taken_and_a_flood_is_not() -> None:
    """Five at once, ten a second for good; the sixth within the same moment is one too many."""
    rate = MessageRateLimit(SMALL)
    for _ in range(5):
        rate.count(100.0)
    for step in range(1, 50):
        rate.count(100.0 + step / 9)

    with pytest.raises(BrokenFrame, match="more than 10 messages a second"):
        [rate.count(105.5) for _ in range(6)]  # type: ignore[func-returns-value]  # six times is the point
