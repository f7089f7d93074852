"""Whose a log is, wherever it was brought to; and sessions whose client wrote down no usage: their cost is unknown, not 0."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from recollect.system.locations import agent_of
from recollect.system.paths import AGENTS, CLAUDE
from recollect.system.peek import first_bytes, open_regular

# How the log of a mirror begins, wherever it was brought to since (storage/foreign/lines.py).
_START, _FOREIGN = 64, b'{"type":"foreign-'
_AGENT = re.compile(rb'\{"type":"foreign-source","agent":"([a-z]+)"')
# Mirrors did not always begin with whose they are: with a record, or with history copied into a fork. No client of Claude
# begins a line like this, so that its own logs are not read any further.
_UNNAMED = re.compile(rb'\{"type":"(?:foreign-|[a-z]+:|(?:user|assistant|system)","uuid":)')
_ROW, _ROWS_OF = b'"whole":true', "opencode"  # records that are rows of a store: only one agent has them
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
        if _UNNAMED.match(first_bytes(log, _START)) is None:
            return CLAUDE
        with open_regular(Path(log)) as file:
            return _named_in(file)
    except OSError:
        return CLAUDE


def _named_in(lines: Iterable[bytes]) -> str:
    """The agent that the first line with one names."""
    is_mirrored = False
    for line in lines:
        named = _AGENT.match(line)
        if named is not None:
            name = named[1].decode()
            return name if name in AGENTS else UNKNOWN_AGENT
        is_mirrored |= line.startswith(_FOREIGN)
        if is_mirrored and _ROW in line:
            return _ROWS_OF
    return UNKNOWN_AGENT if is_mirrored else CLAUDE
