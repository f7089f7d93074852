"""Search by reading the logs, newest first: without an index, or if the index cannot narrow it down.

What only the archive still has is read there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recollect.errors import NotFound, StorageError
from recollect.services.search.matches import (
    MatchOrigin,
    SearchMatch,
    SearchMatches,
    SearchRequest,
    by_session,
    newest_of,
)
from recollect.services.search.quotes import MessagePlace
from recollect.services.search.text_scan import scan
from recollect.services.search.text_scan_worker import SpottedLine, TextScanTask
from recollect.storage.home_walk import FoundLog, scan_logs


class LogSearch:
    """One search of the logs of some homes."""

    def __init__(self, homes: Sequence[Path], archive: Path, request: SearchRequest) -> None:
        self._wanted = request
        self._problems: list[tuple[str, str]] = []
        found = [log for home in homes for log in scan_logs(home, self._problems)]
        if homes and archive.is_dir():
            from recollect.services.indexing.archived_logs import found_in_archive

            found += [log for _, log in found_in_archive(archive, homes, [log.path for log in found])]
        self._logs = sorted(found, key=lambda log: log.mtime_ns, reverse=True)
        self._mains = {log.session: log for log in self._logs if log.role == "session"}
        self._cwds: dict[str, str | None] = {}
        self._sessions: dict[str | None, tuple[str | None, str | None, str | None]] = {}

    def answer(self) -> SearchMatches:
        """Read every log that may contain a match."""
        request = self._wanted
        logs = [log for log in self._logs if self._may_fit(log)]
        tasks = [TextScanTask(log.path, log.size, log.role == "tool-output") for log in logs]
        scanned = scan(tasks, request.question, request.deadline, request.progress)
        found = (
            (number, logs[number], line)
            for number, line in scanned.lines
            if request.session is None or request.session == (logs[number].session or line.session)
            if request.among is None or (logs[number].session or line.session) in request.among
        )
        newest = newest_of(found)
        matches = [self._match(log, line) for log, line in newest[: request.limit]]
        sessions = by_session(
            newest, lambda log, line: log.session or line.session, self._match, request.sessions
        )
        notes = [scanned.problem] if scanned.problem else []
        notes += [f"could not be read: {path}: {reason}" for path, reason in self._problems]
        is_cut_short = scanned.problem is not None
        return SearchMatches(matches, len(newest), not is_cut_short, notes, sessions, is_cut_short)

    def _may_fit(self, log: FoundLog) -> bool:
        """What is known before reading a log; an old agent's log says only in its lines whose it is."""
        request = self._wanted
        if request.session is not None and log.session not in (None, request.session):
            return False
        return request.project is None or request.project(self._cwd(log))

    def _cwd(self, log: FoundLog) -> str | None:
        """The working directory of a log, or else that of its session."""
        if log.path not in self._cwds:
            from recollect.storage.home import LogFile

            own = None
            if log.role != "tool-output":
                own = LogFile(Path(log.path), log.size, log.mtime_ns, log.inode, log.device).first_cwd()
            main = self._mains.get(log.session)
            if own is None and main is not None and main is not log:
                own = self._cwd(main)
            self._cwds[log.path] = own
        return self._cwds[log.path]

    def _match(self, log: FoundLog, line: SpottedLine) -> SearchMatch:
        session = log.session or line.session
        if session not in self._sessions:
            self._sessions[session] = self._glanced(session)
        title, cwd, branch = self._sessions[session]
        own = self._cwd(log)
        origin = MatchOrigin(session, log.agent or line.agent, own or cwd, branch, title, cwd or own)
        place = MessagePlace(log.path, line.offset, line.length, line.uuid, log.role == "tool-output")
        return SearchMatch(place, line.at, origin)

    def _glanced(self, session: str | None) -> tuple[str | None, str | None, str | None]:
        """Title, directory and branch of a session, from its own log."""
        from recollect.storage.logs.summary import glance

        main = self._mains.get(session)
        if main is None:
            return None, None, None
        try:
            seen = glance(Path(main.path))
        except (NotFound, StorageError):
            return None, None, None
        return seen.title, seen.cwd, seen.git_branch
