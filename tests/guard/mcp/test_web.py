"""Servers by address: where requests go, what is sent along, and how much may come back."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from recollect.errors import RecollectError
from recollect.guard.mcp.limits import AddressRefused, usable_address
from recollect.guard.mcp.transport import origin_of
from tests.guard.mcp.project import LIMITS, Project, hostile
from tests.guard.mcp.test_host import echoed
from tests.guard.mcp.test_hostile import PATIENT, SOON, outcome
from tests.guard.mcp.web_server import WebServer, web_server


@pytest.fixture
def web() -> Iterator[WebServer]:
    """A server over HTTP."""
    with web_server() as server:
        yield server


def entry(url: str, kind: str = "http", **headers: str) -> dict[str, object]:
    return {"type": kind, "url": url, "headers": headers}


@pytest.mark.parametrize(("path", "kind"), [("/fine", "http"), ("/events", "http"), ("/sse", "sse")])
def test_the_two_transports_work(tmp_path: Path, web: WebServer, path: str, kind: str) -> None:
    """Streamable HTTP with answers as JSON and as events, and SSE."""
    project = Project(tmp_path, one=entry(web.url + path, kind)).trust(private_address=True)

    assert "hi" == project.ask(echoed)


def test_only_the_configured_headers_are_sent(
    tmp_path: Path, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No token of ours, no proxy from the environment, the host as it was written."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "s3cr3t")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1/")
    monkeypatch.setenv("X_KEY", "mine")
    project = Project(tmp_path, one=entry(web.url + "/fine", **{"X-Key": "${X_KEY}"})).trust(
        private_address=True
    )
    project.ask(echoed)
    headers = [headers for _, _, headers in web.seen]

    assert {"mine"} == {one["X-Key"] for one in headers}
    assert {web.url.removeprefix("http://")} == {one["Host"] for one in headers}
    assert not any("s3cr3t" in value for one in headers for value in one.values())
    assert not any(name.lower() in ("authorization", "cookie") for one in headers for name in one)


@pytest.mark.parametrize("path", ["redirect", "redirect-all"])
def test_a_redirect_to_another_host_is_not_followed(tmp_path: Path, web: WebServer, path: str) -> None:
    """The other one never hears of us, nor of the headers meant for the first."""
    with web_server() as other:
        web.elsewhere = other.url + "/fine"
        project = Project(tmp_path, one=entry(f"{web.url}/{path}", Authorization="Bearer x")).trust(
            private_address=True
        )
        with pytest.raises(RecollectError):
            project.ask(echoed, limits=dataclasses.replace(LIMITS, call_seconds=SOON))

        assert [] == other.seen


def test_an_sse_server_cannot_send_us_elsewhere(tmp_path: Path, web: WebServer) -> None:
    """Its endpoint has to be at its own origin."""
    with web_server() as other:
        web.endpoint = other.url + "/messages"
        project = Project(tmp_path, one=entry(web.url + "/sse", "sse")).trust(private_address=True)
        with pytest.raises(RecollectError):
            project.ask(echoed, limits=dataclasses.replace(LIMITS, start_seconds=2))

        assert [] == other.seen


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("gzip", "it sent a compressed answer that was not requested"),
        ("endless", "more than 3,145,728 bytes"),
        ("endless-event", "more than 3,145,728 bytes"),
        ("flood", "messages a second"),
        ("deep", "nested deeper than 64"),
        ("error", "it "),
        ("html", "Unexpected content type"),
        ("accepted", "202 Accepted"),
        ("not-json", "Failed to parse"),
        ("cut", "it "),
        ("slow", "did not answer within 0.5 s"),
    ],
)
def test_what_comes_back_is_bounded(tmp_path: Path, web: WebServer, path: str, words: str) -> None:
    """Each ends that call with a reason; a server beside goes on (M1)."""
    project = Project(tmp_path, bad=entry(f"{web.url}/{path}"), good=hostile("fine")).trust(
        private_address=True
    )
    seconds = SOON if path == "slow" else PATIENT
    end, text, good = project.ask(lambda host: outcome(host, seconds=seconds))

    assert ("fails", "still here") == (end, good)
    assert words in text
    assert text.replace("\n", "").isprintable()


def test_a_private_address_in_a_repository_needs_to_be_granted(tmp_path: Path, web: WebServer) -> None:
    """Trust in the entry alone is not enough: this machine's own services are not the repository's to name."""
    project = Project(tmp_path, one=entry(web.url + "/fine")).trust()

    with pytest.raises(RecollectError, match="private address"):
        project.ask(echoed)
    assert [] == web.seen


def test_a_private_address_that_the_user_configured_is_used(tmp_path: Path, web: WebServer) -> None:
    """In his own configuration it is he who named it."""
    import json

    project = Project(tmp_path)
    project.config.write_text(json.dumps({"mcpServers": {"one": entry(web.url + "/fine")}}))
    project.trust()

    assert "hi" == project.ask(echoed)


ADDRESSES = {
    "public.example": ["93.184.216.34"],
    "private.example": ["10.0.0.7"],
    "both.example": ["93.184.216.34", "127.0.0.1"],
    "mapped.example": ["::ffff:169.254.169.254"],
}


def resolved(scheme: str, host: str, monkeypatch: pytest.MonkeyPatch, *, private: bool = False) -> str:
    """The address that would be used, or why none."""

    async def getaddrinfo(
        name: str, port: int, **_: object
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        if name not in ADDRESSES:
            raise socket.gaierror("no such host")
        return [(2, 1, 6, "", (address, port)) for address in ADDRESSES[name]]

    monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo)
    try:
        return anyio.run(lambda: usable_address((scheme, host, 443), private_allowed=private))
    except AddressRefused as refused:
        return str(refused)


@pytest.mark.parametrize(
    ("scheme", "host", "private", "words"),
    [
        ("https", "public.example", False, "93.184.216.34"),
        ("https", "93.184.216.34", False, "93.184.216.34"),
        ("http", "public.example", False, "use https"),
        ("http", "public.example", True, "use https"),
        ("https", "private.example", False, "private address"),
        ("https", "private.example", True, "10.0.0.7"),
        ("http", "private.example", True, "10.0.0.7"),
        ("https", "both.example", False, "private address"),
        ("https", "mapped.example", False, "private address"),
        ("https", "169.254.169.254", False, "private address"),
        ("https", "::1", False, "private address"),
        ("https", "none.example", False, "cannot be resolved"),
    ],
)
def test_which_addresses_are_used(
    monkeypatch: pytest.MonkeyPatch, scheme: str, host: str, private: bool, words: str
) -> None:
    """Every address a name has is looked at; plain http does not go out to the world."""
    assert words in resolved(scheme, host, monkeypatch, private=private)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x.example/",
        "file:///etc/passwd",
        "https://",
        "x",
        "https://a:b@x.example/",
        "http://[::1",
        "https://x:99999/",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """Other schemes, no host, a login inside."""
    with pytest.raises(AddressRefused):
        origin_of(url)
