"""Which model calls of other agents count in a view, and which are copies.

That is decided by ``model/cost/copies.py``, and the index has what it says of all logs. What the index does not know (there is
none yet, or the log has grown since) is asked of the logs at hand: those of the session, and those that copies name as their
origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recollect.index.cost_queries import counted_in
from recollect.index.database import IndexDatabase
from recollect.model.cost.ledger import Ledger
from recollect.model.ids import is_uuid
from recollect.model.json.text import loose_value
from recollect.model.line_views.facts import LineFacts
from recollect.services.page.conversation import ViewMessages
from recollect.services.page.log import PageSession
from recollect.services.page.placed_calls import PlacedCall, calls_in
from recollect.storage.session_files import PROJECTS, SUBAGENTS
from recollect.system.paths import CLAUDE


def calls_apart(
    talk: ViewMessages, session: PageSession, database: IndexDatabase | None
) -> Iterator[tuple[PlacedCall, bool]]:
    """The calls of a view, each with whether it is a copy: it counts elsewhere, or in another log of the session."""
    if session.agent == CLAUDE:
        return  # its calls stand in the lines of the answers
    counts = _counts_here(talk.log.path, {_name(one.facts) for one in talk.calls}, session, database)
    yield from ((one, not counts.get(_name(one.facts), True)) for one in talk.calls)


def _counts_here(
    log: Path, names: set[str | None], session: PageSession, database: IndexDatabase | None
) -> dict[str | None, bool]:
    """Whether each of some calls of a log counts there; a call without a name is not among them, and does."""
    known: dict[str | None, bool] = {}
    known.update({} if database is None else counted_in(database, str(log)))
    if names <= {*known, None}:
        return known
    own = {name for name, path in _at_hand(session) if path == str(log)}
    return {name: name in own for name in names if name is not None} | known


def _at_hand(session: PageSession) -> Iterator[tuple[str, str]]:
    """The calls that the logs at hand speak of, each with the log that it belongs to."""
    ledger = Ledger()
    waiting = [session.path, *(agent.path for agent in session.agents())]
    for log in waiting:  # grows while it is walked
        origins: set[str] = set()
        for facts, line in calls_in(log):
            ledger.add(facts, path=str(log))
            origins |= _origin(line.data) if facts.is_forked else set()
        for origin in sorted(origins):
            waiting += [path for path in _logs_of(session.home.root, origin) if path not in waiting]
    return ledger.places()


def _name(facts: LineFacts) -> str | None:
    return None if facts.response is None else facts.response.message_id


def _origin(data: bytes) -> set[str]:
    """The session that a line was copied from, where it says which."""
    line = loose_value(data)
    origin = line.get("forkedFrom") if isinstance(line, dict) else None
    name = origin.get("sessionId") if isinstance(origin, dict) else None
    return {name} if isinstance(name, str) and is_uuid(name) else set()


def _logs_of(home: Path, session: str) -> list[Path]:
    """The logs of a session or sub-agent."""
    patterns = (f"*/{session}.jsonl", f"*/*/{SUBAGENTS}/agent-{session}.jsonl")
    return [path for pattern in patterns for path in sorted((home / PROJECTS).glob(pattern))]
