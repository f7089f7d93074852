"""``usage`` by month, so that retention can drop a month of it, and ``responses``, by which an append finds a response
without asking every month.

``said`` is the first millisecond of the month (UTC) of a row's time, by which PostgreSQL divides the table. A copy of a
response may come at any time and with any time, and must be counted with the others; so ``responses`` has a row for each
response and month in which rows of it are: one lookup names the months to ask. Its rows stay when a month is dropped. A response
that is known there, but has no row in one of its months, was dropped: it stays counted as it was, and later copies change nothing.

``orgs.usage_from``: months before this time were dropped.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from hashlib import sha256

from recollect.server.database.tables.months import FIRST_MONTH_MS, IS_MONTH, empty_function, months_function

_DAY_MS = 86_400_000
# Months exist this long before they begin: a response dated later, or without a time, is of no month, and never dropped.
_AHEAD_MS = 31 * _DAY_MS
NO_MONTH = 1 << 50
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def month_of(at: int | None, now: int) -> int:
    """``said`` of a row that is stored at ``now``. All before the first month are one."""
    if at is None or at >= now + _AHEAD_MS:
        return NO_MONTH
    return 0 if at < FIRST_MONTH_MS else month_start(at // _DAY_MS)


@lru_cache(maxsize=1_024)
def month_start(day: int) -> int:
    """The first millisecond of the month of a day (both since 1970)."""
    moment = _EPOCH + dt.timedelta(days=day)
    return int(moment.replace(day=1).timestamp()) * 1000


def response_ref(org: str, message: str) -> str:
    """The id of a response in ``responses``: 128 bits, as hex digits."""
    return sha256(f"{org}\0{message}".encode()).hexdigest()[:32]


_COUNTS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")
_COLUMNS = (
    "message TEXT, session TEXT, key TEXT, request TEXT, counted INTEGER, speaker INTEGER, has_stop INTEGER,"
    " forked INTEGER, at BIGINT, person TEXT, model TEXT, branch TEXT, variant INTEGER, "
    + ", ".join(f"{name} BIGINT" for name in _COUNTS)
    + ", said BIGINT"
)
_NAMES = ", ".join(column.split()[0] for column in _COLUMNS.split(", "))
_KEPT = ", ".join(_NAMES.split(", ")[:-1])


def _tables(uuid: str, name: str = "usage", divided: str = "") -> str:
    strict = ", ".join(
        column if column == "at BIGINT" else f"{column} NOT NULL" for column in _COLUMNS.split(", ")
    )
    return f"""
ALTER TABLE orgs ADD COLUMN usage_days BIGINT;
ALTER TABLE orgs ADD COLUMN usage_from BIGINT;
CREATE TABLE responses(ref {uuid} NOT NULL, said BIGINT NOT NULL, org TEXT NOT NULL, PRIMARY KEY(ref, said));
CREATE TABLE {name}(org TEXT NOT NULL, {strict}, PRIMARY KEY(org, message, session, key, request, speaker, said)){divided};
"""


def _filled(source: str, target: str, month: str, ref: str) -> str:
    """The rows of before, and what is known of them."""
    said = f"CASE WHEN at IS NULL OR at >= {{now}} + {_AHEAD_MS} THEN {NO_MONTH} WHEN at < {FIRST_MONTH_MS} THEN 0 ELSE {month} END"
    return f"""
INSERT INTO {target}(org, {_NAMES}) SELECT org, {_KEPT}, {said} FROM {source};
INSERT INTO responses(ref, said, org) SELECT DISTINCT {ref}, said, org FROM {target};
"""  # noqa: S608 - constants


_INDEXES = """
CREATE INDEX usage_by_time ON usage(org, at) WHERE counted % 2 = 1;
"""
_POSTGRES_NOW = "(extract(epoch FROM now()) * 1000)::BIGINT"
_SQLITE_NOW = "CAST(strftime('%s', 'now') AS INTEGER) * 1000"
# For each month of a response that is known a row without a session, then those there are. Responses that were not known are
# from now on, in the months of their rows. The rows are not joined: planned for an empty table, that would read all of a month.
_NO_ROW = ", ".join(f"NULL::{column.split()[1]}" for column in _COLUMNS.split(", ")[1:-1])
_LOOKUP = f"""
CREATE FUNCTION recollect_usage(given_org TEXT, given_messages TEXT[], given_refs UUID[], given_said BIGINT[])
  RETURNS TABLE({_COLUMNS}) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET jit = off
  SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
  month BIGINT;
  given TEXT[];
