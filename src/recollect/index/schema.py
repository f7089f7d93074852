"""The tables of the index, and where its file lies. Their version is part of the file name.

No text of a transcript is stored: rows say at which byte of which log something is. The exceptions are
names (models, branches, directories, tools), which reports group by, and what a list shows of a session
(titles, tag, first and last prompt, shortened): ``catalogue``.

``messages.text`` is the row of the full-text table that holds the line's words. Copies of a line in forks
share the row of the first copy that was read, so each message is found once. ``usage`` has one row for
each log and speaker that mention a response; ``counted`` holds the marks of ``model.cost.line_usage``: the
copy a response belongs to, the copy that has its amounts. ``copies`` shows every row with the amounts
that count. ``rollup`` is always the sum over those rows, by quarter of an hour (the finest step of any
time zone), so that days can be cut in every zone.

``recall`` is what questions are asked of: the words of what was said, stemmed, without what tools printed. It
keeps neither places nor counts of words, so it is small. Its rows are numbered by ``recall_row``.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable

VERSION = 13

# What a row of ``files`` is.
SESSION, AGENT, TOOL_OUTPUT = 0, 1, 2
# What is in a log (``files.traits``): answers copied from another session, answers of its own, records of another agent.
COPIED, ANSWERED, MIRRORED = 1, 2, 4

Id = bytes | str | None  # of a message: a uuid as 16 bytes; any other id unchanged
SPAN_BITS = 10  # the newest time is stored for every 1,024 text rows
QUARTER_MS = 900_000

TABLES = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE names(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE files(
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE,
  home TEXT NOT NULL,
  role INTEGER NOT NULL,
  session TEXT,
  agent TEXT,
  device INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
  consumed INTEGER NOT NULL DEFAULT 0,
  head BLOB, tail BLOB,
  first_at INTEGER, last_at INTEGER,
  messages INTEGER NOT NULL DEFAULT 0,
  damaged INTEGER NOT NULL DEFAULT 0,
  cwd INTEGER, branch INTEGER,
  is_warm_up INTEGER,
  origins TEXT, -- where its worktrees were made from, a line each, the last one first
  traits INTEGER NOT NULL DEFAULT 0,
  gone INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX files_by_session ON files(session);
CREATE TABLE catalogue(
  file INTEGER PRIMARY KEY,
  lines INTEGER NOT NULL DEFAULT 0,
  begins_aside INTEGER, -- whether its first link is of a side chain
  custom_title TEXT, ai_title TEXT, last_prompt TEXT, first_prompt TEXT, next_prompt TEXT, tag TEXT, -- '' where it was taken away
  continued_in TEXT, -- the session that took over
  copied_from TEXT, -- the session that the lines of a fork name
  lost_beginning TEXT, -- the session that a log goes on from, if it begins in the middle
  client TEXT, -- the agent that the log names itself, if not Claude
  -- See model/conversation/agents.py; messages is NULL where the log has to be read to know.
  messages INTEGER, has_conversation INTEGER NOT NULL DEFAULT 0, leaf TEXT, bridge TEXT, answer TEXT,
  inline_agents INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX catalogue_by_prompt ON catalogue(substr(first_prompt, 1, 60));
CREATE TABLE damage(file INTEGER, code TEXT, lines INTEGER NOT NULL, PRIMARY KEY(file, code)) WITHOUT ROWID;
-- What was found in a file (subject: check, secrets), as the file was then and by the rules of then.
CREATE TABLE kept(
  path TEXT, subject TEXT,
  device INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
  rules TEXT NOT NULL, result BLOB NOT NULL,
  codes TEXT NOT NULL, -- of errors, separated by blanks: what an overview counts
  PRIMARY KEY(path, subject)
) WITHOUT ROWID;
CREATE VIEW sessions AS SELECT * FROM files WHERE role = 0;
CREATE VIEW agents AS SELECT * FROM files WHERE role = 1;
CREATE TABLE messages(
  id INTEGER PRIMARY KEY,
  file INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  length INTEGER NOT NULL,
  uuid,
  at INTEGER,
  kind INTEGER NOT NULL,
  text INTEGER,
  digest INTEGER
);
CREATE INDEX messages_by_place ON messages(file, offset);
-- Nearly every line has an id, and its end is enough to find it (``same_uuid``).
CREATE INDEX messages_by_uuid ON messages(substr(uuid, -6)) WHERE uuid IS NOT NULL;
CREATE INDEX messages_by_text ON messages(text) WHERE text <> id;
CREATE TABLE spans(span INTEGER PRIMARY KEY, newest INTEGER NOT NULL);
CREATE TABLE responses(id INTEGER PRIMARY KEY, message TEXT UNIQUE);
CREATE TABLE usage(
  id INTEGER PRIMARY KEY,
  response INTEGER NOT NULL,
  file INTEGER NOT NULL,
  request TEXT NOT NULL,
  counted INTEGER NOT NULL,
  speaker INTEGER NOT NULL, has_stop INTEGER NOT NULL, forked INTEGER NOT NULL,
  at INTEGER,
  model INTEGER, branch INTEGER, version INTEGER, tool INTEGER,
  variant INTEGER NOT NULL,
  input INTEGER NOT NULL, output INTEGER NOT NULL,
  cache_write_5m INTEGER NOT NULL, cache_write_1h INTEGER NOT NULL,
  cache_read INTEGER NOT NULL, web_searches INTEGER NOT NULL,
  recorded INTEGER, duration INTEGER, asked, lines INTEGER NOT NULL
);
CREATE INDEX usage_by_response ON usage(response); -- in it, one row for each file, request and speaker
CREATE VIEW copies AS SELECT
  own.id, own.response, own.file, own.request, own.speaker, own.has_stop, own.forked, own.at, own.branch, own.tool, own.duration, own.asked, own.lines,
  own.counted & 1 AS counted,
  iif(larger.id IS NULL, own.model, larger.model) AS model,
  iif(larger.id IS NULL, own.version, larger.version) AS version,
  iif(larger.id IS NULL, own.variant, larger.variant) AS variant,
  iif(larger.id IS NULL, own.input, larger.input) AS input,
  iif(larger.id IS NULL, own.output, larger.output) AS output,
  iif(larger.id IS NULL, own.cache_write_5m, larger.cache_write_5m) AS cache_write_5m,
  iif(larger.id IS NULL, own.cache_write_1h, larger.cache_write_1h) AS cache_write_1h,
  iif(larger.id IS NULL, own.cache_read, larger.cache_read) AS cache_read,
  iif(larger.id IS NULL, own.web_searches, larger.web_searches) AS web_searches,
  iif(larger.id IS NULL, own.recorded, larger.recorded) AS recorded
FROM usage AS own LEFT JOIN usage AS larger ON own.counted = 1 AND larger.response = own.response
  AND larger.counted >= 2 AND (own.speaker <> 2 OR larger.request = own.request);
CREATE INDEX usage_by_file ON usage(file);
CREATE TABLE rollup(
  quarter INTEGER, file INTEGER, model INTEGER, branch INTEGER, variant INTEGER,
  messages INTEGER, input INTEGER, output INTEGER,
  cache_write_5m INTEGER, cache_write_1h INTEGER, cache_read INTEGER, web_searches INTEGER,
  recorded INTEGER, unrecorded INTEGER,
  PRIMARY KEY(quarter, file, model, branch, variant)
) WITHOUT ROWID;
CREATE TABLE cost_states(
  file INTEGER NOT NULL, at INTEGER, started INTEGER, model INTEGER, recorded INTEGER NOT NULL,
  input INTEGER NOT NULL, output INTEGER NOT NULL, cache_write_5m INTEGER NOT NULL, cache_write_1h INTEGER NOT NULL,
  cache_read INTEGER NOT NULL, web_searches INTEGER NOT NULL
);
CREATE INDEX cost_states_by_file ON cost_states(file);
-- Tool calls (calls.py): place is 64 times the offset of the line plus the number of the call in it; answer is the offset of the
-- line of its result. changes: how many changes of files that lists, as results of other agents do.
CREATE TABLE calls(
  file INTEGER, place INTEGER, key INTEGER NOT NULL, tool INTEGER NOT NULL, kind INTEGER,
  at INTEGER, took INTEGER, state INTEGER NOT NULL, is_retry INTEGER NOT NULL, is_commit INTEGER NOT NULL,
  forked INTEGER NOT NULL, counted INTEGER NOT NULL, changes INTEGER NOT NULL, answer INTEGER,
  PRIMARY KEY(file, place)
) WITHOUT ROWID;
CREATE INDEX calls_by_key ON calls(key);
-- The column with most text comes first: for every other one FTS5 stores its number with each word of a row.
CREATE VIRTUAL TABLE texts USING fts5(
  tool_result, prose, tool_input, thinking, other, title,
  content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2'
);
-- What users typed, in lower case: a row for each prompt, by the number of its message.
CREATE VIRTUAL TABLE typed USING fts5(
  prompt, content='', contentless_delete=1, tokenize='trigram case_sensitive 1'
);
CREATE VIRTUAL TABLE recall USING fts5(
  words, content='', contentless_delete=1, detail='none', tokenize='porter unicode61 remove_diacritics 2'
);
"""

