"""The SDK's streams with limits in between: counts messages, notices the end.

For transports whose bytes the SDK reads (HTTP, SSE); ``web`` bounds their sizes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from recollect.mcp.fault import ConnectionFault
from recollect.mcp.framing import BrokenFrame, MessageRateLimit, require_few_tools
from recollect.mcp.limits import McpLimits

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage


@asynccontextmanager
async def counted(
    streams: TransportStreams, limits: McpLimits, fault: ConnectionFault
) -> AsyncIterator[TransportStreams]:
    """The same streams; a server that sends too much ends its own connection."""
    source, sink = streams
    forward, received = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_forward, source, forward, limits, fault)
        try:
            yield received, sink
        finally:
            tasks.cancel_scope.cancel()
            forward.close()
            received.close()


async def _forward(
    source: ReadStream[SessionMessage | Exception],
    forward: MemoryObjectSendStream[SessionMessage | Exception],
    limits: McpLimits,
    fault: ConnectionFault,
) -> None:
    rate = MessageRateLimit(limits)
    async with forward:
        try:
            async for message in source:
                rate.count(anyio.current_time())
                if not isinstance(message, Exception):
                    require_few_tools(getattr(message.message, "result", None), limits)
                await forward.send(message)
            fault.note("it closed the connection")
        except BrokenFrame as broken:
            fault.note(f"it sent {broken}")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
