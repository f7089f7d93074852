"""Load part of a conversation: its titles, a page, or all of it as a stream.

The three functions read different amounts. ``load_summary`` searches the log for title lines and decodes
nothing else. ``load_messages`` counts messages: from the start it reads up to the page, from the end (a
negative offset) only the tail. ``stream_messages`` holds one message at a time.

Messages are the links of a conversation, in log order, including side chains and dead branches; metadata is
left out. A damaged line counts if its message could still be read and is skipped otherwise; use ``LogReader``
to see damage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from pathlib import Path

from recollect.errors import UsageError
from recollect.model import codec
from recollect.model.damage import DEFAULT_LIMITS, Damage, Limits, Line, readable
from recollect.model.entry import Entry, Kind
from recollect.model.ids import SessionId
from recollect.storage.logs.reader import OpenLog
from recollect.storage.logs.summary import is_message, marked_entries

SUMMARY_KINDS = (Kind.SUMMARY, Kind.CUSTOM_TITLE, Kind.AI_TITLE)


class ConversationLoader:
    """Loads conversations by session; ``path_of`` gives the path of a session's log."""

    def __init__(self, path_of: Callable[[SessionId], Path], limits: Limits = DEFAULT_LIMITS) -> None:
        self._path_of = path_of
        self._limits = limits

    def load_summary(self, session: SessionId) -> list[Entry]:
        """Every summary and title entry in log order, from any position."""
        with OpenLog(self._path_of(session), self._limits) as log:
            newest_first = list(marked_entries(log, log.whole_end(), SUMMARY_KINDS))
        return newest_first[::-1]

    def load_messages(self, session: SessionId, offset: int, limit: int) -> list[Entry]:
        """``messages[offset:][:limit]``, by Python's rules for a negative offset."""
        if limit < 0:
            raise UsageError(f"{limit} messages: the limit is negative", hint="give a limit of 0 or more")
        with OpenLog(self._path_of(session), self._limits) as log:
            if offset >= 0:
                return list(islice(self._messages(log, log.lines()), offset, offset + limit))
            backwards = self._messages(log, log.lines_backwards(log.whole_end()))
            # The page is the oldest part of what is read; only it is held, at any distance from the end.
            page = deque(islice(backwards, -offset), maxlen=limit)
        return list(reversed(page))

    def stream_messages(self, session: SessionId) -> Generator[Entry, None, None]:
        """All messages, one at a time."""
        with OpenLog(self._path_of(session), self._limits) as log:
            yield from self._messages(log, log.lines())

    def _messages(self, log: OpenLog, lines: Iterator[Line | Damage]) -> Iterator[Entry]:
        for line in lines:
            item = codec.decode(line, log.limits) if isinstance(line, Line) else line
            entry = readable(item)
            if entry is not None and is_message(entry):
                yield entry
