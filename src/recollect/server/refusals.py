"""Every answer that is no success, as an exception with a status, a code for programs and a next step for people."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from recollect.sync.wire import POSITION, Fault, Head, Problem


class RequestRefused(Exception):
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


def invalid(message: str, hint: str = "see /openapi.json") -> RequestRefused:
    """The request itself is wrong."""
    return RequestRefused(400, "invalid", message, hint)


def not_found() -> RequestRefused:
    """No such thing, or not yours: the two are not told apart."""
    return RequestRefused(404, "not_found", "there is no such thing", "look at GET /v1/sessions")


def unauthorized() -> RequestRefused:
    """No good token; which of the reasons it was is nobody's business."""
    return RequestRefused(
        401,
        "unauthorized",
        "a valid token is needed",
        "send Authorization: Bearer with a token that is neither revoked nor expired",
        headers={"WWW-Authenticate": "Bearer"},
    )


def forbidden(what: str = "the token does not allow this") -> RequestRefused:
    """A good token, but not for this."""
    return RequestRefused(
        403, "forbidden", what, "ask an admin of your organisation for a token with that scope"
    )


def too_large(what: str, most: int) -> RequestRefused:
    """Over a limit."""
    return RequestRefused(
        413,
        "too_large",
        f"{what} over the limit of {most}",
        "send less at once; GET /v1/whoami tells the limits",
    )


def too_deep(most: int) -> RequestRefused:
    """A line that no reader could open."""
    return RequestRefused(
        413,
        "too_deep",
        f"a line is nested more than {most} levels deep",
        "leave that line out; GET /v1/whoami tells the limits",
    )


def bad_encoding(what: str) -> RequestRefused:
    """The body is not what its header says."""
    return RequestRefused(
        415, "encoding", what, "send identity, gzip or zstd, and what Content-Encoding says"
    )


def busy(what: str, seconds: int = 1) -> RequestRefused:
    """Not now."""
    return RequestRefused(503, "busy", what, "repeat the same request", headers={"Retry-After": str(seconds)})


def too_many(seconds: float) -> RequestRefused:
    """Slow down."""
    wait = str(max(1, round(seconds + 0.5)))
    return RequestRefused(
        429, "rate", "too many requests", "wait as long as Retry-After says", headers={"Retry-After": wait}
    )
