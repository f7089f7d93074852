"""Names of sessions, entries, agents and projects: parsed once, then safe to use in a path.

Ids come from file names, from transcripts (hostile) and from people. Each type here is a ``str`` that can
only be created by passing its own check, so any code that takes a ``SessionId`` may join it to a directory
without checking again.

The rule is an allow-list of ASCII letters, digits and ``- _ .``. It excludes separators, NUL, control and
bidirectional characters, percent escapes, drive colons and look-alike letters. What remains to check are
names of legal characters that are dangerous as a whole (``..``, ``CON``, a trailing dot that Windows drops).

Ids in other programs' files are *not* forced through ``EntryId``: the client does not check the shape of a
``uuid``, so the codec leaves it as text.
"""

from __future__ import annotations

import re
from typing import ClassVar, Self

from recollect.errors import InvalidId

_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\Z")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10))]
)


def short_id(session: str) -> str:
    """How a session is named to people: enough of its id that it can be told from others of the same minute.

    A UUID of version 7 (Codex) begins with the time: its first eight characters are those of every session of a minute.
    """
    return session[:13] if session[14:15] == "7" else session[:8]


def is_uuid(text: str) -> bool:
    """True for a UUID as the client writes and compares it: lower case, with hyphens."""
    return _UUID.match(text) is not None


class _SafeName(str):
    """A name that is safe as one component of a path."""

    __slots__ = ()
    what: ClassVar[str] = "name"
    longest: ClassVar[int] = 128

    def __new__(cls, value: str) -> Self:
        reason = cls._fault(value)
        if reason:
            raise InvalidId(cls.what, value, reason)
        return super().__new__(cls, value)

    @classmethod
    def _fault(cls, value: str) -> str | None:
        if not value:
            return "is empty"
        if len(value) > cls.longest:
            return f"is longer than {cls.longest} characters"
        if not _SAFE.match(value):
            return "has a character that is not safe in a file name"
        if ".." in value or value.endswith("."):
            return "could leave its directory on some systems"
        if value.split(".", 1)[0].lower() in _RESERVED:
            return "is a reserved device name"
        return None


class SessionId(_SafeName):
    """The file name of a session's log without its ending: a UUID, or a date in the flat layout."""

    __slots__ = ()
    what = "session id"

    @property
    def is_uuid(self) -> bool:
        """Whether the client would list it: it skips logs whose name is not a UUID."""
        return is_uuid(self)


class EntryId(_SafeName):
    """The ``uuid`` of an entry we write or are asked for."""

    __slots__ = ()
    what = "entry id"


class AgentId(_SafeName):
    """A sub-agent's id, without the ``agent-`` its file name starts with."""

    __slots__ = ()
    what = "agent id"
    longest = 64


class ProjectKey(_SafeName):
    """The name of a project's directory below ``projects/``. It cannot be decoded back to a path."""

    __slots__ = ()
    what = "project key"
    longest = 240
