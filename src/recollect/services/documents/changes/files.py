"""Files and todos that a session is asked to take back or further."""

from __future__ import annotations

from recollect.services.documents.changes.change import ChangeDocument
from recollect.services.rewind import RewoundFile


class RewindDocument(ChangeDocument, frozen=True, kw_only=True):
    """The file changes of a turn, undone. ``prompt`` is the prompt whose turn, with all later ones, is undone."""

    session: str
    prompt: str
    files: list[RewoundFile]


class FileRestorationDocument(ChangeDocument, frozen=True, kw_only=True):
    """A version of a file, written into a directory.

    ``in_the_way``: another file has the name, and is replaced only if that is allowed. ``is_there``: the same bytes are.
    """

    session: str
    path: str
    version: int
    to: str
    bytes: int
    in_the_way: bool
    is_there: bool


class TodoMoveDocument(ChangeDocument, frozen=True, kw_only=True):
    """A todo or task that goes a step further."""

    session: str
    kind: str
    agent: str | None
    number: str
    text: str
    before: str
    after: str
    path: str
