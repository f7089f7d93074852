"""One server and this machine: what pushes, pulls and installations share; and how sessions there are named."""

from __future__ import annotations

import functools
import re
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from recollect.errors import Ambiguous, NotFound, UsageError
from recollect.model.lines.ids import is_uuid
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.lines import Sealer
from recollect.store.own_settings import SyncLogin, encryption_key
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

    def sealer(self, *, make: bool) -> Sealer | None:
        """What encrypts with this machine's key; None where there is none, and none is to be made."""
        try:
            return Sealer(encryption_key(self.data, make=make))
        except NotFound:
            return None

    def connected(self) -> HttpRemote:
        """The remote; it has accepted the token before anything is sent."""
        remote = self.server()
        remote.limits()
        return remote

    def server(self) -> HttpRemote:
        """The server, before anything was asked of it."""
        login = self.login
        return HttpRemote(login.address, login.token, patience=self._patience, allow_plain=login.plain_http)


_ID = re.compile(r"(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f-])")


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
            hint=f"log in to it with: recollect team login {there}",
        )
    found = _ID.findall(f"{wanted.path[len(base) :]} {wanted.query} {wanted.fragment}")
    if len(set(found)) != 1:
        raise UsageError("the address names no single session", hint="it ends in /v1/sessions/ID")
    return str(found[0])


SHORTEST = 4
_NAMED = 5


def session_named(remote: HttpRemote, name: str) -> str:
    """The id of the one session that ``name`` fits; a whole id is not looked up."""
    if is_uuid(name):
        return name
    if len(name) < SHORTEST:
        raise UsageError(f"session {name!a}: too short", hint=f"give {SHORTEST} or more characters of its id")
    some = [one.id for one in islice(remote.sessions(id=name), _NAMED)]
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
