"""Lines of a server's log about an internal error: its type and place, on one line.

A message or a traceback may hold text of a transcript, which could forge lines or control a terminal.
"""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path
from types import TracebackType

ExceptionInfo = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None] | None
)


def problem_of(exc_info: ExceptionInfo) -> tuple[str, list[str]] | None:
    """The type of an exception and its last four places; None without an exception."""
    if not exc_info or exc_info[0] is None:
        return None
    frames = traceback.extract_tb(exc_info[2])
    return exc_info[0].__name__, [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-4:]]


class OneLineFormatter(logging.Formatter):
    """``recollect web: message (ValueError at a.py:1, b.py:2)``."""

    def format(self, record: logging.LogRecord) -> str:
        event = (record.getMessage().splitlines() or [""])[0][:200]
        problem = problem_of(record.exc_info)
        where = "" if problem is None else f" ({problem[0]} at {', '.join(problem[1])})"
        return f"recollect web: {event}{where}"


def log_in_single_lines(*loggers: str) -> None:
    """Send warnings and errors of these loggers to stderr, a line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter())
    for name in loggers:
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
