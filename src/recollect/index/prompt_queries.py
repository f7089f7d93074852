"""Prompts that users typed, and the titles of sessions, as rows of the index. Only reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

from recollect.index.database import IndexDatabase
from recollect.index.schema import SESSION
from recollect.model.titles import title_of

_TYPED = f"""
SELECT session, messages.at, uuid, path, offset, length
  FROM typed JOIN messages ON messages.id = typed.rowid JOIN files ON files.id = file
 WHERE role = {SESSION} AND session IS NOT NULL AND messages.at IS NOT NULL AND uuid IS NOT NULL
 ORDER BY messages.at, messages.id
"""  # noqa: S608 - a number of the schema
_TITLES = f"""
SELECT session, custom_title, ai_title, last_prompt, first_prompt
  FROM files JOIN catalogue ON catalogue.file = files.id WHERE role = {SESSION} AND session IS NOT NULL
"""  # noqa: S608 - a number of the schema


class TypedPromptRow(NamedTuple):
    """A prompt: when it was typed, in milliseconds, and where its line is."""

    session: str
    at: int
    uuid: bytes | str
    path: str
    offset: int
    length: int


def typed_prompts(database: IndexDatabase) -> Iterator[TypedPromptRow]:
    """All prompts in the order of time."""
    for row in database.connection.execute(_TYPED):
        yield TypedPromptRow(*row)


def session_titles(database: IndexDatabase) -> dict[str, str]:
    """The titles of all sessions by id; a session without one is left out."""
    found = ((cast("str", session), title_of(*parts)) for session, *parts in database.rows(_TITLES))  # type: ignore[arg-type]
    return {session: title for session, title in found if title}
