"""Refused attempts of known tokens, in the audit log of their organisation.

Anyone who tries what they may not do, or uses a token that is revoked, expired or disabled, leaves a row;
repeated attempts leave one a minute with their number, so that no one can fill the log. A token that
was never issued belongs to no organisation: it is counted in the metrics.
"""

from __future__ import annotations

import time
from collections import OrderedDict

from recollect.server.database.contract import Database
from recollect.server.database.records import Author
from recollect.server.jobs import SideNotes
from recollect.server.refusals import RequestRefused
from recollect.sync.wire import plain_text

_EVERY_SECONDS = 60.0
_MOST_REMEMBERED = 10_000
_LONGEST_TARGET = 300
# What a valid token was refused for its rights, not for the form of the request.
_OF_RIGHTS = frozenset(("forbidden", "held"))


class RefusedAttempts:
    """Notes refused attempts, each kind of one token at most once a minute."""

    def __init__(self, database: Database, every_seconds: float = _EVERY_SECONDS) -> None:
        self._database, self._every, self._notes = database, every_seconds, SideNotes()
        # When a kind of attempt was noted last, and how many were not noted since.
        self._noted: OrderedDict[tuple[str, str, str], tuple[float, int]] = OrderedDict()

    async def note(
        self, refused: RequestRefused, attempt: tuple[str, Author] | None, route: str, target: str
    ) -> None:
        """Add a refusal to the audit log. ``attempt``: organisation and author, where the token was valid."""
        by = refused.by or (attempt if refused.code in _OF_RIGHTS else None)
        if by is None:
            return
        org, author = by
        kind = (author.token, route, refused.code)
        now = time.monotonic()
        at, untold = self._noted.pop(kind, (now - self._every, 0))
        if now - at < self._every:
            self._noted[kind] = at, untold + 1
            return
        self._noted[kind] = now, 0
        if len(self._noted) > _MOST_REMEMBERED:
            self._noted.popitem(last=False)
        detail = f"{refused.code}: {refused.message}" + (f" ({untold} more before)" if untold else "")
        # The refusal stands also where it cannot be noted.
        told = plain_text(target, _LONGEST_TARGET)
        await self._notes.write("refusal", self._database.note_refusal(org, author, told, detail))
