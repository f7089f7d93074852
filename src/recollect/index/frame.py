"""What one range of a log adds to the index, as plain values that can be sent to another process.

A frame covers whole lines from ``start`` to ``end`` of one log. It is applied as a whole, together with
the position where reading continues, so that a process that dies between two frames loses nothing and
repeats nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from recollect.index.schema import Id

try:  # hashlib would load OpenSSL, which takes as long as reading a few lines
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

CALLS_A_LINE = 64  # see the table of calls

# Entry types, as stored in ``messages.kind``.
MESSAGE_KINDS = ("other", "user", "assistant", "system", "attachment", "progress", "title", "tool-output")
KIND_CODES = {name: code for code, name in enumerate(MESSAGE_KINDS)}
TOOL_OUTPUT_KIND = KIND_CODES["tool-output"]

Columns = tuple[bytes | None, ...]
CountValues = tuple[int | None, bool, str | None, str | None, str | None, int]


# A model, its pico-dollars and six counts, of a client's running total.
RecordedAmount = tuple[str, int, int, int, int, int, int, int]
RunningTotal = tuple[int | None, int | None, list[RecordedAmount]]  # when written, when the session began


# A line with an id or with words: offset, length, id, time, kind, digest, texts in UTF-8 for the tokenizer (not
# stored), and in lower case what a user typed in the main conversation. There is one for every line, so frames
# hold plain tuples: they are made and sent faster.
MessageValues = tuple[int, int, Id, int | None, int, int | None, Columns | None, str | None]


class UsageRow(NamedTuple):
    """All that one speaker in one log says of one response within the frame; ``lines`` counts its lines."""

    message: str | None
    request: str
    speaker: int
    has_stop: bool
    forked: bool
    at: int | None
    model: str | None
    branch: str | None
    version: str | None
    tool: str | None
    variant: int
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_searches: int
    recorded: int | None
    duration: int | None
    asked: Id
    lines: int


class CallRow(NamedTuple):
    """A tool call, or the result of one (``tool`` is None). ``key`` is made from its id.

    ``changes``: how many changes of files a result lists.
    """

    place: int
    key: int
    at: int | None
    tool: str | None
    kind: str | None
    is_commit: bool
    is_error: bool
    forked: bool
    changes: int = 0


def call_key(name: str) -> int:
    """The number that stands for the id of a call."""
    return int.from_bytes(blake2b(name.encode("utf-8", "replace"), digest_size=6).digest(), "big")


class Frame(NamedTuple):
    """One range of a log. ``cost_state`` is the client's last running total in it, by model."""

    start: int
    end: int
    messages: Sequence[MessageValues]
    usage: list[UsageRow]
    cost_state: RunningTotal | None = None
    cwd: str | None = None
    branch: str | None = None
    session: str | None = None
    agent: str | None = None
    first_at: int | None = None
    last_at: int | None = None
    damage: tuple[tuple[str, int], ...] = ()  # number of lines, by code
    lines: int = 0
    begins_aside: bool | None = None
    first_prompt: str | None = None
    # The last of each kind; "" if it was removed, None if it did not occur.
    custom_title: str | None = None
    ai_title: str | None = None
    last_prompt: str | None = None
    tag: str | None = None
    continued_in: str | None = None
    # A ``MessageCount`` as a plain tuple, at the end of a session's log.
    message_count: CountValues | None = None
    # Whether it continues the previous count: only valid if the log has none of the frame's ids.
    is_continued: bool = False
    is_warm_up: bool | None = None  # of an agent's log: whether the client made it to warm its cache
    calls: Sequence[CallRow] = ()
    origins: str | None = None  # where worktrees were made from, a line each, the last one first
    traits: int = 0  # see the table of files
    head: bytes = b""
    tail: bytes = b""
    # Why the log could not be read from ``start`` on, "" if it vanished; such a frame holds nothing else.
    problem: str | None = None
