"""Positions and names as both ends of the protocol understand them."""

from __future__ import annotations

from hashlib import sha256

import pytest

from recollect.errors import UsageError
from recollect.share.sync.wire import START, Position


def test_the_chain_is_what_the_protocol_says() -> None:
    """h(0) is 32 zero bytes; each hash is over the one before and the line with its newline."""
    one = sha256(bytes(32) + b"a\n").digest()
    two = sha256(one + b"b\n").digest()
    assert START.after([b"a\n", b"b\n"]) == Position(2, two)
    assert str(Position(1, one)) == f"1:{one.hex()}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1:",
        ":" + "0" * 64,
        "-1:" + "0" * 64,
        "01:" + "0" * 64,
        "1:" + "0" * 63,
        "1:" + "G" * 64,
        "１:" + "0" * 64,
        "9" * 17 + ":" + "0" * 64,
    ],
)
def test_what_is_no_position_is_refused(text: str) -> None:
    """Exactly one way to write each."""
    with pytest.raises(UsageError):
        Position.parse(text)
