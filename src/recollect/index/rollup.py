"""Sums of counted usage by quarter of an hour, log, model, branch and kind of price.

Changes are collected and written together; a row whose messages are all gone is removed. Money is not
summed: prices may change, tokens do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.index.database import IndexDatabase
from recollect.index.schema import QUARTER_MS

_Key = tuple[int, int, int, int, int]
_SUMS = 9  # messages, six counts, recorded, unrecorded


class Rollup:
    """Collected changes to the sums."""

    def __init__(self, database: IndexDatabase) -> None:
        self._db = database
        self._changes: dict[_Key, list[int]] = {}

    def add(self, file: int, row: Sequence[object], sign: int = 1) -> None:
        """Count a usage row of ``file``: at, model, branch, variant, six counts, recorded."""
        at, model, branch, variant, *counts, recorded = row
        key = ((at or 0) // QUARTER_MS, file, model or 0, branch or 0, variant)  # type: ignore[operator]
        sums = self._changes.setdefault(key, [0] * _SUMS)  # type: ignore[arg-type]
        for place, amount in enumerate((1, *counts, recorded or 0, int(recorded is None))):
            sums[place] += sign * amount  # type: ignore[operator]

    def write(self) -> None:
        """Write the collected changes."""
        changes = [(*key, *sums) for key, sums in self._changes.items() if any(sums)]
        self._changes.clear()
        if not changes:
            return
        self._db.connection.executemany(
            "INSERT INTO rollup VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET"
            " messages = messages + excluded.messages, input = input + excluded.input,"
            " output = output + excluded.output, cache_write_5m = cache_write_5m + excluded.cache_write_5m,"
            " cache_write_1h = cache_write_1h + excluded.cache_write_1h,"
            " cache_read = cache_read + excluded.cache_read, web_searches = web_searches + excluded.web_searches,"
            " recorded = recorded + excluded.recorded, unrecorded = unrecorded + excluded.unrecorded",
            changes,
        )
        self._db.connection.executemany(
            "DELETE FROM rollup WHERE quarter = ? AND file = ? AND model = ? AND branch = ? AND variant = ? AND messages = 0",
            [change[:5] for change in changes if change[5] < 0],
        )
