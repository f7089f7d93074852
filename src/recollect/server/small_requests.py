"""The request of a small append, read from its bytes where they leave nothing to interpret.

That is HTTP/1.1 as nearly all clients write it: one space after each colon, each header once, visible ASCII, and a body whose
length is said. Everything else is left to the parser, which is slower and knows all of HTTP; nothing is refused here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from recollect.server.limits import BudgetShare
from recollect.server.routes.log import ROUTE

_PATH, _AFTER = (part.encode() for part in ROUTE.split("{session_id}"))
_START, _END = b"PUT " + _PATH, _AFTER + b" HTTP/1.1"
_LONGEST_HEAD = 4 * 1024
_VISIBLE = bytes(range(0x20, 0x7F))
_TOKEN = re.compile(rb"[A-Za-z0-9-]+")
# What changes how a request or its connection is read.
_SPECIAL = frozenset((b"transfer-encoding", b"expect", b"upgrade", b"proxy-connection"))


class SmallRequest(NamedTuple):
    """An append: what its path names, its headers by their lower-case names, and where its body begins and ends."""

    session: str
    headers: dict[bytes, bytes]
    begin: int
    end: int


def may_begin(data: bytes) -> bool:
    """Whether this may be the beginning of such a request, whose head has not come as a whole."""
    return data.startswith(_START) and len(data) <= _LONGEST_HEAD and b"\r\n\r\n" not in data


def small_request(data: bytes) -> SmallRequest | None:
    """The request that these bytes are, or begin with; None where the parser has to look at them. The path is checked as far
    as it has to be to know where it ends."""
    size = data.find(b"\r\n\r\n", 0, _LONGEST_HEAD)
    if size < 0:
        return None
    head = data[:size]
    first, *lines = head.split(b"\r\n")
    if not (first.startswith(_START) and first.endswith(_END)) or first.count(b" ") != 2:
        return None
    # Other line ends, and spaces around a value, mean one thing to one program and another to the next.
    if head.translate(None, _VISIBLE) != b"\r\n" * len(lines):
        return None
    if b":  " in head or b" \r\n" in head or head.endswith(b" "):
        return None
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b": ")
        if not value:
            return None
        headers[_lower(name)] = value
    length = headers.get(b"content-length", b"")
    if (
        len(headers) != len(lines)
        or b"" in headers
        or not _SPECIAL.isdisjoint(headers)
        or headers.get(b"connection", b"keep-alive").lower() != b"keep-alive"
        or not length.isdigit()
        or len(length) > 6
        or int(length) > BudgetShare.FREE
    ):
        return None
    session = str(first[len(_START) : -len(_END)], "ascii")
    return SmallRequest(session, headers, size + 4, size + 4 + int(length))


@lru_cache(maxsize=256)
def _lower(name: bytes) -> bytes:
    """Empty where it is no name of a header. Clients write the same few."""
    return name.lower() if _TOKEN.fullmatch(name) else b""
