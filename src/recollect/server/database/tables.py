"""The tables of the server as migration steps, and what PostgreSQL does by itself."""

from __future__ import annotations

import re
from hashlib import sha256

from recollect.index.schema import SHARED_BY, SHARED_HEAD
from recollect.model.text.titles import GOES_ON, TITLE_PARTS

FIRST_MONTH_MS = 1_735_689_600_000  # 2025-01-01: older lines are rare and share one partition
_NAMED = "current_setting('recollect.org', true)"
_TENANT = f"(org = {_NAMED} OR {_NAMED} = '*')"
# Within a quoted text. Where no words are set, the last text matches every vector: the tokenizer drops that character.
_MATCHES = "words @@ coalesce(nullif(current_setting('recollect.words', true), ''), '!''-''')::TSQUERY"
_TENANT_QUOTED, _MATCHES_QUOTED = (text.replace("'", "''") for text in (_TENANT, _MATCHES))

MONTHS = f"""
CREATE FUNCTION recollect_guard(given TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', given);
  EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', given);
  EXECUTE format('CREATE POLICY tenant ON %I USING ({_TENANT_QUOTED} AND {_MATCHES_QUOTED}) WITH CHECK ({_TENANT_QUOTED})', given);
END $$;

-- Creates the months of both times and those between, where they are missing; returns how many.
CREATE FUNCTION recollect_months(given_from BIGINT, given_until BIGINT) RETURNS INTEGER LANGUAGE plpgsql AS $$
DECLARE
  month TIMESTAMP := date_trunc('month', to_timestamp(given_from / 1000) AT TIME ZONE 'UTC');
  name TEXT;
  made INTEGER := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('recollect_months'));
  PERFORM set_config('lock_timeout', '2s', true);
  WHILE month <= to_timestamp(given_until / 1000) AT TIME ZONE 'UTC' LOOP
    name := to_char(month, '"texts_y"YYYY"m"MM');
    IF to_regclass(name) IS NULL THEN
      BEGIN
        EXECUTE format('CREATE TABLE %I PARTITION OF texts FOR VALUES FROM (%s) TO (%s)', name,
          (extract(epoch FROM month) * 1000)::BIGINT, (extract(epoch FROM month + INTERVAL '1 month') * 1000)::BIGINT);
        PERFORM recollect_guard(name);
        made := made + 1;
      EXCEPTION WHEN lock_not_available OR check_violation THEN
        -- Busy now, or the default partition has rows of that month, which then stay there.
        NULL;
      END;
    END IF;
    month := month + INTERVAL '1 month';
  END LOOP;
  RETURN made;
END $$;

CREATE TABLE texts(
  ref BYTEA NOT NULL, key TEXT NOT NULL, line BIGINT NOT NULL, lines INTEGER NOT NULL, org TEXT NOT NULL,
  oldest BIGINT NOT NULL, newest BIGINT NOT NULL, words TSVECTOR NOT NULL
) PARTITION BY RANGE (newest);
CREATE INDEX texts_by_block ON texts(ref, key, line);
CREATE INDEX texts_by_time ON texts(org, newest);
CREATE INDEX texts_by_words ON texts USING gin(words);
CREATE TABLE texts_older PARTITION OF texts FOR VALUES FROM (MINVALUE) TO ({FIRST_MONTH_MS});
CREATE TABLE texts_other PARTITION OF texts DEFAULT;
SELECT recollect_guard(name) FROM (VALUES ('texts'), ('texts_older'), ('texts_other')) AS parts(name);
SELECT recollect_months({FIRST_MONTH_MS}, (extract(epoch FROM now()) * 1000)::BIGINT + 32 * 86400000::BIGINT);
"""  # noqa: S608 - constants
# Whatever the clock says: months before the first share one partition.
CREATE_MONTHS = f"SELECT recollect_months(greatest($1, {FIRST_MONTH_MS}), greatest($1, {FIRST_MONTH_MS}) + 32 * 86400000::BIGINT)"


