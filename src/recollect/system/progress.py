"""How long work tells how far it came."""

from __future__ import annotations

from collections.abc import Callable

# Called with what is done and with all there is: in bytes, or in sessions.
ProgressCallback = Callable[[int, int], None]
