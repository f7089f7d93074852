"""The PostgreSQL function that makes a batch of appends: one round trip and one commit for all.

It runs with the rights of its caller, under row-level security. Appends come as one JSON document
beside their bytes (PostgreSQL parses that faster than a driver writes an array per column), ordered by
log, so that two servers wait instead of deadlocking. A change of it is a new migration step with CREATE
OR REPLACE: ``BY_ROW`` was the first, then ``BY_BATCH``, ``BY_PART`` and ``BY_BLOCK``; ``WITH_FENCE`` is current. Servers of
several versions may call it: its result stays the same, its columns are only added to, and a column
that a server does not send is null.
"""

from __future__ import annotations

from recollect.server.database.records import LIVE, PURGED
from recollect.server.database.tables.moves import FENCE_APPENDS

# The columns of an append, and of the words of a line; ``place`` is the append's number, from 1.
_ROW = (
    "ref BYTEA, key TEXT, id TEXT, fresh BOOLEAN, new_machine TEXT, encrypted INTEGER, before BIGINT, before_hash BYTEA,"
    " after BIGINT, after_hash BYTEA, size BIGINT, uuid TEXT, user_id TEXT, token TEXT, codec INTEGER, first_at BIGINT,"
    " last_at BIGINT, cwd TEXT, branch TEXT, title TEXT, rank INTEGER, project TEXT, repository TEXT, machine TEXT"
)
_TEXT = "place INTEGER, ref BYTEA, key TEXT, line BIGINT, at BIGINT, type TEXT, words TEXT"
_NAMES = ", ".join(column.split()[0] for column in _ROW.split(", "))

# One append of a batch: its log is created if new, compared and moved. Part of released steps: never changed.
_COMPARED = f"""\
    IF one.fresh THEN
      INSERT INTO sessions AS known(ref, org, id, machine, user_id, created, changed, encrypted)
        VALUES(one.ref, given_org, one.id, one.new_machine, one.user_id, given_now, given_now, one.encrypted)
        ON CONFLICT (ref) DO UPDATE SET
          state = CASE WHEN known.state = {PURGED} THEN {LIVE} ELSE known.state END,
          encrypted = CASE WHEN known.state = {PURGED} THEN excluded.encrypted ELSE known.encrypted END
        RETURNING known.state INTO found_state;
      IF found_state = {LIVE} THEN
        INSERT INTO logs(ref, key, org, lines, bytes, hash, changed)
          VALUES(one.ref, one.key, given_org, 0, 0, one.before_hash, given_now)
          ON CONFLICT (ref, key) DO NOTHING;
      END IF;
    END IF;
    UPDATE logs SET lines = one.after, bytes = bytes + one.size, hash = one.after_hash,
        last_uuid = coalesce(one.uuid, last_uuid), changed = given_now
      WHERE ref = one.ref AND key = one.key AND lines = one.before AND hash = one.before_hash AND closed = 0
      RETURNING bytes, last_uuid INTO end_byte, end_uuid;
    CONTINUE WHEN NOT FOUND;
"""  # noqa: S608 - constants
# Released: never changed.
BY_ROW = f"""
CREATE FUNCTION recollect_append(
  given_org TEXT, given_now BIGINT, given_rows TEXT, given_data BYTEA[], given_texts TEXT
) RETURNS TABLE(place INTEGER, end_byte BIGINT, end_uuid TEXT) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  one RECORD;
  found_state INTEGER;
  won INTEGER[] := '{{}}';
BEGIN
  PERFORM set_config('recollect.org', given_org, true);
  FOR one IN SELECT * FROM ROWS FROM(json_to_recordset(given_rows::JSON) AS ({_ROW}), unnest(given_data))
    WITH ORDINALITY AS t({_NAMES}, data, place)
  LOOP
{_COMPARED}    INSERT INTO segments(ref, key, first_line, org, lines, first_byte, size, before, hash, at, token, codec, data)
      VALUES(one.ref, one.key, one.before, given_org, one.after - one.before, end_byte - one.size, one.size,
        one.before_hash, one.after_hash, given_now, one.token, one.codec, one.data);
    UPDATE sessions SET changed = greatest(changed, given_now),
        first_at = least(first_at, one.first_at), last_at = greatest(last_at, one.last_at),
        cwd = coalesce(cwd, one.cwd), branch = coalesce(one.branch, branch),
        title = CASE WHEN one.rank > title_rank OR (one.rank = title_rank AND one.rank > 1)
          THEN one.title ELSE title END,
        title_rank = greatest(title_rank, one.rank), project = coalesce(one.project, project),
        repository = coalesce(one.repository, repository), machine = coalesce(one.machine, machine)
      WHERE ref = one.ref;
    INSERT INTO audit(org, at, user_id, token, act, target, detail)
      VALUES(given_org, given_now, one.user_id, one.token, 'append',
        CASE WHEN one.key = '' THEN one.id ELSE one.id || '/' || one.key END,
        one.before || '+' || (one.after - one.before));
    won := won || one.place::INTEGER;
    place := one.place;
    RETURN NEXT;
  END LOOP;
  IF given_texts IS NOT NULL THEN
    INSERT INTO texts(ref, key, line, org, at, type, words)
      SELECT t.ref, t.key, t.line, given_org, t.at, t.type, to_tsvector('simple', t.words)
      FROM json_to_recordset(given_texts::JSON) AS t({_TEXT})
      WHERE t.place = ANY(won) ON CONFLICT DO NOTHING;
  END IF;
END $$;
"""  # noqa: S608 - names of columns and constants


