"""The sync use cases: which remote, with which keys, from which homes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.errors import NotFound, UsageError
from recollect.services.home_guard import refuse_agent_home
from recollect.services.sync.push import Push, PushOptions
from recollect.storage.config.sync_settings import SyncLogin, encryption_key, projects_to_send
from recollect.storage.sync_state import StateFile, machine_id
from recollect.sync.remote import Remote

if TYPE_CHECKING:
    from recollect.services.sync.install import Installer
    from recollect.services.sync.lines import OutgoingSecrets
    from recollect.services.sync.pull import Pull
    from recollect.storage.home import ClaudeHome
    from recollect.sync.http_remote import HttpRemote
    from recollect.sync.sealing import Sealer

PATIENCE = 60.0


def is_server(address: str) -> bool:
    """Whether an address is that of a server; anything else is a directory."""
    return address.lower().startswith(("http://", "https://"))


def checked_address(address: str) -> str:
    """An address in stored form: a server's unchanged, a directory's absolute."""
    if is_server(address):
        return address.rstrip("/")
    if "://" in address:
        raise UsageError(f"address {address[:200]!a}: not understood", hint="write https://… or a directory")
    directory = Path(address).expanduser().absolute()
    if not directory.is_dir():
        raise NotFound(
            f"{directory}: no such directory",
            hint="create it first: it is not created here, in case of a typo",
        )
    refuse_agent_home(directory, "sync login DIRECTORY")
    return str(directory)


class SyncClient:
    """One remote and this machine."""

    def __init__(self, login: SyncLogin, data: Path, *, patience: float = PATIENCE) -> None:
        self.login, self.data = login, data
        self._patience = patience
        self.kept = StateFile(data, login.address)

    @functools.cached_property
    def machine_id(self) -> str:
        """The random id of this machine."""
        return machine_id(self.data)

    def connected(self) -> Remote:
        """The remote; a server has accepted the token before anything is sent."""
        if not is_server(self.login.address):
            from recollect.services.sync.folder import FolderRemote

            return FolderRemote(Path(checked_address(self.login.address)), self.machine_id)
        remote = self.server()
        remote.limits()
        return remote

    def server(self) -> HttpRemote:
        """The remote as a server, for requests that only a server supports."""
        if not is_server(self.login.address):
            raise UsageError(
                f"{self.login.address}: sync uses a folder; this needs a server",
                hint="`recollect sync login URL`",
            )
        from recollect.sync.http_remote import HttpRemote

        login = self.login
        return HttpRemote(login.address, login.token, patience=self._patience, allow_plain=login.plain_http)

    def push(self, homes: Sequence[Path], *, redact: bool, encrypt: bool) -> Push:
        """A push of some homes; ``run`` carries it out."""
        options = PushOptions(
            self.machine_id,
            self.login.machine,
            projects_to_send(),
            self._secrets if redact else None,
            self._sealer(make=True) if encrypt else None,
        )
        return Push(homes, self.kept, options, self.connected)

    def pull(self, remote: Remote) -> Pull:
        """A pull into our store."""
        from recollect.services.sync.pull import Pull

        return Pull(remote, self.kept, self.data, self._sealer_if_any())

    def install(self, home: ClaudeHome, remote: Remote, directory: Path | None = None) -> Installer:
        """Installs pulled sessions into a home."""
        from recollect.services.sync.install import Installer

        return Installer(home, self.kept, remote, machine_id=self.machine_id, directory=directory)

    def _secrets(self) -> OutgoingSecrets:
        from recollect.services.sync.lines import OutgoingSecrets

        return OutgoingSecrets(self.data)

    def _sealer(self, *, make: bool) -> Sealer:
        from recollect.sync.sealing import Sealer

        return Sealer(encryption_key(self.data, make=make))

    def _sealer_if_any(self) -> Sealer | None:
        try:
            key = encryption_key(self.data, make=False)
        except NotFound:
            return None
        from recollect.sync.sealing import Sealer

        return Sealer(key)
