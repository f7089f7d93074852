"""A CONNECT proxy: the only network access of a sandbox, for the allowed hosts.

It runs outside and accepts on a socket that was created inside the sandbox's network namespace. Names
are resolved here, and the checked address is the one that is dialled, so a name that resolves
differently the second time gains nothing. Private, loopback and link-local addresses are refused unless
named explicitly.

It sees host names, not content: allowing a host allows everything on it, and a shared front end may
lead to other hosts.
"""

from __future__ import annotations

import contextlib
import ipaddress
import select
import socket
import threading
from collections.abc import Sequence
from urllib.parse import urlsplit

from recollect.errors import UsageError
from recollect.guard.policy.hosts import DomainPattern, address_of, canonical_host, is_private_address

PORT = 3128
_HEADER_BYTES = 16_384
_CONNECTIONS = 64
_IDLE_SECONDS = 60.0
_CONNECT_SECONDS = 15.0
_USUAL_PORTS = frozenset([80, 443])


class ProxyRefused(Exception):
    """The request is answered with this status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class AllowList:
    """The allowed hosts with their ports, compared by whole labels, never by a text prefix or suffix."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._allowed = [_pattern(entry) for entry in hosts]

    def names(self, host: str, port: int) -> bool:
        return any(port in ports and pattern.matches(host) for pattern, ports in self._allowed)

    def names_exactly(self, host: str, port: int) -> bool:
        """Whether it is allowed without a wildcard."""
        return any(port in ports and pattern.named == host for pattern, ports in self._allowed)


def _pattern(entry: str) -> tuple[DomainPattern, frozenset[int]]:
    name, port = _split_port(entry)
    host = canonical_host(name.removeprefix("*."))
    if host is None or not entry.isascii() or (name.startswith("*.") and "." not in host):
        raise UsageError(f"host {entry!a}: not a host name", hint="write it as example.org or *.example.org")
    return DomainPattern(name), frozenset([port]) if port else _USUAL_PORTS


def _split_port(entry: str) -> tuple[str, int | None]:
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit() and (name.count(":") == 0 or name.endswith("]")):
        return name, int(port)
    return entry, None


class Proxy:
    """Serves a listening socket until it is closed."""

    def __init__(self, listener: socket.socket, allowed: AllowList) -> None:
        self._listener, self._allowed = listener, allowed
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)
        self._open: set[socket.socket] = set()
        self._closed = False
        threading.Thread(target=self._serve, name="recollect-proxy", daemon=True).start()

    def close(self) -> None:
        """Accept no more connections and close the open ones."""
        self._closed = True
        for connection in (self._listener, *list(self._open)):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if not self._slots.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, client: socket.socket) -> None:
        self._open.add(client)
        try:
            client.settimeout(_IDLE_SECONDS)
            self._answer(client)
        except ProxyRefused as refusal:
            with contextlib.suppress(OSError):
                client.sendall(f"HTTP/1.1 {refusal.status} {refusal}\r\nConnection: close\r\n\r\n".encode())
        except OSError:
            pass
        finally:
            self._open.discard(client)
            client.close()
            self._slots.release()

    def _answer(self, client: socket.socket) -> None:
        head, rest = _head(client)
        line, _, headers = head.partition(b"\r\n")
        words = line.decode("latin-1").split(" ")
        if len(words) != 3:
            raise ProxyRefused(400, "Bad request")
        method, target, _ = words
        if method == "CONNECT":
            host, port = _authority(target)
            with self._dialled(host, port) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _relay(client, server, rest)
            return
        host, port, path = _absolute(target)
        with self._dialled(host, port) as server:
            dropped = (b"proxy-", b"connection:", b"host:")
            forwarded = [line for line in headers.split(b"\r\n") if not line.lower().startswith(dropped)]
            own = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close".encode("latin-1")
            _relay(client, server, b"\r\n".join([own, *forwarded]) + b"\r\n\r\n" + rest)

    def _dialled(self, host: str, port: int) -> socket.socket:
        if not self._allowed.names(host, port):
            raise ProxyRefused(403, f"{host}:{port} was not allowed with --allow-net")
        local = host == "localhost" or address_of(host) is not None
        address = checked_address(host, port, private=local and self._allowed.names_exactly(host, port))
        try:
            server = socket.create_connection(address, timeout=_CONNECT_SECONDS)
        except OSError as cause:
            raise ProxyRefused(502, "Cannot reach the host") from cause
        server.settimeout(_IDLE_SECONDS)
        return server


def checked_address(host: str, port: int, *, private: bool) -> tuple[str, int]:
    """The address to dial, checked: the name is not resolved again."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as cause:
        raise ProxyRefused(502, "No such host") from cause
    addresses = [ipaddress.ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]
    fit = [address for address in addresses if private or not is_private_address(str(address))]
    if not fit:
        raise ProxyRefused(403, f"{host} is a private address")
    return str(fit[0]), port


def _head(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > _HEADER_BYTES:
            raise ProxyRefused(431, "Header too large")
        piece = client.recv(4096)
        if not piece:
            raise ProxyRefused(400, "Bad request")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _authority(target: str) -> tuple[str, int]:
    name, port = _split_port(target)
    host = canonical_host(name)
    if host is None or port is None or port > 65_535:
        raise ProxyRefused(400, "Bad host")
    return host, port


def _absolute(target: str) -> tuple[str, int, str]:
    try:
        parts = urlsplit(target)
        host, port = canonical_host(parts.hostname or ""), parts.port or 80
    except ValueError as cause:
        raise ProxyRefused(400, "Bad address") from cause
    if parts.scheme != "http" or host is None or "@" in parts.netloc or "\\" in target:
        raise ProxyRefused(400, "Bad address")
    return host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _relay(client: socket.socket, server: socket.socket, first: bytes) -> None:
    if first:
        server.sendall(first)
    sides = {client.fileno(): (client, server), server.fileno(): (server, client)}
    waiting = select.poll()
    for descriptor in sides:
        waiting.register(descriptor, select.POLLIN)
    while sides:
        ready = waiting.poll(_IDLE_SECONDS * 1000)
        if not ready:
            return
        for descriptor, _ in ready:
            side, target = sides[descriptor]
            data = side.recv(65_536)
            if data:
                target.sendall(data)
                continue
            del sides[descriptor]
            waiting.unregister(descriptor)
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)
