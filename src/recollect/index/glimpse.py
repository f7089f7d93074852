"""Quick reads of the index for callers that must never wait: the status line and the live view.

Opened read-only; a database that is busy for more than a few milliseconds gives no answer. Imports only
apsw and modules without imports: the status line is a new process every time, and imports are most of
its cost.

Usage comes as rows of (model, quarter of an hour, variant, six counts); ``priced`` prices them.
"""

from __future__ import annotations

import apsw

from recollect.index.schema import QUARTER_MS, SESSION
from recollect.model.budget import BLOCK_QUARTERS, QUARTERS_AN_HOUR

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable

    from recollect.model.cost.prices import PriceList

    GlimpsedUsage = tuple[str, int, int, int, int, int, int, int, int]

# The standard context window, and the large one, for conversations that requested or outgrew it.
USUAL_WINDOW, LARGE_WINDOW = 200_000, 1_000_000

_BUSY_MS = 8
_MAIN = 2  # the speaker of the main conversation; see model/cost/line_usage.py

_SESSION_USAGE = """
SELECT coalesce(names.text, ''), coalesce(at, 0) / ?3 AS quarter, variant,
  sum(input), sum(output), sum(cache_write_5m), sum(cache_write_1h), sum(cache_read), sum(web_searches)
FROM files JOIN copies ON copies.file = files.id LEFT JOIN names ON names.id = copies.model
WHERE files.session = ?1 AND counted AND (?2 IS NULL OR at >= ?2)
GROUP BY copies.model, quarter, variant
"""
_USAGE_BETWEEN = """
SELECT coalesce(names.text, ''), quarter, variant,
  sum(input), sum(output), sum(cache_write_5m), sum(cache_write_1h), sum(cache_read), sum(web_searches)
FROM rollup LEFT JOIN names ON names.id = rollup.model
WHERE quarter >= ?1 AND quarter < ?2
GROUP BY quarter, rollup.model, variant
"""
_USED_MODEL = "SELECT 1 FROM rollup WHERE model = (SELECT id FROM names WHERE text = ?) LIMIT 1"
_PROJECT_USAGE_BETWEEN = """
SELECT coalesce(place.text, ''), coalesce(names.text, ''), quarter, variant,
  sum(input), sum(output), sum(cache_write_5m), sum(cache_write_1h), sum(cache_read), sum(web_searches)
FROM rollup JOIN files ON files.id = rollup.file LEFT JOIN names ON names.id = rollup.model
  -- An agent works where its session does, as in ``ask.cost.report``.
  LEFT JOIN names AS place ON place.id = coalesce(
    (SELECT nullif(own.cwd, 0) FROM files AS own WHERE files.role = 1 AND own.session = files.session AND own.role = 0
      AND own.cwd > 0 ORDER BY own.home <> files.home, own.path LIMIT 1), files.cwd)
WHERE quarter >= ?1 AND quarter < ?2
GROUP BY quarter, rollup.file, rollup.model, variant
"""
# One look-up per block, from the first response on: where a block starts depends on all before it.
_BLOCK_STARTS = """
WITH RECURSIVE block(first) AS (
  SELECT min(quarter) FROM rollup
  UNION ALL
  SELECT (SELECT min(quarter) FROM rollup WHERE quarter >= first / ?2 * ?2 + ?3)
  FROM block WHERE first / ?2 * ?2 <= ?1
)
SELECT max(first) FROM block WHERE first / ?2 * ?2 <= ?1
"""
_NEWEST_CONTEXT = """
SELECT input + cache_write_5m + cache_write_1h + cache_read AS context, coalesce(names.text, ''),
  max(input + cache_write_5m + cache_write_1h + cache_read) OVER ()
FROM files JOIN usage ON usage.file = files.id LEFT JOIN names ON names.id = usage.model
WHERE files.session = ?1 AND role = ?2 AND speaker = ?3 AND context > 0
ORDER BY at DESC, usage.id DESC LIMIT 1
"""


def opened(path: str) -> apsw.Connection:
    """The index, read-only. Raises apsw.Error if there is none."""
    index = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    index.set_busy_timeout(_BUSY_MS)
    return index


def is_complete(index: apsw.Connection) -> bool:
    """Whether its first build was finished."""
    return bool(_value(index, "SELECT 1 FROM meta WHERE name = 'complete'"))


def knows(index: apsw.Connection, session: str) -> bool:
    """Whether a log of this session, or of one of its agents, was read."""
    return bool(_value(index, "SELECT 1 FROM files WHERE session = ? AND consumed > 0", session))


def session_usage(index: apsw.Connection, session: str, since_ms: int | None = None) -> list[GlimpsedUsage]:
    """Usage of a session and its agents, optionally since a time; each response counts once over all logs."""
    return _usage(index, _SESSION_USAGE, session, since_ms, QUARTER_MS)


def usage_between(index: apsw.Connection, first: int, end: int) -> list[GlimpsedUsage]:
    """Usage of all sessions from one quarter of an hour up to another, which is excluded."""
    return _usage(index, _USAGE_BETWEEN, first, end)


def project_usage_between(index: apsw.Connection, first: int, end: int) -> list[tuple[str, *GlimpsedUsage]]:
    """The same with the directory of the work before it."""
    return list(index.execute(_PROJECT_USAGE_BETWEEN, (first, end)))


def is_used_model(index: apsw.Connection, name: str) -> bool:
    """Whether a model of exactly this name was ever used."""
    return bool(_value(index, _USED_MODEL, name))


def block_start(index: apsw.Connection, quarter: int) -> int | None:
    """The quarter in which the block that contains a quarter starts; None if there is none.

    The rule is that of ``model.cost.calendar``.
    """
    first = _value(index, _BLOCK_STARTS, quarter, QUARTERS_AN_HOUR, BLOCK_QUARTERS)
    if not isinstance(first, int):
        return None
    start = first - first % QUARTERS_AN_HOUR
    return start if quarter < start + BLOCK_QUARTERS else None


def newest_context(index: apsw.Connection, session: str) -> tuple[int, str, int] | None:
    """Context tokens of the newest response of a conversation, its model, and the most of any response.

    Copies count here: a fork's context is as large as what was copied into it.
    """
    row = next(iter(index.execute(_NEWEST_CONTEXT, (session, SESSION, _MAIN))), None)
    return None if row is None else (int(row[0]), str(row[1]), int(row[2]))


def window_of(model: str, most: int) -> int:
    """The context window in tokens. Logs do not say it; a conversation that held more has the large one."""
    return LARGE_WINDOW if model.endswith("[1m]") or most > USUAL_WINDOW else USUAL_WINDOW


def priced(usage: Iterable[GlimpsedUsage], prices: PriceList) -> tuple[int, frozenset[str]]:
    """Pico-dollars, and the models of which some tokens have no price and are not in the sum."""
    total, unpriced = 0, set()
    for model, quarter, variant, *counts in usage:
        cost, missing = prices.cost(model, quarter, variant, counts)
        total += cost
        if missing is not None:
            unpriced.add(model or "(no model)")
    return total, frozenset(unpriced)


def _usage(index: apsw.Connection, sql: str, *values: object) -> list[GlimpsedUsage]:
    return list(index.execute(sql, values))


def _value(index: apsw.Connection, sql: str, *values: object) -> object:
    row = next(iter(index.execute(sql, values)), None)
    return None if row is None else row[0]
