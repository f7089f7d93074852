"""The document of ``recollect cost --json`` for a page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from recollect.errors import Busy
from recollect.model import timespan
from recollect.model.cost.report import MODES
from recollect.services.cost.report import costs, zone_of
from recollect.services.documents.cost.report import CostDocument
from recollect.services.documents.cost.report import cost_document as document
from recollect.services.page.desk import PageBackend
from recollect.services.page.listing import mark_of

# Without an index the logs are read: only as many as takes a few seconds.
_FEW_BYTES = 256 << 20


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
    """What `recollect cost --json` prints."""
    now = dt.datetime.now(dt.UTC)
    first, end = timespan.bounds(since, until, now, zone_of(timezone))
    with desk.index.opened() as opened:
        if opened.database is None and sum(mark_of(one)[1] for one in desk.sessions()) > _FEW_BYTES:
            raise Busy("the index is being built", hint="wait until it is ready")
        report = costs(
            desk.roots,
            by,
            opened=opened,
            since=first,
            until=end,
            timezone=timezone,
            project=project,
            model=model,
            session=session,
            mode=mode,
            explain=explain,
            now=now,
        )
    return document(report, report.rows, timezone)
