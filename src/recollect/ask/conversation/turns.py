"""The turns of a conversation: what each cost, and the work between prompt and answer."""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Raw, Struct, UnsetType

from recollect.ask.conversation import documents
from recollect.ask.conversation.content import PageSession
from recollect.ask.conversation.conversation import (
    ConversationView,
    PlacedCall,
    ViewMessages,
    calls_in,
    talk_of,
)
from recollect.index.cost_queries import counted_in
from recollect.index.database import IndexDatabase
from recollect.model.cost.money import AmountDocument, Spending, SpendingDocument
from recollect.model.files.reports import EDITING_TOOLS, LineTally, call_tally, change_tally, line_changes
from recollect.model.lines.damage import Line
from recollect.model.lines.ids import is_uuid, parsed_time
from recollect.model.lines.json_text import loose_value
from recollect.model.views.fact_line import CallBlock, fact_line
from recollect.model.views.facts import LineFacts, usage_facts
from recollect.model.views.ledger import Ledger
from recollect.store.logs.reader import OpenLog
from recollect.store.own_settings import price_list
from recollect.store.session_files import PROJECTS, SUBAGENTS
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


class _TurnWork(Struct):
    """Calls of a turn; ``edits`` are kept until their results come."""

    calls: int = 0
    failed: int = 0
    edits: dict[str, CallBlock] = {}
    edited: int = 0
    tally: LineTally = LineTally()

    def add(self, line: Line) -> None:
        if b'"tool_use"' not in line.data and b'"tool_result"' not in line.data:
            return
        seen = fact_line(line.data)
        if seen is not None:
            self.calls += len(seen.calls)
            self.edits |= {one.id: one for one in seen.calls if one.name in EDITING_TOOLS}
            listed = line_changes(seen.tool_use_result) or []
            self.edited += len(listed)
            self.tally += sum(map(change_tally, listed), LineTally())
            for block in seen.results:
                self._answered(block, seen.tool_use_result)

    def _answered(self, block: CallBlock, reported: Raw | UnsetType) -> None:
        edit = self.edits.pop(block.tool_use_id, None)
        if block.is_error:
            self.failed += 1
        elif edit is not None:
            rich = None if isinstance(reported, UnsetType) else loose_value(reported)
            self.edited += 1
            self.tally += call_tally(edit.name, loose_value(edit.input), rich) or LineTally()


def turns_document(
    session: PageSession,
    view: ConversationView,
    whole_session: AmountDocument,
    database: IndexDatabase | None = None,
) -> documents.TurnCostsDocument:
    """Cost and work of each turn of a view. Every response counts once, in the turn of its last line.

    ``database``: the index, which knows what is a copy; without it only the logs at hand are asked.
    """
    talk, prices = talk_of(session, view), price_list()
    starts = [-1, *talk.turns]
    ledgers: dict[int, Ledger] = {}
    work: dict[int, _TurnWork] = {}
    for index, end, line in _lines(talk):
        turn = starts[bisect.bisect_right(talk.turns, index)]
        if line.offset not in talk.context:
            work.setdefault(turn, _TurnWork(edits={})).add(line)
        facts = usage_facts(line.data) if end is not None else None
        if end is not None and facts is not None and facts.response is not None:
            paid = starts[bisect.bisect_right(talk.turns, end)]
            ledgers.setdefault(paid, Ledger(prices)).add(facts)
    copied: set[int] = set()
    for call, is_copy in calls_apart(talk, session, database):
        if is_copy:
            copied.add(call.turn)  # paid for where it counts
        else:
            ledgers.setdefault(call.turn, Ledger(prices)).add(call.facts)
    totals = {turn: ledger.total() for turn, ledger in ledgers.items()}
    ends = dict(zip(starts, [*talk.turns, len(talk)], strict=True))
    whole = sum(totals.values(), Spending())
    # Where a client of another agent recorded no usage, the cost is unknown, not 0.
    counted = {*totals, *copied} if session.agent != CLAUDE else {*starts}
    turns = [
        _turn(talk, turn, ends[turn], totals.get(turn, Spending()) if turn in counted else None, work)
        for turn in starts
        if turn >= 0 or turn in {**totals, **work}
    ]
    spent = SpendingDocument.members(whole if counted else None)
    return documents.TurnCostsDocument(turns=turns, session=whole_session, **spent)


def _turn(
    talk: ViewMessages,
    turn: int,
    end: int,
    spent: Spending | None,
    work: Mapping[int, _TurnWork],
) -> documents.TurnCostDocument:
    done = work.get(turn, _TurnWork())
    return documents.TurnCostDocument(
        from_=max(turn, 0),
        to=end,
        at=_at(talk, max(turn, 0)),
        calls=done.calls,
        failed=done.failed,
        edits=done.edited,
        added=done.tally.added,
        removed=done.tally.removed,
        **SpendingDocument.members(spent),
    )


def _at(talk: ViewMessages, index: int) -> dt.datetime | None:
    return parsed_time(talk.groups[index][0].timestamp) if index < len(talk) else None


def _lines(talk: ViewMessages) -> Iterator[tuple[int, int | None, Line]]:
    """Answers and results of a view: the message of each line, the one its response ends in, and the line."""
    ends = {name: places[-1] for name, places in talk.responses.items()}
    wanted = {
        node.offset: (index, ends.get(node.message_id or "", index) if node.type == "assistant" else None)
        for index, group in enumerate(talk.groups)
        for node in group
        if node.type == "assistant" or node.result_ids
    }
    if not wanted:
        return
    with OpenLog(talk.log.path) as log:
        for line in log.lines(min(wanted), None):
            found = wanted.get(line.offset)
            if found is not None and isinstance(line, Line):
                yield *found, line