PARTITIONS = 16
PARTITIONED = ("logs", "segments", "files")
# Reports read millions of their rows: the setting is read once for a query.
_SUMS = ("rollup", "rollup_day")
COUNTS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")
_COUNT_COLUMNS = ", ".join(f"{name} BIGINT NOT NULL" for name in COUNTS)
_SUM_COLUMNS = f"messages BIGINT NOT NULL, {_COUNT_COLUMNS}"
# ``orgs.usage_from``: responses before this time were dropped; ``dropped`` names them, so that no later copy is counted again. ``sessions.visibility``: null as the organisation
# says. ``files.user_id``: who stored it. Sessions of browsers are tokens of a ``kind`` of their own. ``sign_ins``: each works once.
# The index of ``usage`` by time is partial, for cost queries: appends look responses up by message, and would use it where
# the plan was made for an empty table.
_SHARED = f"""
CREATE TABLE orgs(
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, created BIGINT NOT NULL, retention_days BIGINT, audit_days BIGINT,
  visibility TEXT NOT NULL DEFAULT 'organisation', usage_days BIGINT, usage_from BIGINT
);
CREATE TABLE users(
  id TEXT PRIMARY KEY, org TEXT NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL, disabled INTEGER NOT NULL,
  created BIGINT NOT NULL, UNIQUE(org, name)
);
CREATE TABLE teams(id TEXT PRIMARY KEY, org TEXT NOT NULL, name TEXT NOT NULL, created BIGINT NOT NULL, UNIQUE(org, name));
CREATE TABLE team_members(
  team TEXT NOT NULL, user_id TEXT NOT NULL, org TEXT NOT NULL, PRIMARY KEY(team, user_id)
);
CREATE INDEX team_members_by_user ON team_members(user_id);
CREATE TABLE tokens(
  id TEXT PRIMARY KEY, org TEXT NOT NULL, user_id TEXT NOT NULL, hash {{blob}} NOT NULL UNIQUE, scopes TEXT NOT NULL,
  machine TEXT, created BIGINT NOT NULL, expires BIGINT, revoked BIGINT, last_used BIGINT,
  kind TEXT NOT NULL DEFAULT 'token', parent TEXT, replaced_by TEXT, retires BIGINT
);
CREATE INDEX tokens_by_org ON tokens(org);
CREATE TABLE identities(
  org TEXT NOT NULL, issuer TEXT NOT NULL, subject TEXT NOT NULL, user_id TEXT NOT NULL, created BIGINT NOT NULL,
  PRIMARY KEY(org, issuer, subject)
);
CREATE TABLE sign_ins(hash {{blob}} PRIMARY KEY, org TEXT NOT NULL, at BIGINT NOT NULL);
CREATE INDEX sign_ins_by_time ON sign_ins(org, at);
CREATE TABLE sessions(
  ref {{blob}} PRIMARY KEY, org TEXT NOT NULL, id TEXT NOT NULL,
  project TEXT, repository TEXT, machine TEXT, user_id TEXT, title TEXT, {", ".join(f"{part} TEXT" for part in TITLE_PARTS)},
  branch TEXT, cwd TEXT, created BIGINT NOT NULL, changed BIGINT NOT NULL, first_at BIGINT, last_at BIGINT,
  held INTEGER NOT NULL DEFAULT 0, encrypted INTEGER NOT NULL DEFAULT 0,
  state INTEGER NOT NULL DEFAULT 0, deleted BIGINT, visibility TEXT
);
CREATE INDEX sessions_by_change ON sessions(org, changed, id);
CREATE INDEX sessions_by_prompt ON sessions(org, substr(first_prompt, 1, {SHARED_HEAD}));
CREATE INDEX sessions_by_id ON sessions(org, id);
CREATE INDEX sessions_by_deletion ON sessions(deleted) WHERE state = 1;
CREATE TABLE logs(
  ref {{blob}} NOT NULL, key TEXT NOT NULL, org TEXT NOT NULL, lines BIGINT NOT NULL, bytes BIGINT NOT NULL,
  hash {{blob}} NOT NULL, last_uuid TEXT, changed BIGINT NOT NULL, closed INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(ref, key)
){{by_ref}};
CREATE TABLE segments(
  ref {{blob}} NOT NULL, key TEXT NOT NULL, first_line BIGINT NOT NULL, org TEXT NOT NULL, lines BIGINT NOT NULL,
  first_byte BIGINT NOT NULL, size BIGINT NOT NULL, before {{blob}} NOT NULL, hash {{blob}} NOT NULL,
  at BIGINT NOT NULL, token TEXT NOT NULL, codec INTEGER NOT NULL, data {{blob}} NOT NULL,
  PRIMARY KEY(ref, key, first_line)
){{by_ref}};
CREATE TABLE files(
  ref {{blob}} NOT NULL, key TEXT NOT NULL, org TEXT NOT NULL, size BIGINT NOT NULL, sha256 TEXT NOT NULL,
  changed BIGINT NOT NULL, codec INTEGER NOT NULL, data {{blob}} NOT NULL, user_id TEXT, PRIMARY KEY(ref, key)
){{by_ref}};
CREATE TABLE usage(
  org TEXT NOT NULL, message TEXT NOT NULL, session TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL,
  counted INTEGER NOT NULL, speaker INTEGER NOT NULL, has_stop INTEGER NOT NULL, forked INTEGER NOT NULL, at BIGINT,
  person TEXT NOT NULL, model TEXT NOT NULL, branch TEXT NOT NULL, variant INTEGER NOT NULL, {_COUNT_COLUMNS},
  PRIMARY KEY(org, message, session, key, request, speaker)
);
CREATE INDEX usage_by_time ON usage(org, at) WHERE counted % 2 = 1;
CREATE TABLE dropped(org TEXT NOT NULL, message TEXT NOT NULL, PRIMARY KEY(org, message));
CREATE TABLE rollup(
  org TEXT NOT NULL, quarter BIGINT NOT NULL, session TEXT NOT NULL, person TEXT NOT NULL, model TEXT NOT NULL,
  branch TEXT NOT NULL, variant INTEGER NOT NULL, {_SUM_COLUMNS},
  PRIMARY KEY(org, quarter, session, person, model, branch, variant)
);
CREATE TABLE audit(
  id {{serial}}, org TEXT NOT NULL, at BIGINT NOT NULL, user_id TEXT NOT NULL,
  token TEXT NOT NULL, act TEXT NOT NULL, target TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE INDEX audit_by_org ON audit(org, id);
CREATE INDEX audit_by_time ON audit(org, at);
CREATE TABLE rollup_day(
  org TEXT NOT NULL, day BIGINT NOT NULL, session TEXT NOT NULL, person TEXT NOT NULL, model TEXT NOT NULL,
  branch TEXT NOT NULL, variant INTEGER NOT NULL, {_SUM_COLUMNS},
  PRIMARY KEY(org, day, session, person, model, branch, variant)
);
"""

