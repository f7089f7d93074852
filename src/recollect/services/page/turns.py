"""The turns of a conversation: what each cost, and the work between prompt and answer."""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Raw, Struct

from recollect.index.database import IndexDatabase
from recollect.model.cost.ledger import Ledger
from recollect.model.cost.money import Spending
from recollect.model.damage import Line
from recollect.model.files.call_changes import changes_tally, line_changes
from recollect.model.files.edit_tools import EDITING_TOOLS
from recollect.model.files.line_tally import LineTally, line_tally
from recollect.model.json.text import loose_value
from recollect.model.line_views.facts import usage_facts
from recollect.model.line_views.tool_calls import CallBlock, call_line
from recollect.model.moments import parsed_time
from recollect.services.documents import conversation as documents
from recollect.services.documents.cost import spending
from recollect.services.page.calls_apart import calls_apart
from recollect.services.page.conversation import ConversationView, ViewMessages, talk_of
from recollect.services.page.log import PageSession
from recollect.storage.config.our_config import price_list
from recollect.storage.logs.reader import OpenLog
from recollect.system.paths import CLAUDE


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
        seen = call_line(line.data)
        if seen is not None:
            self.calls += len(seen.calls)
            self.edits |= {one.id: one for one in seen.calls if one.name in EDITING_TOOLS}
            listed = line_changes(seen.tool_use_result) or []
            self.edited += len(listed)
            self.tally += changes_tally(listed)
            for block in seen.results:
                self._answered(block, seen.tool_use_result)

    def _answered(self, block: CallBlock, reported: Raw | None) -> None:
        edit = self.edits.pop(block.tool_use_id, None)
        if block.is_error:
            self.failed += 1
        elif edit is not None:
            rich = None if reported is None else loose_value(reported)
            self.edited += 1
            self.tally += line_tally(edit.name, loose_value(edit.input), rich) or LineTally()


def turns_document(
    session: PageSession,
    view: ConversationView,
    whole_session: spending.AmountDocument,
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
    spent = _members(whole if counted else None)
    return documents.TurnCostsDocument(turns=turns, session=whole_session, **spent)


def _members(spent: Spending | None) -> dict[str, Any]:
    """What was spent; None where that is not known."""
    if spent is None:
        return spending.spending_members(Spending()) | {"cost_usd": None}
    return spending.spending_members(spent)


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
        **_members(spent),
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
