"""Resume a session by the address it has on the team server.

``https://server/v1/sessions/<id>``, or any address of that server that names a session's id, such as that of
the team page. The session is fetched into our own store; installing it puts it into a Claude home, under the
directory that its repository has on this machine (``install``), where the client continues it.

Only the server of the saved login is asked: a token goes to no other address.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from recollect.errors import UsageError
from recollect.services.sync.install import InstalledSession
from recollect.services.sync.sync import SyncClient, is_server
from recollect.storage.changes.journal import AppliedChange
from recollect.storage.home import ClaudeHome

_ID = re.compile(r"(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f-])")


class FetchedSession(NamedTuple):
    """A session of the server. ``installed`` is None where the home has it already, as it is there.

    ``change`` is the change that put it there; None for a plan.
    """

    session: str
    installed: InstalledSession | None
    change: AppliedChange | None = None


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
    if not is_server(client.login.address):
        raise UsageError("sync: logged in to a folder, not to a server", hint="recollect sync login URL")
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
