"""HTTP of the team server: as everywhere (services/page/http_protocol.py), and small appends are begun once they are here.

Such a request is read without the parser (small_requests.py), while that is between two messages. It gets the same bytes where
the request is for the route after all.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from recollect.server.quick_appends import QuickAppends
from recollect.server.service import Service
from recollect.server.small_requests import may_begin, small_request
from recollect.server.tracing import RequestSpans
from recollect.services.page.http_protocol import BoundedProtocol

# Many clients send a body apart from its headers, and most at once. One that takes longer is waited for by the route, which has
# times and memory for it.
_BODY_SECONDS = 1.0
_OK, _CLOSE = b"HTTP/1.1 200 OK\r\n", b"connection: close\r\n"


def protocol_for(service: Service) -> Any:
    """What makes the protocol of a connection. Where requests are traced, all of them go through the application."""
    return BoundedProtocol if RequestSpans().is_on else partial(TeamProtocol, QuickAppends(service))


class TeamProtocol(BoundedProtocol):
    """Holds a small append until it is here as a whole, and offers it to be begun at once."""

    def __init__(self, appends: QuickAppends, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._appends = appends
        # Whether the parser has seen no part of a message that it has not seen the end of.
        self._is_between = True
        self._held = b""  # the beginning of a request
        self._held_late: Any = None  # a timer of the loop
        # Whether an append is under way; whether the connection ends with its answer, and what came after it.
        self.is_begun, self._is_last, self._behind = False, False, b""
        # For the scope of a request that is handed over to the route.
        self._brought: dict[str, Any] = {}
        # When the last answer to an append was sent, while nothing came after it; and a timer of the loop.
        self._idle_since: float | None = None
        self._idle_look: Any = None

    # --- what comes ------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._direct = transport

    def data_received(self, data: bytes) -> None:
        self._idle_since = None
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        if self.is_begun:
            self._behind += data
            self.flow.pause_reading()
            return
        if self._held:
            data = self._held + data
        elif not self._is_free():
            super().data_received(data)
            return
        request = small_request(data)
        if request is not None and self._late is not None:
            # Its head is here: the body has a time of its own.
            self._in_time()
        if may_begin(data) if request is None else len(data) < request.end:
            self._hold(data)
            return
        if self._held:
            self._forget_held()
        if request is None or len(data) > request.end or not self._appends.begin(self, request, data):
            super().data_received(data)
            return
        self.is_begun = True

    def _is_free(self) -> bool:
        """Whether a request can be answered now, and begins with what comes next."""
        most = self.limit_concurrency
        return (
            self._is_between
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and (most is None or (len(self.connections) < most and len(self.tasks) < most))
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        if self._idle_look is not None:
            self._idle_look.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends: what was begun is answered."""
        self._is_last = True
        if not self.is_begun:
            self._let_go()
            super().shutdown()

    # --- to the parser ---------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._is_between = False
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._is_between = True
        super().on_message_complete()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if self._brought:
            # It was admitted when it was begun.
            cycle.scope.update(self._brought)
            self._brought, app = {}, self.app
        super()._start_asgi_task(cycle, app)

    def _hold(self, data: bytes) -> None:
        self._held = data
        if self._held_late is None:
            self._held_late = self.loop.call_later(_BODY_SECONDS, self._let_go)

    def _let_go(self) -> None:
        """To the parser, as far as it is here."""
        held = self._held
        self._forget_held()
        if held:
            super().data_received(held)

    def _forget_held(self) -> None:
        self._held = b""
        if self._held_late is not None:
            self._held_late.cancel()
            self._held_late = None

    # --- how an append ends ----------------------------------------------------------------------

    def hand_over(self, data: bytes, brought: dict[str, Any]) -> bool:
        """Give the request to the route; False where the client is gone."""
        self.is_begun = False
        if self._direct.is_closing():
            return False
        self._brought = brought
        super().data_received(data)
        if self._is_last:
            super().shutdown()
        else:
            self._go_on()
        return True

    def answer(self, headers: bytes, body: bytes) -> None:
        """Answer the append."""
        self.is_begun = False
        self.server_state.total_requests += 1
        if self._direct.is_closing():
            return
        own = [b"%b: %b\r\n" % header for header in self.server_state.default_headers]
        end = _CLOSE if self._is_last else b""
        self._direct.write(b"".join((_OK, *own, headers, end, b"\r\n", body)))
        if self._is_last:
            self.transport.close()
            return
        self._idle_since = self.loop.time()
        if self._idle_look is None:
            self._idle_look = self.loop.call_later(self.timeout_keep_alive, self._look_for_idleness)
        self._go_on()

    def break_off(self) -> None:
        """Close the connection without an answer."""
        self.is_begun = False
        self.transport.close()

    def _go_on(self) -> None:
        if self._behind:
            behind, self._behind = self._behind, b""
            self.flow.resume_reading()
            self.data_received(behind)

    def _look_for_idleness(self) -> None:
        """Close a connection on which nothing came for a while. Looked for once in that while: a timer for each answer would
        cost more than the answer."""
        self._idle_look = None
        if self._idle_since is None:
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._idle_look = self.loop.call_later(left, self._look_for_idleness)
        else:
            self.timeout_keep_alive_handler()
