"""The page's answers: JSON documents, refusals and files, none of which a browser would execute."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from urllib.parse import quote

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from recollect.errors import Ambiguous, Busy, DamagedData, NotFound, RecollectError, StorageError, UsageError
from recollect.model.lines.json_text import encode_json
from recollect.share.typed_http import answer

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


class ErrorDocument(Struct, frozen=True):
    """What went wrong and what to do. ``sign_in``: signing in with a token would help."""

    error: str
    hint: str
    sign_in: bool | UnsetType = UNSET


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
    return b"event: " + name.encode() + b"\ndata: " + encode_json(data) + b"\n\n"


COMMENT = b": still here\n\n"


STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
_NOT_BUILT = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>recollect</title></head>
<body><h1>recollect</h1>
<p>The page is not built. In a checkout, <code>make web</code> builds it; an installed package has it.</p>
<p>The server is running: <a href="/openapi.json">/openapi.json</a> lists what it answers.</p>
</body></html>
"""
_INDEX = "index.html"


class BuiltFile(NamedTuple):
    """One file of the page."""

    data: bytes
    media_type: str
    caching: str


class BuiltFiles:
    """All files of the page, by address."""

    def __init__(self, directory: Path = STATIC) -> None:
        self._files = {_INDEX: BuiltFile(_NOT_BUILT, _TYPES[".html"], "no-cache")}
        for path in sorted(directory.rglob("*")) if directory.is_dir() else ():
            kind = _TYPES.get(path.suffix)
            if kind is not None and path.is_file():
                name = path.relative_to(directory).as_posix()
                # Files below assets/ have a hash in their name, so they never change.
                is_hashed = name.startswith("assets/")
                caching = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
                self._files[name] = BuiltFile(path.read_bytes(), kind, caching)

    def found(self, path: str) -> BuiltFile | None:
        """A file; a route inside the page, such as a link to a message, is the page itself."""
        if path in self._files:
            return self._files[path]
        last = path.rpartition("/")[2]
        is_inside = "." not in last and not path.startswith("assets/")
        return self._files[_INDEX] if is_inside else None


class StreamSlots:
    """Open streams, in all and of each token; taken before the answer begins, so that none slips through."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self.most_each = most, most_each
        self._open: dict[str, int] = {}

    def is_full(self) -> bool:
        return sum(self._open.values()) >= self._most

    def has_its_share(self, token: str) -> bool:
        return self._open.get(token, 0) >= self.most_each

    def taken(self, token: str) -> Callable[[], None] | None:
        """Take a slot; returns what gives it back, None where the token has its share."""
        if self.has_its_share(token):
            return None
        self._open[token] = self._open.get(token, 0) + 1
        return lambda: self._give_back(token)

    def _give_back(self, token: str) -> None:
        left = self._open[token] - 1
        if left:
            self._open[token] = left
        else:
            del self._open[token]


ExceptionInfo = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None] | None
)


def problem_of(exc_info: ExceptionInfo) -> tuple[str, list[str]] | None:
    """The type of an exception and its last four places; None without an exception."""
    if not exc_info or exc_info[0] is None:
        return None
    frames = traceback.extract_tb(exc_info[2])
    return exc_info[0].__name__, [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-4:]]


class OneLineFormatter(logging.Formatter):
    """``recollect web: message (ValueError at a.py:1, b.py:2)``."""

    def format(self, record: logging.LogRecord) -> str:
        event = (record.getMessage().splitlines() or [""])[0][:200]
        problem = problem_of(record.exc_info)
        where = "" if problem is None else f" ({problem[0]} at {', '.join(problem[1])})"
        return f"recollect web: {event}{where}"


def log_in_single_lines(*loggers: str) -> None:
    """Send warnings and errors of these loggers to stderr, a line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter())
    for name in loggers:
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
