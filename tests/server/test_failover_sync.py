"""Machines that sync while the primary database is killed: `recollect sync` processes go on by themselves, and lose nothing.

Everything is a process as a user runs it: three PostgreSQL, two servers, two machines that watch and one that pushes again
and again. With ``RECOLLECT_TORTURE=1`` only: it takes about a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.server.live import LiveServer
from tests.server.postgres_cluster import Cluster
from tests.server.test_failover import NAMES, TORTURE, address, pytestmark, trio
from tests.server.test_live import token_for

__all__ = ["pytestmark", "trio"]  # the fixture, and where it can run
SECONDS, EVERY = 6.0, 0.05


class Machine:
    """A home with two sessions that somebody talks in, and its `recollect sync`."""

    def __init__(self, number: int, place: Path) -> None:
        self.home = place / f"machine{number}"
        self._directory = self.home / ".claude" / "projects" / "-srv-app"
        self._directory.mkdir(parents=True)
        self.sessions = [f"{number:08d}-0000-4000-8000-{n:012d}" for n in range(2)]
        self.spoken, self.statuses = 0, list[int]()

    def sync(self, *words: str) -> subprocess.Popen[bytes]:
        """Start `recollect sync`."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CLAUDE"))
        }
        with (self.home / "output").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "recollect", "sync", *words],
                env={**inherited, "HOME": str(self.home)},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
            )

    def login(self, url: str, token: str) -> None:
        process = self.sync("login", url)
        process.communicate(token.encode() + b"\n", 60)
        assert process.returncode == 0, self.said()

    def said(self) -> str:
        return (self.home / "output").read_text()

    def log(self, session: str) -> Path:
        return self._directory / f"{session}.jsonl"

    def talk(self, until: threading.Event) -> None:
        while not until.is_set():
            for session in self.sessions:
                entry = {
                    "type": "user",
                    "uuid": f"{session}-{self.spoken}",
                    "sessionId": session,
                    "cwd": "/srv/app",
                    "message": {"role": "user", "content": f"line {self.spoken}"},
                }
                with self.log(session).open("ab") as log:
                    log.write(json.dumps(entry).encode() + b"\n")
            self.spoken += 1
            time.sleep(EVERY)

    def push_again_and_again(self, until: threading.Event) -> None:
        while True:
            is_last = until.is_set()
            process = self.sync("push")
            process.communicate(timeout=180)
            self.statuses.append(process.returncode)
            if is_last:
                return


def fail_over(clusters: list[Cluster]) -> None:
    """The primary is gone; the standby that has most follows it. As in docs/deploy.md."""
    primary, *standbys = clusters
    primary.kill_all()
    time.sleep(1)  # somebody has to notice
    heir, rest = sorted(standbys, key=Cluster.received, reverse=True)
    heir.promote()
    rest.follow(heir, NAMES[0])
    heir.wait_for(*NAMES)


@pytest.mark.skipif(not TORTURE, reason="takes a minute: RECOLLECT_TORTURE=1")
def test_syncing_machines_go_on_after_a_failover(
    trio: list[Cluster],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """kill -9 of the primary during pushes: nobody restarts anything, and the server's bytes are every machine's own."""
    token = token_for(trio[0].dsn(), capsys)
    machines = [Machine(number, tmp_path) for number in range(3)]
    done = threading.Event()
    with LiveServer(address(trio), tmp_path) as one, LiveServer(address(trio), tmp_path) as other:
        for machine, server in zip(machines, (one, other, one), strict=True):
            machine.login(server.url, token)
        threads = [threading.Thread(target=machine.talk, args=(done,)) for machine in machines]
        threads.append(threading.Thread(target=machines[2].push_again_and_again, args=(done,)))
        for thread in threads:
            thread.start()
        watching = [machine.sync("watch", "--every", "0.3") for machine in machines[:2]]
        try:
            before = _until_appends(one, token, machines, SECONDS)
            fail_over(trio)
            time.sleep(SECONDS)
            done.set()
            for thread in threads:
                thread.join()
            wanted = {
                session: machine.log(session).read_bytes()
                for machine in machines
                for session in machine.sessions
            }
            found = _found(one, token, wanted, 120)
            alive = [process.poll() for process in watching]
        finally:
            done.set()
            for process in watching:
                process.terminate()
                process.communicate(timeout=60)
    assert 0 < before < sum(map(len, wanted.values()))
    assert found == wanted
    assert alive == [None, None], [machine.said() for machine in machines]
    assert set(machines[2].statuses) == {0}, machines[2].said()


def _stored(server: LiveServer, token: str, sessions: list[str]) -> dict[str, bytes]:
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        return {session: client.get(f"/v1/sessions/{session}/log").content for session in sessions}


def _until_appends(server: LiveServer, token: str, machines: list[Machine], seconds: float) -> int:
    """Wait until every machine has sent something, and some seconds; how many bytes are there."""
    sessions = [session for machine in machines for session in machine.sessions]
    deadline = time.monotonic() + 90
    while b"not_found" in b"".join(_stored(server, token, sessions).values()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(seconds)
    return sum(map(len, _stored(server, token, sessions).values()))


def _found(server: LiveServer, token: str, wanted: dict[str, bytes], seconds: float) -> dict[str, bytes]:
    deadline = time.monotonic() + seconds
    while (found := _stored(server, token, list(wanted))) != wanted and time.monotonic() < deadline:
        time.sleep(0.5)
    return found
