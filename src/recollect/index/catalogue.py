"""The catalogue: what a list shows of every session. Every frame of a session's log adds to its row.

The last titles and tag replace earlier ones; the first prompt and time stay. The message count is continued from
frame to frame if the lines allow it. After a branch, a compaction or parallel calls it is NULL, and ``recounted`` reads
those logs again, on demand.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from recollect.errors import NotFound, StorageError
from recollect.index.schema import AGENT, SESSION, same_uuid
from recollect.model.conversation.agents import MessageCount
from recollect.model.text.titles import title_of
from recollect.store.logs.summary import log_counts

if TYPE_CHECKING:
    from recollect.index.access import OpenIndex
    from recollect.index.database import IndexDatabase
    from recollect.index.frame import Frame


# Read but not listed: deleted logs, and logs that were never read.
_ROWS = f"""
SELECT files.id, path, home, session, size, mtime, inode = 0, files.first_at, last_at, place.text, names.text,
  custom_title, ai_title, last_prompt, first_prompt, tag, continued_in, catalogue.lines, catalogue.messages, has_conversation,
  damaged, files.messages
FROM files LEFT JOIN catalogue ON catalogue.file = files.id
  LEFT JOIN names AS place ON place.id = files.cwd LEFT JOIN names ON names.id = files.branch
WHERE role = {SESSION} AND NOT gone
"""  # noqa: S608 - a number of the schema
_NEWEST = " ORDER BY last_at DESC NULLS LAST, mtime DESC, session DESC, path DESC LIMIT ?"
_AGENTS = f"""
SELECT home, session, sum(agents) FROM (
  SELECT home, session, 1 AS agents FROM files WHERE role = {AGENT} AND NOT gone AND NOT coalesce(is_warm_up, 0)
  UNION ALL
  SELECT home, session, inline_agents FROM files JOIN catalogue ON catalogue.file = files.id
  WHERE role = {SESSION} AND NOT gone AND inline_agents
) GROUP BY home, session
"""  # noqa: S608 - a number of the schema
_LOGS = f"""
SELECT path, role, session, agent, size, mtime, inode, device, names.text FROM files
  LEFT JOIN names ON names.id = files.cwd
WHERE home = ? AND role IN ({SESSION}, {AGENT}) AND NOT gone AND inode ORDER BY path
"""  # noqa: S608 - a number of the schema
_UNCOUNTED = f"""
SELECT files.id, path, consumed FROM files JOIN catalogue ON catalogue.file = files.id
WHERE role = {SESSION} AND NOT gone AND catalogue.messages IS NULL
"""  # noqa: S608 - a number of the schema
_STORE_COUNT = """
UPDATE catalogue SET messages = ?, has_conversation = ?, leaf = ?, bridge = ?, answer = ?, inline_agents = ?
 WHERE file = ? AND messages IS NULL AND (SELECT consumed FROM files WHERE id = file) = ?
"""
_TYPED = """
SELECT path FROM files WHERE id IN (
  SELECT file FROM messages WHERE id IN (SELECT rowid FROM typed WHERE prompt MATCH ?))
"""
# The shortest word by which a prompt is found.
SHORTEST_WORD = 3


class CatalogueRow(NamedTuple):
    """A session in the index. Times are milliseconds; a text is '' if it was removed."""

    file: int
    path: str
    home: str
    session: str | None
    size: int
    mtime_ns: int
    is_archived: bool
    first_at: int | None
    last_at: int | None
    cwd: str | None
    branch: str | None
    custom_title: str | None
    ai_title: str | None
    last_prompt: str | None
    first_prompt: str | None
    tag: str | None
    continued_in: str | None
    lines: int | None
    messages: int | None
    has_conversation: bool | None
    damaged: int
    entries: int  # lines with an id

    @property
    def title(self) -> str:
        """What a list calls it; "" where nothing names it."""
        return title_of(self.custom_title, self.ai_title, self.last_prompt, self.first_prompt)


class CataloguedLog(NamedTuple):
    """A log of a session or of an agent in a home."""

    path: str
    role: int
    session: str | None
    agent: str | None
    size: int
    mtime_ns: int
    inode: int
    device: int
    cwd: str | None


def rows(database: IndexDatabase, limit: int | None = None) -> list[CatalogueRow]:
    """Sessions by time of their last message, newest first; those without any time last."""
    found = database.connection.execute(_ROWS + _NEWEST, (-1 if limit is None else limit,))
    return [*map(CatalogueRow._make, found)]


def newest_of(database: IndexDatabase, session: str) -> CatalogueRow | None:
    """One session, of several logs with its id the one that was last spoken in."""
    found = database.connection.execute(f"{_ROWS} AND session = ?{_NEWEST}", (session, 1))
    return next(map(CatalogueRow._make, found), None)


def by_path(database: IndexDatabase) -> dict[str, CatalogueRow]:
    """The same by their logs, in no order: sorting ten thousand takes longer than reading them."""
    found = map(CatalogueRow._make, database.connection.execute(_ROWS))
    return {row.path: row for row in found}


def sizes(database: IndexDatabase) -> tuple[int, int]:
    """How many sessions there are, and how many of them only the archive has."""
    asked = (
        f"SELECT count(*), count(*) FILTER (WHERE NOT inode) FROM files WHERE role = {SESSION} AND NOT gone"  # noqa: S608 - a number of the schema
    )
    return cast("tuple[int, int]", tuple(database.rows(asked)[0]))


def agents(database: IndexDatabase) -> dict[tuple[str, str], int]:
    """How many sub-agents there are, by home and session: those with a log, and those in the session's own."""
    found = cast("list[tuple[str, str | None, int]]", database.rows(_AGENTS))
    return {(home, session or ""): count for home, session, count in found}


