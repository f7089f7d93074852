"""Where model calls belong that stand in lines of their own, as those of other agents do: to which turn, and to which answer.

A call belongs to the turn that was asked last before it, as in `cost --by prompt`. No client names the answer that a call gave,
but each notes it at the time of its answer (Gemini, OpenCode), before it (Qwen, Codex up to 0.58) or after it (Codex since,
some versions not before the results of its tools). So the times tell. What gave no answer of its own (a title, a suggestion, a
summary) is with the answer beside it, and with the prompt where there is no answer at all: so the messages of a turn cost together what
the turn costs.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from recollect.model.damage import Line
from recollect.model.line_views.facts import LineFacts, usage_facts
from recollect.storage.logs.reader import read_lines

if TYPE_CHECKING:
    from recollect.services.page.conversation import ViewMessages

_CALL = b'{"type":"foreign-usage"'  # storage/foreign/lines.py writes the type first


class PlacedCall(Struct, frozen=True):
    """A call with the message that starts its turn, -1 before the first, and the message that it is shown with.

    ``message`` is None where the turn has no message: what was called before all of them.
    """

    turn: int
    message: int | None
    facts: LineFacts


class _TimedCall(Struct, frozen=True):
    """A call and where its line begins."""

    at: int
    offset: int
    facts: LineFacts


def calls_in(log: Path) -> Iterator[tuple[LineFacts, Line]]:
    """The calls of a log, with their lines."""
    for line in read_lines(log):
        facts = usage_facts(line.data) if isinstance(line, Line) and line.data.startswith(_CALL) else None
        if isinstance(line, Line) and facts is not None and facts.response is not None:
            yield facts, line


def placed_calls(talk: ViewMessages) -> list[PlacedCall]:
    """The calls of the log of a view; those of turns of other branches are left out."""
    began = [at for at, _ in talk.turn_times]
    turns: dict[int, list[_TimedCall]] = {}
    for facts, line in calls_in(talk.log.path):
        place = bisect.bisect_right(began, facts.at or 0) - 1
        turn = talk.turn_times[place][1] if place >= 0 else None
        if turn != -1:
            call = _TimedCall(facts.at or 0, line.offset, structs.replace(facts, decoded=None))
            turns.setdefault(-1 if turn is None else turn, []).append(call)
    ends = dict(zip((-1, *talk.turns), (*talk.turns, len(talk)), strict=True))
    return [
        PlacedCall(turn, message, call.facts)
        for turn, calls in turns.items()
        for message, call in _answered(talk, range(max(turn, 0), ends[turn]), calls)
    ]


def _answered(
    talk: ViewMessages, messages: range, calls: list[_TimedCall]
) -> Iterator[tuple[int | None, _TimedCall]]:
    """The calls of a turn, each with the message that it is shown with."""
    answers = [index for index in messages if talk.kinds[index] == "a"]
    if not answers:
        yield from ((messages.start if messages else None, call) for call in calls)
        return
    told = _times(talk, answers)
    asked = _times(talk, [index for index in messages if talk.kinds[index] != "a"])
    same = dict(told)
    first = talk.groups[answers[0]][-1]
    is_told_after = (first.at_ms or 0, first.offset) < min((call.at, call.offset) for call in calls)
    for call in calls:
        if call.at in same:
            yield same[call.at], call
        elif is_told_after:
            yield _last_before(told, call.at, answers[0]), call
        else:
            yield _next_answer(answers, _last_before(asked, call.at, messages.start)), call


def _times(talk: ViewMessages, messages: list[int]) -> list[tuple[int, int]]:
    """When some messages were written, in milliseconds, in the order of time."""
    return sorted((talk.groups[index][-1].at_ms or 0, index) for index in messages)


def _last_before(times: list[tuple[int, int]], at: int, otherwise: int) -> int:
    place = bisect.bisect_right(times, at, key=lambda one: one[0])
    return times[place - 1][1] if place else otherwise


def _next_answer(answers: list[int], after: int) -> int:
    """The last message of the next answer, which may be several; the last one where none follows."""
    place = min(bisect.bisect_right(answers, after), len(answers) - 1)
    while place + 1 < len(answers) and answers[place + 1] == answers[place] + 1:
        place += 1
    return answers[place]
