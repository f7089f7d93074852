"""What is counted and logged of every request, whichever way it is answered: its id, route, status, bytes and time."""

from __future__ import annotations

import itertools
import secrets
import time

from starlette.responses import Response
from starlette.types import Message, Send

from recollect.server.metrics import Metrics
from recollect.server.request_log import RequestLine, RequestLog
from recollect.sync.wire import REQUEST_ID

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_REQUEST_ID = REQUEST_ID.lower().encode()
_METHODS = frozenset(("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"))


class RequestNote:
    """The log record of one request; its answer gets the id."""

    __slots__ = ("id", "route", "sent", "started", "status")

    def __init__(self, request_id: str, started: float) -> None:
        self.id, self.started = request_id, started
        self.route, self.status, self.sent = "other", 500, 0

    def headers(self, response: Response) -> list[tuple[bytes, bytes]]:
        """Those of a complete answer, which is noted."""
        self.status, self.sent = response.status_code, len(response.body)
        return [*response.raw_headers, (_REQUEST_ID, self.id.encode()), _NO_SNIFFING]

    async def send(self, response: Response, send: Send) -> None:
        """Send a complete answer."""
        headers = self.headers(response)
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    def marking(self, send: Send) -> Send:
        """Wrap ``send`` for an answer in parts."""

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                own = [one for one in message.get("headers", ()) if one != _NO_SNIFFING]
                message["headers"] = [*own, (_REQUEST_ID, self.id.encode()), _NO_SNIFFING]
            elif message["type"] == "http.response.body":
                self.sent += len(message.get("body", b""))
            await send(message)

        return marked


class RequestNotes:
    """Opens a note for every request and counts and logs it at its end."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # Where request lines are logged; None: nowhere.
        self.log: RequestLog | None = None
        # Ids of this process: a random prefix and a number.
        self._word, self._numbers = secrets.token_hex(4), itertools.count(1)

    def begin(self) -> RequestNote:
        self._metrics.gauges["in_flight"] += 1
        return RequestNote(f"{self._word}{next(self._numbers):08x}", time.perf_counter())

    def end(self, note: RequestNote, method: str, token: str | None) -> None:
        """``token``: the id of the one that was admitted."""
        seconds = time.perf_counter() - note.started
        self._metrics.gauges["in_flight"] -= 1
        self._metrics.request(method, note.route, note.status, seconds)
        if self.log is not None:
            ms = int(seconds * 100_000) / 100
            self.log.add(RequestLine(note.id, method, note.route, note.status, ms, note.sent, token))


def method_name(method: str) -> str:
    return method if method in _METHODS else "other"
