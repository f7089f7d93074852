"""One connection to one server: started or connected, initialised, and ended without leftovers.

Failures before initialisation completes become ``ServerFailed``; later ones are recorded in
``ConnectionFault``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from recollect.mcp.fault import ConnectionFault
from recollect.mcp.launch import ProgramSpec, ServerProgram
from recollect.mcp.plain import plain
from recollect.model.settings.mcp_config import ServerOrigin, ServerTransport

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.client._transport import TransportStreams

Launch = Callable[[ProgramSpec], ServerProgram]
_OnNotice = Callable[[], None]
_WATCH_SECONDS = 1.0


@asynccontextmanager
async def connected(
    order: ProgramSpec, launch: Launch, fault: ConnectionFault, tools_changed: _OnNotice
) -> AsyncIterator[ClientSession]:
    """An initialised session; the program has ended when this exits. The caller sets the timeout."""
    _keep_quiet()
    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(_streams(order, launch, fault))
        session = await stack.enter_async_context(_session(streams, tools_changed))
        await session.initialize()
        yield session


@asynccontextmanager
async def _streams(
    order: ProgramSpec, launch: Launch, fault: ConnectionFault
) -> AsyncIterator[TransportStreams]:
    if order.server.config.kind is ServerTransport.STDIO:
        from recollect.mcp.stdio import pipe_streams

        async with (
            _running(order, launch, fault) as program,
            pipe_streams(program.stdin, program.stdout, order.limits, fault) as streams,
        ):
            yield streams
        return
    from recollect.mcp.relay import counted
    from recollect.mcp.web import web_streams

    known = order.server
    private = known.written.origin is not ServerOrigin.PROJECT or known.grants.private_address
    async with (
        web_streams(known.config, order.limits, fault, private_allowed=private) as raw,
        counted(raw, order.limits, fault) as streams,
    ):
        yield streams


@asynccontextmanager
async def _running(
    order: ProgramSpec, launch: Launch, fault: ConnectionFault
) -> AsyncIterator[ServerProgram]:
    # Shielded: a cancellation between the start and the ``try`` would leave the program running.
    with anyio.CancelScope(shield=True):
        program = await anyio.to_thread.run_sync(launch, order)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, program, fault)
            yield program
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _stopped(program, order.limits.stop_seconds)
            _add_last_words(program, fault)


async def _watch(program: ServerProgram, fault: ConnectionFault) -> None:
    """Check limits that the kernel does not enforce."""
    while True:
        await anyio.sleep(_WATCH_SECONDS)
        limit = await anyio.to_thread.run_sync(program.beyond)
        if limit is not None:
            fault.note(f"it exceeded its {limit} limit")
            return


async def _stopped(program: ServerProgram, seconds: float) -> None:
    """As the protocol requires: close its input, wait a moment, then end it and its children."""
    with contextlib.suppress(OSError):
        program.stdin.close()
    deadline = anyio.current_time() + seconds
    while not program.has_ended() and anyio.current_time() < deadline:
        await anyio.sleep(0.01)
    await anyio.to_thread.run_sync(program.end)


def _add_last_words(program: ServerProgram, fault: ConnectionFault) -> None:
    lines = plain(program.said(), 20_000).strip().splitlines()
    if lines and fault.why:
        # The line that explains the failure is rarely the last one.
        telling = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1])
        fault.why += f"; on stderr it said: {telling.strip()[:300]}"


@asynccontextmanager
async def _session(streams: TransportStreams, tools_changed: _OnNotice) -> AsyncIterator[ClientSession]:
    """A session that offers the server nothing: no sampling, no elicitation, no roots."""
    import mcp_types as types
    from mcp import ClientSession

    from recollect import __version__

    async def heard(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            tools_changed()

    info = types.Implementation(name="recollect", version=__version__)
    async with ClientSession(*streams, message_handler=heard, client_info=info) as session:
        yield session


def _keep_quiet() -> None:
    """Silence the SDK's logger: without a handler Python would print server text to stderr, escapes
    included."""
    for name in ("mcp", "client", "httpx2", "httpcore2"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
