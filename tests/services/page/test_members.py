"""A member's page over a team's server: what is asked how often, shared between members, and never shown to the wrong one."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from recollect.errors import Busy, NoAnswer, NotFound
from recollect.model.cost.usage import Tokens
from recollect.services.page.members import Member, MirrorBackend, MirrorBackends, OrganizationCopies
from recollect.services.page.sessions import SessionQuery
from recollect.services.page.team import source as team_source
from recollect.services.page.team.listing import TeamSessionList
from recollect.services.page.team.source import FoundLines, LineQuestion, TeamView
from recollect.sync.remote import SessionDescription
from recollect.sync.wire import START, RemoteSession
from tests.small_home import ONE, TALK, TWO, lines
from tests.sync.memory_remote import MemoryRemote

ORG = "00000000-0000-4000-8000-00000000000a"


class _Cost(NamedTuple):
    keys: dict[str, str]
    responses: int = 2
    tokens: Tokens = Tokens(input=1)
    pico_usd: int = 5
    unpriced: list[str] = []  # noqa: RUF012 - of a tuple, never changed


class _Costs(NamedTuple):
    rows: Sequence[_Cost]
    total: _Cost


class _Seen:
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

    def cost(self, by: Sequence[str], since: int | None = None, until: int | None = None) -> _Costs:
        self._ask()
        rows = [_Cost({"session": one.id, "model": "m"}) for one in self.remote.sessions()]
        return _Costs(rows, _Cost({}, pico_usd=5 * len(rows)))

    def search(self, question: LineQuestion) -> FoundLines:
        return FoundLines([], False)

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


def test_members_share_copies_and_rows_but_not_rights(remote: MemoryRemote, tmp_path: Path) -> None:
    """One who may not see a session does not get it, though a copy is there; the other keeps it."""
    copies = OrganizationCopies(tmp_path, remote, 0.0)
    one, other = (MirrorBackend(copies, _Seen(remote, hidden)) for hidden in (set[str](), {ONE}))
    assert one.session(ONE).path.read_bytes() == lines(TALK)
    with pytest.raises(NotFound):
        other.session(ONE)
    assert [session.id for session in other.sessions()] == [TWO]
    assert one.listed_session(TWO) is other.listed_session(TWO)
    assert one.session(ONE).path.exists()
    assert one.open_sessions is other.open_sessions


def test_a_list_has_only_what_its_member_may_see(remote: MemoryRemote, tmp_path: Path) -> None:
    """The total is of everything, and says how much of it is not listed."""
    desk = MirrorBackend(OrganizationCopies(tmp_path, remote, 0.0), _Seen(remote, {ONE}))
    document = TeamSessionList(desk).document(SessionQuery(), 0, 10)
    assert [row.id for row in document.sessions] == [TWO]
    assert (document.total_cost_usd, document.unlisted_cost_usd) == ("0.000000000005", "0.000000000005")


def test_a_session_is_asked_for_before_every_look(remote: MemoryRemote, tmp_path: Path) -> None:
    """Also where its copy was brought up to date a moment ago."""
    seen = _Seen(remote)
    desk = MirrorBackend(OrganizationCopies(tmp_path, remote, 60.0), seen)
    desk.session(ONE)
    seen.hidden.add(ONE)
    with pytest.raises(NotFound):
        desk.session(ONE)


def test_while_nobody_answers_only_what_was_listed_and_copied_is_there(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    """And not what nobody ever listed: then there is nothing to be shown."""
    seen = _Seen(remote)
    desk = MirrorBackend(OrganizationCopies(tmp_path, remote, 0.0), seen)
    seen.is_silent = True
    with pytest.raises(Busy):
        desk.sessions()
    seen.is_silent = False
    desk.sessions()
    desk.session(ONE)
    assert desk.not_current_since is None
    seen.is_silent = True
    assert len(desk.sessions()) == 2
    assert desk.session(ONE).path.exists()
    with pytest.raises(NotFound):
        desk.session("unknown")
    since = desk.not_current_since
    assert since is not None
    seen.is_silent = False
    desk.sessions()
    assert desk.not_current_since is None


def test_lists_of_many_members_take_a_part_of_the_time(
    remote: MemoryRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one was just read, others show theirs of before, unless that is too old."""
    now = 1000.0
    monkeypatch.setattr("recollect.services.page.team.source.time.monotonic", lambda: now)

    class Slow(_Seen):
        def sessions(self) -> list[RemoteSession]:
            nonlocal now
            now += 0.5
            return super().sessions()

    turn = team_source.ListTurn(1.0)
    views = [TeamView(Slow(remote), turn) for _ in range(8)]
    for _ in range(400):
        now += 0.25
        for view in views:
            view.listed()
    read = [view.source.lists for view in views]  # type: ignore[attr-defined]
    # Half a second each: a fifth of the time, and what is half a minute old is read all the same.
    assert sum(read) * 0.5 <= (now - 1000.0) * 0.4
    assert min(read) >= (now - 1000.0) // 45


def test_one_list_is_read_for_all_who_ask_at_once(remote: MemoryRemote) -> None:
    """Threads of one member wait for the one that asks."""
    seen, gate = _Seen(remote), threading.Event()
    whole = seen.sessions

    def held() -> list[RemoteSession]:
        gate.wait(60)
        return whole()

    seen.sessions = held  # type: ignore[method-assign]
    view, found = TeamView(seen, team_source.ListTurn(60.0)), list[object]()
    threads = [threading.Thread(target=lambda: found.append(view.listed())) for _ in range(5)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    gate.set()
    for thread in threads:
        thread.join()
    assert (seen.lists, len({id(one) for one in found})) == (1, 1)


def test_an_index_of_an_earlier_version_is_removed(remote: MemoryRemote, tmp_path: Path) -> None:
    """It has the words of every session there was."""
    left = tmp_path / ORG / "cache" / "index-v7-00000000.sqlite-wal"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"words")
    backends = MirrorBackends(tmp_path, lambda _: remote, lambda _: _Seen(remote))
    backends.desk(Member(ORG, "Acme", "ada", "member", "token", id="ada"))
    assert not left.exists()


def test_a_server_that_did_not_answer_is_not_asked_at_once_again(
    remote: MemoryRemote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question may take long until it fails: one is enough for some seconds."""
    now = 1000.0
    monkeypatch.setattr("recollect.services.page.team.source.time.monotonic", lambda: now)
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