_SQLITE_ONLY = """
CREATE TABLE texts(
  id INTEGER PRIMARY KEY, ref BLOB NOT NULL, key TEXT NOT NULL, line BIGINT NOT NULL, org TEXT NOT NULL,
  at BIGINT, type TEXT NOT NULL
);
CREATE INDEX texts_by_ref ON texts(ref, key, line);
CREATE VIRTUAL TABLE words USING fts5(
  text, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2'
);
"""

# ``bodies``: lines that were moved to an object store (postgres_bodies.py); ``segments_by_time`` finds those that are old
# enough. The lake asks by session what it has to write again; that index is partial for the reason of the one by time.
_POSTGRES_ONLY = """
CREATE TABLE bodies(
  name TEXT PRIMARY KEY, org TEXT NOT NULL, ref BYTEA NOT NULL, key TEXT NOT NULL, state INTEGER NOT NULL,
  at BIGINT NOT NULL, first_line BIGINT NOT NULL, lines BIGINT NOT NULL, first_byte BIGINT NOT NULL,
  size BIGINT NOT NULL, before BYTEA NOT NULL, hash BYTEA NOT NULL, digest TEXT NOT NULL, stored BIGINT NOT NULL
);
CREATE UNIQUE INDEX bodies_by_line ON bodies(ref, key, first_line) WHERE state = 1;
CREATE INDEX bodies_by_state ON bodies(state, at) WHERE state <> 1;
CREATE INDEX bodies_by_session ON bodies(ref);
CREATE INDEX segments_by_time ON segments(at);
CREATE INDEX usage_by_session ON usage(org, session) WHERE session <> '';
"""
# Every table has an organisation, and on PostgreSQL a policy that compares it; in ``orgs`` it is the id. The policies of
# ``texts`` are made with its months.
_GUARDED = re.findall(r"CREATE TABLE (\w+)", _SHARED + _POSTGRES_ONLY)
TENANT_TABLES = [*_GUARDED, "texts"]


