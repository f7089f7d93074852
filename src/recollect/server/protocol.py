"""HTTP of the team server: as everywhere (services/page/http_protocol.py), and small appends are begun once they are here."""

from __future__ import annotations

from functools import partial
from typing import Any

from recollect.server.limits import BudgetShare
from recollect.server.quick_appends import QuickAppends
from recollect.server.service import Service
from recollect.server.tracing import RequestSpans
from recollect.services.page.http_protocol import BoundedProtocol

# Many clients send a body apart from its headers, and most at once. One that takes longer is waited for by the route, which has
# times and memory for it.
_BODY_SECONDS = 1.0


def protocol_for(service: Service) -> Any:
    """What makes the protocol of a connection. Where requests are traced, all of them go through the application."""
    return BoundedProtocol if RequestSpans().is_on else partial(TeamProtocol, QuickAppends(service))


class TeamProtocol(BoundedProtocol):
    """Holds a PUT until its body is there, and offers it to be begun at once."""

    def __init__(self, appends: QuickAppends, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._appends, self._held, self._is_reading = appends, None, False
        self._body_late: Any = None  # a timer of the loop

    def data_received(self, data: bytes) -> None:
        self._is_reading = True
        super().data_received(data)
        self._is_reading = False
        held = self._held
        if held is None:
            return
        if held.more_body and _is_small(held):
            if self._body_late is None:
                self._body_late = self.loop.call_later(_BODY_SECONDS, self._let_go)
        elif self._appends.begin(held, self._start):
            self._forget_held()
        else:
            self._let_go()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._let_go()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if self._is_reading and app is self.app and cycle.scope["method"] == "PUT":
            self._held = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def _let_go(self) -> None:
        """To the route."""
        held = self._held
        self._forget_held()
        if held is not None:
            self._start(held)

    def _forget_held(self) -> None:
        self._held = None
        if self._body_late is not None:
            self._body_late.cancel()
            self._body_late = None

    def _start(self, cycle: Any) -> None:
        super()._start_asgi_task(cycle, self.app)


def _is_small(cycle: Any) -> bool:
    """Whether a small body is said to come, from a client that does not wait to be asked for it."""
    length = dict(cycle.scope["headers"]).get(b"content-length", b"")
    return length.isdigit() and int(length) <= BudgetShare.FREE and not cycle.waiting_for_100_continue
