"""The disk location of a Claude Agent SDK key, and the SDK's types for keys and answers.

The main transcript of a session is stored as in a Claude home, its sub-agents below it. Keys are opaque: any
text becomes a safe file name, reversibly, and different texts become different names, also on
case-insensitive systems. Only keys that are paths are written as clients write them, where case is that of
the path.

The types repeat the SDK's field by field, so that nothing has to be imported from it. Nothing here touches a
disk.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NotRequired, Required, TypedDict

import msgspec

from recollect.errors import InvalidId, UsageError
from recollect.model.lines.damage import DEFAULT_LIMITS, Damage, DamageCode, Line
from recollect.model.views.links import line_links
from recollect.store.store_layout import StorePaths

LOG_SUFFIX = ".jsonl"
_LOCK, _SUMMARY = ".transcript.lock", ".summary.json"
_LONGEST = 200
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-")
# A working directory as clients name it; on case-insensitive systems such paths are equal too.
_PATH_KEY = re.compile(r"(?:-|[A-Za-z]--)[A-Za-z0-9-]*")
_PLAIN = re.compile(r"[a-z0-9-][a-z0-9_-]*")
_DEVICES = re.compile(r"con|prn|aux|nul|(?:com|lpt)[0-9]")
_ESCAPED, _HASHED = "x_", "h_"


class SessionKey(TypedDict):
    """Names one transcript: a session's own, or with ``subpath`` that of a sub-agent."""

    project_key: str
    session_id: str
    subpath: NotRequired[str]


class SessionListSubkeysKey(TypedDict):
    """Names a session."""

    project_key: str
    session_id: str


class SessionStoreEntry(TypedDict, total=False):
    """One line of a transcript; fields that are not named here are stored too."""

    type: Required[str]
    uuid: str
    timestamp: str


class SessionStoreListEntry(TypedDict):
    """A session and when its transcript was last written, in milliseconds."""

    session_id: str
    mtime: int


class SessionSummaryEntry(TypedDict):
    """List information about a session; ``data`` belongs to the SDK."""

    session_id: str
    mtime: int
    data: dict[str, Any]


class TranscriptPlace(msgspec.Struct, frozen=True):
    """The location of one key's transcript, and its lock."""

    key: SessionKey
    log: Path
    session_dir: Path
    is_main: bool

    @property
    def lock(self) -> Path:
        """One for a session and its sub-agents, so that a deletion never overlaps with an append."""
        return self.session_dir.with_name(self.session_dir.name + _LOCK)

    @property
    def summary(self) -> Path:
        """The cache file of the session's summary."""
        return self.session_dir.with_name(self.session_dir.name + _SUMMARY)


def place_of(paths: StorePaths, key: SessionKey) -> TranscriptPlace:
    """The location of a key. Touches no disk."""
    project = paths.projects_dir / project_name(key["project_key"])
    session = project / safe_name("session id", key["session_id"])
    subpath = key.get("subpath")
    if subpath is None:
        return TranscriptPlace(key, session.with_name(session.name + LOG_SUFFIX), session, is_main=True)
    if not subpath:
        raise InvalidId("subpath", "", "is empty; leave it out for the session itself")
    *directories, last = (safe_name("subpath", part) for part in subpath.split("/"))
    return TranscriptPlace(key, session.joinpath(*directories, last + LOG_SUFFIX), session, is_main=False)


def safe_name(what: str, text: str) -> str:
    """A text as one safe file name without a dot; reversible and unique."""
    if _PLAIN.fullmatch(text) and not text.startswith((_ESCAPED, _HASHED)) and not _DEVICES.fullmatch(text):
        name = text
    else:
        raw = text.encode("utf-8", "surrogatepass")
        name = _ESCAPED + "".join(chr(byte) if byte in _KEPT else f"_{byte:02x}" for byte in raw)
    if len(name) > _LONGEST:
        raise InvalidId(what, text, "is too long for a file name")
    return name


def text_of(name: str) -> str | None:
    """The inverse of ``safe_name``; None for other names."""
    if not name.startswith(_ESCAPED):
        text: str | None = name
    else:
        raw = re.sub(r"_([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), name[len(_ESCAPED) :])
        try:
            text = raw.encode("latin-1").decode("utf-8", "surrogatepass")
        except UnicodeError:
            return None
    try:
        return text if text is not None and safe_name("name", text) == name else None
    except InvalidId:
        return None


def project_name(project_key: str) -> str:
    """A project's directory. It is never decoded, so a long name may become a hash."""
    if _PATH_KEY.fullmatch(project_key) and len(project_key) <= 240:
        return project_key
    try:
        return safe_name("project key", project_key)
    except InvalidId:
        return _HASHED + sha256(project_key.encode("utf-8", "surrogatepass")).hexdigest()


def line_of(entry: Mapping[str, Any]) -> bytes:
    """An entry as one line that reads back equal; anything else is refused."""
    try:
        text = json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        try:
            line = text.encode()
        except UnicodeEncodeError:  # half a surrogate pair: legal in JSON, but only as an escape
            line = json.dumps(entry, allow_nan=False, separators=(",", ":")).encode()
        same = isinstance(entry, dict) and json.loads(line) == entry
    except (TypeError, ValueError, RecursionError) as problem:
        raise _refused(str(problem)) from None
    if not same:
        raise _refused("it would not read back equal")
    if len(line) > DEFAULT_LIMITS.line_bytes:
        raise _refused(f"{len(line)} bytes; the limit is {DEFAULT_LIMITS.line_bytes}")
    return line


def _refused(reason: str) -> UsageError:
    return UsageError(
        f"entry: {reason}; nothing was stored", hint="use mappings, lists, text and finite numbers"
    )


def uuid_of(entry: Mapping[str, Any]) -> str | None:
    """The id that identifies a repeat; None for an entry without one."""
    name = entry.get("uuid")
    return name if isinstance(name, str) and name else None


def is_first(entry: Mapping[str, Any], seen: set[str]) -> bool:
    """Whether its id is new; adds it to ``seen``."""
    name = uuid_of(entry)
    if name is None:
        return True
    if name in seen:
        return False
    seen.add(name)
    return True


def entry_of(item: Line | Damage) -> dict[str, Any] | Damage | None:
    """A line as the SDK gave it; None for a blank one."""
    if isinstance(item, Damage):
        return item
    if not item.data.strip():
        return None
    try:
        entry = json.loads(item.data)
    except (ValueError, RecursionError) as problem:
        return Damage(DamageCode.INVALID_JSON, item.offset, len(item.data) + 1, str(problem), item.data)
    if isinstance(entry, dict):
        return entry
    return Damage(DamageCode.NOT_AN_OBJECT, item.offset, len(item.data) + 1, "not an object", item.data)


def stored_uuid(item: Line | Damage) -> str | None:
    """The id of a line in the log, read without the rest of the line."""
    if isinstance(item, Damage) or b'"uuid"' not in item.data:
        return None
    seen = line_links.sound(item.data)
    if seen is not None:
        return seen.uuid or None
    entry = entry_of(item)  # for lines that the view refuses, such as half a surrogate pair
    return uuid_of(entry) if isinstance(entry, dict) else None