def logs(database: IndexDatabase, home: str) -> list[CataloguedLog]:
    """The logs of sessions and agents in a home, by path."""
    return [CataloguedLog(*row) for row in database.connection.execute(_LOGS, (home,))]


def damage(database: IndexDatabase) -> list[tuple[str, str, int]]:
    """Damaged lines of existing logs: path, code, count."""
    found = database.rows(
        "SELECT path, code, damage.lines FROM damage JOIN files ON files.id = file WHERE NOT gone ORDER BY mtime DESC"
    )
    return cast("list[tuple[str, str, int]]", found)


def typed(database: IndexDatabase, word: str) -> set[str]:
    """The logs in which a user typed text that contains a word of three or more lower-case letters."""
    quoted = '"' + word.replace('"', '""') + '"'
    return {cast("str", row[0]) for row in database.rows(_TYPED, quoted)}


_UNKNOWN = MessageCount()
_ADD = """
INSERT INTO catalogue VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15) ON CONFLICT DO UPDATE SET
  lines = lines + excluded.lines, begins_aside = coalesce(begins_aside, excluded.begins_aside),
  custom_title = coalesce(excluded.custom_title, custom_title), ai_title = coalesce(excluded.ai_title, ai_title),
  last_prompt = coalesce(excluded.last_prompt, last_prompt),
  first_prompt = coalesce(first_prompt, excluded.first_prompt), tag = coalesce(excluded.tag, tag),
  continued_in = coalesce(excluded.continued_in, continued_in),
  messages = excluded.messages, has_conversation = excluded.has_conversation,
  leaf = excluded.leaf, bridge = excluded.bridge, answer = excluded.answer,
  inline_agents = excluded.inline_agents
"""
# The plus keeps SQLite from scanning all lines of the log: few lines share an id.
_KNOWN_ID = f"SELECT 1 FROM messages WHERE {same_uuid('?1')} AND +file = ?2 LIMIT 1"  # noqa: S608 - constants


def add(database: IndexDatabase, file: int, frame: Frame) -> None:
    """Add what a frame says about its session."""
    count = frame.message_count or _UNKNOWN
    # If the log already had one of the frame's ids, the last entry of that id counts, at another place. Ids of earlier
    # frames of the same refresh need no look-up: continuing the count has seen them.
    uuids = [row[2] for row in frame.messages if row[2] is not None]
    if frame.is_continued and any(database.value(_KNOWN_ID, uuid, file) for uuid in uuids):
        count = _UNKNOWN
    database.connection.execute(
        _ADD,
        (
            file,
            frame.lines,
            frame.begins_aside,
            frame.custom_title,
            frame.ai_title,
            frame.last_prompt,
            frame.first_prompt,
            frame.tag,
            frame.continued_in,
            *count,
        ),
    )


def add_damage(database: IndexDatabase, file: int, frame: Frame) -> None:
    """Add the damaged lines of a frame, by code."""
    database.connection.executemany(
        "INSERT INTO damage VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET lines = lines + excluded.lines",
        [(file, code, lines) for code, lines in frame.damage.items() if lines],
    )


def forget(database: IndexDatabase, file: int) -> None:
    """Remove a log."""
    database.connection.execute("DELETE FROM catalogue WHERE file = ?", (file,))
    database.connection.execute("DELETE FROM damage WHERE file = ?", (file,))


def known(database: IndexDatabase, file: int) -> tuple[bool, bool | None, MessageCount] | None:
    """Of a session's log: whether it has a prompt, whether it begins aside, and its count; None if nothing is known."""
    found = database.rows(
        "SELECT first_prompt NOT NULL, begins_aside, messages, has_conversation, leaf, bridge, answer, inline_agents"
        " FROM catalogue WHERE file = ?",
        file,
    )
    if not found:
        return None
    has_prompt, begins_aside, messages, has_conversation, *rest = found[0]
    count = MessageCount(messages, bool(has_conversation), *rest)  # type: ignore[arg-type]
    return bool(has_prompt), None if begins_aside is None else bool(begins_aside), count


def recounted(opened: OpenIndex) -> dict[int, MessageCount]:
    """The counts of all sessions that had none, by number of their log."""
    database = opened.database
    waiting = cast("list[tuple[int, str, int]]", database.rows(_UNCOUNTED))
    counts: dict[int, MessageCount] = {}
    for file, path, consumed in waiting:
        with contextlib.suppress(NotFound, StorageError):
            counts[file] = log_counts(Path(path), consumed).messages
    if counts:
        rows = [(*counts[file], file, consumed) for file, _, consumed in waiting if file in counts]
        # Only if the log was not read further meanwhile; else the next query counts again.
        opened.write_if_free(lambda run: run.executemany(_STORE_COUNT, rows))
    return counts
