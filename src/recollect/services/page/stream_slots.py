"""How many live streams one server has open, and how many of them belong to one token."""

from __future__ import annotations

from collections.abc import Callable


class StreamSlots:
    """Open streams, in all and of each token; taken before the answer begins, so that none slips through."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self.most_each = most, most_each
        self._open: dict[str, int] = {}

    def is_full(self) -> bool:
        return sum(self._open.values()) >= self._most

    def has_its_share(self, token: str) -> bool:
        return self._open.get(token, 0) >= self.most_each

    def taken(self, token: str) -> Callable[[], None] | None:
        """Take a slot; returns what gives it back, None where the token has its share."""
        if self.has_its_share(token):
            return None
        self._open[token] = self._open.get(token, 0) + 1
        return lambda: self._give_back(token)

    def _give_back(self, token: str) -> None:
        left = self._open[token] - 1
        if left:
            self._open[token] = left
        else:
            del self._open[token]
