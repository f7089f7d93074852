"""A log on disk as the diagnosis reads it."""

from __future__ import annotations

import datetime as dt

from recollect.model.checks.resumed import LIMITS
from recollect.model.checks.scan import LogIdentity, LogSource
from recollect.storage.home import AgentFile, LogFile, SessionFile
from recollect.storage.logs.reader import OpenLog

__all__ = ["LIMITS", "identity_of", "log_source"]


def identity_of(session: str, file: LogFile, *, is_open: bool) -> LogIdentity:
    """The identity of a log file."""
    if isinstance(file, AgentFile):
        agent = str(file.agent_id or file.path.stem)
        return LogIdentity(session, str(file.path), agent, "agent", is_open)
    is_foreign = isinstance(file, SessionFile) and not file.is_uuid
    return LogIdentity(session, str(file.path), None, "foreign-name" if is_foreign else "session", is_open)


def log_source(opened: OpenLog, log: LogIdentity) -> LogSource:
    """The bytes that an open log has now; later writes are left out.

    The log must have been opened with ``LIMITS``.
    """
    size, written = opened.size(), opened.stat().st_mtime_ns
    end = opened.committed_end()
    return LogSource(
        log,
        lambda: opened.lines(0, end, goes_on=True),
        lambda offset, length: opened.read_all(length, offset),
        size,
        end,
        dt.datetime.fromtimestamp(written // 10**9, dt.UTC),
    )
