"""What one range of a log adds to the index, as plain values that can be sent to another process.

A frame covers whole lines from ``start`` to ``end`` of one log. It is applied as a whole, together with
the position where reading continues, so that a process that dies between two frames loses nothing and
repeats nothing.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from recollect.index.schema import Id
from recollect.model.conversation.agents import MessageCount

CALLS_A_LINE = 64  # see the table of calls

# Entry types, as stored in ``messages.kind``.
MESSAGE_KINDS = ("other", "user", "assistant", "system", "attachment", "progress", "title", "tool-output")
KIND_CODES = {name: code for code, name in enumerate(MESSAGE_KINDS)}
TOOL_OUTPUT_KIND = KIND_CODES["tool-output"]

Columns = tuple[bytes | None, ...]


# A model, its pico-dollars and six counts, of a client's running total.
RecordedAmount = tuple[str, int, int, int, int, int, int, int]
RunningTotal = tuple[int | None, int | None, list[RecordedAmount]]  # when written, when the session began


class MessageRow(NamedTuple):
    """A line with an id or with words.

    ``texts`` are the words in UTF-8 for the tokenizer; they are not stored. ``typed`` is what a user typed in the main
    conversation, in lower case.
    """

    offset: int
    length: int
    uuid: Id
    at: int | None
    kind: int
    digest: int | None
    texts: Columns | None
    typed: str | None = None


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


class Frame(Struct):
    """One range of a log. ``cost_state`` is the client's last running total in it, by model."""

    start: int
    end: int
    messages: list[MessageRow] = []
    usage: list[UsageRow] = []
    calls: list[CallRow] = []
    cost_state: RunningTotal | None = None
    cwd: str | None = None
    branch: str | None = None
    session: str | None = None
    agent: str | None = None
    first_at: int | None = None
    last_at: int | None = None
    damage: dict[str, int] = {}  # number of lines, by code
    lines: int = 0
    begins_aside: bool | None = None
    first_prompt: str | None = None
    next_prompt: str | None = None
    copied_from: str | None = None
    lost_beginning: str | None = None
    client: str | None = None
    # The last of each kind; "" if it was removed, None if it did not occur.
    custom_title: str | None = None
    ai_title: str | None = None
    last_prompt: str | None = None
    tag: str | None = None
    continued_in: str | None = None
    message_count: MessageCount | None = None  # at the end of a session's log
    # Whether it continues the previous count: only valid if the log has none of the frame's ids.
    is_continued: bool = False
    is_warm_up: bool | None = None  # of an agent's log: whether the client made it to warm its cache
    origins: str | None = None  # where worktrees were made from, a line each, the last one first
    traits: int = 0  # see the table of files
    head: bytes = b""
    tail: bytes = b""
    # Why the log could not be read from ``start`` on, "" if it vanished; such a frame holds nothing else.
    problem: str | None = None


class ScannedLog(NamedTuple):
    """A log found in a home."""

    path: str
    home: str
    role: int
    session: str | None
    agent: str | None
    device: int
    inode: int
    size: int
    mtime: int
    cwd: str | None = None  # as its lines say, if the index was asked
