"""Stars and pins: what a person marked. Ours alone, in one small file of our own directory, never in a home."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from recollect.errors import UsageError
from recollect.system import fsops
from recollect.system.fsops import as_storage_error
from recollect.system.lock import FileLock

_MOST = 10_000
_LONGEST_TEXT = 200


class Pin(Struct, frozen=True):
    """A pinned message, and how it begins."""

    session: str
    uuid: str
    at: dt.datetime
    text: str = ""


class Marks(Struct, frozen=True):
    """All marks; sessions that no longer exist keep theirs."""

    stars: tuple[str, ...] = ()
    pins: tuple[Pin, ...] = ()


class MarksFile:
    """Reads and changes the marks below a data directory."""

    def __init__(self, data: Path) -> None:
        self._path = data / "marks.json"

    def read(self) -> Marks:
        """The marks; none where the file is missing or is not ours to understand."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Marks)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return Marks()

    def star(self, session: str, *, on: bool) -> Marks:
        """Star a session, or take its star away."""
        return self._changed(
            lambda marks: structs.replace(
                marks,
                stars=(*(one for one in marks.stars if one != session), *((session,) if on else ())),
            )
        )

    def pin(self, session: str, uuid: str, *, on: bool, text: str, now: dt.datetime) -> Marks:
        """Pin a message, or take its pin away."""
        pin = Pin(session, uuid, now, text[:_LONGEST_TEXT])

        def changed(marks: Marks) -> Marks:
            others = (one for one in marks.pins if (one.session, one.uuid) != (session, uuid))
            return structs.replace(marks, pins=(*others, *((pin,) if on else ())))

        return self._changed(changed)

    def _changed(self, change: Callable[[Marks], Marks]) -> Marks:
        with as_storage_error("write", self._path):
            fsops.make_directories(self._path.parent)
            with FileLock(self._path.with_suffix(".lock"), timeout=5.0, guards=self._path):
                marks = change(self.read())
                if len(marks.stars) > _MOST or len(marks.pins) > _MOST:
                    raise UsageError(f"more than {_MOST:,} marks", hint="take some away first")
                fsops.replace_file(self._path, msgspec.json.encode(marks) + b"\n")
        return marks


class PageAddress(Struct, frozen=True):
    """What is kept between two servers. The cookie is as secret as the sessions: the file is for its owner only."""

    port: int
    cookie: str


class PageAddressFile:
    """The kept address below a data directory."""

    def __init__(self, data: Path) -> None:
        self._path = data / "page.json"

    def read(self) -> PageAddress | None:
        """The kept address; None where none was asked for, or the file is damaged."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=PageAddress)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return found if 1 <= found.port <= 65_535 and len(found.cookie) >= 32 else None

    def keep(self, port: int) -> PageAddress:
        """Keep this port, with the cookie that is known or a new one."""
        before = self.read()
        kept = PageAddress(port, secrets.token_urlsafe(32) if before is None else before.cookie)
        if kept != before:
            with as_storage_error("write", self._path):
                fsops.make_directories(self._path.parent)
                fsops.replace_file(self._path, msgspec.json.encode(kept) + b"\n")
        return kept

    def forget(self) -> bool:
        """Remove it: browsers that were signed in by it are no longer. False where there was none."""
        if not self._path.exists():
            return False
        with as_storage_error("remove", self._path):
            fsops.unlink(self._path)
        return True
