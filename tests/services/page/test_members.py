"""A team's page: sums are given when every session of the first fill is in the index, and not before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.errors import Busy
from recollect.services.page.cost import cost_document
from recollect.services.page.members import MirrorBackend
from recollect.services.page.stats import PageStats
from recollect.sync.remote import SessionDescription
from recollect.sync.wire import START, Position
from tests.small_home import ONE, TWO, lines, prompt, reply, said
from tests.sync.memory_remote import MemoryRemote


class _Held(MemoryRemote):
    """Gives the second session only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()

    def read(self, session: str, key: str, after: Position) -> Iterator[bytes]:
        if session == ONE:
            self.may_go_on.wait(60)
        return super().read(session, key, after)


def _backend(place: Path, remote: MemoryRemote) -> MirrorBackend:
    return MirrorBackend(place, remote, rest=0, patience=0.1)


def test_sums_wait_for_the_first_fill_and_the_index_of_it(tmp_path: Path) -> None:
    remote = _Held()
    for session in (ONE, TWO):
        talk = [prompt(1, None, "Q", sessionId=session), reply(2, 1, said("A"), answer=session)]
        remote.append(session, "", START, lines(talk), SessionDescription(project="/srv/shop"))
    backend = _backend(tmp_path, remote)
    backend.mirror.look(0)
    backend.index.refresh()
    backend.index.wait(60)
    try:
        # One session is there and indexed: a sum would be half of what it should be.
        assert "building" == backend.index.state
        with pytest.raises(Busy, match="still being read"):
            cost_document(backend, ["session"])
        with pytest.raises(Busy, match="still being read"):
            PageStats(backend).document(None, None, None, None)
    finally:
        remote.may_go_on.set()
    backend.mirror.wait(60)
    # Asking for the state is enough: nobody has to wait for the next refresh that is due. One may be running already.
    states = [backend.index.state]
    for _ in range(3):
        backend.index.wait(60)
        states.append(backend.index.state)
    assert ("building", "ready") == (states[0], states[-1])
    assert 2 == len(cost_document(backend, ["session"]).rows)

    # Another process, or the same one after a pause, has all of it from the start.
    again = _backend(tmp_path, remote)
    again.mirror.look(60)
    again.index.refresh()
    again.index.wait(60)
    assert ("ready", 2) == (again.index.state, len(cost_document(again, ["session"]).rows))