# Only the comparison loops over the logs, in order: joined with the whole batch, PostgreSQL would scan all
# logs instead of looking into sixteen partitions for each. The rest is one statement for all. The settings
# make it one plan for all batches (otherwise every comparison is planned again, to skip partitions), and one
# that finds rows by key, however small the tables were when it was planned.
def _by_batch(columns: str, told: str, texts: str, fence: str = "") -> str:
    """The function for rows with these columns; ``told`` is the SQL that updates their sessions, ``texts`` the
    one that stores words, ``fence`` the one that refuses an organisation."""
    names = ", ".join(column.split()[0] for column in columns.split(", "))
    given = (
        f"ROWS FROM(json_to_recordset(given_rows::JSON) AS ({columns})) WITH ORDINALITY AS t({names}, place)"
    )
    return f"""
CREATE OR REPLACE FUNCTION recollect_append(
  given_org TEXT, given_now BIGINT, given_rows TEXT, given_data BYTEA[], given_texts TEXT
) RETURNS TABLE(place INTEGER, end_byte BIGINT, end_uuid TEXT) LANGUAGE plpgsql
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET enable_hashagg = off
AS $$
#variable_conflict use_column
DECLARE
  one RECORD;
  found_state INTEGER;
  ends BIGINT[];  -- where the logs of those who won end, by place
  refs BYTEA[];
BEGIN
  PERFORM set_config('recollect.org', given_org, true);
{fence}  FOR one IN SELECT * FROM {given} LOOP
{_COMPARED}    place := one.place;
    ends[place] := end_byte;
    refs := refs || one.ref;
    RETURN NEXT;
  END LOOP;
  WITH won AS MATERIALIZED (
    SELECT t.*, ends[place] AS end_byte FROM {given} WHERE ends[place] IS NOT NULL
  ),
  kept AS (
    INSERT INTO segments(ref, key, first_line, org, lines, first_byte, size, before, hash, at, token, codec, data)
      SELECT ref, key, before, given_org, after - before, end_byte - size, size, before_hash, after_hash, given_now,
        token, codec, given_data[place]
      FROM won
  ),
  told AS (
    UPDATE sessions SET changed = greatest(sessions.changed, given_now),
{told}      ) AS new WHERE sessions.ref = new.ref AND sessions.ref = ANY(refs)
  ),
  noted AS (
    INSERT INTO audit(org, at, user_id, token, act, target, detail)
      SELECT given_org, given_now, user_id, token, 'append', CASE WHEN key = '' THEN id ELSE id || '/' || key END,
        before || '+' || (after - before)
      FROM won
  )
{texts}END $$;
"""  # noqa: S608 - names of columns and constants


