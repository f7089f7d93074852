"""What a conversion could not carry over, said out loud.

A conversion that drops something without a word would be wrong silently (law
10). So each thing left behind, guessed or moved is noted under a stable code;
equal notes are counted, not repeated, and point at the first line concerned.
"""

from __future__ import annotations

import enum

from msgspec import Struct

from recollect.model.brief_repr import brief_repr


class LossCode(enum.StrEnum):
    """Why the result says less, or other, than the source. Stable: scripts rely on them."""

    # left behind
    DAMAGE = "damage"
    DUPLICATE = "duplicate"
    THINKING = "thinking"
    IMAGE = "image"
    DOCUMENT = "document"
    SERVER_TOOL = "server-tool"
    UNKNOWN_BLOCK = "unknown-block"
    SIDECHAIN = "sidechain"
    PARENTS = "parents"
    BRANCHES = "branches"
    SYSTEM = "system"
    ATTACHMENT = "attachment"
    PROGRESS = "progress"
    METADATA = "metadata"
    UNKNOWN_ENTRY = "unknown-entry"
    CONTEXT = "context"
    FLAGS = "flags"
    RESPONSE_IDS = "response-ids"
    TOOL_USE_RESULT = "tool-use-result"
    CACHE_LIFETIME = "cache-lifetime"
    USAGE_DETAIL = "usage-detail"
    RECORDED_COST = "recorded-cost"
    DURATION = "duration"
    ORPHAN_RESULT = "orphan-result"
    EMPTY = "empty-content"
    UNWRITABLE = "unwritable"
    # filled in or changed
    SESSIONS_MERGED = "sessions-merged"
    IDS_MADE = "ids-made"
    CALL_IDS_MADE = "call-ids-made"
    TIME_MADE = "time-made"
    TIME_MOVED = "time-moved"
    ORDER = "order"
    MODEL_GUESSED = "model-guessed"
    USAGE_UNKNOWN = "usage-unknown"
    CALL_SHAPE = "call-shape"
    RESULT_SHAPE = "result-shape"
    UNANSWERED_CALL = "unanswered-call"


class Loss(Struct, frozen=True):
    """One kind of loss: how often, and at which byte of the source for the first time."""

    code: LossCode
    what: str
    offset: int
    count: int = 1


class Conversion(Struct, frozen=True):
    """Lines without their newlines, and what they do not say any more."""

    lines: list[bytes]
    losses: list[Loss]

    __repr__ = brief_repr


class LossCollector:
    """Collects losses in the order in which they are first met."""

    def __init__(self) -> None:
        self._found: dict[tuple[LossCode, str], tuple[int, int]] = {}

    def add(self, code: LossCode, what: str, offset: int) -> None:
        """Note one case."""
        first, count = self._found.get((code, what), (offset, 0))
        self._found[code, what] = (min(first, offset), count + 1)

    def all(self) -> list[Loss]:
        """Every kind met so far."""
        return [Loss(code, what, first, count) for (code, what), (first, count) in self._found.items()]
