"""An MCP server over HTTP that misbehaves by path: ``/fine`` is correct, the others each do one thing wrong."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

ECHO = {"name": "echo", "description": "Return the text.", "inputSchema": {"type": "object"}}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What a correct server says to a request."""
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        result: dict[str, Any] = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": [ECHO]}
    else:
        result = {"content": [{"type": "text", "text": params["arguments"].get("text", "")}]}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


class Handler(http.server.BaseHTTPRequestHandler):
    """One request. ``server.seen`` gets (method, path, headers) of each."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *words: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._note()
        if self.path.startswith("/sse"):
            return self._event_stream()
        return self._reply(405, b"")

    def do_DELETE(self) -> None:
        self._note()
        self._reply(200, b"")

    def do_POST(self) -> None:
        self._note()
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.startswith("/messages"):
            if "id" in request:
                self.server.events.put(json.dumps(answer(request)))  # type: ignore[attr-defined]
            return self._reply(202, b"")
        if "id" not in request:
            return self._reply(202, b"")
        behaviour = self.path.strip("/")
        if request["method"] != "tools/call" and behaviour not in ("redirect-all", "gzip", "error", "login"):
            return self._json(answer(request))
        getattr(self, "_" + behaviour.replace("-", "_"))(request)
        return None

    def _fine(self, request: dict[str, Any]) -> None:
        self._json(answer(request))

    def _events(self, request: dict[str, Any]) -> None:
        data = b": hello\n\nevent: message\ndata: " + json.dumps(answer(request)).encode() + b"\n\n"
        self._reply(200, data, "text/event-stream")

    def _redirect(self, request: dict[str, Any]) -> None:
        self._reply(307, b"", location=self.server.elsewhere)  # type: ignore[attr-defined]

    _redirect_all = _redirect

    def _gzip(self, request: dict[str, Any]) -> None:
        data = gzip.compress(json.dumps(answer(request)).encode() + b" " * 50_000_000, 1)
        self._reply(200, data, "application/json", encoding="gzip")

    def _error(self, request: dict[str, Any]) -> None:
        self._reply(500, b"\x1b[2J" * 1000)

    def _html(self, request: dict[str, Any]) -> None:
        self._reply(200, b"<h1>login</h1>", "text/html")

    def _accepted(self, request: dict[str, Any]) -> None:
        self._reply(202, b"")

    def _not_json(self, request: dict[str, Any]) -> None:
        self._reply(200, b"{]", "application/json")

    def _deep(self, request: dict[str, Any]) -> None:
        self._reply(200, b"[" * 50_000 + b"]" * 50_000, "application/json")

    def _endless(self, request: dict[str, Any]) -> None:
        self._stream("application/json", b" " * 65_536)

    def _endless_event(self, request: dict[str, Any]) -> None:
        self._stream("text/event-stream", b"data: " + b"x" * 65_536 + b"\n")

    def _flood(self, request: dict[str, Any]) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        self._stream("text/event-stream", b"event: message\ndata: " + json.dumps(note).encode() + b"\n\n")

    def _slow(self, request: dict[str, Any]) -> None:
        time.sleep(5)

    def _cut(self, request: dict[str, Any]) -> None:
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        )
        self.close_connection = True

    def _event_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        endpoint = self.server.endpoint or "/messages"  # type: ignore[attr-defined]
        self.wfile.write(f"event: endpoint\ndata: {endpoint}\n\n".encode())
        with contextlib.suppress(OSError):
            while True:
                self.wfile.flush()
                event = self.server.events.get()  # type: ignore[attr-defined]
                if event is None:
                    return
                self.wfile.write(f"event: message\ndata: {event}\n\n".encode())

    def _stream(self, kind: str, piece: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(piece)

    def _json(self, value: object) -> None:
        self._reply(200, json.dumps(value).encode(), "application/json")

    def _reply(
        self, status: int, data: bytes, kind: str = "", *, location: str = "", encoding: str = ""
    ) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Location": location, "Content-Encoding": encoding}
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data)

    def _note(self) -> None:
        self.server.seen.append((self.command, self.path, dict(self.headers)))  # type: ignore[attr-defined]


class WebServer(http.server.ThreadingHTTPServer):
    """Listens on a free port of the loopback address."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.events: queue.Queue[str | None] = queue.Queue()
        self.elsewhere = ""
        self.endpoint = ""

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""


@contextlib.contextmanager
def web_server() -> Iterator[WebServer]:
    """A server that runs while the block does."""
    server = WebServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.events.put(None)
        server.shutdown()
        thread.join()
        server.server_close()
