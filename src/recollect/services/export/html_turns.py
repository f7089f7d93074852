"""A conversation as turns for an exported page: chapters, prompts, a strip for the work, answers.

The rows are those of the local page (``rowsOf`` of ``web/src/talk``), the figures of a strip are those of
``services.page.turns``; a test in the browser compares both.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from recollect.model.conversation.node import Node
from recollect.model.cost.cents import PICO, fine_dollars
from recollect.model.markdown_html import text_html
from recollect.model.moments import parsed_time
from recollect.services.documents.conversation import TurnCostDocument
from recollect.services.documents.cost.spending import AmountDocument
from recollect.services.page.conversation import ConversationView, ViewMessages
from recollect.services.page.log import PageSession
from recollect.services.page.turns import turns_document
from recollect.services.session import Compaction


class TurnStep(NamedTuple):
    """One thing to write. ``at`` is a message; a strip and a chapter stand for those before ``to``."""

    kind: Literal["chapter", "message", "strip", "work", "end"]
    at: int
    to: int = 0
    turn: int = -1


class Turns:
    """The turns of one view, with what each did and cost. ``clean`` redacts."""

    def __init__(
        self,
        session: PageSession,
        view: ConversationView,
        messages: ViewMessages,
        clean: Callable[[str], str],
    ) -> None:
        self._session, self._view, self._messages, self._clean = session, view, messages, clean

    @functools.cached_property
    def _known(self) -> Mapping[int, TurnCostDocument]:
        found = turns_document(self._session, self._view, AmountDocument(None, []))
        return {turn.from_: turn for turn in found.turns}

    @functools.cached_property
    def _cuts(self) -> Sequence[int]:
        return [place for place in self._messages.turns if self._messages.kinds[place] == "b"]

    def steps(self, messages: range) -> Iterator[TurnStep]:
        """What to write for some messages, in order."""
        kinds, turns = self._messages.kinds, self._messages.turns
        own = [turn for turn in turns if turn in messages]
        starts = own if own and own[0] == messages.start else [messages.start, *own]
        if self._cuts and messages.start == 0 and kinds[0] != "b":
            yield TurnStep("chapter", 0, self._cuts[0])
        before = max((turn for turn in turns if turn < messages.start), default=-1)
        for start, end in zip(starts, [*starts[1:], messages.stop], strict=True):
            if kinds[start : start + 1] == "b":
                following = [cut for cut in self._cuts if cut > start]
                yield TurnStep("chapter", start, following[0] if following else len(kinds))
            is_new = start in own or start == 0
            yield from _segment(kinds, start, end, start if is_new else before)

    def chapter(self, step: TurnStep) -> str:
        """The words of a chapter's line."""
        first = 1 if self._messages.kinds[0] == "b" else 2
        number = self._cuts.index(step.at) + first if step.at in self._cuts else 1
        words = [f"<b>Chapter {number}</b>"]
        if step.at in self._cuts:
            words.append(self._compaction(self._messages.groups[step.at][0]))
        return " · ".join([*words, plural(step.to - step.at, "message")])

    @functools.cached_property
    def _compactions(self) -> Mapping[str, Compaction]:
        return {one.boundary: one for one in self._session.compactions()}

    def _compaction(self, node: Node) -> str:
        moment = parsed_time(node.timestamp)
        when = "" if moment is None else f", {moment.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
        known = self._compactions.get(node.uuid)
        if known is None or not known.trigger:
            return f"after a compaction{when}"
        tokens = f", {known.pre_tokens:,} tokens" if known.pre_tokens else ""
        return f"after a compaction{when} ({text_html(self._clean(known.trigger)[:40])}{tokens})"

    def strip(self, step: TurnStep) -> str:
        """The work of a turn in a line: how many calls, what they changed, how long, how much."""
        turn = self._known.get(max(step.turn, 0))
        if turn is None:
            return plural(step.to - step.at, "step")
        if "a" in self._messages.kinds[max(step.turn, 0) : step.at]:
            return "Work, continued from the page before"
        words = [plural(turn.calls, "call")]
        if turn.failed:
            words.append(f'<span class="bad">{turn.failed} failed</span>')
        if turn.edits:
            words.append(f"{plural(turn.edits, 'edit')} {tally(turn.added, turn.removed)}")
        return " · ".join([*words, *self._span(step), *self._spent(turn)])

    def cost(self, turn: int) -> str:
        """What a turn cost; "" if nothing is known."""
        known = self._known.get(max(turn, 0))
        return "" if known is None else "".join(self._spent(known))

    def _span(self, step: TurnStep) -> Iterator[str]:
        groups = self._messages.groups
        first, last = (parsed_time(groups[place][0].timestamp) for place in (max(step.turn, 0), step.to - 1))
        seconds = 0 if first is None or last is None else int(last.timestamp()) - int(first.timestamp())
        if seconds > 0:
            yield duration(seconds * 1000)

    def _spent(self, turn: TurnCostDocument) -> Iterator[str]:
        known = turn.cost_usd or (turn.known_cost_usd if turn.unpriced else "0")
        pico = int(Decimal(known) * PICO)
        if pico:
            yield f"{fine_dollars(pico)}{' + unpriced' if turn.unpriced else ''}"
        elif turn.unpriced:
            yield "unpriced"


def _segment(kinds: str, start: int, end: int, turn: int) -> Iterator[TurnStep]:
    """One turn: its prompt, its work, and the last thing the model said, if no result came after it."""
    is_prompt = kinds[start : start + 1] in ("p", "c")
    if is_prompt:
        yield TurnStep("message", start, turn=turn)
    first = start + 1 if is_prompt or kinds[start : start + 1] == "b" else start
    shown = [place for place in range(first, end) if kinds[place] != "r"]
    last = max((place for place in range(first, end) if kinds[place] in "aru"), default=first - 1)
    answer = last if last >= first and kinds[last] == "a" else end
    work = [place for place in shown if place < answer and place <= last]
    if not any(kinds[place] == "a" for place in work):
        yield from (TurnStep("message", place, turn=turn) for place in shown)
        return
    # A summary and what comes before the first step is no work.
    begin = next(number for number, place in enumerate(work) if kinds[place] not in "so")
    yield from (TurnStep("message", place, turn=turn) for place in work[:begin])
    yield TurnStep("strip", work[begin], last + 1 if answer == end else answer, turn)
    yield from (TurnStep("work", place, turn=turn) for place in work[begin:])
    yield TurnStep("end", answer)
    yield from (TurnStep("message", place, turn=turn) for place in shown if place >= answer or place > last)


def tally(added: int, removed: int) -> str:
    """Lines added and removed."""
    return f"<ins>+{added}</ins> <del>−{removed}</del>"


def duration(milliseconds: float) -> str:
    """A time as the page shows it."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes:.0f} min {rest:.0f} s"
    return f"{minutes // 60:.0f} h {minutes % 60:.0f} min"


def plural(number: int, word: str) -> str:
    """A number and its word."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