# Released: never changed.
_WORDS_BY_LINE = f"""\
  INSERT INTO texts(ref, key, line, org, at, type, words)
    SELECT ref, key, line, given_org, at, type, to_tsvector('simple', words)
    FROM json_to_recordset(given_texts::JSON) AS t({_TEXT}) WHERE ends[place] IS NOT NULL ON CONFLICT DO NOTHING;
"""  # noqa: S608 - names of columns
_TOLD_WITH_RANK = """\
        first_at = least(sessions.first_at, new.first_at), last_at = greatest(sessions.last_at, new.last_at),
        cwd = coalesce(sessions.cwd, new.cwd), branch = coalesce(new.branch, sessions.branch),
        title = CASE WHEN new.rank > title_rank OR (new.rank = title_rank AND new.rank > 1)
          THEN new.title ELSE sessions.title END,
        title_rank = greatest(title_rank, new.rank), project = coalesce(new.project, sessions.project),
        repository = coalesce(new.repository, sessions.repository), machine = coalesce(new.machine, sessions.machine)
      FROM (
        -- Logs of one session in one batch came at one time: none of them is the first.
        SELECT ref, min(first_at) AS first_at, max(last_at) AS last_at, min(cwd) AS cwd, max(branch) AS branch,
          max(title) FILTER (WHERE rank > 0) AS title, max(rank) AS rank, max(project) AS project,
          max(repository) AS repository, max(machine) AS machine
        FROM won GROUP BY ref
"""
BY_BATCH = _by_batch(_ROW, _TOLD_WITH_RANK, _WORDS_BY_LINE)

# Titles by their parts, times in the order of the log; an append to an agent's log does not change the
# session.
_PARTS = ("custom_title", "ai_title", "last_prompt", "first_prompt")
_ROW_OF_PARTS = f"{_ROW}, {', '.join(f'{part} TEXT' for part in _PARTS)}"
_TOLD_BY_PART = f"""\
        first_at = coalesce(sessions.first_at, new.first_at), last_at = coalesce(new.last_at, sessions.last_at),
        cwd = coalesce(sessions.cwd, new.cwd), branch = coalesce(new.branch, sessions.branch),
        custom_title = coalesce(new.custom_title, sessions.custom_title),
        ai_title = coalesce(new.ai_title, sessions.ai_title),
        last_prompt = coalesce(new.last_prompt, sessions.last_prompt),
        first_prompt = coalesce(sessions.first_prompt, new.first_prompt),
        title = CASE WHEN new.rank > title_rank OR (new.rank = title_rank AND new.rank > 1)
          THEN new.title ELSE sessions.title END,
        title_rank = greatest(title_rank, new.rank), project = coalesce(new.project, sessions.project),
        repository = coalesce(new.repository, sessions.repository), machine = coalesce(new.machine, sessions.machine)
      FROM (
        -- Of the logs of one session in one batch only its own says these things.
        SELECT ref, min(first_at) AS first_at, max(last_at) AS last_at, min(cwd) AS cwd, max(branch) AS branch,
          {", ".join(f"max({part}) AS {part}" for part in _PARTS)},
          max(title) FILTER (WHERE rank > 0) AS title, coalesce(max(rank), 0) AS rank, max(project) AS project,
          max(repository) AS repository, max(machine) AS machine
        FROM won GROUP BY ref
"""  # noqa: S608 - constants
BY_PART = _by_batch(_ROW_OF_PARTS, _TOLD_BY_PART, _WORDS_BY_LINE)

# One row for a block of lines; servers of the version before send each line with ``at`` alone.
_WORDS_BY_BLOCK = f"""\
  INSERT INTO texts(ref, key, line, lines, org, oldest, newest, words)
    SELECT ref, key, line, coalesce(lines, 1), given_org, coalesce(oldest, at, 0),
      least(coalesce(newest, at, 0), given_now), array_to_tsvector(array_remove(string_to_array(words, ' '), ''))
    FROM json_to_recordset(given_texts::JSON) AS t({_TEXT}, lines INTEGER, oldest BIGINT, newest BIGINT)
    WHERE ends[place] IS NOT NULL;
"""  # noqa: S608 - names of columns
BY_BLOCK = _by_batch(_ROW_OF_PARTS, _TOLD_BY_PART, _WORDS_BY_BLOCK)
# Refuses organisations that leave this cluster (tables/moves.py).
WITH_FENCE = _by_batch(_ROW_OF_PARTS, _TOLD_BY_PART, _WORDS_BY_BLOCK, FENCE_APPENDS)
CALL = "SELECT place, end_byte, end_uuid FROM recollect_append($1, $2, $3, $4, $5)"
