"""Machines to test with: each has a Claude home, a data directory, and one remote that all of them share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.install import Installer
from recollect.share.sync.lines import OutgoingSecrets, Sealer
from recollect.share.sync.pull import Pull, PullResult
from recollect.share.sync.push import Push, PushResult
from recollect.store.home import ClaudeHome
from recollect.store.own_settings import SyncProjects
from recollect.store.sync_state import StateFile, machine_id
from tests.small_home import ONE, TALK, lines, prompt, put

APP = "/srv/app"


class Machine:
    """One machine of several."""

    def __init__(self, place: Path, connect: Callable[[], HttpRemote]) -> None:
        self.home, self.data = place / "home", place / "data"
        self.home.mkdir(parents=True, exist_ok=True)
        self.connect = connect
        self.kept = StateFile(self.data, "test")
        self.id = machine_id(self.data)

    def push(
        self, *, redact: bool = False, sealer: Sealer | None = None, projects: SyncProjects | None = None
    ) -> PushResult:
        secrets = (lambda: OutgoingSecrets(self.data)) if redact else None
        push = Push(
            [self.home],
            self.kept,
            self.connect,
            machine_id=self.id,
            projects=projects,
            secrets=secrets,
            sealer=sealer,
        )
        return push.run()

    def pull(self, sealer: Sealer | None = None) -> PullResult:
        return Pull(self.connect(), self.kept, self.data, sealer).run()

    def install(self, directory: Path | None = None, *, apply: bool = True) -> Any:
        install = Installer(
            ClaudeHome(self.home), self.kept, self.connect(), machine_id=self.id, directory=directory
        )
        planned = install.planned()
        if apply and planned.sessions:
            install.carry_out(planned, self.data)
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
