"""The catalogue: what a list shows of every session. Every frame of a session's log adds to its row.

The last titles and tag replace earlier ones; the first prompt and time stay. The message count is continued from
frame to frame if the lines allow it. After a branch, a compaction or parallel calls it is NULL, and ``recounted`` reads
those logs again, on demand.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from recollect.errors import NotFound, StorageError
from recollect.index.frame import ScannedLog
from recollect.index.schema import AGENT, SESSION, SHARED_BY, SHARED_HEAD, TITLE_COLUMNS, TITLES, same_uuid
from recollect.model.conversation.agents import MessageCount
from recollect.model.lines.ids import moment_of, written_at
from recollect.model.session import SessionSummary
from recollect.model.text.titles import project_name, title_in
from recollect.store.logs.summary import log_counts
from recollect.system.locations import agent_of
from recollect.system.paths import CLAUDE

if TYPE_CHECKING:
    from recollect.index.access import OpenIndex
    from recollect.index.database import IndexDatabase
    from recollect.index.frame import Frame


# Read but not listed: deleted logs, and logs that were never read.
_SESSIONS = f"""
SELECT session, path, home, place.text, names.text, {TITLE_COLUMNS}, tag, continued_in,
  copied_from, lost_beginning, client, files.first_at, last_at, catalogue.messages, catalogue.lines, size, damaged, mtime,
  inode = 0, coalesce(inline_agents, 0) + (
    SELECT count(*) FROM files AS own
    WHERE own.session = files.session AND own.home = files.home AND own.role = {AGENT} AND NOT own.gone
      AND NOT coalesce(own.is_warm_up, 0)
  )
FROM files LEFT JOIN catalogue ON catalogue.file = files.id
  LEFT JOIN names AS place ON place.id = files.cwd LEFT JOIN names ON names.id = files.branch
WHERE role = {SESSION} AND NOT gone
"""  # noqa: S608 - numbers of the schema
_NEWEST = " ORDER BY last_at DESC NULLS LAST, mtime DESC, session DESC, path DESC LIMIT ?"
_LOGS = f"""
SELECT path, home, role, session, agent, device, inode, size, mtime, names.text FROM files
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
_SHARED = f"SELECT count(*) FROM catalogue WHERE substr(first_prompt, 1, {SHARED_HEAD}) = substr(?, 1, {SHARED_HEAD})"  # noqa: S608 - a number
_ALL_SHARED = f"""
SELECT substr(first_prompt, 1, {SHARED_HEAD}) AS head FROM catalogue
 WHERE first_prompt NOT NULL GROUP BY head HAVING count(*) >= {SHARED_BY}
"""  # noqa: S608 - numbers
# The shortest word by which a prompt is found.
SHORTEST_WORD = 3


def sessions(database: IndexDatabase, limit: int | None = None) -> list[SessionSummary]:
    """Sessions by time of their last message, newest first; those without any time last. ``lines`` is None where none was
    read yet, ``messages`` also where ``recounted`` has to count them. What they cost is not looked up."""
    return [_session(*row) for row in database.connection.execute(_SESSIONS + _NEWEST, (limit or -1,))]


def newest_of(database: IndexDatabase, session: str) -> SessionSummary | None:
    """One session, of several logs with its id the one that was last spoken in."""
    rows = database.connection.execute(f"{_SESSIONS} AND session = ?{_NEWEST}", (session, 1))
    return next((_session(*row) for row in rows), None)


def _session(
    session: str | None, path: str, home: str, cwd: str | None, branch: str | None, *rest: Any
) -> SessionSummary:
    titles, rest = rest[:TITLES], rest[TITLES:]
    (tag, continued_in, copied_from, lost_beginning, client), rest = rest[:5], rest[5:]
    first_at, last_at, messages, lines, size, damaged, mtime_ns, is_archived, agents = rest
    agent = agent_of(home)
    return SessionSummary(
        id=session or "",
        agent=agent if agent != CLAUDE else client or CLAUDE,
        project=project_name(cwd or "", os.path.basename(os.path.dirname(path))),  # noqa: PTH119, PTH120 - thousands of rows
        cwd=cwd or None,
        title=title_in(titles),
        tag=tag or None,
        branch=branch or None,
        first_prompt=titles[3],
        first_at=moment_of(first_at),
        last_at=moment_of(last_at),
        modified_at=written_at(mtime_ns),
        messages=messages,
        lines=lines,
        bytes=size,
        agents=agents,
        damaged=damaged,
        is_archive_only=bool(is_archived),
        continued_in=continued_in or None,
        copied_from=copied_from,
        lost_beginning=lost_beginning,
        home=home,
        path=path,
    )


