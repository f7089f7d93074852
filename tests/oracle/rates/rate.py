"""One measured agreement and the goal it is held to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """`same` of `total` cases agree; `goal` is the least share that is enough."""

    name: str
    same: int
    total: int
    goal: float
    differences: tuple[str, ...] = ()
    """What still differs, a short line each, with its reason where it is known."""

    @property
    def share(self) -> float:
        """The part of the cases that agree; no case at all is not agreement."""
        return self.same / self.total if self.total else 0.0

    @property
    def is_met(self) -> bool:
        """Whether the goal is reached."""
        return self.share >= self.goal
