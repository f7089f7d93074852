"""Appends that need nothing but their commit, begun where they are received: without a task and without messages of ASGI.

An append is quick where its token and the creator of its session are known here, where it is small and names its
position. Nothing is refused here: what is unusual in any way, and what does not end well, goes to the route
(routes/log.py), which reads the same request from its start and answers it. A repeated append is recognised there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from recollect.errors import UsageError
from recollect.server.bodies import SMALL, read_small
from recollect.server.database.contract import OrgElsewhere, Unavailable
from recollect.server.database.records import AppendRequest, Moved
from recollect.server.facts import prepare
from recollect.server.refusals import RequestRefused
from recollect.server.request_notes import RequestNote
from recollect.server.routes.log import (
    LAST_UUID_HEADER,
    POSITION_HEADER,
    ROUTE,
    appended_to,
    check_depth,
    check_lines,
    described,
    stored,
)
from recollect.server.service import Service, checked_session
from recollect.server.tenancy import WRITE, Caller, for_programs
from recollect.sync.wire import ORGANIZATION, Head, Position

# What a request that is handed over brings along: its note, the token that was admitted, and why its append failed.
NOTE, TOKEN, PROBLEM = "recollect.note", "recollect.token", "recollect.problem"
_UNUSUAL = frozenset((LAST_UUID_HEADER, ORGANIZATION.lower().encode()))
_OK = b"HTTP/1.1 200 OK\r\n"
_log = logging.getLogger("recollect.server")
Cycle = Any  # one request and its answer, of uvicorn


class QuickAppends:
    """Begins appends of a server."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def begin(self, cycle: Cycle, hand_over: Callable[[Cycle], None]) -> bool:
        """False, and nothing was done, where the request is for the route. Otherwise it is answered after the commit, or
        handed over to the route then."""
        if cycle.more_body or cycle.flow.write_paused:
            return False
        try:
            found = self._checked(cycle.scope, bytes(cycle.body))
            if found is None:
                return False
            ask, caller = found
            begun = _BegunAppend(self.service, cycle, ask, hand_over)
            if self.service.rates.wait(caller.token.id) or not self.service.database.begin_append(ask, begun):
                return False
        except (RequestRefused, UsageError, Unavailable):
            return False
        cycle.scope[TOKEN] = caller.token.id
        begun.note = self.service.notes.begin()
        return True

    def _checked(self, scope: dict[str, Any], raw: bytes) -> tuple[AppendRequest, Caller] | None:
        """What is asked for, and by whom; None or an error where the route has to look at it."""
        service, headers = self.service, dict(scope["headers"])
        text, position = appended_to(scope), headers.get(POSITION_HEADER)
        if text is None or position is None or scope["query_string"] or not _UNUSUAL.isdisjoint(headers):
            return None
        caller = service.doorkeeper.remembered(for_programs(headers.get(b"authorization")))
        if caller is None or not caller.may(WRITE):
            return None
        org, session = caller.org.id, checked_session(text)
        if service.creators.get((org, session)) != caller.user.id:
            return None
        packed = headers.get(b"content-encoding")
        data = read_small(raw, None if packed is None else str(packed, "latin-1"), service.limits)
        if data is None or len(data) >= SMALL:
            return None
        check_lines(data, service.limits)
        expected, told = Position.parse(str(position, "latin-1")), described(headers)
        check_depth(data, service.limits.line_depth, is_opaque=told.encrypted)
        prepared = prepare(data, expected, path=f"{session}/", is_opaque=told.encrypted)
        return AppendRequest(org, session, "", expected, prepared, caller.author, told), caller


class _BegunAppend:
    """Waits for the commit of one append."""

    __slots__ = ("_ask", "_cycle", "_hand_over", "_service", "note")

    note: RequestNote

    def __init__(
        self, service: Service, cycle: Cycle, ask: AppendRequest, hand_over: Callable[[Cycle], None]
    ) -> None:
        self._service, self._cycle, self._ask, self._hand_over = service, cycle, ask, hand_over

    def done(self) -> bool:
        return False

    def set_result(self, moved: Moved | None) -> None:
        try:
            if moved is None:
                self._to_the_route(None)
            else:
                self._answer(moved)
        except Exception:  # noqa: BLE001 - others of the same commit wait for their answers
            _log.exception("answer")
            self._cycle.transport.close()

    def set_exception(self, problem: BaseException) -> None:
        # Which cluster has the organisation now is found out by the route.
        self._to_the_route(None if isinstance(problem, OrgElsewhere) else problem)

    def _to_the_route(self, problem: BaseException | None) -> None:
        self._cycle.scope |= {NOTE: self.note, PROBLEM: problem}
        self._hand_over(self._cycle)

    def _answer(self, moved: Moved) -> None:
        after, note, cycle = self._ask.prepared.after, self.note, self._cycle
        note.route = ROUTE
        response = stored(self._service, self._ask, Head(after.lines, moved[0], after.hash.hex(), moved[1]))
        headers = [*cycle.default_headers, *note.headers(response)]
        self._service.notes.end(note, "PUT", cycle.scope[TOKEN])
        if cycle.disconnected or cycle.transport.is_closing():
            return
        if not cycle.keep_alive:
            headers.append((b"connection", b"close"))
        lines = [b"%b: %b\r\n" % header for header in headers]
        cycle.transport.write(b"".join((_OK, *lines, b"\r\n", response.body)))
        # As uvicorn ends an answer: the connection is closed, or the next request may begin.
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