def is_shared(database: IndexDatabase, prompt: str) -> bool:
    """Whether many sessions begin with such a prompt."""
    return cast("int", database.value(_SHARED, prompt)) >= SHARED_BY


def shared_prompts(database: IndexDatabase) -> frozenset[str]:
    """The beginnings of all such prompts."""
    return frozenset(cast("str", head) for (head,) in database.rows(_ALL_SHARED))


def sizes(database: IndexDatabase) -> tuple[int, int]:
    """How many sessions there are, and how many of them only the archive has."""
    asked = (
        f"SELECT count(*), count(*) FILTER (WHERE NOT inode) FROM files WHERE role = {SESSION} AND NOT gone"  # noqa: S608 - a number of the schema
    )
    return cast("tuple[int, int]", tuple(database.rows(asked)[0]))


def agents_inside(database: IndexDatabase) -> int:
    """Sub-agents in the logs of their sessions, as old clients wrote them; the others have files of their own."""
    asked = "SELECT coalesce(sum(inline_agents), 0) FROM catalogue JOIN files ON files.id = file WHERE NOT gone AND inode"
    return cast("int", database.rows(asked)[0][0])


def logs(database: IndexDatabase, home: str) -> list[ScannedLog]:
    """The logs of sessions and agents in a home, by path."""
    return [ScannedLog(*row) for row in database.connection.execute(_LOGS, (home,))]


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
INSERT INTO catalogue VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19) ON CONFLICT DO UPDATE SET
  lines = lines + excluded.lines, begins_aside = coalesce(begins_aside, excluded.begins_aside),
  custom_title = coalesce(excluded.custom_title, custom_title), ai_title = coalesce(excluded.ai_title, ai_title),
  last_prompt = coalesce(excluded.last_prompt, last_prompt),
  first_prompt = coalesce(first_prompt, excluded.first_prompt),
  next_prompt = coalesce(next_prompt, excluded.next_prompt), tag = coalesce(excluded.tag, tag),
  continued_in = coalesce(excluded.continued_in, continued_in),
  copied_from = coalesce(copied_from, excluded.copied_from),
  lost_beginning = coalesce(lost_beginning, excluded.lost_beginning), client = coalesce(client, excluded.client),
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
            frame.next_prompt,
            frame.tag,
            frame.continued_in,
            frame.copied_from,
            frame.lost_beginning,
            frame.client,
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


def known(database: IndexDatabase, file: int) -> tuple[int, bool | None, MessageCount] | None:
    """Of a session's log: how many of its first two prompts are known, whether it begins aside, and its count; None if nothing is known."""
    found = database.rows(
        "SELECT (first_prompt NOT NULL) + (next_prompt NOT NULL), begins_aside, messages, has_conversation, leaf, bridge, answer, inline_agents"
        " FROM catalogue WHERE file = ?",
        file,
    )
    if not found:
        return None
    prompts, begins_aside, messages, has_conversation, *rest = found[0]
    count = MessageCount(messages, bool(has_conversation), *rest)  # type: ignore[arg-type]
    return cast("int", prompts), None if begins_aside is None else bool(begins_aside), count


def recounted(opened: OpenIndex) -> dict[str, MessageCount]:
    """The counts of all sessions that had none, by their logs."""
    waiting = cast("list[tuple[int, str, int]]", opened.database.rows(_UNCOUNTED))
    counts: dict[str, MessageCount] = {}
    for _, path, consumed in waiting:
        with contextlib.suppress(NotFound, StorageError):
            counts[path] = log_counts(Path(path), consumed).messages
    if counts:
        rows = [(*counts[path], file, consumed) for file, path, consumed in waiting if path in counts]
        # Only if the log was not read further meanwhile; else the next query counts again.
        opened.write_if_free(lambda run: run.executemany(_STORE_COUNT, rows))
    return counts
