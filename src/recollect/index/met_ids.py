"""Which ids occurred in a first build, roughly: an id that did not needs no look-up."""

from __future__ import annotations

_BITS = 22
_MASK = (1 << _BITS) - 1


class MetIds:
    """Knows nothing until ``expect_many``; different ids may share a place, and then count as met."""

    def __init__(self) -> None:
        self._met: bytearray | None = None

    def expect_many(self) -> None:
        """Before a first build: from now on every id passes ``is_new``."""
        self._met = bytearray(1 << _BITS)

    def forget(self) -> None:
        """Others may have written ids that did not pass here."""
        self._met = None

    def is_new(self, number: int) -> bool:
        """Whether an id with this number surely never occurred; it has now."""
        met, place = self._met, number & _MASK
        if met is None or met[place]:
            return False
        met[place] = 1
        return True
