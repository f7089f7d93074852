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

import datetime as dt
import hashlib
import re
import shlex
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


def command_name(session: str, log: object) -> str:
    """How a command of ours names a session: by its id, or by its log where the log has a name that no client gives."""
    return SessionId.parse(session) or str(log)


def hint_name(session: str, log: object) -> str:
    """The same in short, quoted for a shell."""
    name = command_name(short_id(session), log)
    if name != str(log):
        return name  # its characters need no quotes
    return shlex.quote(name)


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
    def parse(cls, value: str) -> Self | None:
        """The name, checked; None where no client gives such a one."""
        return None if cls._fault(value) else str.__new__(cls, value)

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

    @classmethod
    def _fault(cls, value: str) -> str | None:
        # Ids stand in commands, as words of their own.
        return "would be read as an option" if value.startswith("-") else super()._fault(value)

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


_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def derived_uuid(seed: str, index: int) -> str:
    """An id that looks random but depends only on seed and index."""
    return uuid_of(f"{index}\0{seed}".encode("utf-8", "replace"))


def uuid_of(data: bytes) -> str:
    """An id that looks random but depends only on these bytes."""
    name = hashlib.blake2b(data, digest_size=16).hexdigest()
    # Version 4, variant 1: what other readers take for a random id.
    return f"{name[:8]}-{name[8:12]}-4{name[13:16]}-{_VARIANT[name[16]]}{name[17:20]}-{name[20:]}"


def derived_id(prefix: str, seed: str) -> str:
    """An id in the form the API uses, the same for the same seed."""
    return prefix + hashlib.blake2b(seed.encode("utf-8", "replace"), digest_size=12).hexdigest()


EPOCH, MILLISECOND = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.timedelta(milliseconds=1)


def written_at(mtime_ns: int) -> dt.datetime:
    """When a file was last written."""
    return dt.datetime.fromtimestamp(mtime_ns / 1e9, dt.UTC)


def moment_of(milliseconds: float | None) -> dt.datetime | None:
    """None for a time that no calendar has: one made-up line must not end a walk."""
    try:
        return None if milliseconds is None else EPOCH + dt.timedelta(milliseconds=milliseconds)
    except (OverflowError, ValueError):
        return None


def milliseconds_of(moment: dt.datetime | None) -> int | None:
    """Whole ones that have passed, exactly: a float of seconds would move a bound that stands on a quarter."""
    return None if moment is None else (moment - EPOCH) // MILLISECOND


def parsed_time(text: str | None) -> dt.datetime | None:
    """An ISO 8601 time as an aware UTC datetime, or None. A time without a zone counts as UTC."""
    if not text:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
        return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None
