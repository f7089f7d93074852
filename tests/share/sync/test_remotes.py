"""One contract for everything that keeps sessions: a dictionary, a server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from recollect.errors import Busy, UsageError
from recollect.sdk import SessionKey, SessionStore
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.wire import (
    START,
    PositionConflict,
    SessionDescription,
    SessionGone,
    SideFileChanged,
)
from tests.server.live import free_port
from tests.share.sync.conftest import Team, served
from tests.share.sync.fault_proxy import FaultProxy, Faults
from tests.share.sync.machines import remote_log
from tests.share.sync.memory_remote import MemoryRemote
from tests.small_home import ONE, TWO

A, B, C = b'{"a":1}\n', b"no json\n", b'{"c":"\xff"}\n'


@pytest.fixture(params=["memory", "server"])
def remote(request: pytest.FixtureRequest) -> Iterator[HttpRemote]:
    """Each kind in turn."""
    if request.param == "memory":
        yield MemoryRemote()
        return
    team: Team = request.getfixturevalue("team")
    connection = HttpRemote(team.url, team.token())
    yield connection
    connection.close()


def test_bytes_come_back_as_they_were_sent(remote: HttpRemote) -> None:
    """Lines of any kind, in one append or two, read from any place."""
    at = remote.append(ONE, "", START, A + B, SessionDescription("/srv/app", "github.com/a/b"))
    assert at == START.after((A, B))
    assert remote.append(ONE, "", at, C, SessionDescription()) == START.after((A, B, C))
    assert remote_log(remote) == A + B + C
    assert b"".join(remote.read(ONE, "", START.after((A,)))) == B + C
    assert remote.head(ONE, "") == START.after((A, B, C))


def test_a_repeated_append_is_recognised_and_another_refused(remote: HttpRemote) -> None:
    """The same lines at the same place: as if nothing happened. Others: the position the log has."""
    remote.append(ONE, "", START, A + B, SessionDescription())
    assert remote.append(ONE, "", START, A, SessionDescription()) == START.after((A,))
    with pytest.raises(PositionConflict) as refused:
        remote.append(ONE, "", START, C, SessionDescription())
    assert refused.value.head.position == START.after((A, B))
    assert remote_log(remote) == A + B


def test_a_position_is_known_or_not(remote: HttpRemote) -> None:
    """Every place the log came by, and no other; a missing log has none."""
    remote.append(ONE, "", START, A + B, SessionDescription())
    assert remote.is_at(ONE, "", START.after((A,)))
    assert not remote.is_at(ONE, "", START.after((B,)))
    assert not remote.is_at(ONE, "", START.after((A, B, C)))
    assert not remote.is_at(TWO, "", START.after((A,)))
    assert remote.head(TWO, "") is None
    with pytest.raises(SessionGone):
        list(remote.read(TWO, "", START))
    with pytest.raises(PositionConflict):
        list(remote.read(ONE, "", START.after((B,))))


def test_side_files_are_replaced_only_by_those_who_know_them(remote: HttpRemote) -> None:
    """New, the same again, another without knowing, another knowing."""
    remote.append(ONE, "", START, A, SessionDescription())
    assert remote.put_file(ONE, "tasks/1.json", b"one", None).sha256 == sha256(b"one").hexdigest()
    remote.put_file(ONE, "tasks/1.json", b"one", None)
    with pytest.raises(SideFileChanged):
        remote.put_file(ONE, "tasks/1.json", b"two", None)
    remote.put_file(ONE, "tasks/1.json", b"two", sha256(b"one").hexdigest())
    assert remote.file(ONE, "tasks/1.json") == b"two"
    assert remote.file(ONE, "tasks/2.json") is None


def test_a_session_tells_its_logs_and_files(remote: HttpRemote) -> None:
    """With where they end; the list shows it with what was told."""
    remote.append(ONE, "", START, A, SessionDescription("/srv/app", "github.com/a/b", "laptop"))
    remote.append(ONE, "subagents/agent-1", START, A + B, SessionDescription())
    remote.put_file(ONE, "tool-results/x.txt", b"text", None)
    detail = remote.session(ONE)
    assert detail is not None
    assert [(log.key, log.position) for log in detail.logs] == [
        ("", START.after((A,))),
        ("subagents/agent-1", START.after((A, B))),
    ]
    assert [(file.key, file.bytes) for file in detail.files] == [("tool-results/x.txt", 4)]
    [listed] = list(remote.sessions())
    assert (listed.id, listed.project, listed.repository, listed.machine) == (
        ONE,
        "/srv/app",
        "github.com/a/b",
        "laptop",
    )
    assert remote.delete(ONE) is True
    assert remote.session(ONE) is None
    assert remote.delete(ONE) is False


# --- HTTP alone -----------------------------------------------------------------------------------


def test_a_token_never_goes_over_plain_http_to_another_machine() -> None:
    """Unless somebody insists; nor is a password in an address taken."""
    for url in ("http://server.example", "https://me:pw@server.example", "ftp://x", "https://"):
        with pytest.raises(UsageError):
            HttpRemote(url, "rcl_x")
    HttpRemote("http://server.example", "rcl_x", allow_plain=True)
    HttpRemote("http://127.0.0.1:1", "rcl_x")


def test_a_wrong_token_is_told_without_showing_it(team: Team) -> None:
    """The error names the server and what to do, never the token."""
    with pytest.raises(UsageError) as refused:
        HttpRemote(team.url, "rcl_wrong_token").whoami()
    assert "rcl_wrong_token" not in str(refused.value)
    assert "not accepted" in str(refused.value)


def test_a_server_that_is_not_there_is_busy_after_patience() -> None:
    """It is tried again for as long as was said, then told."""
    with pytest.raises(Busy):
        HttpRemote(f"http://127.0.0.1:{free_port()}", "rcl_x", patience=0.3).whoami()


@pytest.mark.parametrize("fault", ["cut", "reset", "duplicate", "delay"])
def test_every_fault_of_the_network_is_lived_through(team: Team, fault: str) -> None:
    """Twenty appends and reads through a proxy that does one thing to every third connection."""
    token = team.token()
    with FaultProxy(team.url, Faults(every=3, only=fault, seed=1)) as proxy:
        remote = HttpRemote(proxy.url, token)
        at, sent = START, b""
        for number in range(20):
            line = b'{"n":%d,"pad":"%s"}\n' % (number, b"x" * 2_000)
            at = remote.append(ONE, "", at, line, SessionDescription())
            sent += line
            remote.close()  # the next request is another connection
        assert b"".join(remote.read(ONE, "", START)) == sent
        assert proxy.faults > 0
        remote.close()


def test_an_answer_is_whole_or_none_wherever_it_is_cut(team: Team) -> None:
    """Cut after every few bytes of the answer, headers too: never an error, never an answer that is not the server's."""
    token = team.token()
    direct = HttpRemote(team.url, token)
    at = direct.append(ONE, "", START, A + B, SessionDescription())
    with FaultProxy(team.url, Faults(every=2, only="cut", after_answer=True)) as proxy:
        for cut in range(0, 700, 29):
            proxy.cut_after = cut
            remote = HttpRemote(proxy.url, token, patience=120)
            proxy.connections = 1  # the next one is cut
            assert remote.whoami().user_name == "ada"
            for ask in (
                lambda remote=remote: remote.head(ONE, "") == at,
                lambda remote=remote: list(remote.read(ONE, "", START)) == [A + B],
                lambda remote=remote: remote.append(ONE, "", START, A + B, SessionDescription()) == at,
            ):
                remote.close()
                proxy.connections = 1
                assert ask()
            remote.close()
        assert proxy.faults > 50
    direct.close()