def sqlite_steps() -> list[str]:
    """The steps on SQLite."""
    words = {"blob": "BLOB", "by_ref": "", "serial": "INTEGER PRIMARY KEY AUTOINCREMENT"}
    return [_SHARED.format(**words) + _SQLITE_ONLY]


def postgres_steps() -> list[str]:
    """The steps on PostgreSQL: the same tables, partitioned, and protected by row-level security."""
    words = {
        "blob": "BYTEA",
        "by_ref": " PARTITION BY HASH (ref)",
        "serial": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    }
    parts = [(table, f"{table}_{part}", part) for table in PARTITIONED for part in range(PARTITIONS)]
    partitions = "".join(
        f"CREATE TABLE {name} PARTITION OF {table} FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {part});\n"
        for table, name, part in parts
    )
    # Already compressed where it pays; PostgreSQL must not try again.
    storage = "".join(
        f"ALTER TABLE {table} ALTER COLUMN data SET STORAGE EXTERNAL;\n" for table in ("segments", "files")
    )
    # A policy of a partitioned table holds for queries of that table only.
    policies = "".join(map(_policy, [*_GUARDED, *(name for _, name, _ in parts)]))
    return [_SHARED.format(**words) + _POSTGRES_ONLY + partitions + storage + MONTHS + policies]


def _policy(table: str) -> str:
    """The second check: a query without the organisation finds nothing. ``*`` is the server itself (tokens, sweeps)."""
    setting = f"(SELECT {_NAMED})" if table in _SUMS else _NAMED
    column = "id" if table == "orgs" else "org"
    return (
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;\nALTER TABLE {table} FORCE ROW LEVEL SECURITY;\n"
        f"CREATE POLICY tenant ON {table} USING ({column} = {setting} OR {setting} = '*');\n"
    )


# As ``titles.title_of`` and ``opening_prompt`` choose it, among the sessions of one person.
_GOES_ON = f"= '{GOES_ON}'"
TITLE = f"""coalesce(title, nullif(custom_title, ''), nullif(ai_title, ''),
 CASE WHEN substr(last_prompt, 1, {len(GOES_ON)}) {_GOES_ON} THEN NULL ELSE nullif(last_prompt, '') END,
 CASE WHEN next_prompt IS NOT NULL AND (substr(first_prompt, 1, {len(GOES_ON)}) {_GOES_ON} OR (SELECT count(*) FROM (
   SELECT 1 FROM sessions AS other WHERE other.org = sessions.org
    AND substr(other.first_prompt, 1, {SHARED_HEAD}) = substr(sessions.first_prompt, 1, {SHARED_HEAD})
    AND coalesce(other.user_id, '') = coalesce(sessions.user_id, '') LIMIT {SHARED_BY}) AS few) = {SHARED_BY})
  THEN next_prompt ELSE nullif(first_prompt, '') END, nullif(last_prompt, ''))"""  # noqa: S608 - constants


def session_ref(org: str, session: str) -> bytes:
    """The id of a session in all tables."""
    return sha256(f"{org}\0{session}".encode()).digest()[:16]
