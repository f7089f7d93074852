"""Tables of PostgreSQL that are divided by month: emptying a month returns its disk space at once.

``texts`` has one row per block of lines: the words of all of them, without positions. It is divided by the
time of the newest line (a line dated after its arrival counts as of its arrival); ``audit`` by the time of the act;
``usage`` by ``said``, the month of the response (usage_months.py). What belongs to no existing month is in a default partition.

``@@`` is not leakproof: under a policy, PostgreSQL would test the organisation of every row before the words, and
use no index. So the policy of ``texts`` makes the comparison itself, with the words of ``recollect.words``;
where none are set, every row of the organisation matches. A search can only narrow what the policy shows.
"""

from __future__ import annotations

FIRST_MONTH_MS = 1_735_689_600_000  # 2025-01-01: older lines are rare and share one partition
_NAMED = "current_setting('recollect.org', true)"
_TENANT = f"(org = {_NAMED} OR {_NAMED} = '*')"
# Within a quoted text. Where no words are set, the last text matches every vector: the tokenizer drops that character.
_MATCHES = "words @@ coalesce(nullif(current_setting('recollect.words', true), ''), '!''-''')::TSQUERY"
IS_MONTH = "one.name ~ '_y[0-9]{4}m[0-9]{2}$'"
_TENANT_QUOTED, _MATCHES_QUOTED = (text.replace("'", "''") for text in (_TENANT, _MATCHES))

_GUARD = f"""
CREATE FUNCTION recollect_guard(given TEXT, parent TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', given);
  EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', given);
  EXECUTE format('CREATE POLICY tenant ON %I USING ({_TENANT_QUOTED}%s) WITH CHECK ({_TENANT_QUOTED})', given,
    CASE parent WHEN 'texts' THEN ' AND {_MATCHES_QUOTED}' ELSE '' END);
END $$;

"""


def months_function(parents: str, create: str = "CREATE") -> str:
    """The function that creates months of these tables."""
    return f"""\
-- Creates the months of both times and those between, where they are missing; returns how many.
{create} FUNCTION recollect_months(given_from BIGINT, given_until BIGINT) RETURNS INTEGER LANGUAGE plpgsql AS $$
DECLARE
  month TIMESTAMP := date_trunc('month', to_timestamp(given_from / 1000) AT TIME ZONE 'UTC');
  parent TEXT;
  name TEXT;
  made INTEGER := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('recollect_months'));
  PERFORM set_config('lock_timeout', '2s', true);
  WHILE month <= to_timestamp(given_until / 1000) AT TIME ZONE 'UTC' LOOP
    FOREACH parent IN ARRAY ARRAY[{parents}] LOOP
      name := parent || to_char(month, '"_y"YYYY"m"MM');
      IF to_regclass(quote_ident(name)) IS NULL THEN
        BEGIN
          EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%s) TO (%s)', name, parent,
            (extract(epoch FROM month) * 1000)::BIGINT,
            (extract(epoch FROM month + INTERVAL '1 month') * 1000)::BIGINT);
          PERFORM recollect_guard(name, parent);
          made := made + 1;
        EXCEPTION WHEN lock_not_available OR check_violation THEN
          -- Busy now, or the default partition has rows of that month, which then stay there.
          NULL;
        END;
      END IF;
    END LOOP;
    month := month + INTERVAL '1 month';
  END LOOP;
  RETURN made;
END $$;

"""


def empty_function(given: str, ends: str, parents: str, comment: str = "") -> str:
    """The function that returns the disk space of partitions without rows, and of months that ended before ``ends``
    whatever they hold; it returns how many. The partitions stay: lines of an old month may still come."""
    return f"""\
{comment}CREATE FUNCTION recollect_empty_months({given}) RETURNS INTEGER LANGUAGE plpgsql AS $$
DECLARE
  one RECORD;
  is_over BOOLEAN;
  has_rows BOOLEAN;
  emptied INTEGER := 0;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  FOR one IN SELECT c.oid AS number, c.relname AS name, p.relname AS parent FROM pg_inherits
      JOIN pg_class c ON c.oid = inhrelid JOIN pg_class p ON p.oid = inhparent
      WHERE inhparent IN ({parents}) ORDER BY c.relname LOOP
    CONTINUE WHEN pg_relation_size(one.number) = 0 AND pg_total_relation_size(one.number) < 262144;
    is_over := {ends} >= (extract(epoch FROM
      to_date(right(one.name, 7), 'YYYY"m"MM')::TIMESTAMP + INTERVAL '1 month') * 1000)::BIGINT;
    BEGIN
      EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', one.name) INTO has_rows;
      CONTINUE WHEN has_rows AND NOT is_over;
      EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', one.name);
      EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', one.name) INTO has_rows;
      CONTINUE WHEN has_rows AND NOT is_over;
      EXECUTE format('TRUNCATE %I', one.name);
      emptied := emptied + 1;
    EXCEPTION WHEN lock_not_available THEN
      NULL;  -- busy: the next sweep tries again
    END;
  END LOOP;
  RETURN emptied;
END $$;
"""  # noqa: S608 - constants


