#!/bin/sh
# Runs once in the new database: a plain role, so that row-level security holds for the server.
set -eu
psql -v ON_ERROR_STOP=1 -v word="$(cat /run/secrets/recollect)" <<'SQL'
CREATE ROLE recollect LOGIN PASSWORD :'word';
CREATE DATABASE recollect OWNER recollect;
SQL
