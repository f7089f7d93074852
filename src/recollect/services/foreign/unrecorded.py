"""Sessions whose client wrote down no usage at all: what they cost is unknown, which is not 0."""

from __future__ import annotations

from pathlib import Path

from recollect.system.locations import agent_of
from recollect.system.paths import CLAUDE
from recollect.system.peek import open_regular

# How the log of a mirror begins, wherever it was brought to since (storage/foreign/lines.py).
_MIRRORED = b'{"type":"foreign-'
UNKNOWN_COST = "no usage recorded: cost unknown"


def is_unrecorded(home: str, log: str, responses: int | None) -> bool:
    """Whether a session of another agent has no model call. ``responses`` is None where that is not known yet."""
    if responses != 0:
        return False
    return agent_of(home) != CLAUDE or _is_mirrored(log)


def _is_mirrored(log: str) -> bool:
    try:
        with open_regular(Path(log)) as file:
            return file.read(len(_MIRRORED)) == _MIRRORED
    except OSError:
        return False
