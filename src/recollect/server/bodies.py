"""Reads a body that may be too large, too slow, a decompression bomb, or mislabelled.

Memory is bounded at every moment: on the wire, decompressed, and over all requests together. A body
gets some seconds at first, and more only in proportion to the bytes received.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from io import BytesIO

import zstandard
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from recollect.server.database.records import Segment, Unavailable
from recollect.server.refusals import RequestRefused, busy, too_large
from recollect.server.service import BudgetShare, ServerLimits, ServerRequest

# A zstd block is at least four bytes and at most 128 KiB, so this much input gives at most 2 MiB at once.
_ZSTD_STEP = 64
_WINDOW = 1 << 23
# Larger bodies are not processed in the event loop.
SMALL = 64 * 1024
_FEW = 4 * 1024


async def read_body(ask: ServerRequest, share: BudgetShare) -> bytes:
    """The whole body, decompressed; large ones one at a time."""
    limits = ask.service.limits
    unpack = _unpacker(ask.header(b"content-encoding"))
    # The output is held beside the input; its size is known only afterwards.
    unpacked = 0 if unpack is None else limits.body_bytes
    raw = await _raw_body(ask, limits, share, unpacked)
    if unpack is None:
        return raw
    if len(raw) < _FEW:
        with contextlib.suppress(_BodyTooLarge):
            return unpack(raw, min(SMALL, limits.body_bytes))
    # Memory first, then the lock: a holder of the lock waiting for memory would block those that need the
    # lock.
    if not await share.hold(len(raw) + unpacked):
        raise busy("too many large requests at once", 3)
    async with ask.service.large:
        try:
            data = await asyncio.to_thread(unpack, raw, limits.body_bytes)
        except _BodyTooLarge:
            raise too_large("decompressed body", limits.body_bytes) from None
        share.keep(len(data))
        return data


def _unpacker(encoding: str | None) -> Callable[[bytes, int], bytes] | None:
    """What decompresses a body with this Content-Encoding; None where it is as it is."""
    name = (encoding or "").strip().lower() or "identity"
    if name not in ("identity", "gzip", "zstd"):
        raise RequestRefused("encoding", f"Content-Encoding {name[:40]!a} is not supported")
    return {"gzip": _gunzipped, "zstd": _unzstd}.get(name)


class _BodyTooLarge(Exception):
    """The output exceeds the limit."""


async def _raw_body(ask: ServerRequest, limits: ServerLimits, share: BudgetShare, unpacked: int) -> bytes:
    most = limits.body_bytes
    header = ask.header(b"content-length") or ""
    length = int(header) if header.isascii() and header.isdigit() and len(header) < 19 else None
    if length is not None and length > most:
        raise too_large("body", most)
    # Not a list that is joined at the end, nor a bytearray: both hold everything twice. This grows in place.
    received, loop = BytesIO(), asyncio.get_running_loop()
    try:
        async with asyncio.timeout(limits.slow_grace_seconds) as clock:
            chunk, is_more = await ask.chunk()
            if is_more or len(chunk) > BudgetShare.FREE:
                clock.reschedule(None)  # waiting for memory does not count as the sender's slowness
                if not await share.hold((most if length is None else length) + unpacked):
                    raise busy("too many large requests at once", 3)
            start = loop.time()
            while True:
                size = received.tell() + len(chunk)
                if size > most:
                    raise too_large("body", most)
                received.write(chunk)
                if not is_more:
                    return received.getvalue()
                earned = limits.slow_grace_seconds + size / limits.slow_bytes_per_second
                clock.reschedule(start + min(earned, limits.body_seconds))
                chunk, is_more = await ask.chunk()
    except TimeoutError:
        raise RequestRefused("slow", "the body came too slowly") from None


def _gunzipped(raw: bytes, most: int) -> bytes:
    machine = zlib.decompressobj(31)
    try:
        data = machine.decompress(raw, most + 1)
    except zlib.error:
        raise RequestRefused("encoding", "the body is not gzip") from None
    if len(data) > most:
        raise _BodyTooLarge
    if not machine.eof or machine.unused_data:
        raise RequestRefused("encoding", "the gzip body is cut off, or continues after its end")
    return data


def _unzstd(raw: bytes, most: int) -> bytes:
    machine = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
    found, size = BytesIO(), 0
    try:
        for start in range(0, len(raw), _ZSTD_STEP):
            if machine.eof:
                raise RequestRefused("encoding", "the zstd body continues after its end")
            size += found.write(machine.decompress(raw[start : start + _ZSTD_STEP]))
            if size > most:
                raise _BodyTooLarge
    except zstandard.ZstdError:
        raise RequestRefused("encoding", "the body is not zstd") from None
    if not machine.eof or machine.unused_data:
        raise RequestRefused("encoding", "the zstd body is cut off, or continues after its end")
    return found.getvalue()


# Small, because a closed connection keeps its last piece until the peer is gone.
PIECE = 12 * 1024
# The database returns this much at a time, in small segments or one larger one.
_FETCHED_AT_ONCE = 1 << 20


class TooSlow(Exception):
    """The reader does not read, or there is no memory for its answer."""


class TimedStreamingResponse(StreamingResponse):
    """An answer in pieces, each with a timeout. At its end the share of the budget is given back."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        share: BudgetShare,
        limits: ServerLimits,
        headers: Mapping[str, str],
        media_type: str,
    ) -> None:
        super().__init__(pieces, headers=headers, media_type=media_type)
        self._pieces, self._share, self._limits = pieces, share, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; the share is given back in any case, even before the first piece."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._pieces.aclose()
            self._share.keep(0)

    async def stream_response(self, send: Send) -> None:
        """Send all of it, or close the connection before the announced end."""

        async def timely(message: Message) -> None:
            async with asyncio.timeout(self._limits.slow_grace_seconds):
                await send(message)

        with contextlib.suppress(TimeoutError, TooSlow, Unavailable):
            await super().stream_response(timely)


async def timed(parts: Iterator[bytes], size: int, limits: ServerLimits) -> AsyncGenerator[bytes, None]:
    """The parts of an object of ``size`` bytes; ``TooSlow`` where the reader takes too long."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limits.slow_grace_seconds + size / limits.slow_reading_bytes_per_second
    for part in parts:
        if loop.time() > end:
            raise TooSlow
        yield part


# A range of lines: the first, and the one it ends before; its bytes, and those of the whole log.
LineRange = tuple[int, int, int, int]


async def lines_within(
    share: BudgetShare,
    limits: ServerLimits,
    span: LineRange,
    segments_from: Callable[[int], AsyncIterator[Segment]],
) -> AsyncIterator[bytes]:
    """These lines, one segment at a time; each is fetched when there is memory for it, and held alone."""
    first, until, left, of_bytes = span
    segments = segments_from(first)
    # In a small log no segment is large.
    turn = share.budget.fetching if of_bytes > _FETCHED_AT_ONCE else contextlib.nullcontext()
    while first < until:
        share.keep(0)
        if not await share.hold(min(left, limits.body_bytes)):
            raise TooSlow
        async with turn:
            data, first, is_large = await _next(segments, first, until)
        if is_large:
            # The old segment must be released before waiting for the reader.
            segments = segments_from(first)
        share.keep(max(len(data), min(left, _FETCHED_AT_ONCE)))
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
    return segment.between(first, until), last, len(segment.data) > _FETCHED_AT_ONCE


def pieces_of(data: bytes) -> Iterator[bytes]:
    """Bytes in pieces; small ones whole."""
    if len(data) <= PIECE:
        yield data
        return
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]
