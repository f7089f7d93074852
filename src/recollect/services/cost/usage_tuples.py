"""What a log says of one response, as a plain tuple that can be sent to another process."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from recollect.model.cost.line_usage import counts_are_uncertain
from recollect.model.cost.prices import variant
from recollect.model.cost.usage import cache_writes

if TYPE_CHECKING:
    from recollect.model.line_views.usage import AnswerLine, UsageCounts

# message, request, speaker, has_stop, forked, at, model, branch, version, tool, variant, six counts,
# recorded, duration, lines
UsageTuple = tuple[
    str | None, str, int, bool, bool, int | None, str | None, str | None, str | None, str | None,
    int, int, int, int, int, int, int, int | None, int | None, int,
]  # fmt: skip

_PLAIN_TIME = 24  # 2026-11-15T10:00:00.000Z: such times are in order as texts
# One object for each name: it crosses the pipe once.
_shared = dict[str | None, str | None]().setdefault


def usage_tuple(line: AnswerLine, speaker: int, lines: int, tool: str | None) -> UsageTuple:
    """What a line says, which is the best of several about its response."""
    said: Any = line.message
    usage: UsageCounts = said.usage
    has_stop, searches = said.stop_reason is not None, usage.server_tool_use
    model, branch, version = said.model or line.model, line.git_branch, line.version
    tokens, reads = usage.input_tokens or 0, usage.cache_read_input_tokens or 0
    five, hour = cache_writes(usage.cache_creation_input_tokens, usage.cache_creation)
    is_uncertain = not has_stop and counts_are_uncertain(version, False)
    context = tokens + five + hour + reads
    return (
        said.id,
        line.request_id or "",
        speaker,
        has_stop,
        line.forked_from is not UNSET,
        moment(line.timestamp),
        _shared(model, model),
        _shared(branch, branch),
        _shared(version, version),
        tool,
        variant(context, usage.speed, usage.inference_geo, usage.service_tier, is_uncertain),
        tokens,
        usage.output_tokens or 0,
        five,
        hour,
        reads,
        0 if searches is None else searches.web_search_requests or 0,
        None,
        None,
        lines,
    )


def together(known: UsageTuple, other: UsageTuple) -> UsageTuple:
    """What lines of one log and speaker say of a response: the better of two, ``other`` being the later one."""
    is_better = (other[12], other[3], other[5] or 0) >= (known[12], known[3], known[5] or 0)
    best = other if is_better else known
    return (*best[:9], known[9] or other[9], *best[10:19], known[19] + other[19])


def is_as_good(line: AnswerLine, known: AnswerLine) -> bool:
    """Whether a line stands for the response rather than an earlier one with the same output."""
    mine, theirs = line.message, known.message
    assert mine is not None and theirs is not None  # noqa: S101, PT018 - for the type checker
    if (mine.stop_reason is None) is not (theirs.stop_reason is None):
        return mine.stop_reason is not None
    one, other = line.timestamp, known.timestamp
    if one is not None and other is not None and len(one) == len(other) == _PLAIN_TIME:
        return one >= other
    return (moment(one) or 0) >= (moment(other) or 0)


def moment(time: str | None) -> int | None:
    """A time as ``milliseconds`` has it, which takes twice as long."""
    if time is not None and len(time) == _PLAIN_TIME and time[19] == "." and time[23] == "Z":
        try:
            # Whole milliseconds: rounding gives them exactly.
            return round(dt.datetime.fromisoformat(time).timestamp() * 1000)
        except ValueError:
            return None
    from recollect.model.line_views.facts import milliseconds

    return milliseconds(time)
