"""Which session the beginning of a log was copied from. Read for every row of a list, so nothing is decoded."""

from __future__ import annotations

import re
from pathlib import Path

from recollect.errors import RecollectError
from recollect.system.peek import open_regular

_WINDOW = 64 << 10
# Quotes inside JSON strings are escaped, so what a person wrote cannot look like a member.
_ORIGIN = re.compile(rb'"forkedFrom"\s*:\s*\{[^{}]{0,200}?"sessionId"\s*:\s*"([0-9A-Za-z_-]{1,64})"')


def fork_origin(log: Path) -> str | None:
    """The session in the first 64 KiB that its lines name as their origin; None if there is none."""
    try:
        found = _ORIGIN.search(_head(log))
    except (OSError, RecollectError):
        return None
    return None if found is None else found[1].decode()


def _head(log: Path) -> bytes:
    if log.suffix == ".zst":
        from recollect.storage.logs.reader import OpenLog

        with OpenLog(log) as packed:
            return packed.read_all(_WINDOW, 0)
    with open_regular(log) as file:
        return file.read(_WINDOW)
