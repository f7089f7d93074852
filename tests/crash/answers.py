"""Entries to append, and what the caller of an append learns."""

from __future__ import annotations

from collections.abc import Callable

from recollect.errors import LogUnusable, Outcome, RecollectError


def entry(name: str, size: int = 0) -> tuple[bytes, str]:
    """A line and its id."""
    return b'{"uuid":"%s","pad":"%s"}' % (name.encode(), b"x" * size), name


def told(work: Callable[[], object]) -> str:
    """What the caller of an append learns: "stored", an outcome, or an error of ours that has none.

    Any other exception ends the child with a traceback, which counts as a broken promise.
    """
    try:
        work()
    except RecollectError as error:
        outcome = getattr(error, "outcome", None)
        if isinstance(error, LogUnusable):
            return "unusable"
        return outcome.value if isinstance(outcome, Outcome) else repr(error)
    return "stored"
