"""A server process as a user runs it: the commands of docs/deploy.md, followers, an orderly end, what it writes down."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest

from recollect.cli.main import main
from recollect.server import run
from recollect.server.tenancy import new_id
from recollect.share.sync.wire import POSITION, TOKEN_PREFIX
from tests.server.live import LiveServer
from tests.server.world import after, prompt


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'team.sqlite'}"


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, address: str) -> str:
    """The address of each kind of database in turn."""
    return address if request.param == "sqlite" else str(request.getfixturevalue("postgres"))


def token_for(address: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """An organisation, a member and a token, made by the command line."""
    org = f"Acme {new_id()}"
    for words in (("org", "add", org), ("user", "add", org, "ada", "--role", "admin")):
        assert main(["team", "admin", *words, "--database", address]) == 0
    capsys.readouterr()
    assert main(["team", "admin", "token", "add", org, "ada", "--database", address, "--json", *options]) == 0
    document: dict[str, str] = json.loads(capsys.readouterr().out)
    return document["token"]


def put(client: httpx.Client, session: str, data: bytes, before: bytes = b"") -> httpx.Response:
    return client.put(f"/v1/sessions/{session}/log", content=data, headers={POSITION: str(after(before))})


def client_of(server: LiveServer, token: str) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=120)


def test_what_was_acknowledged_survives_a_kill(
    either: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGKILL in the middle of appends: every line that was answered with 200 is there, and the client goes on."""
    token = token_for(either, capsys)
    stored = b""
    with LiveServer(either, tmp_path) as server:
        for number in range(2):
            with client_of(server, token) as client:
                for n in range(20):
                    data = prompt(f"{number} {n}", f"u-{number}-{n}")
                    assert put(client, "s1", data, stored).status_code == 200
                    stored += data
            server.stop(signal.SIGKILL)
            server.start()
        with client_of(server, token) as client:
            assert client.get("/v1/sessions/s1/log").content == stored


def test_its_log_tells_of_requests_and_not_of_contents(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One JSON line a request: route, status, time; no session id, no query, no words, no token."""
    token = token_for(address, capsys)
    with LiveServer(address, tmp_path) as server, client_of(server, token) as client:
        put(client, "canary-session", prompt("canary words"))
        answer = client.get("/v1/search", params={"q": "canary"})
        client.get("/v1/sessions/canary-session/log")
        client.get("/canary/route")
    lines = server.requests()
    text = server.log.read_text()
    assert [line["id"] for line in lines if line["route"] == "/v1/search"] == [answer.headers["x-request-id"]]
    told = [(line["method"], line["route"], line["status"]) for line in lines if line["route"] != "/readyz"]
    # Sorted: a line is written when its answer has ended, and the end of a stream may come behind the next request.
    assert sorted(told) == [
        ("GET", "/v1/search", 200),
        ("GET", "/v1/sessions/{session_id}/log", 200),
        ("GET", "other", 404),
        ("PUT", "/v1/sessions/{session_id}/log", 200),
    ]
    assert "canary" not in text
    assert token not in text


def test_a_dump_holds_no_credential_that_can_be_used(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the token nor any part that works is in the database's files; what is there is no token either."""
    token = token_for(address, capsys)
    path = Path(address.removeprefix("sqlite:///"))
    held = b"".join(file.read_bytes() for file in path.parent.glob("team.sqlite*"))
    assert token.encode() not in held
    assert token.removeprefix("rcl_").encode() not in held
    assert b"rcl_" not in held
    import apsw

    hashes = [row[0] for row in apsw.Connection(str(path)).execute("SELECT hash FROM tokens")]
    with LiveServer(address, tmp_path) as server:
        for stolen in hashes:
            for shape in (stolen.hex(), "rcl_" + stolen.hex(), "rcl_" + stolen.hex()[:43]):
                assert (
                    httpx.get(
                        f"{server.url}/v1/org", headers={"Authorization": f"Bearer {shape}"}
                    ).status_code
                    == 401
                )


def test_it_listens_in_the_clear_on_this_machine_only(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another address needs TLS, or a proxy that is said to do it."""
    assert main(["team", "serve", "--migrate", "--database", address]) == 0
    assert main(["team", "serve", "--host", "0.0.0.0", "--database", address]) == 2
    assert "TLS" in capsys.readouterr().err


def _refused(server: LiveServer, forwarded: str, times: int) -> set[int]:
    """What bad tokens are answered that a proxy forwards for an address."""
    with httpx.Client(base_url=server.url) as client:
        headers = [
            {"Authorization": f"Bearer {TOKEN_PREFIX}{n:043d}", "X-Forwarded-For": forwarded}
            for n in range(times)
        ]
        return {client.get("/v1/org", headers=one).status_code for one in headers}


class ForgetlessServer(LiveServer):
    """Its limits know no time: what was counted stays counted, however slow the machine is."""

    prelude = """
from types import SimpleNamespace
from recollect.server import service
service.time = SimpleNamespace(monotonic=lambda: 0.0)
"""


@pytest.mark.parametrize(
    ("options", "others"),
    [
        (("--behind-proxy",), 401),
        (("--behind-proxy", "--trusted-proxy", "127.0.0.0/8"), 401),
        (("--behind-proxy", "--trusted-proxy", "10.0.0.0/8"), 429),
        ((), 429),
    ],
    ids=["default", "trusted", "untrusted", "no proxy"],
)
def test_only_a_trusted_proxy_says_where_a_request_comes_from(
    address: str, tmp_path: Path, options: tuple[str, ...], others: int
) -> None:
    """Refused tokens are counted by address. The address is the last that a trusted proxy names: what a client writes
    before it changes nothing."""
    assert main(["team", "serve", "--migrate", "--database", address]) == 0
    with ForgetlessServer(address, tmp_path, *options) as server:
        assert 429 in _refused(server, "203.0.113.9", 60)
        assert _refused(server, "198.51.100.1, 203.0.113.9", 1) == {429}
        assert _refused(server, "203.0.113.9, 198.51.100.1", 1) == {others}


def test_a_database_that_is_not_there_is_said_in_plain_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback: what is missing and what to type."""
    # It is for the rest of a process, and this one goes on.
    monkeypatch.setattr(run, "log_as_json", lambda **_: None)
    assert main(["team", "serve", "--database", f"sqlite:///{tmp_path / 'none.sqlite'}"]) == 2
    assert "recollect team serve --migrate" in capsys.readouterr().err
    assert main(["team", "serve", "--database", "mysql://x"]) == 2
    assert main(["team", "admin", "org", "list", "--database", f"postgresql:///x?host={tmp_path}"]) == 5
