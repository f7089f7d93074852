"""Several machines, a network that breaks everything, a server that is killed: all of them end with the same sessions.

Daily a few machines and a few kills; ``RECOLLECT_TORTURE=1`` takes five machines, 1,000 steps each and 50 kills.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from recollect.errors import Busy
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.wire import Position, SessionDescription
from tests.server.live import LiveServer
from tests.share.sync.conftest import Team, sqlite_at
from tests.share.sync.fault_proxy import FaultProxy, Faults
from tests.share.sync.machines import Machine, remote_log
from tests.small_home import ONE

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
MACHINES, STEPS, KILLS = (5, 1_000, 50) if TORTURE else (3, 60, 4)


class Noting(HttpRemote):
    """Writes down every position the server acknowledged."""

    def __init__(self, url: str, token: str, acknowledged: list[tuple[str, str, Position]]) -> None:
        super().__init__(url, token, patience=120)
        self._acknowledged = acknowledged

    def append(self, session: str, key: str, at: Position, data: bytes, told: SessionDescription) -> Position:
        after = super().append(session, key, at, data, told)
        self._acknowledged.append((session, key, after))
        return after


class Worker:
    """One machine at work: it talks in sessions of its own and in one that all have, pushes and pulls."""

    def __init__(self, number: int, place: Path, url: str, token: str) -> None:
        self.name = f"m{number}"
        self.acknowledged: list[tuple[str, str, Position]] = []
        self.machine = Machine(place / self.name, lambda: Noting(url, token, self.acknowledged))
        self._dice = random.Random(number)
        self._count = 0
        self.problem: BaseException | None = None
        self.own = [f"{number:08d}-0000-4000-8000-{n:012d}" for n in range(3)]
        self.machine.talk()
        for session in self.own:
            self.machine.talk(session)

    def work(self, killed: list[int]) -> None:
        """All steps, spread over all the kills."""
        try:
            for step in range(STEPS):
                while killed[0] < step * KILLS // STEPS:
                    time.sleep(0.01)
                self._step()
        except BaseException as problem:
            self.problem = problem
            raise

    def _step(self) -> None:
        what = self._dice.random()
        if what < 0.7:
            self._count += 1
            session = self._dice.choice([ONE, *self.own])
            self._say(session, f"{self.name} {self._count}")
        elif what < 0.9:
            self.machine.push()
        else:
            self.machine.pull()

    def _say(self, session: str, text: str) -> None:
        entry = {"type": "user", "uuid": text, "sessionId": session, "cwd": "/srv/app", "pad": "x" * 700}
        with self.machine.log(session).open("ab") as log:
            log.write(json.dumps(entry).encode() + b"\n")

    def settle(self) -> None:
        """Send and fetch until nothing is left."""
        for _ in range(10):
            pushed = self.machine.push()
            assert pushed.problems == []
            if not self.machine.pull().sessions and not pushed.sessions:
                return


def run_all(workers: list[Worker], server: LiveServer) -> None:
    """All at once, while the server is killed again and again."""
    killed = [0]
    threads = [threading.Thread(target=worker.work, args=(killed,)) for worker in workers]
    for thread in threads:
        thread.start()
    while killed[0] < KILLS:
        time.sleep(0.3)
        server.stop(signal.SIGKILL)
        killed[0] += 1
        server.start()
    for thread in threads:
        thread.join()


def test_all_machines_converge_whatever_breaks(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, nothing is stored twice, every line of every machine is everywhere."""
    address = sqlite_at(tmp_path)
    with LiveServer(address, tmp_path) as server:
        token = Team(server.url, address).token()
        with FaultProxy(server.url, Faults(every=4, seed=7)) as proxy:
            workers = [Worker(number, tmp_path, proxy.url, token) for number in range(MACHINES)]
            run_all(workers, server)
            assert [worker.problem for worker in workers] == [None] * MACHINES
            assert proxy.faults > KILLS
        for worker in workers:
            worker.machine.connect = lambda: HttpRemote(server.url, token)
        for _ in range(2):
            for worker in workers:
                worker.settle()
        remote = HttpRemote(server.url, token)
        compare(workers, remote)
        remote.close()


def compare(workers: list[Worker], remote: HttpRemote) -> None:
    sessions = {one.id: remote_log(remote, one.id) for one in remote.sessions()}
    for worker in workers:
        machine = worker.machine
        state = machine.kept.load()
        # Acknowledged is there.
        assert all(remote.is_at(*place) for place in worker.acknowledged)
        # Every log is there whole, under its own name or a branch's.
        for session in (ONE, *worker.own):
            log = machine.log(session)
            target = state.targets.get(str(log)[: -len(".jsonl")])
            name = session if target is None else target.session
            assert sessions[name].replace(name.encode(), session.encode()) == log.read_bytes()
        # What others have is here.
        for name, data in sessions.items():
            own = {one.session for one in state.logs.values()}
            if name not in own:
                assert machine.pulled(name) == data
    # Nothing twice.
    for data in sessions.values():
        names = [json.loads(line)["uuid"] for line in data.splitlines()]
        assert len(names) == len(set(names))
    # One session of all, and a branch for each other machine that went on with it.
    targets = [worker.machine.kept.load().targets for worker in workers]
    assert len(sessions) == 3 * len(workers) + 1 + sum(map(len, targets))
    assert sum(map(len, targets)) == len(workers) - 1


def test_a_server_that_is_away_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    """The push fails as busy; the next one, with a server, sends everything."""
    from tests.server.live import free_port
    from tests.share.sync.memory_remote import MemoryRemote

    url = f"http://127.0.0.1:{free_port()}"
    machine = Machine(tmp_path, lambda: HttpRemote(url, "rcl_x", patience=0.2))
    machine.talk()
    with pytest.raises(Busy):
        machine.push()
    remote = MemoryRemote()
    machine.connect = lambda: remote
    assert machine.push().lines == 4
