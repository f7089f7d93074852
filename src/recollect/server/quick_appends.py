"""Appends that need nothing but their commit, begun where they are received: without a task and without messages of ASGI.

An append is quick where its token and the creator of its session are known here, where it is small and names its
position. Nothing is refused here: what is unusual in any way, and what does not end well, goes to the route
(routes/log.py), which reads the same request from its start and answers it. A repeated append is recognised there.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

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
    check_depth,
    check_lines,
    described,
    stored,
)
from recollect.server.service import Service, checked_session
from recollect.server.small_requests import SmallRequest
from recollect.server.tenancy import WRITE, Caller, for_programs
from recollect.sync.wire import ORGANIZATION, Head, Position

# What a request that is handed over brings along: its note, the token that was admitted, and why its append failed.
NOTE, TOKEN, PROBLEM = "recollect.note", "recollect.token", "recollect.problem"
_UNUSUAL = frozenset((LAST_UUID_HEADER, ORGANIZATION.lower().encode()))
_log = logging.getLogger("recollect.server")


class Connection(Protocol):
    """Where a request came from."""

    def answer(self, headers: bytes, body: bytes) -> None:
        """With 200, and these headers beside those of every answer."""

    def hand_over(self, data: bytes, brought: dict[str, Any]) -> bool:
        """Give the bytes of the request to the route, with what it brings along; False where the client is gone."""

    def break_off(self) -> None:
        """Close it without an answer."""


class QuickAppends:
    """Begins appends of a server."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def begin(self, connection: Connection, request: SmallRequest, data: bytes) -> bool:
        """False, and nothing was done, where the request is for the route. Otherwise it is answered after the commit, or
        handed over to the route then. ``data``: the whole request."""
        try:
            found = self._checked(request, data[request.begin :])
            if found is None:
                return False
            ask, caller = found
            begun = _BegunAppend(self.service, connection, data, ask)
            if self.service.rates.wait(caller.token.id) or not self.service.database.begin_append(ask, begun):
                return False
        except (RequestRefused, UsageError, Unavailable):
            return False
        except Exception:  # noqa: BLE001 - the route meets it again, and answers it
            _log.exception("append")
            return False
        begun.note = self.service.notes.begin()
        return True

    def _checked(self, request: SmallRequest, raw: bytes) -> tuple[AppendRequest, Caller] | None:
        """What is asked for, and by whom; None or an error where the route has to look at it."""
        service, headers = self.service, request.headers
        position = headers.get(POSITION_HEADER)
        if position is None or not _UNUSUAL.isdisjoint(headers):
            return None
        caller = service.doorkeeper.remembered(for_programs(headers.get(b"authorization")))
        if caller is None or not caller.may(WRITE):
            return None
        org, session = caller.org.id, checked_session(request.session)
        if service.creators.get((org, session)) != caller.user.id:
            return None
        packed = headers.get(b"content-encoding")
        data = raw if packed is None else read_small(raw, str(packed, "latin-1"), service.limits)
        if data is None or len(data) >= SMALL:
            return None
        check_lines(data, service.limits)
        expected, told = Position.parse(str(position, "latin-1")), described(headers)
        check_depth(data, service.limits.line_depth, is_opaque=told.encrypted)
        prepared = prepare(data, expected, path=f"{session}/", is_opaque=told.encrypted)
        return AppendRequest(org, session, "", expected, prepared, caller.author, told), caller


class _BegunAppend:
    """Waits for the commit of one append."""

    __slots__ = ("_ask", "_connection", "_data", "_service", "note")

    note: RequestNote

    def __init__(self, service: Service, connection: Connection, data: bytes, ask: AppendRequest) -> None:
        self._service, self._connection, self._data, self._ask = service, connection, data, ask

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
            self._connection.break_off()

    def set_exception(self, problem: BaseException) -> None:
        # Which cluster has the organisation now is found out by the route.
        self._to_the_route(None if isinstance(problem, OrgElsewhere) else problem)

    def _to_the_route(self, problem: BaseException | None) -> None:
        token = self._ask.author.token
        if not self._connection.hand_over(self._data, {NOTE: self.note, TOKEN: token, PROBLEM: problem}):
            # As the route has it where it finds no one: the rest of the body did not come.
            self.note.route, self.note.status = ROUTE, 400 if problem is None else 503
            self._service.notes.end(self.note, "PUT", token)

    def _answer(self, moved: Moved) -> None:
        after, note = self._ask.prepared.after, self.note
        note.route = ROUTE
        response = stored(self._service, self._ask, Head(after.lines, moved[0], after.hash.hex(), moved[1]))
        headers = b"".join([b"%b: %b\r\n" % header for header in note.headers(response)])
        self._service.notes.end(note, "PUT", self._ask.author.token)
        self._connection.answer(headers, bytes(response.body))
