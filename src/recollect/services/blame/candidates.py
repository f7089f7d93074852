"""The sessions that may have touched a file: those whose logs name it.

The index knows the words of all tool calls. Without one, the bytes of the logs are searched for the file's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from recollect.errors import NotFound, StorageError, UsageError
from recollect.model.search.query import WordQuery
from recollect.services.homes import Home
from recollect.services.indexing.access import OpenIndex
from recollect.services.indexing.at_hand import known_index
from recollect.services.session import Session
from recollect.storage.home_walk import scan_logs
from recollect.storage.logs.reader import OpenLog

_BLOCK = 4 << 20


class FileNeedle:
    """A file's name as it stands in logs: as it is, and with escapes."""

    def __init__(self, name: str) -> None:
        raw = msgspec.json.encode(name)[1:-1]
        escaped = "".join(c if ord(c) < 128 else _escape(c) for c in raw.decode("utf-8", "surrogateescape"))
        self._spellings = tuple({raw, escaped.encode(), escaped.lower().encode(), escaped.upper().encode()})
        self._overlap = max(map(len, self._spellings)) - 1

    def is_in(self, data: bytes) -> bool:
        return any(spelling in data for spelling in self._spellings)

    def is_in_log(self, path: Path) -> bool:
        """Whether a log names it; one that cannot be read does not."""
        try:
            with OpenLog(path) as log:
                end, at = log.size(), 0
                while at < end:
                    if self.is_in(log.read(_BLOCK + self._overlap, at)):
                        return True
                    at += _BLOCK
        except (NotFound, StorageError):
            return False
        return False


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def sessions_naming(home: Home, name: str) -> Iterator[Session]:
    """The sessions whose log, or an agent's, names a file of this name."""
    roots = [one.root for one in home.homes]
    named: set[str] | None = None
    if home.has_index:
        with known_index(roots, home.index_cache) as opened:
            named = _by_index(opened, name)
    if named is None:
        named = _by_bytes(roots, name)
    everything = chain(home.sessions(), home.archived_only())
    yield from (one for one in everything if one.id in named or (one.is_archived and _archived(one, name)))


def _by_index(opened: OpenIndex, name: str) -> set[str] | None:
    """The ids of sessions; None where the index cannot tell."""
    if opened.database is None:
        return None
    from recollect.index.text_queries import TextFilter, TextQueries

    queries = TextQueries(opened.database)
    try:
        phrase = '"' + name.replace('"', " ") + '"'
        match = WordQuery.parse(phrase).fts(["tool_input", "other"])
        rows = {copy.file for text in queries.all(match, TextFilter()) for copy in text.copies}
    except UsageError:  # a name without a word
        return None
    return {log.session or Path(log.path).stem for log in queries.logs(rows).values()}


def _by_bytes(roots: Sequence[Path], name: str) -> set[str]:
    needle = FileNeedle(name)
    logs = (log for root in roots for log in scan_logs(root) if log.role != "tool-output")
    found: set[str] = set()
    for log in logs:
        path = Path(log.path)
        owner = log.session or path.stem
        if owner not in found and needle.is_in_log(path):
            found.add(owner if log.role == "session" or log.session else _owner(path))
    return found


def _owner(agent: Path) -> str:
    """The session of an agent's log beside it: the first line says it."""
    from recollect.storage.home import first_text

    return first_text(agent, "session_id") or agent.stem


def _archived(session: Session, name: str) -> bool:
    needle = FileNeedle(name)
    return any(needle.is_in_log(log.path) for log in (session.file, *session.agents()))
