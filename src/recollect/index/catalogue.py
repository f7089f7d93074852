"""The catalogue: what a list shows of every session, kept up with the index.

A row is added to by every frame of a session's log. What was said last (titles, tag) replaces what was said
before; what was said first stays. The count of messages is carried on from frame to frame where the lines
allow it, and is NULL where the log has to be read once more: ``uncounted`` names those, ``note_count`` takes
the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from recollect.index.schema import AGENT, SESSION

if TYPE_CHECKING:
    from recollect.index.database import IndexDatabase
    from recollect.index.frame import CountValues, Frame
    from recollect.model.conversation.message_count import MessageCount

_UNKNOWN: CountValues = (None, False, None, None, None)
_ADD = """
INSERT INTO catalogue VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13) ON CONFLICT DO UPDATE SET
  lines = lines + excluded.lines, begins_aside = coalesce(begins_aside, excluded.begins_aside),
  custom_title = coalesce(excluded.custom_title, custom_title), ai_title = coalesce(excluded.ai_title, ai_title),
  last_prompt = coalesce(excluded.last_prompt, last_prompt),
  first_prompt = coalesce(first_prompt, excluded.first_prompt), tag = coalesce(excluded.tag, tag),
  messages = excluded.messages, has_conversation = excluded.has_conversation,
  leaf = excluded.leaf, bridge = excluded.bridge, answer = excluded.answer
"""
# What is read but not listed: logs that are gone, and those that were never read.
_ROWS = f"""
SELECT files.id, path, home, session, size, mtime, inode = 0, files.first_at, last_at, place.text, names.text,
  custom_title, ai_title, last_prompt, first_prompt, tag, catalogue.lines, catalogue.messages, has_conversation,
  damaged, files.messages
FROM files LEFT JOIN catalogue ON catalogue.file = files.id
  LEFT JOIN names AS place ON place.id = files.cwd LEFT JOIN names ON names.id = files.branch
WHERE role = {SESSION} AND NOT gone
"""  # noqa: S608 - a number of the schema
_NEWEST = " ORDER BY last_at DESC NULLS LAST, mtime DESC, session DESC, path DESC LIMIT ?"
_AGENTS = f"SELECT session, count(*) FROM files WHERE role = {AGENT} AND NOT gone GROUP BY session"  # noqa: S608 - a number of the schema
_LOGS = f"""
SELECT path, role, session, agent, size, mtime, inode, device, names.text FROM files
  LEFT JOIN names ON names.id = files.cwd
WHERE home = ? AND role IN ({SESSION}, {AGENT}) AND NOT gone AND inode ORDER BY path
"""  # noqa: S608 - numbers of the schema
_UNCOUNTED = f"""
SELECT files.id, path, consumed FROM files JOIN catalogue ON catalogue.file = files.id
WHERE role = {SESSION} AND NOT gone AND catalogue.messages IS NULL
"""  # noqa: S608 - a number of the schema
_TYPED = """
SELECT path FROM files WHERE id IN (
  SELECT file FROM messages WHERE id IN (SELECT rowid FROM typed WHERE prompt MATCH ?))