def test_what_is_left_of_an_answer_is_never_taken_for_the_next(team: Team) -> None:
    """A reader that stops early gives up the connection: what is left on it are somebody's lines, and they may spell
    an HTTP response.
    """
    remote = HttpRemote(team.url, team.token(), patience=600, timeout=600)
    remote.append(
        ONE, "", START, b"HTTP/1.1 200 OK\n" * 40_000 + b"x" * (1 << 21) + b"\n", SessionDescription()
    )
    pieces = remote.read(ONE, "", START)
    next(pieces)
    assert remote._connection is not None
    del pieces
    assert remote._connection is None
    assert remote.whoami().user_name == "ada"
    assert len(list(remote.read(ONE, "", START))) > 1
    assert remote._connection is not None  # read to its end, it is kept
    remote.close()


# --- the Agent SDK --------------------------------------------------------------------------------


def conformance(team: Team) -> None:
    """The SDK's own suite with nothing skipped, each contract in an organisation of its own."""
    tokens = iter(team.tokens(32))

    def make() -> SessionStore:
        return SessionStore.remote(team.url, next(tokens))

    name = "claude_agent_sdk.testing.session_store_conformance"
    suite = pytest.importorskip(name, reason="needs recollect[sdk]")
    present = {name for name in suite._OPTIONAL_METHODS if suite._has_optional(make(), name, frozenset())}
    assert {"delete", "list_session_summaries", "list_sessions", "list_subkeys"} == present
    asyncio.run(suite.run_session_store_conformance(make))


def test_the_sdks_conformance_suite_passes_on_a_server(team: Team) -> None:
    """All fourteen contracts on SQLite."""
    conformance(team)


def test_the_sdks_conformance_suite_passes_on_a_server_with_postgresql(postgres: str, tmp_path: Path) -> None:
    """All fourteen contracts on the other database."""
    for team in served(postgres, tmp_path):
        conformance(team)


def test_two_pods_that_write_one_session_store_each_entry_once(team: Team) -> None:
    """Entries with one uuid from both: the first is kept; entries without one are all there."""
    token = team.token()
    key: SessionKey = {"project_key": "p", "session_id": "s"}

    def pod(name: str) -> None:
        async def work() -> None:
            store = SessionStore.remote(team.url, token)
            for n in range(10):
                await store.append(
                    key,
                    [{"type": "x", "uuid": f"u-{n}"}, {"type": "x", "by": f"{name} {n}"}],  # type: ignore[typeddict-unknown-key]
                )
            await store.close()

        asyncio.run(work())

    threads = [threading.Thread(target=pod, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loaded = asyncio.run(SessionStore.remote(team.url, token).load(key)) or []
    assert sorted(str(entry["uuid"]) for entry in loaded if "uuid" in entry) == sorted(
        f"u-{n}" for n in range(10)
    )
    assert sum("by" in entry for entry in loaded) == 20


def test_a_store_on_a_server_has_no_directory(team: Team) -> None:
    """Whoever asks for one is told so."""
    with pytest.raises(UsageError):
        _ = SessionStore.remote(team.url, "rcl_x").root
