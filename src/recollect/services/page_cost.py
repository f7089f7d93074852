"""The document of ``recollect cost --json`` for a page, and bounds of time as an address holds them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from recollect.errors import Busy, UsageError
from recollect.model.accounts import MODES, CostReport, CostRow, Explanation
from recollect.model.money import exact
from recollect.model.usage import Tokens
from recollect.services.account import costs, zone_of
from recollect.services.page_desk import Desk

_AGE = re.compile(r"([0-9]{1,6})(min|h|d|w)", re.ASCII)
_SECONDS = {"min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
# Reading logs for want of an index keeps a person waiting: as much as takes a few seconds.
_FEW_BYTES = 256 << 20


def moment(text: str | None, *, is_end: bool = False, timezone: str | None = None) -> dt.datetime | None:
    """A day, a moment or an age as a moment. A day ends where the next begins."""
    if text is None:
        return None
    try:
        age = _AGE.fullmatch(text)
        if age is not None:
            return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=int(age[1]) * _SECONDS[age[2]])
        if "T" in text:
            at = dt.datetime.fromisoformat(text)
            return at if at.tzinfo is not None else at.replace(tzinfo=zone_of(timezone)).astimezone()
        day = dt.date.fromisoformat(text) + dt.timedelta(days=is_end)
        midnight = dt.datetime.combine(day, dt.time.min, zone_of(timezone))
        return midnight if midnight.tzinfo is not None else midnight.astimezone()
    except (ValueError, OverflowError):
        raise UsageError(
            f"time {text!a}: not understood", hint="write 2026-01-31, 2026-01-31T10:00:00Z, 7d or 12h"
        ) from None


def cost_document(
    desk: Desk,
    by: Sequence[str],
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    project: str | None = None,
    model: str | None = None,
    session: str | None = None,
    mode: str = MODES[0],
    explain: bool = False,
) -> dict[str, object]:
    """What `recollect cost --json` would print."""
    with desk.index.opened() as opened:
        if opened.database is None and sum(one.file.size for one in desk.sessions()) > _FEW_BYTES:
            raise Busy("the index is being built", hint="costs are there when it is ready; wait a little")
        report = costs(
            desk.roots,
            by,
            opened=opened,
            since=moment(since, timezone=timezone),
            until=moment(until, is_end=True, timezone=timezone),
            timezone=timezone,
            project=project,
            model=model,
            session=session,
            mode=mode,
            explain=explain,
        )
    return report_document(report, timezone)


def report_document(report: CostReport, timezone: str | None) -> dict[str, object]:
    """A report, key for key as the command prints it."""
    return {
        "by": report.by,
        "mode": report.mode,
        "timezone": timezone or "local",
        "rows": [_row(row, report.mode) for row in report.rows],
        "totals": _row(report.totals, report.mode),
        "unpriced": [
            {"model": one.model, "messages": one.messages, **counts(one.tokens)} for one in report.unpriced
        ],
        "uncertain": [
            {
                "model": one.model,
                "messages": one.messages,
                "output_tokens": one.output_tokens,
                **({"versions": one.versions} if one.versions else {}),
            }
            for one in report.uncertain
        ],
        "gone": report.gone,
        "notes": report.notes,
    }


def _row(row: CostRow, mode: str) -> dict[str, object]:
    document: dict[str, object] = {
        **row.keys,
        "messages": row.messages,
        **counts(row.tokens),
        "cost_usd": exact(row.pico_usd),
        "unpriced_messages": row.unpriced_messages,
    }
    if mode != MODES[0]:
        document["unrecorded_messages"] = row.unrecorded_messages
    document |= _block(row)
    if row.explanation is not None:
        document["explain"] = _explanation(row.explanation)
    return document


def counts(tokens: Tokens) -> dict[str, int]:
    """Tokens under the names the commands use."""
    return {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_write_5m_tokens": tokens.cache_write_5m,
        "cache_write_1h_tokens": tokens.cache_write_1h,
        "cache_read_tokens": tokens.cache_read,
        "web_searches": tokens.web_searches,
    }


def _block(row: CostRow) -> dict[str, object]:
    block = row.block
    if block is None:
        return {}
    document: dict[str, object] = {"start": block.start, "end": block.end, "is_active": block.is_active}
    if block.is_active:
        document |= {
            "minutes_left": block.minutes_left,
            "tokens_per_minute": block.tokens_per_minute,
            "cost_usd_per_hour": exact(block.pico_usd_per_hour or 0),
            "projected_tokens": block.projected_tokens,
            "projected_cost_usd": exact(block.projected_pico_usd or 0),
        }
    return document


def _explanation(why: Explanation) -> dict[str, object]:
    return {
        "logs": why.logs,
        "paths": why.paths,
        "copies_dropped": why.copies_dropped,
        "prices": why.prices,
        "uncertain_messages": why.uncertain_messages,
        "recorded_cost_usd": exact(why.recorded_pico_usd),
        "unrecorded_messages": why.unrecorded_messages,
        "difference_usd": exact(why.difference_pico_usd),
    }
