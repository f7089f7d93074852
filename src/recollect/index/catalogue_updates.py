"""How the catalogue is kept: every frame of a session's log adds to its row.

The last titles and tag replace earlier ones; the first prompt and time stay. The message count is continued from
frame to frame if the lines allow it, and is NULL if the log must be read again: ``catalogue.uncounted`` lists those
logs, ``note_count`` stores the count.

Apart from what a list asks: every refresh imports this, and the classes of rows take as long as reading a few lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from recollect.index.schema import same_uuid

if TYPE_CHECKING:
    from recollect.index.database import IndexDatabase
    from recollect.index.frame import CountValues, Frame
    from recollect.model.conversation.message_count import MessageCount

_UNKNOWN: CountValues = (None, False, None, None, None, 0)
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


class KnownListing(Struct, frozen=True):
    """What is known of a log when reading continues."""

    has_prompt: bool
    begins_aside: bool | None
    message_count: CountValues


def add(database: IndexDatabase, file: int, frame: Frame) -> None:
    """Add what a frame says about its session."""
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
            frame.continued_in,
            *count,
        ),
    )


def add_damage(database: IndexDatabase, file: int, frame: Frame) -> None:
    """Add the damaged lines of a frame, by code."""
    database.connection.executemany(
        "INSERT INTO damage VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET lines = lines + excluded.lines",
        [(file, code, lines) for code, lines in frame.damage],
    )


def forget(database: IndexDatabase, file: int) -> None:
    """Remove a log."""
    database.connection.execute("DELETE FROM catalogue WHERE file = ?", (file,))
    database.connection.execute("DELETE FROM damage WHERE file = ?", (file,))


def known(database: IndexDatabase, file: int) -> KnownListing | None:
    """What is known of a session's log; None if nothing."""
    found = database.rows(
        "SELECT first_prompt NOT NULL, begins_aside, messages, has_conversation, leaf, bridge, answer, inline_agents"
        " FROM catalogue WHERE file = ?",
        file,
    )
    if not found:
        return None
    has_prompt, begins_aside, *count = found[0]
    aside = None if begins_aside is None else bool(begins_aside)
    return KnownListing(bool(has_prompt), aside, tuple(count))  # type: ignore[arg-type]  # the columns of a count


def note_count(database: IndexDatabase, file: int, consumed: int, count: MessageCount) -> None:
    """Store the count of a log that was read up to a position; ignored if the log was read further meanwhile."""
    database.connection.execute(
        "UPDATE catalogue SET messages = ?, has_conversation = ?, leaf = ?, bridge = ?, answer = ?, inline_agents = ?"
        " WHERE file = ? AND messages IS NULL AND (SELECT consumed FROM files WHERE id = file) = ?",
        (*count, file, consumed),
    )


def _knows_some(database: IndexDatabase, file: int, frame: Frame) -> bool:
    """Whether the log already had one of a frame's ids. Then the last entry of that id counts, at another place.

    Ids of earlier frames of the same refresh need no look-up: continuing the count has seen them.
    """
    return any(database.value(_KNOWN_ID, uuid, file) for _, _, uuid, *_ in frame.messages if uuid is not None)
