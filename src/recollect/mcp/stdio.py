"""A program's pipes as SDK streams, with every limit of ``framing`` in between.

The SDK's own stdio transport is not used: it starts the process itself, outside any sandbox, and reads
lines of any length. A line that is not a JSON-RPC message is dropped (servers print to stdout by
mistake); one that breaks a limit ends the connection.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from recollect.mcp.fault import ConnectionFault
from recollect.mcp.framing import (
    BrokenFrame,
    LineSplitter,
    MessageRateLimit,
    require_few_tools,
    require_small,
)
from recollect.mcp.launch import RawFile
from recollect.mcp.limits import McpLimits

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_CHUNK = 65_536
# Bounded: a server that does not read would make messages pile up here.
_WRITE_SECONDS = 10.0


@asynccontextmanager
async def pipe_streams(
    stdin: RawFile, stdout: int, limits: McpLimits, fault: ConnectionFault
) -> AsyncIterator[TransportStreams]:
    """The streams over a running program's pipes; its end is the end of the read stream."""
    os.set_blocking(stdin.fileno(), False)
    os.set_blocking(stdout, False)
    to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, stdout, to_session, limits, fault)
        tasks.start_soon(_write, stdin, from_session, to_session, fault)
        try:
            yield received, sent
        finally:
            tasks.cancel_scope.cancel()
            for stream in (to_session, received, sent, from_session):
                stream.close()


async def _read(
    stdout: int,
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    limits: McpLimits,
    fault: ConnectionFault,
) -> None:
    lines, rate = LineSplitter(limits), MessageRateLimit(limits)
    async with to_session:
        try:
            async for data in _chunks(stdout):
                for line in lines.feed(data):
                    rate.count(anyio.current_time())
                    require_small(line, limits)
                    message = _parsed(line)
                    if message is not None:
                        require_few_tools(getattr(message.message, "result", None), limits)
                        await to_session.send(message)
            fault.note("it ended")
        except BrokenFrame as broken:
            fault.note(f"it sent {broken}")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    while True:
        await anyio.wait_readable(descriptor)
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            continue
        except OSError:
            return
        if not data:
            return
        yield data


def _parsed(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _write(
    stdin: RawFile,
    from_session: MemoryObjectReceiveStream[SessionMessage],
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    fault: ConnectionFault,
) -> None:
    async with from_session:
        try:
            async for item in from_session:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                with anyio.fail_after(_WRITE_SECONDS):
                    await _write_all(stdin, text.encode("utf-8", "replace") + b"\n")
        except TimeoutError:
            fault.note("it does not read its input")
            to_session.close()
        except OSError:
            fault.note("it closed its input")
            to_session.close()


async def _write_all(stdin: RawFile, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        await anyio.wait_writable(stdin.fileno())
        written = stdin.write(bytes(rest[:_CHUNK]))
        rest = rest[written or 0 :]
