"""Reads a body that may be too large, too slow, a decompression bomb, or mislabelled.

Memory is bounded at every moment: on the wire, decompressed, and over all requests together. A body
gets some seconds at first, and more only in proportion to the bytes received.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO

import zstandard

from recollect.server.limits import BudgetShare, ServerLimits
from recollect.server.refusals import RequestRefused, bad_encoding, busy, too_large
from recollect.server.service import ServerRequest

# A zstd block is at least four bytes and at most 128 KiB, so this much input gives at most 2 MiB at once.
_ZSTD_STEP = 64
_STEP = 64 * 1024
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
    if not await share.hold(len(raw) + unpacked, len(raw) + unpacked):
        raise busy("too many large requests at once", 3)
    async with ask.service.large:
        try:
            found = await asyncio.to_thread(unpack, raw, limits.body_bytes)
        except _BodyTooLarge:
            raise too_large("decompressed body", limits.body_bytes) from None
        share.shrink(len(found))
        return found


def read_small(raw: bytes, encoding: str | None, limits: ServerLimits) -> bytes | None:
    """A whole body that needs neither memory reserved for it nor a thread, decompressed; None for any other."""
    unpack = _unpacker(encoding)
    if len(raw) > (BudgetShare.FREE if unpack is None else _FEW - 1):
        return None
    try:
        return raw if unpack is None else unpack(raw, min(SMALL, limits.body_bytes))
    except _BodyTooLarge:
        return None


def _unpacker(encoding: str | None) -> Callable[[bytes, int], bytes] | None:
    """What decompresses a body with this Content-Encoding; None where it is as it is."""
    name = (encoding or "").strip().lower() or "identity"
    if name not in ("identity", "gzip", "zstd"):
        raise bad_encoding(f"Content-Encoding {name[:40]!a} is not supported")
    return {"gzip": _gunzipped, "zstd": _unzstd}.get(name)


class _BodyTooLarge(Exception):
    """The output exceeds the limit."""


async def _raw_body(ask: ServerRequest, limits: ServerLimits, share: BudgetShare, unpacked: int) -> bytes:
    most = limits.body_bytes
    header = ask.header(b"content-length") or ""
    length = int(header) if header.isascii() and header.isdigit() and len(header) < 19 else None
    if length is not None and length > most:
        raise too_large("body", most)
    impatience = ask.service.impatience
    task = impatience.until(asyncio.get_running_loop().time() + limits.slow_grace_seconds)
    try:
        first, is_more = await ask.chunk()
        if not is_more and len(first) <= BudgetShare.FREE:
            return first
        expected = (most if length is None else length) + unpacked
        return await _received(ask, share, (first, is_more), expected)
    except asyncio.CancelledError:
        if not impatience.over(task):
            raise
        raise RequestRefused(408, "slow", "the body came too slowly", "repeat the request") from None
    finally:
        impatience.over(task)


async def _received(
    ask: ServerRequest, share: BudgetShare, first: tuple[bytes, bool], expected: int
) -> bytes:
    limits = ask.service.limits
    # Not a list that is joined at the end, nor a bytearray: both hold everything twice. This grows in place.
    most, size, received = limits.body_bytes, 0, BytesIO()
    loop = asyncio.get_running_loop()
    start = loop.time()
    chunk, is_more = first
    while True:
        size += len(chunk)
        if size > most:
            raise too_large("body", most)
        received.write(chunk)
        if size > BudgetShare.FREE:
            # Waiting for memory does not count as the sender's slowness.
            waited = loop.time()
            ask.service.impatience.until(math.inf)
            if not await share.hold(size, expected):
                raise busy("too many large requests at once", 3)
            start += loop.time() - waited
            earned = limits.slow_grace_seconds + size / limits.slow_bytes_per_second
            ask.service.impatience.until(start + min(earned, limits.body_seconds))
        if not is_more:
            break
        chunk, is_more = await ask.chunk()
    return received.getvalue()


def _gunzipped(raw: bytes, most: int) -> bytes:
    machine = zlib.decompressobj(31)
    found, size = BytesIO(), 0
    try:
        # Once more with nothing at the end: output may still be pending.
        for piece in (*_pieces(raw, _STEP), b""):
            if machine.eof and piece:
                raise bad_encoding("the gzip body continues after its end")
            waiting = piece
            while not machine.eof:
                out = machine.decompress(waiting, _STEP)
                size += found.write(out)
                if size > most:
                    raise _BodyTooLarge
                waiting = machine.unconsumed_tail
                if not waiting and len(out) < _STEP:
                    break
    except zlib.error:
        raise bad_encoding("the body is not gzip") from None
    if not machine.eof or machine.unused_data:
        raise bad_encoding("the gzip body is cut off, or continues after its end")
    return found.getvalue()


def _unzstd(raw: bytes, most: int) -> bytes:
    machine = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
    found, size = BytesIO(), 0
    try:
        for piece in _pieces(raw, _ZSTD_STEP):
            if machine.eof:
                raise bad_encoding("the zstd body continues after its end")
            size += found.write(machine.decompress(piece))
            if size > most:
                raise _BodyTooLarge
    except zstandard.ZstdError:
        raise bad_encoding("the body is not zstd") from None
    if not machine.eof or machine.unused_data:
        raise bad_encoding("the zstd body is cut off, or continues after its end")
    return found.getvalue()


def _pieces(raw: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(raw), size):
        yield raw[start : start + size]
