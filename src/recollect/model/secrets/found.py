"""A found secret: its position, and how reliable the match is.

A ``SecretMatch`` holds the secret itself, for its fingerprint. Its ``repr`` leaves it out, so that no log or
traceback can reveal it.
"""

from __future__ import annotations

from enum import IntEnum

from recollect.model.secrets.views import TextSpan


class MatchRank(IntEnum):
    """Which match wins where two overlap: the lower."""

    KEY_FILE = 0
    MARKED = 1
    NAMED = 2
    SHAPED = 3
    WRAPPED = 4
    GENERIC = 5


class SecretMatch:
    """A secret and its position."""

    __slots__ = ("end", "kind", "rank", "secret", "start")

    def __init__(
        self, kind: str, start: int, end: int, secret: str, rank: MatchRank = MatchRank.MARKED
    ) -> None:
        self.kind, self.start, self.end = kind, start, end
        self.secret, self.rank = secret, rank

    def __repr__(self) -> str:
        return f"SecretMatch({self.kind!r}, {self.start}, {self.end})"

    def at(self, place: TextSpan) -> SecretMatch:
        return SecretMatch(self.kind, place.start, place.end, self.secret, self.rank)
