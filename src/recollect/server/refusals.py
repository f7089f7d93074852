"""Every unsuccessful answer: an exception with a status, a code for programs and a next step for people."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Coroutine
from math import ceil
from typing import Any, Self

from starlette.responses import Response

from recollect.server.database.records import (
    Author,
    BodyLost,
    BodyUnavailable,
    Forbidden,
    Held,
    Taken,
    Unavailable,
)
from recollect.server.database.sql import Database
from recollect.share.sync.wire import (
    LAST_UUID,
    POSITION,
    Fault,
    Head,
    PositionConflict,
    Problem,
    SessionGone,
    SideFileChanged,
    plain_text,
)
from recollect.share.typed_http import answer

# The status of every code, and the next step unless a refusal has its own.
_CODES = {
    "invalid": (400, "see /openapi.json"),
    "unauthorized": (401, "send Authorization: Bearer with a token that is neither revoked nor expired"),
    "forbidden": (403, "ask an admin of your organisation for a token with that scope"),
    "not_found": (404, "GET /v1/sessions lists what there is"),
    "method": (405, "see /openapi.json"),
    "slow": (408, "repeat the request"),
    "changed": (409, "read it first, then name its ETag in If-Match"),
    "exists": (409, "choose another name"),
    "held": (409, "an admin can end the hold"),
    "position": (409, "compare with your own chain: continue from the server's position, or branch off"),
    "gone": (410, "use another id, or wait until it is purged"),
    "too_deep": (413, "leave that line out; GET /v1/whoami shows the limits"),
    "too_large": (413, "send less at once; GET /v1/whoami shows the limits"),
    "encoding": (415, "send identity, gzip or zstd, and name it in Content-Encoding"),
    "precondition": (428, f"send {POSITION} or {LAST_UUID}"),
    "rate": (429, "wait as long as Retry-After says"),
    "body_lost": (500, "tell the operator to restore it in the object store"),
    "busy": (503, "repeat the same request"),
    "object_store": (503, "repeat the request later; new lines are still accepted"),
}


class RequestRefused(Exception):
    """A request that is refused. ``head``: where the log ends. ``wait``: seconds after which it may be repeated."""

    def __init__(
        self, code: str, message: str, hint: str = "", *, head: Head | None = None, wait: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, usual = _CODES[code]
        self.code, self.message, self.hint, self._head = code, message, hint or usual, head
        self.headers = {} if wait is None else {"Retry-After": str(max(1, ceil(wait)))}
        # Organisation and author, where the token is known but was not admitted.
        self.by: tuple[str, Author] | None = None

    def attributed(self, org: str, author: Author) -> Self:
        """The same refusal, for the audit log of that organisation."""
        self.by = org, author
        return self

    def response(self) -> Response:
        fault = Fault(self.code, self.message, self.hint)
        problem = Problem(fault) if self._head is None else Problem(fault, self._head)
        headers = self.headers
        if self._head is not None:
            headers[POSITION] = str(self._head.position)
        if self.code == "unauthorized":
            headers["WWW-Authenticate"] = "Bearer"
        return answer(problem, self.status, headers)


# Problems of the database: the code, the message, and after how many seconds to ask again.
_OF_DATABASE: dict[type[Exception], tuple[str, str, int | None]] = {
    Held: ("held", "the session is under legal hold", None),
    Forbidden: ("forbidden", "{}", None),
    Taken: ("exists", "{}", None),
    SideFileChanged: ("changed", "{}", None),
    SessionGone: ("gone", "the session was deleted", None),
    PositionConflict: ("position", "the log is at another position", None),
    BodyLost: ("body_lost", "the object with these lines {0.what}", None),
    BodyUnavailable: ("object_store", "these lines are in the object store, which does not answer", 5),
    Unavailable: ("busy", "the database is not available", 2),
    TimeoutError: ("busy", "the request took too long", 1),
}
PROBLEMS: tuple[type[Exception], ...] = (RequestRefused, *_OF_DATABASE)


def refusal_of(problem: Exception) -> RequestRefused:
    """What a client is told of one of ``PROBLEMS``."""
    if isinstance(problem, RequestRefused):
        return problem
    if isinstance(problem, BodyLost | Unavailable):
        _log.warning("database", extra={"fields": {"problem": str(problem)[:200]}})
    code, message, wait = _OF_DATABASE[next(filter(_OF_DATABASE.__contains__, type(problem).__mro__))]
    head = problem.head if isinstance(problem, PositionConflict) else None
    lost = (
        f"tell the operator to restore {problem.name} in the object store"
        if isinstance(problem, BodyLost)
        else ""
    )
    return RequestRefused(code, message.format(problem), lost, head=head, wait=wait)


def invalid(message: str, hint: str = "") -> RequestRefused:
    return RequestRefused("invalid", message, hint)


def not_found() -> RequestRefused:
    """Missing, or not visible to the caller: the two are not distinguished."""
    return RequestRefused("not_found", "not found")


def too_large(what: str, most: int) -> RequestRefused:
    return RequestRefused("too_large", f"{what} over the limit of {most}")


def busy(what: str, seconds: int = 1) -> RequestRefused:
    return RequestRefused("busy", what, wait=seconds)


def too_many(seconds: float) -> RequestRefused:
    return RequestRefused("rate", "too many requests", wait=seconds)


_log = logging.getLogger("recollect.server")
_NOTE_SECONDS = 0.25


async def is_done(name: str, job: Awaitable[None]) -> bool:
    """Do a job once; False where it failed."""
    try:
        await job
    except Unavailable as problem:
        _log.warning(name, extra={"fields": {"problem": str(problem)[:200]}})
    except Exception:  # noqa: BLE001 - see the module
        # Its type and its places: the text of a database's error may quote what is stored.
        _log.exception(name)
    else:
        return True
    return False


class SideNotes:
    """Notes about requests: who used a token, what was refused. A database that is read-only, or waits for its standby, still
    answers reads: an answer waits for its note only briefly, and the note goes on without it."""

    def __init__(self) -> None:
        self._writing: set[asyncio.Task[bool]] = set()

    async def write(self, name: str, note: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(is_done(name, note))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        await asyncio.wait((task,), timeout=_NOTE_SECONDS)


_EVERY_SECONDS = 60.0
_MOST_REMEMBERED = 10_000
_LONGEST_TARGET = 300
# What a valid token was refused for its rights, not for the form of the request.
_OF_RIGHTS = frozenset(("forbidden", "held"))


class RefusedAttempts:
    """Notes refused attempts, each kind of one token at most once a minute."""

    def __init__(self, database: Database, every_seconds: float = _EVERY_SECONDS) -> None:
        self._database, self._every, self._notes = database, every_seconds, SideNotes()
        # When a kind of attempt was noted last, and how many were not noted since.
        self._noted: OrderedDict[tuple[str, str, str], tuple[float, int]] = OrderedDict()

    async def note(
        self, refused: RequestRefused, attempt: tuple[str, Author] | None, route: str, target: str
    ) -> None:
        """Add a refusal to the audit log. ``attempt``: organisation and author, where the token was valid."""
        by = refused.by or (attempt if refused.code in _OF_RIGHTS else None)
        if by is None:
            return
        org, author = by
        kind = (author.token, route, refused.code)
        now = time.monotonic()
        at, untold = self._noted.pop(kind, (now - self._every, 0))
        if now - at < self._every:
            self._noted[kind] = at, untold + 1
            return
        self._noted[kind] = now, 0
        if len(self._noted) > _MOST_REMEMBERED:
            self._noted.popitem(last=False)
        detail = f"{refused.code}: {refused.message}" + (f" ({untold} more before)" if untold else "")
        # The refusal stands also where it cannot be noted.
        told = plain_text(target, _LONGEST_TARGET)
        await self._notes.write("refusal", self._database.note_refusal(org, author, told, detail))
