"""The page's answers: JSON documents, refusals and files, none of which a browser would execute."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from recollect.errors import Ambiguous, Busy, DamagedData, NotFound, RecollectError, StorageError, UsageError
from recollect.services.documents.encoding import encoded
from recollect.services.documents.page import ErrorDocument

_STATUS: tuple[tuple[type[RecollectError], int], ...] = (
    (UsageError, 400),
    (Ambiguous, 409),
    (NotFound, 404),
    (Busy, 409),
    (DamagedData, 422),
    (StorageError, 507),
)
_PLAIN_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_BLOB_POLICY = "default-src 'none'; sandbox"


def answer(document: object, status: int = 200) -> Response:
    return Response(encoded(document), status, media_type="application/json")


def refusal(status: int, error: str, hint: str) -> Response:
    return answer(ErrorDocument(error, hint), status)


def failure(problem: RecollectError) -> Response:
    """The answer for one of our errors."""
    status = next((code for kind, code in _STATUS if isinstance(problem, kind)), 500)
    return refusal(status, problem.message, problem.hint)


def download(pieces: Iterable[bytes], name: str, media_type: str) -> StreamingResponse:
    """A file to save, never displayed."""
    headers = {"Content-Disposition": _attachment(name), "Content-Security-Policy": _BLOB_POLICY}
    return StreamingResponse(pieces, media_type=media_type, headers=headers)


def blob(data: bytes, media_type: str, name: str) -> Response:
    """Bytes from a transcript: at most an image, in a sandbox, as an attachment."""
    headers = {"Content-Disposition": _attachment(name), "Content-Security-Policy": _BLOB_POLICY}
    return Response(data, media_type=media_type, headers=headers)


def _attachment(name: str) -> str:
    plain = _PLAIN_NAME.sub("_", name)[:120] or "file"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name[:120], safe='')}"


class EventResponse(StreamingResponse):
    """Server-sent events; ``at_end`` is called when they end, also before the first."""

    def __init__(self, source: AsyncIterator[bytes], at_end: Callable[[], None]) -> None:
        headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
        super().__init__(source, media_type="text/event-stream", headers=headers)
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._at_end()


def event(name: str, data: object) -> bytes:
    """One event; JSON has no raw newline, so it is one line."""
    return b"event: " + name.encode() + b"\ndata: " + encoded(data) + b"\n\n"


COMMENT = b": still here\n\n"
