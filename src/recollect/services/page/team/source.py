"""What a team's page asks of its server on behalf of one member, and the list of sessions, kept for a moment.

The server decides what a member sees; nothing here knows its rules. A list is read whole, because filters, sums and
facets are about all of it: some hundred bytes a session, and no line of a transcript.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from msgspec import Struct

from recollect.errors import NoAnswer
from recollect.model.cost.usage import Tokens
from recollect.model.search.query import WordQuery
from recollect.model.search.snippet import Snippet
from recollect.services.cost.session_sums import SessionSum
from recollect.services.sync.mirror import has_place
from recollect.sync.wire import RemoteSession

# A list that takes long is read less often; and those of all members of an organisation take a fifth of the time at most,
# unless one is too old.
_LONGEST_REST = 30.0
_PAUSE = 4
_MOST_SHARED = 200_000
_Shared = TypeVar("_Shared", RemoteSession, SessionSum)
# How many times longer than a list is good nothing is asked of a server that did not answer.
_SILENT_RESTS = 5


class TeamCost(Protocol):
    """One row of a cost report; ``unpriced`` names models whose tokens are not in its amount."""

    @property
    def keys(self) -> dict[str, str]: ...
    @property
    def responses(self) -> int: ...
    @property
    def tokens(self) -> Tokens: ...
    @property
    def pico_usd(self) -> int: ...
    @property
    def unpriced(self) -> list[str]: ...


class TeamReport(Protocol):
    """The report of ``recollect team cost``."""

    @property
    def rows(self) -> Sequence[TeamCost]: ...
    @property
    def total(self) -> TeamCost: ...


class FoundLine(NamedTuple):
    """A line that matches; ``line`` counts from 1 in the log ``key`` of its session."""

    session: str
    key: str
    line: int
    at: int | None
    type: str
    snippet: Snippet


class FoundLines(NamedTuple):
    """The newest lines that match, and whether there are or may be more. ``searched_to``: where the search ended early, the
    time (milliseconds) after which every line was looked at."""

    lines: list[FoundLine]
    is_more: bool
    searched_to: int | None = None


class LineQuestion(NamedTuple):
    """What is searched for, and where; times in milliseconds."""

    query: WordQuery
    limit: int
    width: int
    since: int | None = None
    until: int | None = None


class TeamSource(Protocol):
    """The team's server, as one member may ask it; ``NoAnswer`` while it does not answer."""

    def sessions(self) -> list[RemoteSession]:
        """All that the member may see, newest change first."""
        ...

    def may_read(self, session: str) -> bool:
        """Whether the member may see a session now."""
        ...

    def cost(self, by: Sequence[str], since: int | None = None, until: int | None = None) -> TeamReport:
        """What `recollect team cost` reports."""
        ...

    def search(self, question: LineQuestion) -> FoundLines:
        """What `recollect team search` finds, newest first."""
        ...


class TeamList(Struct, frozen=True):
    """The sessions a member may see, what they cost, and what everything cost, in pico-dollars.

    ``sealed`` and ``left_out`` count those that no page can show: encrypted ones, and names that no home could have.
    """

    sessions: dict[str, RemoteSession]
    used: dict[str, SessionSum]
    pico_usd: int
    sealed: int
    left_out: int


class ListTurn:
    """The lists of an organisation's members are read one after another, with pauses. What two of them have in common is
    kept once."""

    def __init__(self, rest: float) -> None:
        self.lock, self.rest, self.free_at = threading.Lock(), rest, 0.0
        self._sessions: dict[str, RemoteSession] = {}
        self._used: dict[str, SessionSum] = {}

    def shared(self, listed: TeamList) -> TeamList:
        """The same list, of values that other lists have too."""
        _share(self._sessions, listed.sessions)
        _share(self._used, listed.used)
        return listed


class TeamView:
    """What one member sees. Threads may share it.

    While the server does not answer, everything is as it was when it last did: ``not_current_since``.
    """

    def __init__(self, source: TeamSource, turn: ListTurn) -> None:
        self.source, self._turn = source, turn
        self._kept: TeamList | None = None
        self._good_until = self._silent_until = self._old_at = 0.0
        self._read_at: dt.datetime | None = None
        self.not_current_since: dt.datetime | None = None

    def listed(self, *, any_age: bool = False) -> TeamList:
        """The list, the same object as long as nothing changed."""
        if self._kept is not None and (any_age or self._is_good()):
            return self._kept
        with self._turn.lock:
            kept, begun = self._kept, time.monotonic()
            if kept is not None and self._is_good():
                return kept
            try:
                found = _listed(self.source)
            except NoAnswer:
                if kept is None:
                    raise
                self.lost()
                return kept
            self._read_at, self.not_current_since = dt.datetime.now(dt.UTC), None
            if kept is None or found != kept:
                self._kept = kept = self._turn.shared(found)
            self._rest(begun)
            return kept

    def _is_good(self) -> bool:
        now = time.monotonic()
        return now < max(self._good_until, self._silent_until, min(self._turn.free_at, self._old_at))

    def _rest(self, begun: float) -> None:
        now, rest = time.monotonic(), self._turn.rest
        if rest:
            self._good_until = now + max(rest, min(10 * (now - begun), _LONGEST_REST))
            self._turn.free_at, self._old_at = now + _PAUSE * (now - begun), now + _LONGEST_REST

    def may_read(self, session: str) -> bool:
        """Whether the member may see a session; while the server does not answer, whether that was so at last."""
        kept = self._kept
        if kept is None or not self.is_silent:
            try:
                return self.source.may_read(session)
            except NoAnswer:
                if kept is None:
                    raise
                self.lost()
        return session in kept.sessions

    @property
    def is_silent(self) -> bool:
        """Whether the server did not answer a moment ago: each further question may wait long."""
        return time.monotonic() < self._silent_until

    def lost(self) -> None:
        """The server did not answer."""
        self.not_current_since = self._read_at
        self._silent_until = time.monotonic() + _SILENT_RESTS * self._turn.rest

    def forget(self) -> None:
        """Read the list again at the next request."""
        self._good_until = self._old_at = 0.0


def _share(known: dict[str, _Shared], own: dict[str, _Shared]) -> None:
    if len(known) > _MOST_SHARED:
        known.clear()
    for name, one in own.items():
        before = known.get(name)
        if before is not None and before == one:
            own[name] = before
        else:
            known[name] = one


def _listed(source: TeamSource) -> TeamList:
    every = source.sessions()
    costs = source.cost(("session", "model"))
    used: dict[str, SessionSum] = {}
    for row in costs.rows:
        one = used.setdefault(row.keys["session"], SessionSum(0, Tokens(), {}))
        one.responses += row.responses
        one.tokens += row.tokens
        one.spent[row.keys["model"]] = None if row.unpriced else row.pico_usd
    sessions = {one.id: one for one in every if not one.encrypted and has_place(one.id)}
    sealed = sum(one.encrypted for one in every)
    return TeamList(sessions, used, costs.total.pico_usd, sealed, len(every) - sealed - len(sessions))