# Released: never changed.
_FUNCTIONS = (
    _GUARD
    + months_function("'texts', 'audit'")
    + empty_function(
        "given_audit BIGINT",
        f"one.parent = 'audit' AND {IS_MONTH} AND given_audit",
        "'texts'::regclass, 'audit'::regclass",
        comment="""\
-- Returns the disk space of partitions without rows, and of months of ``audit`` that ended before ``given_audit``
-- whatever they hold; returns how many. The partitions stay: lines of an old month may still come.
""",
    )
)

# Released: never changed.
BY_MONTH = f"""
{_FUNCTIONS}
ALTER TABLE texts RENAME TO texts_before;
ALTER TABLE audit RENAME TO audit_before;
DROP INDEX texts_by_word;
DROP INDEX audit_by_org;
CREATE TABLE texts(
  ref BYTEA NOT NULL, key TEXT NOT NULL, line BIGINT NOT NULL, lines INTEGER NOT NULL, org TEXT NOT NULL,
  oldest BIGINT NOT NULL, newest BIGINT NOT NULL, words TSVECTOR NOT NULL
) PARTITION BY RANGE (newest);
CREATE INDEX texts_by_block ON texts(ref, key, line);
CREATE INDEX texts_by_time ON texts(org, newest);
CREATE INDEX texts_by_words ON texts USING gin(words);
CREATE SEQUENCE audit_ids;
CREATE TABLE audit(
  id BIGINT NOT NULL DEFAULT nextval('audit_ids'), org TEXT NOT NULL, at BIGINT NOT NULL, user_id TEXT NOT NULL,
  token TEXT NOT NULL, act TEXT NOT NULL, target TEXT NOT NULL, detail TEXT NOT NULL
) PARTITION BY RANGE (at);
ALTER SEQUENCE audit_ids OWNED BY audit.id;
CREATE INDEX audit_by_org_and_id ON audit(org, id);
CREATE INDEX audit_by_time ON audit(org, at);
CREATE TABLE texts_older PARTITION OF texts FOR VALUES FROM (MINVALUE) TO ({FIRST_MONTH_MS});
CREATE TABLE audit_older PARTITION OF audit FOR VALUES FROM (MINVALUE) TO ({FIRST_MONTH_MS});
CREATE TABLE texts_other PARTITION OF texts DEFAULT;
CREATE TABLE audit_other PARTITION OF audit DEFAULT;
SELECT recollect_guard(name, parent) FROM (VALUES ('texts', 'texts'), ('audit', 'audit'), ('texts_older', 'texts'),
  ('audit_older', 'audit'), ('texts_other', 'texts'), ('audit_other', 'audit')) AS t(name, parent);
SELECT recollect_months({FIRST_MONTH_MS}, (extract(epoch FROM now()) * 1000)::BIGINT + 32 * 86400000::BIGINT);
INSERT INTO texts(ref, key, line, lines, org, oldest, newest, words)
  SELECT ref, key, line, 1, org, coalesce(at, 0),
    least(coalesce(at, 0), (extract(epoch FROM now()) * 1000)::BIGINT), strip(words) FROM texts_before;
INSERT INTO audit(id, org, at, user_id, token, act, target, detail)
  SELECT id, org, at, user_id, token, act, target, detail FROM audit_before;
SELECT setval('audit_ids', greatest((SELECT max(id) FROM audit), 1));
DROP TABLE texts_before;
DROP TABLE audit_before;
CREATE INDEX sessions_by_deletion ON sessions(deleted) WHERE state = 1;
"""  # noqa: S608 - constants
# Whatever the clock says: months before the first share one partition.
CREATE_MONTHS = f"SELECT recollect_months(greatest($1, {FIRST_MONTH_MS}), greatest($1, {FIRST_MONTH_MS}) + 32 * 86400000::BIGINT)"
EMPTY_MONTHS = "SELECT recollect_empty_months($1, $2)"
