"""What was found: a secret at a place, and how far it is to be believed.

A ``SecretMatch`` holds the secret itself, for its fingerprint. It shows itself without it, so that no log and no traceback
can carry one out.
"""

from __future__ import annotations

from enum import IntEnum

from recollect.model.secrets.views import TextSpan


class MatchRank(IntEnum):
    """Which is believed where two overlap: the lower."""

    KEY_FILE = 0
    MARKED = 1
    NAMED = 2
    SHAPED = 3
    WRAPPED = 4
    GENERIC = 5


class SecretMatch:
    """A secret and the place it stands in."""

    __slots__ = ("end", "kind", "rank", "secret", "start")

    def __init__(
        self, kind: str, start: int, end: int, secret: str, rank: MatchRank = MatchRank.MARKED
    ) -> None:
        self.kind, self.start, self.end = kind, start, end
        self.secret, self.rank = secret, rank

    def __repr__(self) -> str:
        return f"SecretMatch({self.kind!r}, {self.start}, {self.end})"

    def at(self, place: TextSpan) -> SecretMatch:
        """The same at another place."""
        return SecretMatch(self.kind, place.start, place.end, self.secret, self.rank)
