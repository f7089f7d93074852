"""What a conversion could not carry over.

A conversion that drops something silently would be wrong. So each thing dropped, guessed or moved is noted
under a stable code; equal notes are counted, not repeated, and point at the first line concerned.
"""

from __future__ import annotations

import enum

from msgspec import Struct

from recollect.model.brief_repr import brief_repr


class LossCode(enum.StrEnum):
    """Why the result differs from the source. Stable: scripts rely on the codes."""

    # dropped
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
    COMPACTED = "compacted"
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
    """One kind of loss: how often, and the byte offset of its first case in the source."""

    code: LossCode
    what: str
    offset: int
    count: int = 1


class Conversion(Struct, frozen=True):
    """Lines without their newlines, and what was lost."""

    lines: list[bytes]
    losses: list[Loss]

    __repr__ = brief_repr


class LossCollector:
    """Collects losses in order of first occurrence."""

    def __init__(self) -> None:
        self._found: dict[tuple[LossCode, str], tuple[int, int]] = {}

    def add(self, code: LossCode, what: str, offset: int) -> None:
        first, count = self._found.get((code, what), (offset, 0))
        self._found[code, what] = (min(first, offset), count + 1)

    def all(self) -> list[Loss]:
        return [Loss(code, what, first, count) for (code, what), (first, count) in self._found.items()]
