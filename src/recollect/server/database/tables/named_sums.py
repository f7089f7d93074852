"""Sums of days and weeks under the names that reports show, on PostgreSQL, kept by triggers.

``rollup_named`` is ``rollup_day`` joined with what reports name of its sessions (place, creator, visibility), without the sessions
themselves: few rows, and nothing to join. It has no writer of its own: what changes ``rollup_day``, or what is told of a session,
changes it by that, in the same transaction. ``days`` is how many days a sum covers, ``period`` their number since 1970 (UTC).

Both kinds of change take an advisory lock of the session, those of sums a shared one: no sum is added under a name
that is just being replaced.
"""

from __future__ import annotations

_COUNTS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")
_SUMS = ("messages", *_COUNTS)
# What is told of a session; one that does not exist is private, and no one's.
TOLD = ("user_id", "visibility", "project", "repository", "machine")
_KEYS = ("person", "model", "branch", "variant", *TOLD)
_COLUMNS = f"org, days, period, digest, {', '.join((*_KEYS, *_SUMS))}"
_LOCK_CLASS = 0x7765656B
_PERIOD = "(d.day - ((d.day % days) + days) % days) / days"  # rounded down, also before 1970
_UNITS = "(SELECT 1 AS days UNION ALL SELECT 7) AS units"
_VISIBLE = "CASE WHEN sessions.ref IS NULL THEN 'private' ELSE sessions.visibility END"
_NAMED = ", ".join(_VISIBLE if name == "visibility" else f"sessions.{name}" for name in TOLD)


def _added(changes: str, told: str, join: str = "") -> str:
    """Adds rows of days, with their sign, to both sums; ``told`` is what is told of their sessions."""
    return f"""\
  INSERT INTO rollup_named({_COLUMNS})
    SELECT org, days, period, md5(ROW({", ".join(_KEYS)})::TEXT)::UUID, {", ".join(_KEYS)}, {", ".join(f"sum({name})" for name in _SUMS)}
    FROM (
      SELECT d.org, days, {_PERIOD}, d.person, d.model, d.branch, d.variant, {told},
        {", ".join(f"d.sign * d.{name}" for name in _SUMS)}
      FROM ({changes}) AS d{join} CROSS JOIN {_UNITS}
    ) AS t(org, days, period, {", ".join((*_KEYS, *_SUMS))})
    GROUP BY org, days, period, {", ".join(_KEYS)} ORDER BY 1, 2, 3, 4
    ON CONFLICT (org, days, period, digest) DO UPDATE SET {", ".join(f"{name} = rollup_named.{name} + excluded.{name}" for name in _SUMS)};
"""  # noqa: S608 - names of columns


_JOIN = "\n      LEFT JOIN sessions ON sessions.org = d.org AND sessions.id = d.session"
_NEW, _OLD = "SELECT *, 1 AS sign FROM new_rows", "SELECT *, -1 AS sign FROM old_rows"


def _of_days(act: str, changes: str, tables: str) -> str:
    """The trigger for one kind of change of days."""
    return f"""
CREATE FUNCTION recollect_days_{act}() RETURNS TRIGGER LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET jit = off
  SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM ({changes}) AS d) THEN
    RETURN NULL;
  END IF;
  PERFORM pg_advisory_xact_lock_shared({_LOCK_CLASS}, place) FROM
    (SELECT DISTINCT hashtext(org || session) AS place FROM ({changes}) AS d ORDER BY 1) AS t;
{_added(changes, _NAMED, _JOIN)}  RETURN NULL;
END $$;
CREATE TRIGGER named_{act} AFTER {act} ON rollup_day REFERENCING {tables}
  FOR EACH STATEMENT EXECUTE FUNCTION recollect_days_{act}();
"""  # noqa: S608 - names


def _of_sessions(act: str, row: str, changes: str) -> str:
    """The trigger for one kind of change of sessions: their sums go from the old names to the new ones."""
    return f"""
CREATE FUNCTION recollect_sessions_{act}() RETURNS TRIGGER LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  PERFORM pg_advisory_xact_lock({_LOCK_CLASS}, hashtext({row}.org || {row}.id));
{changes}  RETURN NULL;
END $$;
"""


def _moved(row: str, sign: int, told: str) -> str:
    days = f"SELECT *, {sign} AS sign FROM rollup_day WHERE org = {row}.org AND session = {row}.id"  # noqa: S608 - names
    return _added(days, told)


_OLD_TOLD, _NEW_TOLD = (", ".join(f"{row}.{name}" for name in TOLD) for row in ("OLD", "NEW"))
_NO_SESSION = "NULL::TEXT, 'private', NULL::TEXT, NULL::TEXT, NULL::TEXT"
# Left behind where all of a sum went elsewhere; reports pass them over.
DROP_EMPTY_SUMS = "DELETE FROM rollup_named WHERE messages = 0"

# Released: never changed.
NAMED_SUMS = f"""
CREATE TABLE rollup_named(
  org TEXT NOT NULL, days INTEGER NOT NULL, period BIGINT NOT NULL, digest UUID NOT NULL, person TEXT NOT NULL, model TEXT NOT NULL, branch TEXT NOT NULL,
  variant INTEGER NOT NULL, {", ".join(f"{name} TEXT" for name in TOLD)},
  {", ".join(f"{name} BIGINT NOT NULL" for name in _SUMS)}, PRIMARY KEY(org, days, period, digest)
) WITH (fillfactor = 80);
CREATE INDEX rollup_day_by_session ON rollup_day(org, session);
{_added("SELECT *, 1 AS sign FROM rollup_day", _NAMED, _JOIN)}
{_of_days("insert", _NEW, "NEW TABLE AS new_rows")}
{_of_days("update", f"{_NEW} UNION ALL {_OLD}", "OLD TABLE AS old_rows NEW TABLE AS new_rows")}
{_of_days("delete", _OLD, "OLD TABLE AS old_rows")}
{_of_sessions("insert", "NEW", _moved("NEW", -1, _NO_SESSION) + _moved("NEW", 1, _NEW_TOLD))}
{_of_sessions("update", "NEW", _moved("NEW", -1, _OLD_TOLD) + _moved("NEW", 1, _NEW_TOLD))}
{_of_sessions("delete", "OLD", _moved("OLD", -1, _OLD_TOLD) + _moved("OLD", 1, _NO_SESSION))}
CREATE TRIGGER named_insert AFTER INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION recollect_sessions_insert();
CREATE TRIGGER named_delete AFTER DELETE ON sessions FOR EACH ROW EXECUTE FUNCTION recollect_sessions_delete();
CREATE TRIGGER named_update AFTER UPDATE OF {", ".join(TOLD)} ON sessions FOR EACH ROW
  WHEN (({_OLD_TOLD}) IS DISTINCT FROM ({_NEW_TOLD})) EXECUTE FUNCTION recollect_sessions_update();
"""  # noqa: S608 - names of columns
# SQLite is for few people: the same columns, summed when they are asked for.
_TOLD_OF_SESSIONS = ", ".join(
    f"{_VISIBLE if name == 'visibility' else f'sessions.{name}'} AS {name}" for name in TOLD
)
NAMED_AS_VIEW = f"""
CREATE VIEW rollup_named AS SELECT d.org AS org, days, {_PERIOD} AS period, person, model, d.branch AS branch, variant, {_TOLD_OF_SESSIONS},
    {", ".join(_SUMS)}
  FROM rollup_day AS d LEFT JOIN sessions ON sessions.org = d.org AND sessions.id = d.session CROSS JOIN {_UNITS};
"""  # noqa: S608 - names of columns
