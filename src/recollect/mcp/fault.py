"""Why a connection ended, and that it did: the first reason that was noticed, in our words."""

from __future__ import annotations

import anyio


class ConnectionFault:
    """One sentence, written once; later ones are consequences of the first. ``ended`` can be waited for."""

    def __init__(self) -> None:
        self.why = ""
        self.ended = anyio.Event()
        self.settled = anyio.Event()
        """Set when the connection is taken down too, and ``why`` is complete."""

    def note(self, why: str) -> None:
        """The connection is over, for this reason if there is none yet."""
        self.why = self.why or why
        self.ended.set()
