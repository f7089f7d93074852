"""The way out of the jail leads to the hosts that were named, and to no other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.errors import UsageError
from recollect.guard import sandbox as execution
from recollect.guard.policy.hosts import canonical_host
from recollect.guard.sandbox.proxy import AllowList, Proxy, ProxyRefused, checked_address


@pytest.mark.parametrize(
    ("host", "port", "named"),
    [
        ("example.org", 443, True),
        ("example.org", 80, True),
        ("example.org", 22, False),
        ("www.example.org", 443, False),
        ("example.org.evil.com", 443, False),
        ("notexample.org", 443, False),
        ("a.wild.org", 443, True),
        ("a.b.wild.org", 443, True),
        ("wild.org", 443, False),
        ("evilwild.org", 443, False),
        ("ported.org", 8443, True),
        ("ported.org", 443, False),
    ],
)
def test_hosts_are_compared_by_whole_labels(host: str, port: int, named: bool) -> None:
    """A wildcard stands for labels before the rest, never for a part of one."""
    assert named == AllowList(["Example.org.", "*.wild.org", "ported.org:8443"]).names(host, port)


@pytest.mark.parametrize(
    "entry", ["", "*", "*.org", "https://example.org", "a b", "exämple.org", "user@host.org"]
)
def test_what_is_no_host_is_refused(entry: str) -> None:
    """A typing error must not become a hole."""
    with pytest.raises(UsageError):
        AllowList([entry])


@pytest.mark.parametrize(
    ("written", "meant"),
    [("EXAMPLE.org", "example.org"), ("example.org.", "example.org"), ("[::1]", "::1"), ("0:0::1", "::1")],
)
def test_one_host_has_one_spelling(written: str, meant: str) -> None:
    """Case, the trailing dot and the forms of an address do not matter."""
    assert meant == canonical_host(written)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "0.0.0.0",
        "::1",
        "::ffff:127.0.0.1",
        "2130706433",
        "0x7f.1",
    ],
)
def test_private_addresses_are_refused(host: str) -> None:
    """However they are written; also the address clouds hand out keys at."""
    with pytest.raises(ProxyRefused) as refusal:
        checked_address(host, 80, private=False)

    assert refusal.value.status in (403, 502)


def test_a_name_that_leads_to_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is looked at, not the name."""
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.168.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: answer)
    with pytest.raises(ProxyRefused):
        checked_address("public.example", 443, private=False)


@pytest.fixture
def server() -> Iterator[int]:
    """A host on this machine: answers every connection with one line."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nfrom the host")

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def asked(request: bytes, *hosts: str) -> bytes:
    """What a proxy for these hosts answers to a request."""
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = Proxy(listener, AllowList(hosts))
    try:
        with socket.create_connection(listener.getsockname(), 5) as client:
            client.sendall(request)
            answer = b""
            while piece := client.recv(4096):
                answer += piece
            return answer
    finally:
        proxy.close()


def test_a_plain_request_reaches_a_named_host(server: int) -> None:
    """A loopback address that was named as such is meant."""
    request = f"GET http://127.0.0.1:{server}/x HTTP/1.1\r\nHost: evil\r\n\r\n".encode()

    assert asked(request, f"127.0.0.1:{server}").endswith(b"from the host")


def test_a_tunnel_reaches_a_named_host(server: int) -> None:
    """What follows the answer comes from the host."""
    request = f"CONNECT 127.0.0.1:{server} HTTP/1.1\r\n\r\nhello".encode()
    answer = asked(request, f"127.0.0.1:{server}")

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"from the host")


@pytest.mark.parametrize(
    "request_line",
    [
        b"CONNECT evil.example:443 HTTP/1.1",
        b"CONNECT good.example:22 HTTP/1.1",
        b"CONNECT good.example HTTP/1.1",
        b"CONNECT good.example@evil.example:443 HTTP/1.1",
        b"GET http://good.example@evil.example/ HTTP/1.1",
        b"GET http://evil.example\\@good.example/ HTTP/1.1",
        b"GET ftp://good.example/ HTTP/1.1",
        b"GET / HTTP/1.1",
        b"nonsense",
    ],
)
def test_everything_else_is_refused(request_line: bytes) -> None:
    """Other hosts, other ports, and requests that could be read in two ways."""
    answer = asked(request_line + b"\r\n\r\n", "good.example")

    assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 403")


def test_from_inside_the_jail(server: int, tmp_path: Path) -> None:
    """The named host is reached through the proxy; another port of the same machine is not, nor is it directly."""
    if execution.unavailable():
        pytest.skip(f"bubblewrap: {execution.unavailable()}")
    program = f"""
import os, socket
from urllib.parse import urlsplit
proxy = urlsplit(os.environ["http_proxy"])
def ask(port):
    with socket.create_connection((proxy.hostname, proxy.port), 5) as s:
        s.sendall(f"GET http://127.0.0.1:{{port}}/ HTTP/1.1\\r\\n\\r\\n".encode())
        return b"".join(iter(lambda: s.recv(4096), b"")).split(b"\\r\\n")[0] + b"|"
import sys
sys.stdout.buffer.write(ask({server}) + ask({server + 1}))
try:
    socket.create_connection(("127.0.0.1", {server}), 2)
except OSError as problem:
    print("refused")
"""
    result = execution.run(
        [execution.launch.interpreter(), "-c", program],
        cwd=tmp_path,
        confinement=execution.Confinement(allow_hosts=(f"127.0.0.1:{server}",), backend="bubblewrap"),
    )

    assert (
        b"HTTP/1.0 200 OK|HTTP/1.1 403 127.0.0.1:%d was not allowed with --allow-net|refused\n" % (server + 1)
        == result.stdout
    )
