"""Serves the page on this machine's loopback until an interrupt."""

from __future__ import annotations

import socket
from types import FrameType

import uvicorn

from recollect.errors import Busy, UsageError
from recollect.services.page.http_protocol import BoundedProtocol
from recollect.services.page.log_lines import log_in_single_lines
from recollect.web.app import ServedPage

LOOPBACK = "127.0.0.1"


def bound(port: int = 0) -> socket.socket:
    """A loopback socket on the given port, or on a free one."""
    if port and not 1 <= port <= 65_535:
        raise UsageError(f"port {port}: not a valid port", hint="give 1 to 65535, or leave it out")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as cause:
        listening.close()
        hint = "leave out --port for a free one"
        raise Busy(f"port {port} of {LOOPBACK}: {cause.strerror or cause}", hint=hint) from cause
    listening.listen(128)
    return listening


class PageServer(uvicorn.Server):
    """Ends its streams at once on exit, so that shutdown does not wait for a browser."""

    def __init__(self, served: ServedPage) -> None:
        super().__init__(
            uvicorn.Config(
                served.app,
                log_config=None,
                http=BoundedProtocol,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="on",
                timeout_graceful_shutdown=3,
            )
        )
        self._served = served

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._served.stop()
        super().handle_exit(sig, frame)


def serve(served: ServedPage, listening: socket.socket) -> None:
    log_in_single_lines("uvicorn.error")
    server = PageServer(served)
    try:
        server.run(sockets=[listening])
    finally:
        served.stop()
        listening.close()
