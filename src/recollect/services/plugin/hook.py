"""What the plugin's hooks do: archive the session that the client names on stdin."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec

from recollect.errors import NotFound, UsageError
from recollect.services.archive import archive as keep
from recollect.services.homes import Home
from recollect.storage.archive.archive import ArchiveResult


class HookRequest(msgspec.Struct):
    """The fields of the client's request that matter here."""

    session_id: str = ""
    transcript_path: str = ""


def archive_session(home: Home, request: bytes, data: Path) -> ArchiveResult:
    """Archive the session of a hook's request, which must lie in one of the homes."""
    try:
        asked = msgspec.json.decode(request, type=HookRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise UsageError(
            f"hook: stdin is no request of the client ({problem})",
            hint="this command is run by the client's hooks, not by hand",
        ) from None
    log = Path(asked.transcript_path)
    session = next(
        (one for one in home.sessions() if one.id == asked.session_id and one.path.name == log.name), None
    )
    if session is None:
        raise NotFound(
            f"session {asked.session_id!a}: not in the homes looked at",
            hint="a session without a message has no log; name its home with --home DIR",
        )
    return keep.add(keep.archive_at(data), session, dt.datetime.now(dt.UTC))
