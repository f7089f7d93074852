"""The tables, as data: one description for SQLite and PostgreSQL, and the migration steps.

``ref`` identifies a session: 16 bytes of a hash over organisation and session id, so that a row is
found without a lookup, and PostgreSQL can partition its large tables by it. ``segments`` has one row
per append: its primary key admits only one of two concurrent writers. ``usage`` and ``rollup`` are
those of the local index (index/schema.py), with the organisation first: ``rollup`` is always the sum of
the counted rows of ``usage``.

A released step is never changed; a change is a new step.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

from recollect.model.titles import TITLE_PARTS
from recollect.server.database.tables.append_function import BY_BATCH, BY_BLOCK, BY_PART, BY_ROW, WITH_FENCE
from recollect.server.database.tables.months import BY_MONTH
from recollect.server.database.tables.moves import MOVE_TABLES, MOVES
from recollect.server.database.tables.named_sums import NAMED_AS_VIEW, NAMED_SUMS
from recollect.server.database.tables.usage_months import POSTGRES_USAGE_BY_MONTH, SQLITE_USAGE_BY_MONTH

PARTITIONS = 16
# Kept by triggers on PostgreSQL, a view on SQLite: never written to.
DERIVED_TABLES = ("rollup_named",)
# Every table has an organisation, and on PostgreSQL a policy that compares it; in ``orgs`` it is the id.
TENANT_TABLES = {
    "orgs": "id",
    "users": "org",
    "tokens": "org",
    "sessions": "org",
    "logs": "org",
    "segments": "org",
    "files": "org",
    "usage": "org",
    "responses": "org",
    "rollup": "org",
    "rollup_day": "org",
    "rollup_named": "org",
    "teams": "org",
    "team_members": "org",
    "identities": "org",
    "sign_ins": "org",
    "texts": "org",
    "audit": "org",
    "bodies": "org",  # on PostgreSQL only
}
PARTITIONED = ("logs", "segments", "files")
_FIRST_PARTITIONED = (*PARTITIONED, "texts")  # of the first steps; by month since (tables/months.py)
COUNTS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")
_COUNT_COLUMNS = ", ".join(f"{name} BIGINT NOT NULL" for name in COUNTS)

_SHARED = f"""
CREATE TABLE orgs(id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, created BIGINT NOT NULL, retention_days BIGINT);
CREATE TABLE users(
  id TEXT PRIMARY KEY, org TEXT NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL, disabled INTEGER NOT NULL,
  created BIGINT NOT NULL, UNIQUE(org, name)
);
CREATE TABLE tokens(
  id TEXT PRIMARY KEY, org TEXT NOT NULL, user_id TEXT NOT NULL, hash {{blob}} NOT NULL UNIQUE, scopes TEXT NOT NULL,
  machine TEXT, created BIGINT NOT NULL, expires BIGINT, revoked BIGINT, last_used BIGINT
);
CREATE INDEX tokens_by_org ON tokens(org);
CREATE TABLE sessions(
  ref {{blob}} PRIMARY KEY, org TEXT NOT NULL, id TEXT NOT NULL,
  project TEXT, repository TEXT, machine TEXT, user_id TEXT, title TEXT, title_rank INTEGER NOT NULL DEFAULT 0,
  branch TEXT, cwd TEXT, created BIGINT NOT NULL, changed BIGINT NOT NULL, first_at BIGINT, last_at BIGINT,
  held INTEGER NOT NULL DEFAULT 0, encrypted INTEGER NOT NULL DEFAULT 0,
  state INTEGER NOT NULL DEFAULT 0, deleted BIGINT
);
CREATE INDEX sessions_by_change ON sessions(org, changed, id);
CREATE INDEX sessions_by_id ON sessions(org, id);
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
  changed BIGINT NOT NULL, codec INTEGER NOT NULL, data {{blob}} NOT NULL, PRIMARY KEY(ref, key)
){{by_ref}};
CREATE TABLE usage(
  org TEXT NOT NULL, message TEXT NOT NULL, session TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL,
  counted INTEGER NOT NULL, speaker INTEGER NOT NULL, has_stop INTEGER NOT NULL, forked INTEGER NOT NULL, at BIGINT,
  person TEXT NOT NULL, model TEXT NOT NULL, branch TEXT NOT NULL, variant INTEGER NOT NULL, {_COUNT_COLUMNS},
  PRIMARY KEY(org, message, session, key, request)
);
CREATE INDEX usage_by_time ON usage(org, at);
CREATE TABLE rollup(
  org TEXT NOT NULL, quarter BIGINT NOT NULL, session TEXT NOT NULL, person TEXT NOT NULL, model TEXT NOT NULL,
  branch TEXT NOT NULL, variant INTEGER NOT NULL, messages BIGINT NOT NULL, {_COUNT_COLUMNS},
  PRIMARY KEY(org, quarter, session, person, model, branch, variant)
);
CREATE TABLE audit(
  id {{serial}}, org TEXT NOT NULL, at BIGINT NOT NULL, user_id TEXT NOT NULL, token TEXT NOT NULL,
  act TEXT NOT NULL, target TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE INDEX audit_by_org ON audit(org, id);
"""

_SQLITE_TEXTS = """
CREATE TABLE texts(
  id INTEGER PRIMARY KEY, ref BLOB NOT NULL, key TEXT NOT NULL, line BIGINT NOT NULL, org TEXT NOT NULL,
  at BIGINT, type TEXT NOT NULL
);
CREATE INDEX texts_by_ref ON texts(ref, key, line);
CREATE VIRTUAL TABLE words USING fts5(
  text, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2'
);
"""

_POSTGRES_TEXTS = """
CREATE TABLE texts(
  ref BYTEA NOT NULL, key TEXT NOT NULL, line BIGINT NOT NULL, org TEXT NOT NULL, at BIGINT, type TEXT NOT NULL,
  words TSVECTOR NOT NULL, PRIMARY KEY(ref, key, line)
) PARTITION BY HASH (ref);
CREATE INDEX texts_by_word ON texts USING gin(words);
"""

# Partial, for cost queries: the append path looks up responses by message, and used this index instead of its
# own where the plan was made for an empty table.
_USAGE_BY_TIME = """
DROP INDEX usage_by_time;
CREATE INDEX usage_by_time ON usage(org, at) WHERE counted = 1;
"""

# A row for each speaker of a log, and flags in ``counted`` (model/cost/copies.py): the copy a response
# belongs to (1) may differ from the one with its amounts (2).
_USAGE_COLUMNS = (
    "org, message, session, key, request, counted, speaker, has_stop, forked, at, person, model, branch, variant, "
    + ", ".join(COUNTS)
)
_COPIES_MARKED = """
UPDATE usage SET counted = 3 WHERE counted = 1;
DROP INDEX usage_by_time;
CREATE INDEX usage_by_time ON usage(org, at) WHERE counted % 2 = 1;
"""
_TITLE_COLUMNS = "".join(f"ALTER TABLE sessions ADD COLUMN {part} TEXT;\n" for part in TITLE_PARTS)
_SQLITE_COPIES = f"""
CREATE TABLE usage_now(
  org TEXT NOT NULL, message TEXT NOT NULL, session TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL,
  counted INTEGER NOT NULL, speaker INTEGER NOT NULL, has_stop INTEGER NOT NULL, forked INTEGER NOT NULL, at BIGINT,
  person TEXT NOT NULL, model TEXT NOT NULL, branch TEXT NOT NULL, variant INTEGER NOT NULL, {_COUNT_COLUMNS},
  PRIMARY KEY(org, message, session, key, request, speaker)
);
INSERT INTO usage_now({_USAGE_COLUMNS}) SELECT {_USAGE_COLUMNS} FROM usage;
DROP TABLE usage;
ALTER TABLE usage_now RENAME TO usage;
CREATE INDEX usage_by_time ON usage(org, at);
"""  # noqa: S608 - names of columns
# Who stored a side file; null for those stored before: then it is the session's creator.
_FILE_AUTHOR = "ALTER TABLE files ADD COLUMN user_id TEXT;\n"
_POSTGRES_COPIES = """
ALTER TABLE usage DROP CONSTRAINT usage_pkey;
ALTER TABLE usage ADD PRIMARY KEY (org, message, session, key, request, speaker);
"""
# Rounded down, also before 1970.
_DAY_OF_QUARTER = "(quarter - ((quarter % 96) + 96) % 96) / 96"
# The sums of whole days (of UTC): reports over months read these.
_ROLLUP_BY_DAY = f"""
CREATE TABLE rollup_day(
  org TEXT NOT NULL, day BIGINT NOT NULL, session TEXT NOT NULL, person TEXT NOT NULL, model TEXT NOT NULL,
  branch TEXT NOT NULL, variant INTEGER NOT NULL, messages BIGINT NOT NULL, {_COUNT_COLUMNS},
  PRIMARY KEY(org, day, session, person, model, branch, variant)
);
INSERT INTO rollup_day(org, day, session, person, model, branch, variant, messages, {", ".join(COUNTS)})
  SELECT org, {_DAY_OF_QUARTER}, session, person, model, branch, variant, sum(messages),
    {", ".join(f"sum({name})" for name in COUNTS)}
  FROM rollup GROUP BY org, {_DAY_OF_QUARTER}, session, person, model, branch, variant;
"""  # noqa: S608 - names of columns
_AUDIT_DAYS = "ALTER TABLE orgs ADD COLUMN audit_days BIGINT;\n"
# Who sees a session: null as the organisation says, which was everyone before.
_TEAMS = """
ALTER TABLE orgs ADD COLUMN visibility TEXT NOT NULL DEFAULT 'organisation';
ALTER TABLE sessions ADD COLUMN visibility TEXT;
CREATE TABLE teams(id TEXT PRIMARY KEY, org TEXT NOT NULL, name TEXT NOT NULL, created BIGINT NOT NULL, UNIQUE(org, name));
CREATE TABLE team_members(
  team TEXT NOT NULL, user_id TEXT NOT NULL, org TEXT NOT NULL, PRIMARY KEY(team, user_id)
);
CREATE INDEX team_members_by_user ON team_members(user_id);
"""
# Sessions of browsers are tokens of a kind of their own. Who a person is at an identity provider, and sign-ins that
# were used: each works once.
_SIGN_IN = """
ALTER TABLE tokens ADD COLUMN kind TEXT NOT NULL DEFAULT 'token';
ALTER TABLE tokens ADD COLUMN parent TEXT;
ALTER TABLE tokens ADD COLUMN replaced_by TEXT;
ALTER TABLE tokens ADD COLUMN retires BIGINT;
CREATE TABLE identities(
  org TEXT NOT NULL, issuer TEXT NOT NULL, subject TEXT NOT NULL, user_id TEXT NOT NULL, created BIGINT NOT NULL,
  PRIMARY KEY(org, issuer, subject)
);
CREATE TABLE sign_ins(hash {blob} PRIMARY KEY, org TEXT NOT NULL, at BIGINT NOT NULL);
CREATE INDEX sign_ins_by_time ON sign_ins(org, at);
"""
# The same policy, with the setting read once for a query and not for each of millions of rows.
_READ_ONCE = "(org = (SELECT current_setting('recollect.org', true)) OR (SELECT current_setting('recollect.org', true)) = '*')"
_SETTING_READ_ONCE = "".join(
    f"ALTER POLICY tenant ON {table} USING {_READ_ONCE};\n" for table in ("rollup", "rollup_day")
)
# Lines that were moved to an object store (postgres_bodies.py); the last index finds those that are old enough.
_BODIES = """
CREATE TABLE bodies(
  name TEXT PRIMARY KEY, org TEXT NOT NULL, ref BYTEA NOT NULL, key TEXT NOT NULL, state INTEGER NOT NULL,
  at BIGINT NOT NULL, first_line BIGINT NOT NULL, lines BIGINT NOT NULL, first_byte BIGINT NOT NULL,
  size BIGINT NOT NULL, before BYTEA NOT NULL, hash BYTEA NOT NULL, digest TEXT NOT NULL, stored BIGINT NOT NULL
);
CREATE UNIQUE INDEX bodies_by_line ON bodies(ref, key, first_line) WHERE state = 1;
CREATE INDEX bodies_by_state ON bodies(state, at) WHERE state <> 1;
CREATE INDEX bodies_by_session ON bodies(ref);
CREATE INDEX segments_by_time ON segments(at);
"""
# The lake asks what it has to write again of a session that changed.
_USAGE_BY_SESSION = "CREATE INDEX usage_by_session ON usage(org, session);\n"
_LATER_TABLES = (
    "rollup_day",
    "rollup_named",
    "teams",
    "team_members",
    "bodies",
    "identities",
    "sign_ins",
    "responses",
)
_FIRST_TABLES = {name: column for name, column in TENANT_TABLES.items() if name not in _LATER_TABLES}


def sqlite_steps() -> list[str]:
    """The steps on SQLite."""
    words = {"blob": "BLOB", "serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "by_ref": ""}
    return [
        _SHARED.format(**words) + _SQLITE_TEXTS,
        _SQLITE_COPIES + _COPIES_MARKED + _TITLE_COLUMNS,
        _FILE_AUTHOR,
        _ROLLUP_BY_DAY
        + _AUDIT_DAYS
        + "CREATE INDEX sessions_by_deletion ON sessions(deleted) WHERE state = 1;\n"
        "CREATE INDEX audit_by_time ON audit(org, at);\n",
        _TEAMS,
        _SIGN_IN.format(**words),
        NAMED_AS_VIEW,
        SQLITE_USAGE_BY_MONTH,
    ]


def postgres_steps() -> list[str]:
    """The steps on PostgreSQL: the same tables, partitioned, and protected by row-level security."""
    words = {
        "blob": "BYTEA",
        "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "by_ref": " PARTITION BY HASH (ref)",
    }
    parts = "".join(
        f"CREATE TABLE {table}_{part} PARTITION OF {table} FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {part});\n"
        for table in _FIRST_PARTITIONED
        for part in range(PARTITIONS)
    )
    # Already compressed where it pays; PostgreSQL must not try again.
    storage = "".join(
        f"ALTER TABLE {table} ALTER COLUMN data SET STORAGE EXTERNAL;\n" for table in ("segments", "files")
    )
    return [
        _SHARED.format(**words) + _POSTGRES_TEXTS + parts + storage + _policies(_FIRST_TABLES),
        BY_ROW,
        BY_BATCH + _USAGE_BY_TIME,
        _POSTGRES_COPIES + _COPIES_MARKED + _TITLE_COLUMNS + BY_PART,
        # A policy of a partitioned table holds for queries of that table only.
        _FILE_AUTHOR
        + _policies({f"{table}_{part}": "org" for table in _FIRST_PARTITIONED for part in range(PARTITIONS)}),
        BY_MONTH + BY_BLOCK + _ROLLUP_BY_DAY + _AUDIT_DAYS + _policies({"rollup_day": "org"}),
        _TEAMS + _policies({"teams": "org", "team_members": "org"}) + _SETTING_READ_ONCE,
        _BODIES + _policies({"bodies": "org"}),
        _SIGN_IN.format(**words) + _policies({"identities": "org", "sign_ins": "org"}),
        _USAGE_BY_SESSION,
        MOVES + _policies(MOVE_TABLES) + WITH_FENCE,
        NAMED_SUMS
        + _policies({"rollup_named": "org"})
        + f"ALTER POLICY tenant ON rollup_named USING {_READ_ONCE};\n",
        POSTGRES_USAGE_BY_MONTH,
    ]


def _policies(tables: Mapping[str, str]) -> str:
    """The second check: a query without the organisation finds nothing. ``*`` is the server itself
    (tokens, sweeps)."""
    named = "current_setting('recollect.org', true)"
    return "".join(
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;\n"
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY;\n"
        f"CREATE POLICY tenant ON {table} USING ({column} = {named} OR {named} = '*');\n"
        for table, column in tables.items()
    )


@lru_cache(maxsize=16_384)
def session_ref(org: str, session: str) -> bytes:
    """The id of a session in all tables."""
    return sha256(f"{org}\0{session}".encode()).digest()[:16]
