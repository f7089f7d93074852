"""Machines to test with: each has a Claude home, a data directory, and one remote that all of them share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.install import Installer
from recollect.share.sync.lines import Sealer
from recollect.share.sync.pull import Pull, PullResult
from recollect.share.sync.push import Push, PushResult
from recollect.share.sync.sync import SyncClient
from recollect.store.home import ClaudeHome
from recollect.store.own_settings import SyncLogin, SyncProjects
from recollect.store.sync_state import StateFile, machine_id
from tests.small_home import ONE, TALK, lines, prompt, put

APP = "/srv/app"


class _Client(SyncClient):
    """A machine's, with the remote and the key of a test."""

    def __init__(self, machine: Machine, sealer: Sealer | None) -> None:
        super().__init__(SyncLogin("test", ""), machine.data)
        self._connect, self._sealer = machine.connect, sealer

    def connected(self) -> HttpRemote:
        return self._connect()

    def sealer(self, *, make: bool) -> Sealer | None:
        return self._sealer


class Machine:
    """One machine of several."""

    def __init__(self, place: Path, connect: Callable[[], HttpRemote]) -> None:
        self.home, self.data = place / "home", place / "data"
        self.home.mkdir(parents=True, exist_ok=True)
        self.connect = connect
        self.kept = StateFile(self.data, "test")
        self.id = machine_id(self.data)

    def client(self, sealer: Sealer | None = None) -> SyncClient:
        return _Client(self, sealer)

    def push(
        self, *, redact: bool = False, sealer: Sealer | None = None, projects: SyncProjects | None = None
    ) -> PushResult:
        encrypt, client = sealer is not None, self.client(sealer)
        return Push(client, [self.home], redact=redact, encrypt=encrypt, projects=projects).run()

    def pull(self, sealer: Sealer | None = None) -> PullResult:
        return Pull(self.client(sealer), self.connect()).run()

    def install(self, directory: Path | None = None, *, apply: bool = True) -> Any:
        install = Installer(self.client(), ClaudeHome(self.home), self.connect(), directory)
        planned = install.planned()
        if apply and planned.sessions:
            install.carry_out(planned)
        return planned

    def talk(self, session: str = ONE, cwd: str = APP) -> Path:
        """A session of four lines."""
        return put(self.home, session, TALK, cwd)

    def log(self, session: str = ONE) -> Path:
        return next(iter(self.home.glob(f"projects/*/{session}.jsonl")))

    def add(self, number: int, text: str = "more", session: str = ONE) -> None:
        """Go on with a session, as a client would: in the directory its lines name."""
        log = self.log(session)
        last = next(
            one for line in reversed(log.read_bytes().splitlines()) if "cwd" in (one := json.loads(line))
        )
        entry = {**prompt(number, number - 1, text), "sessionId": last["sessionId"], "cwd": last["cwd"]}
        with log.open("ab") as file:
            file.write(lines([entry]))

    def pulled(self, session: str = ONE, key: str = "") -> bytes:
        state = self.kept.load()
        return Path(state.pulled[session][key].path).read_bytes()

    @property
    def store(self) -> Path:
        return self.data / "store"


def remote_log(remote: HttpRemote, session: str = ONE, key: str = "") -> bytes:
    """All bytes of a log on the remote."""
    from recollect.share.sync.wire import START

    return b"".join(remote.read(session, key, START))


def repository(place: Path, url: str) -> Path:
    """A directory that is a copy of a repository, as far as git's files say."""
    (place / ".git").mkdir(parents=True)
    (place / ".git" / "config").write_text(f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n')
    return place
