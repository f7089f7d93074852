"""A proxy between client and server that does what networks do: cuts, resets, delays, sends twice."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import threading
import time
from typing import NamedTuple
from urllib.parse import urlsplit

KINDS = ("cut", "reset", "duplicate", "delay")


class Faults(NamedTuple):
    """How often (one in ``every`` connections), which kind (any where None), by which dice; ``after_answer``: bytes
    of the answer alone are counted, up to ``cut_after`` of the proxy.
    """

    every: int
    only: str | None = None
    seed: int = 0
    after_answer: bool = False


class FaultProxy:
    """Listens on a port of its own and passes everything on, more or less."""

    def __init__(self, upstream: str, faults: Faults) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname or "", parts.port or 0)
        self._plan = faults
        self._dice = random.Random(faults.seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open = True
        self.faults = self.connections = self.cut_after = 0
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        with contextlib.suppress(OSError):
            socket.create_connection(self._listener.getsockname(), 1).close()
        self._thread.join(5)
        self._listener.close()

    def _accept(self) -> None:
        while self._open:
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                self.connections += 1
                fault = self._dice.choice([self._plan.only] if self._plan.only else list(KINDS))
                is_faulty = self.connections % self._plan.every == 0
                # After how many bytes, in either direction, it happens.
                after = self.cut_after if self._plan.after_answer else self._dice.randrange(1, 3_000)
                threading.Thread(
                    target=self._serve, args=(client, fault if is_faulty else None, after), daemon=True
                ).start()

    def _serve(self, client: socket.socket, fault: str | None, after: int) -> None:
        with client:
            try:
                server = socket.create_connection(self._upstream, 60)
            except OSError:
                return
            with server, contextlib.suppress(OSError):
                self._relay(client, server, fault, after)

    def _relay(self, client: socket.socket, server: socket.socket, fault: str | None, after: int) -> None:
        passed, sent = 0, b""
        while True:
            ready, _, _ = select.select([client, server], [], [], 600)
            if not ready:
                return
            for source in ready:
                data = source.recv(65_536)
                if not data:
                    return
                if source is client:
                    sent += data
                is_counted = source is server or not self._plan.after_answer
                if fault is not None and is_counted and passed + len(data) >= after:
                    self.faults += 1
                    kind, fault = fault, None
                    if kind in ("cut", "reset"):
                        with contextlib.suppress(OSError):
                            (server if source is client else client).sendall(data[: max(0, after - passed)])
                        if kind == "reset":
                            linger = struct.pack("ii", 1, 0)
                            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                        return
                    if kind == "delay":
                        time.sleep(0.1)
                    elif source is server:
                        self._again(sent)
                passed += len(data) if is_counted else 0
                (server if source is client else client).sendall(data)

    def _again(self, sent: bytes) -> None:
        """Send all that this client sent a second time; nobody hears the answer."""
        with contextlib.suppress(OSError), socket.create_connection(self._upstream, 60) as server:
            server.sendall(sent)
            server.settimeout(60)
            server.recv(65_536)
