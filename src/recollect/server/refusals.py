"""Every unsuccessful answer: an exception with a status, a code for programs and a next step for people."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Self

import msgspec
from starlette.responses import Response

from recollect.server.database.records import Author, Unavailable
from recollect.server.database.sql import Database
from recollect.share.sync.wire import POSITION, Fault, Head, Problem, plain_text


class RequestRefused(Exception):
    """A request that is refused."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        hint: str,
        *,
        head: Head | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code = status, code
        self.message, self.hint, self._head = message, hint, head
        self.headers = dict(headers or {})
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
        return Response(
            msgspec.json.encode(problem), self.status, headers=headers, media_type="application/json"
        )


def invalid(message: str, hint: str = "see /openapi.json") -> RequestRefused:
    return RequestRefused(400, "invalid", message, hint)


def not_found() -> RequestRefused:
    """Missing, or not visible to the caller: the two are not distinguished."""
    return RequestRefused(404, "not_found", "not found", "GET /v1/sessions lists what there is")


def gone() -> RequestRefused:
    return RequestRefused(
        410, "gone", "the session was deleted", "use another id, or wait until it is purged"
    )


def unauthorized() -> RequestRefused:
    """No valid token; the reason is not revealed."""
    return RequestRefused(
        401,
        "unauthorized",
        "a valid token is needed",
        "send Authorization: Bearer with a token that is neither revoked nor expired",
        headers={"WWW-Authenticate": "Bearer"},
    )


def forbidden(what: str = "the token does not allow this") -> RequestRefused:
    """A valid token without this permission."""
    return RequestRefused(
        403, "forbidden", what, "ask an admin of your organisation for a token with that scope"
    )


def too_large(what: str, most: int) -> RequestRefused:
    return RequestRefused(
        413,
        "too_large",
        f"{what} over the limit of {most}",
        "send less at once; GET /v1/whoami shows the limits",
    )


def too_deep(most: int) -> RequestRefused:
    """A line too deep for readers to parse."""
    return RequestRefused(
        413,
        "too_deep",
        f"a line is nested more than {most} levels deep",
        "leave that line out; GET /v1/whoami shows the limits",
    )


def bad_encoding(what: str) -> RequestRefused:
    return RequestRefused(
        415, "encoding", what, "send identity, gzip or zstd, and name it in Content-Encoding"
    )


def busy(what: str, seconds: int = 1) -> RequestRefused:
    return RequestRefused(503, "busy", what, "repeat the same request", headers={"Retry-After": str(seconds)})


def object_store_down() -> RequestRefused:
    return RequestRefused(
        503,
        "object_store",
        "these lines are in the object store, which does not answer",
        "repeat the request later; new lines are still accepted",
        headers={"Retry-After": "5"},
    )


def body_lost(name: str, what: str) -> RequestRefused:
    """Never other bytes in place of those that were stored."""
    return RequestRefused(
        500,
        "body_lost",
        f"the object with these lines {what}",
        f"tell the operator to restore {name} in the object store",
    )


def too_many_streams(most: int) -> RequestRefused:
    return RequestRefused(
        429,
        "streams",
        f"this token already follows {most} logs",
        "end one of them, or use another token",
        headers={"Retry-After": "5"},
    )


def too_many(seconds: float) -> RequestRefused:
    wait = str(max(1, round(seconds + 0.5)))
    return RequestRefused(
        429, "rate", "too many requests", "wait as long as Retry-After says", headers={"Retry-After": wait}
    )


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
