"""A cost report as JSON, the same for ``cost --json`` and the page."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.model.cost.money import exact
from recollect.model.cost.report import MODES, CostExplanation, CostReport, CostRow
from recollect.model.cost.usage import Tokens


def cost_document(report: CostReport, rows: Sequence[CostRow], timezone: str | None) -> dict[str, object]:
    """A report, or some rows of it with the totals of all."""
    return {
        "by": report.by,
        "mode": report.mode,
        "timezone": timezone or "local",
        "rows": [_row(row, report.mode) for row in rows],
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
    speed = row.performance
    if speed is not None:
        document |= {
            "timed_messages": speed.messages,
            "duration_ms": speed.duration_ms,
            "tokens_per_second": speed.tokens_per_second,
            "tokens_per_dollar": speed.tokens_per_dollar,
        }
    if row.explanation is not None:
        document["explain"] = _explanation(row.explanation)
    return document


def counts(tokens: Tokens) -> dict[str, int]:
    """Tokens under the names every document uses."""
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


def _explanation(why: CostExplanation) -> dict[str, object]:
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
