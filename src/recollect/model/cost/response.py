"""One response of the API as it is counted and priced."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from msgspec import Struct

from recollect.model.cost.money import usd
from recollect.model.cost.usage import Tokens


class PricedResponse(Struct, frozen=True, gc=False):
    """One response, counted once over all logs that speak of it, where it belongs and what it cost.

    ``pico_usd`` is None where the model has no price. ``agent`` is None in a session's own conversation.
    ``tool`` is the first tool it called. ``is_uncertain``: the log may hold too low a count.
    ``is_deleted``: the log is gone from its home; the index still knows what it said.
    ``is_counted``: false for a copy, which a walk over all copies gives too; it has no cost of its own.
    """

    message_id: str | None
    request_id: str
    session: str | None
    agent: str | None
    project: str | None
    branch: str | None
    model: str | None
    tool: str | None
    at: dt.datetime | None
    tokens: Tokens
    pico_usd: int | None
    is_uncertain: bool = False
    is_deleted: bool = False
    path: str = ""
    is_counted: bool = True

    @property
    def usd(self) -> Decimal | None:
        """Dollars, exact; None where the model has no price."""
        return None if self.pico_usd is None else usd(self.pico_usd)
