"""Why a connection ended: the first reason noticed, in our words."""

from __future__ import annotations

import anyio


class ConnectionFault:
    """One sentence, set once; later ones are consequences of the first. ``ended`` can be awaited."""

    def __init__(self) -> None:
        self.why = ""
        self.ended = anyio.Event()
        self.settled = anyio.Event()
        """Set when the connection is closed and ``why`` is complete."""

    def note(self, why: str) -> None:
        """Mark the connection as ended, with this reason if it has none yet."""
        self.why = self.why or why
        self.ended.set()
