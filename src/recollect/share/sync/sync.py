"""The sync use cases: which remote, with which keys, from which homes."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from recollect.errors import Ambiguous, NotFound, UsageError
from recollect.model.lines.ids import is_uuid
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.install import InstalledSession, Installer
from recollect.share.sync.lines import OutgoingSecrets, Sealer
from recollect.share.sync.pull import Pull
from recollect.share.sync.push import Push
from recollect.store.changes.journal import Change
from recollect.store.home import ClaudeHome
from recollect.store.own_settings import SyncLogin, encryption_key, projects_to_send
from recollect.store.sync_state import StateFile, machine_id

PATIENCE = 60.0


def checked_address(address: str) -> str:
    """The address of a server in stored form."""
    if not address.lower().startswith(("http://", "https://")):
        raise UsageError(f"address {address[:200]!a}: not a server", hint="write https://…")
    return address.rstrip("/")


class SyncClient:
    """One server and this machine."""

    def __init__(self, login: SyncLogin, data: Path, *, patience: float = PATIENCE) -> None:
        self.login, self.data = login, data
        self._patience = patience
        self.kept = StateFile(data, login.address)

    @functools.cached_property
    def machine_id(self) -> str:
        """The random id of this machine."""
        return machine_id(self.data)

    def connected(self) -> HttpRemote:
        """The remote; it has accepted the token before anything is sent."""
        remote = self.server()
        remote.limits()
        return remote

    def server(self) -> HttpRemote:
        """The server, before anything was asked of it."""
        login = self.login
        return HttpRemote(login.address, login.token, patience=self._patience, allow_plain=login.plain_http)

    def push(self, homes: Sequence[Path], *, redact: bool, encrypt: bool) -> Push:
        """A push of some homes; ``run`` carries it out."""
        return Push(
            homes,
            self.kept,
            self.connected,
            machine_id=self.machine_id,
            machine=self.login.machine,
            projects=projects_to_send(),
            secrets=(lambda: OutgoingSecrets(self.data)) if redact else None,
            sealer=Sealer(encryption_key(self.data, make=True)) if encrypt else None,
        )

    def pull(self, remote: HttpRemote) -> Pull:
        """A pull into our store."""
        try:
            sealer = Sealer(encryption_key(self.data, make=False))
        except NotFound:
            sealer = None
        return Pull(remote, self.kept, self.data, sealer)

    def install(self, home: ClaudeHome, remote: HttpRemote, directory: Path | None = None) -> Installer:
        """Installs pulled sessions into a home."""
        return Installer(home, self.kept, remote, machine_id=self.machine_id, directory=directory)


_ID = re.compile(r"(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f-])")


class FetchedSession(NamedTuple):
    """A session of the server. ``installed`` is None where the home has it already, as it is there.

    ``change`` is the change that put it there; None for a plan.
    """

    session: str
    installed: InstalledSession | None
    change: Change | None = None


def session_of(url: str, address: str) -> str:
    """The session that an address names on the server of the login."""
    server, wanted = urlsplit(address), urlsplit(url)
    base = server.path.rstrip("/")
    if (wanted.scheme, wanted.netloc) != (server.scheme, server.netloc) or not f"{wanted.path}/".startswith(
        f"{base}/"
    ):
        there = f"{wanted.scheme}://{wanted.hostname or ''}"
        raise UsageError(
            f"{there}: not the server you are logged in to",
            hint=f"log in to it with: recollect sync login {there}",
        )
    found = _ID.findall(f"{wanted.path[len(base) :]} {wanted.query} {wanted.fragment}")
    if len(set(found)) != 1:
        raise UsageError("the address names no single session", hint="it ends in /v1/sessions/ID")
    return str(found[0])


def fetched(
    client: SyncClient, home: ClaudeHome, url: str, *, directory: Path | None = None, install: bool = True
) -> FetchedSession:
    """Fetch a session and, with ``install``, put it into the home. ``directory``: where it worked, here."""
    session = session_of(url, client.login.address)
    remote = client.connected()
    try:
        client.pull(remote).one(session)
        installer = client.install(home, remote, directory)
        is_pulled = session in client.kept.load().pulled
        planned = installer.planned([session]) if is_pulled else None
        if planned is not None and planned.left:
            raise UsageError(
                f"session {session}: {planned.left[0][1]}", hint="name its directory here with --cwd DIR"
            )
        if planned is None or not planned.sessions:
            return FetchedSession(session, None)
        change = installer.carry_out(planned, client.data) if install else None
        return FetchedSession(session, planned.sessions[0], change)
    finally:
        remote.close()


SHORTEST = 4
_NAMED = 5


def session_named(remote: HttpRemote, name: str) -> str:
    """The id of the one session that ``name`` fits; a whole id is not looked up."""
    if is_uuid(name):
        return name
    if len(name) < SHORTEST:
        raise UsageError(f"session {name!a}: too short", hint=f"give {SHORTEST} or more characters of its id")
    # A folder does not filter.
    found = (one.id for one in remote.sessions(id=name) if one.id.startswith(name))
    some = list(islice(found, _NAMED))
    if not some:
        raise NotFound(
            f"session {name}: not on the server",
            hint="it may have been deleted there, or is not shared with you; `recollect team list` shows those you see",
        )
    if len(some) == 1:
        return some[0]
    if remote.session(name) is not None:
        return name  # the others only begin with it
    raise Ambiguous("session", name, tuple(some))
