"""The document of ``recollect cost --json`` for a page, and bounds of time as an address holds them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from recollect.errors import Busy, UsageError
from recollect.model.cost.report import MODES
from recollect.services.cost.report import costs, zone_of
from recollect.services.documents.cost import CostDocument
from recollect.services.documents.cost import cost_document as document
from recollect.services.page.desk import PageBackend
from recollect.services.page.listing import mark_of

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
    desk: PageBackend,
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
) -> CostDocument:
    """What `recollect cost --json` would print."""
    with desk.index.opened() as opened:
        if opened.database is None and sum(mark_of(one)[1] for one in desk.sessions()) > _FEW_BYTES:
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
    return document(report, report.rows, timezone)
