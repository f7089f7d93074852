"""The page for members of an organisation: sign-in results, and a backend over the team's sessions.

The backend is that of the local page, over a mirror. A list waits briefly for new sessions; opening a
session waits until it is up to date. Deleted sessions leave the search before the list says they are gone.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.errors import Busy, RecollectError
from recollect.services.documents.page import IndexState
from recollect.services.homes import Home
from recollect.services.indexing.access import OpenIndex
from recollect.services.page.desk import PageBackend
from recollect.services.page.index import IndexKeeper
from recollect.services.session import Session
from recollect.services.sync.mirror import Mirror, MirrorSource

_CLEARING_SECONDS = 60.0
PULL = "recollect sync pull --into-home --apply"


class Member(Struct, frozen=True):
    """A signed-in member. ``organization`` is the id that separates all data. ``token`` is the id of the session, not a
    secret; ``opened_by`` that of the token it was opened with."""

    organization: str
    organization_name: str
    name: str
    role: str
    token: str
    retention_days: int | None = None
    id: str = ""
    ends: int | None = None
    opened_by: str | None = None


class AccessDenial(Struct, frozen=True):
    """Why a sign-in was refused."""

    status: int
    error: str
    hint: str
    retry_after: str | None = None


class _MirrorIndexKeeper(IndexKeeper):
    """An index over a mirror. It answers nothing before the mirror was refreshed, and is not ready before it holds all
    that the first fill brought.
    """

    def __init__(self, homes: Sequence[Path], cache: Path, mirror: Mirror, patience: float) -> None:
        super().__init__(homes, cache)
        self._mirror, self._patience = mirror, patience
        self._is_clear = threading.Event()
        self._is_clear.set()
        self._is_whole = False

    @property
    def state(self) -> IndexState:
        found = super().state
        if found != "ready" or self._is_whole:
            return found
        self.refresh()
        return "building"

    def check_whole(self) -> None:
        """``Busy`` while sessions are being fetched or read for the first time."""
        if self.state == "building":
            raise Busy("the team's sessions are still being read", hint="sums follow when all are here")

    def refresh(self) -> None:
        if self._mirror.is_filled and not self._is_whole:
            self.hurry()
        super().refresh()

    def _refresh(self) -> None:
        is_filled = self._mirror.is_filled
        super()._refresh()
        self._is_whole |= is_filled and not self.notes

    @contextlib.contextmanager
    def opened(self, wait: float = 0.25) -> Iterator[OpenIndex]:
        """The index; never one that still holds deleted sessions."""
        self._mirror.look(self._patience)
        self._is_clear.wait(_CLEARING_SECONDS)
        with super().opened(wait) as opened:
            yield opened

    def clear(self) -> None:
        """Remove deleted sessions from the index before the next query."""
        self._is_clear.clear()
        try:
            self.wait(_CLEARING_SECONDS)  # a running refresh may have started before the deletion
            self._rests_until, self._is_held = 0.0, False
            self.refresh()
            self.wait(_CLEARING_SECONDS)
        finally:
            self._is_clear.set()


class MirrorBackend(PageBackend):
    """The sessions of an organisation, for as long as its members use the page.

    A list waits ``patience`` seconds for what is new; the rest of it is there with a later request.
    """

    def __init__(self, place: Path, source: MirrorSource, *, rest: float, patience: float) -> None:
        self.mirror, self._patience = Mirror(place, source, rest=rest), patience
        home = self.mirror.files.home
        super().__init__(Home(home, data=place / "data"), data=place / "data", cache=place / "cache")
        index = _MirrorIndexKeeper(self.roots, place / "cache", self.mirror, patience)
        self.index = index
        self.mirror.removed = self._removed
        self._clear = index.clear
        self._listed_changes = 0

    def _removed(self) -> None:
        self.changed()
        self._clear()

    def sessions(self, *, fresh: bool = False, any_age: bool = False) -> list[Session]:
        """Every session, after refreshing the mirror."""
        if not any_age:
            self.mirror.look(self._patience)
            changes = self.mirror.changes
            if changes != self._listed_changes:
                self.changed()
                self._listed_changes = changes
        return super().sessions(fresh=fresh, any_age=any_age)

    def repository(self, cwd: str) -> str:
        """The directory itself: it is on another machine, and a path from elsewhere is not looked up here."""
        return cwd

    def session(self, name: str) -> Session:
        """A session as it is on the server now."""
        self.mirror.look_at(name)
        return super().session(name)


class MirrorBackends:
    """The backends of all organisations of a server, each in its own directory."""

    def __init__(
        self,
        place: Path,
        source_of: Callable[[str], MirrorSource],
        *,
        rest: float = 1.0,
        patience: float = 1.0,
    ) -> None:
        self._place, self._source_of = place, source_of
        self._rest, self._patience = rest, patience

    def desk(self, member: Member) -> MirrorBackend:
        """The backend of a member's organisation."""
        made = self._opened(member.organization)
        made.mirror.keep_days(member.retention_days)
        return made

    def tidy(self) -> None:
        """Remove what was deleted, also for organisations without recent requests."""
        for directory in self._place.iterdir() if self._place.is_dir() else ():
            with contextlib.suppress(RecollectError, ValueError, OSError):
                self._opened(directory.name).mirror.remove_gone()

    def _opened(self, organization: str) -> MirrorBackend:
        name = str(uuid.UUID(organization))
        source = self._source_of(name)
        return MirrorBackend(self._place / name, source, rest=self._rest, patience=self._patience)


def resume_line(session: str) -> str:
    """The command that continues a session on another machine."""
    return f"{PULL} && claude --resume {shlex.quote(session)}"
