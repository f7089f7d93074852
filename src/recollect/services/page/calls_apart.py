"""Model calls of other agents, which stand in lines of their own beside the answers, by the turns of a view.

A call belongs to the turn that was asked last before it, as in `cost --by prompt`. Which copy of a call counts is decided by
`model/cost/copies.py` over all logs; here only the session that is named as the origin is looked at.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator
from pathlib import Path

from recollect.model.ids import is_uuid
from recollect.model.json.text import loose_value
from recollect.model.line_views.facts import LineFacts, usage_facts
from recollect.services.page.conversation import ViewMessages
from recollect.storage.logs.reader import OpenLog, read_lines
from recollect.storage.session_files import PROJECTS, SUBAGENTS

_CALL = b'{"type":"foreign-usage"'  # storage/foreign/lines.py writes the type first


def calls_apart(talk: ViewMessages, home: Path) -> Iterator[tuple[int, LineFacts, bool]]:
    """Each call with the message that starts the turn in which it was made, -1 before the first, and whether it is a copy of one
    that the session it was copied from has. Calls of turns of other branches are left out.
    """
    made_in = functools.cache(functools.partial(_calls_made, home))
    began = [at for at, _ in talk.turn_times]
    with OpenLog(talk.log.path) as log:
        for line in log.lines(0, None):
            facts = usage_facts(line.data) if line.data.startswith(_CALL) else None
            if facts is None:
                continue
            place = bisect.bisect_right(began, facts.at or 0) - 1
            turn = talk.turn_times[place][1] if place >= 0 else None
            if turn != -1:
                origin = _forked_from(line.data) if facts.is_forked else None
                is_copy = origin is not None and _names(facts) <= made_in(origin)
                yield (-1 if turn is None else turn), facts, is_copy


def _forked_from(data: bytes) -> str | None:
    line = loose_value(data)
    origin = line.get("forkedFrom") if isinstance(line, dict) else None
    name = origin.get("sessionId") if isinstance(origin, dict) else None
    return name if isinstance(name, str) and is_uuid(name) else None


def _names(facts: LineFacts) -> set[str | None]:
    return set() if facts.response is None else {one.message_id for one in facts.response.each()}


def _calls_made(home: Path, session: str) -> set[str | None]:
    """The model calls that a session or sub-agent of a home has as its own; what a revert deleted there, only its copies have."""
    found: set[str | None] = set()
    for pattern in (f"*/{session}.jsonl", f"*/*/{SUBAGENTS}/agent-{session}.jsonl"):
        for path in (home / PROJECTS).glob(pattern):
            for line in read_lines(path):
                facts = usage_facts(line.data) if line.data.startswith(_CALL) else None
                if facts is not None and not facts.is_forked:
                    found |= _names(facts)
    return found
