"""A member's page over a team's server: what is asked how often, shared between members, and never shown to the wrong one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from recollect.errors import NoAnswer
from recollect.model.lines.blocks import Tokens
from recollect.server.database.records import LineSearch
from recollect.server.page.access import MemberSource
from recollect.server.page.listing import ListTurn, TeamView
from recollect.server.page.members import MirrorBackend, OrganizationCopies
from recollect.share.sync.wire import (
    START,
    LineHits,
    RemoteSession,
    SessionDescription,
    TeamCostReport,
    TeamCostRow,
)
from tests.share.sync.memory_remote import MemoryRemote
from tests.small_home import ONE, TALK, TWO, lines

ORG = "00000000-0000-4000-8000-00000000000a"


def _cost(keys: dict[str, str], pico_usd: int = 5) -> TeamCostRow:
    return TeamCostRow(keys, 2, Tokens(input=1), pico_usd, None, [])


class _Seen(MemberSource):
    """What one member sees of a remote."""

    def __init__(self, remote: MemoryRemote, hidden: set[str] | None = None) -> None:
        self.remote, self.hidden = remote, hidden or set()
        self.lists = self.questions = 0
        self.is_silent = False

    def sessions(self) -> list[RemoteSession]:
        self._ask()
        self.lists += 1
        return [one for one in self.remote.sessions() if one.id not in self.hidden]

    def may_read(self, session: str) -> bool:
        self._ask()
        return session not in self.hidden and self.remote.session(session) is not None

    def cost(self, by: Sequence[str], since: int | None = None, until: int | None = None) -> TeamCostReport:
        self._ask()
        rows = [_cost({"session": one.id, "model": "m"}) for one in self.remote.sessions()]
        return TeamCostReport([], rows, _cost({}, 5 * len(rows)))

    def search(self, wanted: LineSearch) -> LineHits:
        return LineHits([])

    def _ask(self) -> None:
        self.questions += 1
        if self.is_silent:
            raise NoAnswer("no answer", hint="later")


@pytest.fixture
def remote() -> MemoryRemote:
    made = MemoryRemote()
    for session in (ONE, TWO):
        made.append(session, "", START, lines(TALK), SessionDescription(project="/srv/shop"))
    return made


def test_lists_of_many_members_take_a_part_of_the_time(
    remote: MemoryRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one was just read, others show theirs of before, unless that is too old."""
    now = 1000.0
    monkeypatch.setattr("recollect.server.page.listing.time.monotonic", lambda: now)

    class Slow(_Seen):
        def sessions(self) -> list[RemoteSession]:
            nonlocal now
            now += 0.5
            return super().sessions()

    turn = ListTurn(1.0)
    sources = [Slow(remote) for _ in range(8)]
    views = [TeamView(source, turn) for source in sources]
    for _ in range(400):
        now += 0.25
        for view in views:
            view.listed()
    read = [source.lists for source in sources]
    # Half a second each: a fifth of the time, and what is half a minute old is read all the same.
    assert sum(read) * 0.5 <= (now - 1000.0) * 0.4
    assert min(read) >= (now - 1000.0) // 45


def test_a_server_that_did_not_answer_is_not_asked_at_once_again(
    remote: MemoryRemote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question may take long until it fails: one is enough for some seconds."""
    now = 1000.0
    monkeypatch.setattr("recollect.server.page.listing.time.monotonic", lambda: now)
    seen = _Seen(remote)
    desk = MirrorBackend(OrganizationCopies(tmp_path, remote, 1.0), seen)
    desk.sessions()
    desk.session(ONE)
    now, seen.is_silent, asked = now + 40, True, seen.questions
    for _ in range(5):
        desk.sessions()
        desk.session(ONE)
    assert seen.questions == asked + 1
    now, seen.is_silent = now + 6, False
    desk.session(ONE)
    desk.sessions()
    assert desk.not_current_since is None
