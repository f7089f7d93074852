"""Which organisations a PostgreSQL cluster may answer for, while and after one moves to another cluster.

``directory`` (of the first cluster) says where an organisation is, where it is not in the first one. It is a pointer
that may be behind: what decides is ``org_moves`` of the cluster itself. There an organisation is ``copying``,
``leaving`` (no writes until a time that passes by itself), ``gone`` for good, or ``arriving`` and not yet valid. Every
write takes a shared advisory lock of its organisation before it looks there, and the one who changes the row an
exclusive one: so no write is under way when an organisation leaves. ``server/clusters/move.py`` does the move.

``org_changes`` lists the rows that changed since copying began, by their keys.
"""

from __future__ import annotations

COPYING, LEAVING, ARRIVING, AWAY = "copying", "leaving", "arriving", "gone"
# The SQLSTATE of a refusal by ``recollect_fence``; its message is the role, the other cluster and the organisation.
FENCED = "RC001"
_LOCK_CLASS = 0x6D6F7665
_LOCK = f"{_LOCK_CLASS}, hashtext(given_org)"
CLOCK_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT"

MOVE_TABLES = {"directory": "org", "org_moves": "org", "org_changes": "org"}
# Part of a released step: never changed.
MOVES = f"""
CREATE TABLE directory(org TEXT PRIMARY KEY, cluster TEXT NOT NULL, changed BIGINT NOT NULL);
CREATE TABLE org_moves(
  org TEXT PRIMARY KEY, role TEXT NOT NULL, other TEXT NOT NULL, until BIGINT NOT NULL DEFAULT 0, copied TEXT[] NOT NULL DEFAULT '{{}}'
);
CREATE TABLE org_changes(
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, org TEXT NOT NULL, name TEXT NOT NULL, key JSONB NOT NULL
);
CREATE INDEX org_changes_by_org ON org_changes(org, id);

CREATE FUNCTION recollect_fence(given_org TEXT, given_write BOOLEAN) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
  known RECORD;
BEGIN
  IF given_write THEN
    PERFORM pg_advisory_xact_lock_shared({_LOCK});
  END IF;
  SELECT role, other, until INTO known FROM org_moves WHERE org = given_org;
  IF NOT FOUND OR known.role = '{COPYING}'
      OR (known.role = '{LEAVING}' AND (NOT given_write OR known.until < {CLOCK_MS})) THEN
    RETURN;
  END IF;
  RAISE EXCEPTION USING ERRCODE = '{FENCED}', MESSAGE = concat_ws(' ', known.role, known.other, given_org);
END $$;

CREATE FUNCTION recollect_enter(given_org TEXT, given_write BOOLEAN) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('recollect.org', given_org, false);
  PERFORM recollect_fence(given_org, given_write);
END $$;
"""  # noqa: S608 - constants
# In the function that makes appends: the lock is held until its transaction ends.
FENCE_APPENDS = "  PERFORM recollect_fence(given_org, true);\n"
ENTER = "SELECT recollect_enter($1, $2)"
# Organisations whose rows in this cluster are not valid, or no longer.
NOT_HERE = f"SELECT org FROM org_moves WHERE role IN ('{ARRIVING}', '{AWAY}')"  # noqa: S608 - constants
FENCE_OF = f"(SELECT concat_ws(' ', role, other, org) FROM org_moves WHERE org_moves.org = tokens.org AND role IN ('{ARRIVING}', '{AWAY}'))"  # noqa: S608 - constants
EXCLUSIVE = f"SELECT pg_advisory_xact_lock({_LOCK_CLASS}, hashtext($1))"
