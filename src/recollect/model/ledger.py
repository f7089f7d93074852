"""Usage counted once per response, whatever number of lines speaks of it.

One answer of the API is spread over several lines that share ``message.id`` and
``requestId`` and repeat its usage, some with the counts of the stream's start.
The line with the largest output is the true one; where two are equal, one that
has a stop reason was written later. Lines without ids (the flat dialect) are
responses of their own.
"""

from __future__ import annotations

from recollect.model.money import Spending, spending
from recollect.model.scan import UsageRecord

ResponseKey = tuple[str, str | None]


def _rank(record: UsageRecord) -> tuple[bool, int, bool]:
    """What makes one copy better than another; a sub-agent's copy of a parent's answer comes last."""
    return not record.is_sidechain, record.usage.output_tokens or 0, record.stop_reason is not None


class Ledger:
    """Adds up usage records, correcting itself when a better copy of a response arrives."""

    def __init__(self) -> None:
        self._best: dict[ResponseKey, UsageRecord] = {}
        self._without_id: list[UsageRecord] = []

    def add(self, record: UsageRecord) -> None:
        """Count a record, unless a better copy of the same response is there."""
        if record.message_id is None:
            self._without_id.append(record)
            return
        key = (record.message_id, record.request_id)
        known = self._best.get(key)
        if known is None or _rank(record) > _rank(known):
            self._best[key] = record

    @property
    def responses(self) -> int:
        """How many answers were counted."""
        return len(self._best) + len(self._without_id)

    def total(self) -> Spending:
        """Tokens and money of everything counted."""
        records = (*self._best.values(), *self._without_id)
        return sum((spending(one.usage.tokens(), one.model) for one in records), Spending())
