"""Whose a log is, wherever it was brought to; and sessions whose client wrote down no usage: their cost is unknown, not 0."""

from __future__ import annotations

import re
from pathlib import Path

from recollect.system.locations import agent_of
from recollect.system.paths import AGENTS, CLAUDE
from recollect.system.peek import open_regular

# How the log of a mirror begins, wherever it was brought to since (storage/foreign/lines.py).
_MIRRORED, _START = b'{"type":"foreign-', 64
_AGENT = re.compile(rb'\{"type":"foreign-source","agent":"([a-z]+)"')
UNKNOWN_AGENT = "unknown"
UNKNOWN_COST = "no usage recorded: cost unknown"


def is_unrecorded(home: str, log: str, responses: int | None) -> bool:
    """Whether a session of another agent has no model call. ``responses`` is None where that is not known yet."""
    if responses != 0:
        return False
    return agent_of_log(home, log) != CLAUDE


def agent_of_log(home: str, log: str) -> str:
    """The agent of a home; of a log that was pulled, restored or imported the one that it names itself."""
    agent = agent_of(home)
    if agent != CLAUDE:
        return agent
    try:
        with open_regular(Path(log)) as file:
            start = file.read(_START)
    except OSError:
        return CLAUDE
    named = _AGENT.match(start)
    if named is not None and (name := named[1].decode()) in AGENTS:
        return name
    return UNKNOWN_AGENT if start.startswith(_MIRRORED) else CLAUDE