BEGIN
  FOR month, given IN SELECT known.said, array_agg(DISTINCT t.message)
      FROM unnest(given_messages, given_refs) AS t(message, ref) JOIN responses AS known ON known.ref = t.ref
      GROUP BY known.said LOOP
    RETURN QUERY SELECT asked, {_NO_ROW}, month FROM unnest(given) AS asked
      UNION ALL SELECT {_NAMES} FROM usage WHERE org = given_org AND message = ANY(given) AND said = month;
  END LOOP;
  INSERT INTO responses(ref, said, org)
    SELECT DISTINCT t.ref, t.said, given_org FROM unnest(given_refs, given_said) AS t(ref, said)
    WHERE NOT EXISTS (SELECT 1 FROM responses AS known WHERE known.ref = t.ref);
END $$;
"""  # noqa: S608 - constants
_PARENTS = ("texts", "audit", "usage")

# Released: never changed.
POSTGRES_USAGE_BY_MONTH = (
    months_function(", ".join(f"'{name}'" for name in _PARENTS), "CREATE OR REPLACE")
    + empty_function(
        "given_audit BIGINT, given_usage BIGINT",
        f"{IS_MONTH} AND CASE one.parent WHEN 'audit' THEN given_audit WHEN 'usage' THEN given_usage ELSE 0 END",
        ", ".join(f"'{name}'::regclass" for name in _PARENTS),
    )
    + """
ALTER TABLE usage RENAME TO usage_before;
ALTER TABLE usage_before DROP CONSTRAINT usage_pkey;
DROP INDEX usage_by_time;
DROP INDEX usage_by_session;
"""
    + _tables("UUID", divided=" PARTITION BY RANGE (said)")
    + f"""
CREATE TABLE usage_older PARTITION OF usage FOR VALUES FROM (MINVALUE) TO ({FIRST_MONTH_MS});
CREATE TABLE usage_other PARTITION OF usage DEFAULT;
SELECT recollect_guard(name, name) FROM (VALUES ('usage'), ('usage_older'), ('usage_other'), ('responses')) AS t(name);
SELECT recollect_months({FIRST_MONTH_MS}, {_POSTGRES_NOW} + 32 * {_DAY_MS}::BIGINT);
"""  # noqa: S608 - constants
    + _filled(
        "usage_before",
        "usage",
        "(extract(epoch FROM date_trunc('month', to_timestamp(at / 1000) AT TIME ZONE 'UTC')) * 1000)::BIGINT",
        "encode(substr(sha256(convert_to(org, 'UTF8') || '\\x00'::BYTEA || convert_to(message, 'UTF8')), 1, 16), 'hex')::UUID",
    ).replace("{now}", _POSTGRES_NOW)
    + _INDEXES
    # Partial, as the one by time: planned for an empty table, responses would be looked up by it.
    + "CREATE INDEX usage_by_session ON usage(org, session) WHERE session <> '';\nDROP TABLE usage_before;\n"
    + _LOOKUP
)
# ``response_ref`` is a function that the migration gives to SQLite.
SQLITE_USAGE_BY_MONTH = (
    _tables("TEXT", "usage_now")
    + _filled(
        "usage",
        "usage_now",
        "CAST(strftime('%s', at / 1000, 'unixepoch', 'start of month') AS INTEGER) * 1000",
        "response_ref(org, message)",
    ).replace("{now}", _SQLITE_NOW)
    + "DROP TABLE usage;\nALTER TABLE usage_now RENAME TO usage;\n"
    + _INDEXES
)
