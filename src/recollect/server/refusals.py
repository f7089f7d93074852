"""Every answer that is no success, as an exception with a status, a code for programs and a next step for people."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from recollect.sync.wire import POSITION, Fault, Head, Problem


class Refused(Exception):
    """A request that is not carried out."""

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

    def response(self) -> Response:
        """As it goes out."""
        fault = Fault(self.code, self.message, self.hint)
        problem = Problem(fault) if self._head is None else Problem(fault, self._head)
        headers = self.headers
        if self._head is not None:
            headers[POSITION] = str(self._head.position)
        return Response(
            msgspec.json.encode(problem), self.status, headers=headers, media_type="application/json"
        )


def invalid(message: str, hint: str = "see /openapi.json") -> Refused:
    """The request itself is wrong."""
    return Refused(400, "invalid", message, hint)


def not_found() -> Refused:
    """No such thing, or not yours: the two are not told apart."""
    return Refused(404, "not_found", "there is no such thing", "look at GET /v1/sessions")


def unauthorized() -> Refused:
    """No good token; which of the reasons it was is nobody's business."""
    return Refused(
        401,
        "unauthorized",
        "a valid token is needed",
        "send Authorization: Bearer with a token that is neither revoked nor expired",
        headers={"WWW-Authenticate": "Bearer"},
    )


def forbidden(what: str = "the token does not allow this") -> Refused:
    """A good token, but not for this."""
    return Refused(403, "forbidden", what, "ask an admin of your organisation for a token with that scope")


def too_large(what: str, most: int) -> Refused:
    """Over a limit."""
    return Refused(
        413,
        "too_large",
        f"{what} over the limit of {most}",
        "send less at once; GET /v1/whoami tells the limits",
    )


def too_deep(most: int) -> Refused:
    """A line that no reader could open."""
    return Refused(
        413,
        "too_deep",
        f"a line is nested more than {most} levels deep",
        "leave that line out; GET /v1/whoami tells the limits",
    )


def bad_encoding(what: str) -> Refused:
    """The body is not what its header says."""
    return Refused(415, "encoding", what, "send identity, gzip or zstd, and what Content-Encoding says")


def busy(what: str, seconds: int = 1) -> Refused:
    """Not now."""
    return Refused(503, "busy", what, "repeat the same request", headers={"Retry-After": str(seconds)})


def too_many(seconds: float) -> Refused:
    """Slow down."""
    wait = str(max(1, round(seconds + 0.5)))
    return Refused(
        429, "rate", "too many requests", "wait as long as Retry-After says", headers={"Retry-After": wait}
    )