"""
# The shortest word a prompt can be found by.
SHORTEST_WORD = 3


class CatalogueRow(NamedTuple):
    """A session as the index has it. Times are milliseconds, texts '' where they were taken away."""

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
    lines: int | None
    messages: int | None
    has_conversation: bool | None
    damaged: int
    entries: int  # lines with an id


class CataloguedLog(NamedTuple):
    """A log of a session or of an agent that lies in a home."""

    path: str
    role: int
    session: str | None
    agent: str | None
    size: int
    mtime_ns: int
    inode: int
    device: int
    cwd: str | None


class KnownListing(NamedTuple):
    """What reading on in a log has to know of what was read before."""

    has_prompt: bool
    begins_aside: bool | None
    message_count: CountValues


# --- keeping it up, inside a transaction ------------------------------------------------------------


def add(database: IndexDatabase, file: int, frame: Frame) -> None:
    """What a frame says of its session."""
    count = frame.message_count or _UNKNOWN
    if frame.is_continued and _knows_some(database, file, frame):
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
            *count,
        ),
    )


def add_damage(database: IndexDatabase, file: int, frame: Frame) -> None:
    """The damaged lines of a frame, by code."""
    database.connection.executemany(
        "INSERT INTO damage VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET lines = lines + excluded.lines",
        [(file, code, lines) for code, lines in frame.damage],
    )


def forget(database: IndexDatabase, file: int) -> None:
    """Take a log out."""
    database.connection.execute("DELETE FROM catalogue WHERE file = ?", (file,))
    database.connection.execute("DELETE FROM damage WHERE file = ?", (file,))


def known(database: IndexDatabase, file: int) -> KnownListing | None:
    """What is known of a session's log; None where nothing is."""
    found = database.rows(
        "SELECT first_prompt NOT NULL, begins_aside, messages, has_conversation, leaf, bridge, answer"
        " FROM catalogue WHERE file = ?",
        file,
    )
    if not found:
        return None
    has_prompt, begins_aside, *count = found[0]
    aside = None if begins_aside is None else bool(begins_aside)
    return KnownListing(bool(has_prompt), aside, tuple(count))  # type: ignore[arg-type]  # the columns of a count


def note_count(database: IndexDatabase, file: int, consumed: int, count: MessageCount) -> None:
    """The count of a log that was read up to a place; ignored where the log was read on meanwhile."""
    database.connection.execute(
        "UPDATE catalogue SET messages = ?, has_conversation = ?, leaf = ?, bridge = ?, answer = ?"
        " WHERE file = ? AND messages IS NULL AND (SELECT consumed FROM files WHERE id = file) = ?",
        (*count, file, consumed),
    )


def _knows_some(database: IndexDatabase, file: int, frame: Frame) -> bool:
    """Whether the log had one of a frame's ids before: the last entry of an id counts, and stands elsewhere then."""
    # The plus keeps SQLite from looking through all lines of the log: few lines share an id.
    return any(
        database.value("SELECT 1 FROM messages WHERE uuid = ? AND +file = ? LIMIT 1", row.uuid, file)
        for row in frame.messages
        if row.uuid is not None
    )


# --- asking -----------------------------------------------------------------------------------------


def rows(database: IndexDatabase, limit: int | None = None) -> list[CatalogueRow]:
    """Sessions, the one that was spoken in last first; those without any time at the end."""
    found = database.connection.execute(_ROWS + _NEWEST, (-1 if limit is None else limit,))
    return [CatalogueRow(*row) for row in found]


def size(database: IndexDatabase) -> int:
    """How many sessions there are."""
    return cast("int", database.value(f"SELECT count(*) FROM files WHERE role = {SESSION} AND NOT gone"))  # noqa: S608 - a number of the schema


def agents(database: IndexDatabase) -> dict[str, int]:
    """How many agents have a log, by session."""
    return dict(cast("list[tuple[str, int]]", database.rows(_AGENTS)))


def logs(database: IndexDatabase, home: str) -> list[CataloguedLog]:
    """The logs of sessions and agents that lie in a home, by path."""
    return [CataloguedLog(*row) for row in database.connection.execute(_LOGS, (home,))]


def uncounted(database: IndexDatabase) -> list[tuple[int, str, int]]:
    """Logs whose messages have to be counted: number, path, how far they were read."""
    return cast("list[tuple[int, str, int]]", database.rows(_UNCOUNTED))


def damage(database: IndexDatabase) -> list[tuple[str, str, int]]:
    """Damaged lines of the logs that are there: path, code, how many."""
    found = database.rows(
        "SELECT path, code, damage.lines FROM damage JOIN files ON files.id = file WHERE NOT gone ORDER BY mtime DESC"
    )
    return cast("list[tuple[str, str, int]]", found)


def typed(database: IndexDatabase, word: str) -> set[str]:
    """The logs in which a user typed something that holds a word in lower case, of three letters or more."""
    quoted = '"' + word.replace('"', '""') + '"'
    return {cast("str", row[0]) for row in database.rows(_TYPED, quoted)}
