"""The usage windows of a plan: five hours and seven days. How much is used, what is left, when it runs out at this pace.

An agent that hands its limits to the status line is believed. Without that a window is an estimate beside what this
machine used before, and is marked as one: no file says what a plan allows.
"""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from recollect.ask.budget.budget import RateLimitDocument, seen_limits
from recollect.ask.cost.report import costs
from recollect.index.access import OpenIndex
from recollect.model.cost.money import Usd

LENGTHS = {"five_hour": dt.timedelta(hours=5), "seven_day": dt.timedelta(days=7)}
NAMES = {"five_hour": "5 hours", "seven_day": "7 days"}
_PAST = dt.timedelta(days=60)
# A share below this tells too little about the whole of a window.
_LEAST_PERCENT = 5


class Window(Struct, frozen=True, kw_only=True, rename={"usd": "cost_usd"}):
    """One window. ``is_estimated``: the percentage is no agent's own; ``basis`` says where it comes from.

    ``is_beside_past``: it is only a share of the largest past window; nothing says what the plan allows.
    """

    name: str
    since: dt.datetime | None
    resets_at: dt.datetime | None
    usd: Usd | None
    used_percentage: int | None
    is_estimated: bool
    basis: str
    is_beside_past: bool = False
    runs_out_at: dt.datetime | None = None

    @property
    def left_percentage(self) -> int | None:
        """What is left of it."""
        return None if self.used_percentage is None else max(0, 100 - self.used_percentage)


def windows(opened: OpenIndex, data: Path, now: dt.datetime) -> list[Window]:
    """Both windows as they are now."""
    limits = seen_limits(str(data))
    return [_window(name, opened, [one for one in limits if one.window == name], now) for name in LENGTHS]


def _window(name: str, opened: OpenIndex, limits: list[RateLimitDocument], now: dt.datetime) -> Window:
    current = [one for one in limits if one.resets_at is not None and _moment(one.resets_at) > now]
    if current:
        return _reported(name, opened, current[-1], now)
    since, resets_at = _open_block(opened, now) if name == "five_hour" else (now - LENGTHS[name], None)
    if since is None:
        return Window(
            name=NAMES[name],
            since=None,
            resets_at=None,
            usd=None,
            used_percentage=0,
            is_estimated=True,
            basis="no window is open: the next prompt begins one",
        )
    usd = _spent(opened, since, now)
    reported = _reported_allowance(name, opened, limits)
    allowed = _largest(name, opened, since) if reported is None else reported
    percent = round(usd * 100 / allowed) if allowed else None
    if reported is not None:
        basis = "estimated from past windows of which the agent said the share"
    elif allowed:
        basis = f"estimated beside your largest {NAMES[name]} of the last {_PAST.days} days"
    else:
        basis = "nothing to compare it with yet"
    return Window(
        name=NAMES[name],
        since=since,
        resets_at=resets_at,
        usd=Usd(usd),
        used_percentage=percent,
        is_estimated=True,
        basis=basis,
        is_beside_past=reported is None,
        runs_out_at=None if reported is None else _run_out(since, percent, now, resets_at),
    )


def _reported(name: str, opened: OpenIndex, limit: RateLimitDocument, now: dt.datetime) -> Window:
    """What the agent said, carried on to now by what was used since."""
    resets_at = _moment(limit.resets_at or 0)
    since, seen_at = resets_at - LENGTHS[name], dt.datetime.fromisoformat(limit.at)
    usd, then = _spent(opened, since, now), _spent(opened, since, seen_at)
    grown = then > 0 and usd > then
    percent = min(100, round(limit.used_percentage * usd / then)) if grown else limit.used_percentage
    seen = f"the agent said {limit.used_percentage} % at {seen_at:%Y-%m-%d %H:%M} UTC"
    return Window(
        name=NAMES[name],
        since=since,
        resets_at=resets_at,
        usd=Usd(usd),
        used_percentage=percent,
        is_estimated=grown,
        basis=f"{seen}, and more was used since" if grown else seen,
        runs_out_at=_run_out(since, percent, now, resets_at),
    )


def _run_out(
    since: dt.datetime, percent: int | None, now: dt.datetime, resets_at: dt.datetime | None
) -> dt.datetime | None:
    """When nothing is left if it goes on as since the window began; None where it begins anew before."""
    if not percent:
        return None
    at = now if percent >= 100 else now + (now - since) * (100 - percent) / percent
    return None if resets_at is not None and at >= resets_at else at


def _open_block(opened: OpenIndex, now: dt.datetime) -> tuple[dt.datetime | None, dt.datetime | None]:
    """Start and end of the block of five hours that is running."""
    report = costs(["block"], opened=opened, since=now - 2 * LENGTHS["five_hour"], timezone="UTC", now=now)
    for row in report.rows:
        if isinstance(row.start, str) and isinstance(row.end, str):
            start, end = dt.datetime.fromisoformat(row.start), dt.datetime.fromisoformat(row.end)
            if start <= now < end:
                return start, end
    return None, None


def _reported_allowance(name: str, opened: OpenIndex, limits: list[RateLimitDocument]) -> Decimal | None:
    """What a whole window may cost by what the agent said of past ones; None where it said nothing."""
    reported = []
    for resets, percent, at in _past_limits(limits):
        spent = _spent(opened, resets - LENGTHS[name], at)
        if spent:
            reported.append(spent * 100 / percent)
    return statistics.median(reported) if reported else None


def _past_limits(limits: Iterable[RateLimitDocument]) -> list[tuple[dt.datetime, int, dt.datetime]]:
    """The highest share that was said of each past window: its end, the share, and when that was said."""
    most: dict[int, RateLimitDocument] = {}
    for one in limits:
        if one.resets_at is not None and one.used_percentage >= _LEAST_PERCENT:
            known = most.get(one.resets_at)
            if known is None or one.used_percentage > known.used_percentage:
                most[one.resets_at] = one
    return [
        (_moment(resets), one.used_percentage, dt.datetime.fromisoformat(one.at))
        for resets, one in most.items()
    ]


def _largest(name: str, opened: OpenIndex, before: dt.datetime) -> Decimal:
    by = "block" if name == "five_hour" else "day"
    report = costs([by], opened=opened, since=before - _PAST, until=before, timezone="UTC", now=before)
    amounts = [Decimal(0) if row.usd is None else Decimal(row.usd) for row in report.rows]
    if by == "block":
        return max(amounts, default=Decimal(0))
    days = {row.keys["day"]: amount for row, amount in zip(report.rows, amounts, strict=True)}
    firsts = [dt.date.fromisoformat(day) for day in days if day[:1].isdigit()]
    spans = ([str(first + dt.timedelta(days=n)) for n in range(7)] for first in firsts)
    return max(
        (sum((days.get(day, Decimal(0)) for day in span), Decimal(0)) for span in spans), default=Decimal(0)
    )


def _spent(opened: OpenIndex, since: dt.datetime, until: dt.datetime) -> Decimal:
    usd = costs((), opened=opened, since=since, until=until, timezone="UTC", now=until).totals.usd
    return Decimal(0) if usd is None else Decimal(usd)


def _moment(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