ROLE_BITS = 3

# A first prompt is no title where at least so many sessions have the same beginning of so many characters.
SHARED_HEAD, SHARED_BY = 60, 4
# The columns that a title is chosen from: three of ``titles.title_of``, three of ``opening_prompt``. The last is asked only where it matters.
TITLE_COLUMNS = f"""
  catalogue.custom_title, catalogue.ai_title, catalogue.last_prompt, catalogue.first_prompt, catalogue.next_prompt,
  catalogue.next_prompt NOT NULL
    AND coalesce(nullif(catalogue.custom_title, ''), nullif(catalogue.ai_title, ''), nullif(catalogue.last_prompt, '')) IS NULL
    AND (SELECT count(*) FROM (SELECT 1 FROM catalogue AS other
      WHERE substr(other.first_prompt, 1, {SHARED_HEAD}) = substr(catalogue.first_prompt, 1, {SHARED_HEAD})
      LIMIT {SHARED_BY})) = {SHARED_BY}"""  # noqa: S608 - numbers
TITLES = 6
"""How many columns these are."""


def id_text(value: Id) -> str | None:
    """An id as in the log."""
    if not isinstance(value, bytes):
        return value
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def same_uuid(value: str) -> str:
    """The condition that a message has an id, by its index; ``value`` is an expression."""
    return f"substr(messages.uuid, -6) = substr({value}, -6) AND messages.uuid = {value}"


def recall_row(text: int, role: int) -> int:
    """The number of a row of ``recall``: the text row, and in the last bits who said it (``model.recall``)."""
    return text << ROLE_BITS | role


def index_file(homes: Iterable[str | os.PathLike[str]], cache: str) -> str:
    """The index of a set of homes, in any order and spelling."""
    names = "\0".join(sorted(os.path.realpath(home) for home in homes))
    checksum = zlib.crc32(names.encode("utf-8", "surrogateescape"))
    return os.path.join(cache, f"index-v{VERSION}-{checksum:08x}.sqlite")  # noqa: PTH118 - the status line loads no pathlib


def refreshed_at(index: str) -> float | None:
    """When an index was last refreshed, in seconds since 1970; None if it never was.

    Every refresh writes a line into the lock file, even if nothing was new, so the lock file's time
    says it.
    """
    try:
        return os.stat(index.removesuffix(".sqlite") + ".lock").st_mtime  # noqa: PTH116
    except OSError:
        return None
