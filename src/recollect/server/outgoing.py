"""Sends bytes to readers that may be slow or stop; memory for all of them together is bounded.

Large answers are sent in small pieces, out of the same budget as received bodies. A reader that does
not take a piece in time is disconnected, and can resume after its last whole line. So a thousand
stalled readers cost a thousand small pieces, not a thousand logs.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from recollect.server.database.contract import Unavailable
from recollect.server.database.records import FileBytes, Segment
from recollect.server.limits import ByteBudget, ServerLimits
from recollect.sync.remote import lines_of

# Small, because a closed connection keeps its last piece until the peer is gone; divisible by three, so that
# pieces of base64 can be joined.
PIECE = 12 * 1024
# The database returns this much at a time, in small segments or one larger one.
_FETCHED_AT_ONCE = 1 << 20
_encode = msgspec.json.Encoder().encode


class TooSlow(Exception):
    """The reader does not read, or there is no memory for its answer."""


class TimedStreamingResponse(StreamingResponse):
    """An answer in pieces, each with a timeout. At its end the reservation is released."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        outlet: OutgoingBuffer,
        headers: Mapping[str, str],
        media_type: str,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(pieces, headers=headers, media_type=media_type)
        self._pieces, self._outlet, self._at_end = pieces, outlet, at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; the reservation is released in any case, even before the first piece."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._at_end is not None:
                self._at_end()
            await self._pieces.aclose()
            self._outlet.keep(0)

    async def stream_response(self, send: Send) -> None:
        """Send all of it, or close the connection before the announced end."""

        async def timely(message: Message) -> None:
            async with asyncio.timeout(self._outlet.limits.slow_grace_seconds):
                await send(message)

        with contextlib.suppress(TimeoutError, TooSlow, Unavailable):
            await super().stream_response(timely)


class OutgoingBuffer:
    """What is held for one reader until it was sent."""

    def __init__(self, budget: ByteBudget, limits: ServerLimits) -> None:
        self._share, self.fetching, self.limits = budget.share(), budget.fetching, limits

    async def has_room(self, size: int) -> bool:
        """Reserve this much, after a wait if needed. The previous reservation is released."""
        self._share.shrink(0)
        return await self._share.hold(size, size)

    def has_room_now(self, size: int) -> bool:
        """Reserve this much without waiting."""
        return self._share.hold_now(size)

    def keep(self, size: int) -> None:
        """Reduce the reservation to this much."""
        self._share.shrink(size)

    async def pieces(self, parts: Iterator[bytes], size: int) -> AsyncGenerator[bytes, None]:
        """The parts of an object of ``size`` bytes; ``TooSlow`` where the reader takes too long."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.limits.slow_grace_seconds + size / self.limits.slow_reading_bytes_per_second
        for part in parts:
            if loop.time() > end:
                raise TooSlow
            yield part


class LineRange(NamedTuple):
    """A range of lines, its bytes, and the bytes of the whole log."""

    first: int
    until: int
    bytes: int
    of_bytes: int


async def lines_within(
    outlet: OutgoingBuffer, span: LineRange, segments_from: Callable[[int], AsyncIterator[Segment]]
) -> AsyncIterator[bytes]:
    """These lines, one segment at a time; each is fetched when there is memory for it, and held alone."""
    first, until, left, of_bytes = span
    segments = segments_from(first)
    # In a small log no segment is large.
    turn = outlet.fetching if of_bytes > _FETCHED_AT_ONCE else contextlib.nullcontext()
    while first < until:
        if not await outlet.has_room(min(left, outlet.limits.body_bytes)):
            raise TooSlow
        async with turn:
            data, first, is_large = await _next(segments, first, until)
        if is_large:
            # The old segment must be released before waiting for the reader.
            segments = segments_from(first)
        outlet.keep(max(len(data), min(left, _FETCHED_AT_ONCE)))
        yield data
        left -= len(data)


async def _next(segments: AsyncIterator[Segment], first: int, until: int) -> tuple[bytes, int, bool]:
    """The requested part of the next segment, the start of the one after it, and whether it is large."""
    # Not anext(segments, None): with a default, Python 3.11 may crash if the loop is closed meanwhile.
    try:
        segment = await anext(segments)
    except StopAsyncIteration:
        return b"", until, False
    last = segment.first_line + segment.lines
    data = segment.data
    if segment.first_line < first or last > until:
        lines = list(lines_of(data))
        data = b"".join(lines[max(first - segment.first_line, 0) : until - segment.first_line])
    return data, last, len(segment.data) > _FETCHED_AT_ONCE


async def fetched(
    outlet: OutgoingBuffer, fetch: Callable[[], Awaitable[FileBytes | None]]
) -> FileBytes | None:
    """A file, with memory reserved for it; ``TooSlow`` where there was none for too long."""
    try:
        while True:
            async with outlet.fetching:
                found = await fetch()
                size = 0 if found is None else len(found.data)
                if outlet.has_room_now(size):
                    return found
            # Release its bytes: now that the size is known, wait for memory without them.
            del found
            if not await outlet.has_room(size):
                raise TooSlow  # noqa: TRY301 - the reservation is released below
    except BaseException:
        outlet.keep(0)
        raise


def pieces_of(data: bytes) -> Iterator[bytes]:
    """Bytes in pieces; small ones whole."""
    if len(data) <= PIECE:
        yield data
        return
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]


def event_pieces(position: str, data: bytes) -> Iterator[bytes]:
    """One server-sent event with these lines: text, or base64 where they are not UTF-8, never whole in
    memory."""
    head = b'id: %b\nevent: lines\ndata: {"position":"%b",' % (position.encode(), position.encode())
    name, inside = (b'"text":"', _text(data)) if _is_text(data) else (b'"base64":"', _base64(data))
    if len(data) <= PIECE:
        yield head + name + b"".join(inside) + b'"}\n\n'
        return
    yield head + name
    yield from inside
    yield b'"}\n\n'


def _is_text(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in pieces_of(data):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _text(data: bytes) -> Iterator[bytes]:
    """The content of a JSON string, in pieces."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for piece in pieces_of(data):
        yield _encode(decoder.decode(piece))[1:-1]


def _base64(data: bytes) -> Iterator[bytes]:
    return map(b64encode, pieces_of(data))
