"""Statistics for a page: what is slow to add up is added up once for each state of the index."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections import OrderedDict

from recollect.errors import RecollectError
from recollect.model import timespan
from recollect.services.cost.report import zone_of
from recollect.services.documents.cost.stats import StatsDocument, StatSessionsDocument
from recollect.services.indexing.access import OpenIndex
from recollect.services.page.desk import PageBackend
from recollect.services.page.sessions import INDEX_STATE
from recollect.services.stats.behind import Figure, sessions_behind
from recollect.services.stats.stats import RangeFigures, range_figures, stats
from recollect.services.stats.usage import UsageTable, database_of, quarter_at

_KEPT = 16
HOME_RANGE = "30d"  # what the home screen shows until another range is chosen


class PageStats:
    """Answers about one backend. Figures are kept until the index changes; what depends on the minute is not."""

    def __init__(self, desk: PageBackend) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], RangeFigures] = OrderedDict()
        self._table: tuple[tuple[object, ...], UsageTable] | None = None

    def look_ahead(self, since: str | None = HOME_RANGE) -> None:
        """Make the figures that the home screen will ask for."""
        first, end = timespan.bounds(since, None, dt.datetime.now(dt.UTC), zone_of(None))
        with contextlib.suppress(RecollectError), self._desk.index.opened(wait=0) as opened, self._lock:
            self._figures(opened, first, end, None, None)

    def document(
        self, since: str | None, until: str | None, project: str | None, timezone: str | None
    ) -> StatsDocument:
        """What `recollect stats --json` prints."""
        now = dt.datetime.now(dt.UTC)
        first, end = timespan.bounds(since, until, now, zone_of(timezone))
        # Under the lock: two requests for the same figures add them up once.
        with self._desk.index.opened() as opened, self._lock:
            return stats(
                self._desk.roots,
                opened,
                since=first,
                until=end,
                project=project,
                timezone=timezone,
                now=now,
                table=self._read(opened, project),
                figures=self._figures(opened, first, end, project, timezone),
                data=self._desk.data,
            )

    def _figures(
        self,
        opened: OpenIndex,
        since: dt.datetime | None,
        until: dt.datetime | None,
        project: str | None,
        timezone: str | None,
    ) -> RangeFigures:
        first, end = quarter_at(since), quarter_at(until)
        key = (*_state(opened), first, end, project, timezone)
        found = self._kept.get(key)
        if found is None:
            found = range_figures(opened, self._read(opened, project), first, end, timezone)
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def _read(self, opened: OpenIndex, project: str | None) -> UsageTable:
        state = (*_state(opened), project)
        if self._table is None or self._table[0] != state:
            self._table = (state, UsageTable(opened, project))
        return self._table[1]

    def sessions(
        self,
        figure: Figure,
        since: str | None,
        until: str | None,
        project: str | None,
        timezone: str | None,
    ) -> StatSessionsDocument:
        """The sessions behind a figure."""
        first, end = timespan.bounds(since, until, dt.datetime.now(dt.UTC), zone_of(timezone))
        with self._desk.index.opened() as opened:
            return sessions_behind(opened, figure, since=first, until=end, project=project, timezone=timezone)


def _state(opened: OpenIndex) -> tuple[object, ...]:
    return tuple(database_of(opened).rows(INDEX_STATE)[0])
