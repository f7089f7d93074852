"""The life of one server: started when needed, restarted with growing pauses, given up in the end.

This is the only place that starts a server's program, in its sandbox: it can write nothing and has no network, except
what the user granted when trusting the entry. The ``keep`` task owns the connection; callers only wait for it. A
failure inside becomes the message of a ``ServerFailed``; other servers and the host continue.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client._transport import TransportStreams
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
from pydantic import ValidationError

from recollect.errors import RecollectError, ServerFailed
from recollect.guard import sandbox as execution
from recollect.guard.mcp.limits import (
    AddressRefused,
    BrokenFrame,
    CallResult,
    Connection,
    McpLimits,
    call_result,
    full_name,
)
from recollect.guard.mcp.servers import KnownServer, ServerOrigin, ServerTransport
from recollect.guard.mcp.transport import limit_messages, pipe_streams, web_streams
from recollect.guard.sandbox import RunningProcess
from recollect.model.text.snippet import plain
from recollect.version import __version__

_WATCH_SECONDS = 1.0
# Without a handler Python would print server text from the SDK's loggers to stderr, escapes included.
for _name in ("mcp", "client", "httpx2", "httpcore2"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


def start(server: KnownServer, project: Path, limits: McpLimits) -> RunningProcess:
    """Start the program of an entry. The caller has checked that it is trusted."""
    config, grants = server.config, server.grants
    return execution.start(
        [config.command, *config.args],
        cwd=project,
        confinement=execution.Confinement(
            write=tuple(Path(one) for one in grants.write),
            allow_hosts=grants.allow_hosts,
            backend="unconfined" if grants.unconfined else "bubblewrap",
        ),
        limits=execution.RunLimits(
            seconds=None, memory_bytes=limits.memory_bytes, output_bytes=limits.stderr_bytes
        ),
        environment=dict(config.env),
    )


Launch = Callable[[KnownServer, Path, McpLimits], RunningProcess]


class McpServer:
    """A server that may be started; create it inside a running event loop."""

    def __init__(
        self, server: KnownServer, project: Path, limits: McpLimits, launch: Launch | None = None
    ) -> None:
        self.name = server.name
        self.listing_is_current = False
        self._server, self._project, self._limits = server, project, limits
        self._launch = launch or start
        self._connection = Connection()
        self._failures = 0

    async def keep(self) -> None:
        """Connect whenever a caller waits; runs until cancelled."""
        while True:
            connection = self._connection
            await connection.requested.wait()
            await anyio.sleep(self._limits.backoff(self._failures))
            connection.problem = await self._serve(connection)
            connection.settled.set()
            self._connection = Connection()
            self._failures += 1
            self.listing_is_current = False
            connection.session = None
            connection.started.set()
            # Errors and their frames reference each other, and through them megabytes that a hostile server
            # sent.
            gc.collect()

    async def _serve(self, connection: Connection) -> RecollectError:
        """Serve one connection until it ends; returns why."""
        greeting = anyio.CancelScope(deadline=anyio.current_time() + self._limits.start_seconds)
        try:
            # One scope around all of it, with its deadline removed later: connecting opens scopes that
            # outlive it.
            with greeting:
                async with self._connected(connection) as session:
                    greeting.deadline = math.inf
                    connection.session = session
                    connection.started.set()
                    await connection.ended.wait()
            if greeting.cancelled_caught:
                connection.note("it did not greet in time")
        except Exception as cause:  # noqa: BLE001 - any failure of a server is reported as its own
            connection.note(_said(cause))
            known = _first(cause)
            if isinstance(known, RecollectError):
                return known
        return self._failed(connection.why)

    @asynccontextmanager
    async def _connected(self, connection: Connection) -> AsyncIterator[ClientSession]:
        """An initialised session that offers the server nothing: no sampling, no elicitation, no roots. Its program
        has ended when this exits."""

        async def heard(message: object) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                self.listing_is_current = False

        info = types.Implementation(name="recollect", version=__version__)
        async with (
            self._streams(connection) as streams,
            ClientSession(*streams, message_handler=heard, client_info=info) as session,
        ):
            await session.initialize()
            yield session

    @asynccontextmanager
    async def _streams(self, connection: Connection) -> AsyncIterator[TransportStreams]:
        known, limits = self._server, self._limits
        if known.config.kind is ServerTransport.STDIO:
            async with (
                self._running(connection) as program,
                pipe_streams(program.stdin.fileno(), program.stdout.fileno(), limits, connection) as streams,
            ):
                yield streams
            return
        private = known.written.origin is not ServerOrigin.PROJECT or known.grants.private_address
        async with (
            web_streams(known.config, limits, connection, private_allowed=private) as raw,
            limit_messages(raw, limits, connection) as streams,
        ):
            yield streams

    @asynccontextmanager
    async def _running(self, connection: Connection) -> AsyncIterator[RunningProcess]:
        # Shielded: a cancellation between the start and the ``try`` would leave the program running.
        with anyio.CancelScope(shield=True):
            program = await anyio.to_thread.run_sync(self._launch, self._server, self._project, self._limits)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_watch, program, connection)
                yield program
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _stopped(program, self._limits.stop_seconds)
            lines = plain(program.stderr.decode("utf-8", "replace"), 20_000).strip().splitlines()
            if lines and connection.why:
                # The line that explains the failure is rarely the last one.
                telling = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1])
                connection.why += f"; on stderr it said: {telling.strip()[:300]}"

    async def session(self) -> ClientSession:
        """The initialised session; waits for a start, and raises the reason when there is none."""
        connection = self._connection
        if connection.session is not None and not connection.ended.is_set():
            return connection.session
        if connection.session is not None:
            # It ended, and its task has not noticed yet.
            while self._connection is connection:
                await anyio.sleep(0.005)
            connection = self._connection
        if self._failures > self._limits.restarts:
            raise self._failed(f"it failed {self._failures} times and is not started again")
        connection.requested.set()
        await connection.started.wait()
        if connection.session is None:
            raise connection.problem or self._failed("it ended")
        return connection.session

    async def list_tools(self) -> list[types.Tool]:
        """All pages of its tools, within the limits."""
        limits, found = self._limits, list[types.Tool]()
        cursor: str | None = None
        for _ in range(limits.pages):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            request = types.ListToolsRequest(params=params)
            page = await self._answer(request, types.ListToolsResult, limits.list_seconds)
            found += page.tools
            if len(found) > limits.tools:
                raise self._failed(f"it has more than {limits.tools:,} tools")
            cursor = page.next_cursor
            if not cursor:
                return found
        raise self._failed(f"its list of tools has more than {limits.pages} pages")

    async def call(self, tool: str, arguments: Mapping[str, object], seconds: float) -> CallResult:
        """Call one tool. The SDK's check against the server's schema is skipped: its patterns may be
        hostile."""
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        result = await self._answer(types.CallToolRequest(params=params), types.CallToolResult, seconds)
        blocks = [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content]
        name = full_name(self.name, tool)
        return call_result(name, blocks, result.structured_content, bool(result.is_error), self._limits)

    async def _answer(self, request: Any, kind: type[Any], seconds: float) -> Any:
        """The answer to a request, or ``ServerFailed``. Any keeps the SDK's types out of our signatures."""
        session, fault = await self.session(), self._connection
        try:
            answer = await session.send_request(request, kind, request_read_timeout_seconds=seconds)
        except MCPError as problem:
            raise await self._from_protocol(problem, fault, seconds) from problem
        except (ValidationError, RecursionError) as problem:
            raise self._failed("its answer does not follow the protocol") from problem
        self._failures = 0
        return answer

    async def _from_protocol(self, problem: Any, fault: Connection, seconds: float) -> ServerFailed:
        if problem.code == REQUEST_TIMEOUT:
            return self._failed(f"it did not answer within {seconds:g} s")
        # Servers use this code for their own errors too, so the SDK's message must match as well.
        closed = problem.code == CONNECTION_CLOSED and problem.message == "Connection closed"
        if closed or fault.ended.is_set():
            with anyio.move_on_after(self._limits.stop_seconds + 1):
                await fault.settled.wait()
            return self._failed(fault.why or "it closed the connection")
        if problem.message == "Session terminated":
            fault.note("it ended the session")
        self._failures = 0
        return self._failed(f"it answered with an error: {plain(problem.message, 2_000)}")

    def _failed(self, why: str) -> ServerFailed:
        return ServerFailed(self.name, why or "it ended")


async def _watch(program: RunningProcess, fault: Connection) -> None:
    """Check limits that the kernel does not enforce."""
    while True:
        await anyio.sleep(_WATCH_SECONDS)
        limit = await anyio.to_thread.run_sync(program.why_end)
        if limit is not None:
            fault.note(f"it exceeded its {limit} limit")
            return


async def _stopped(program: RunningProcess, seconds: float) -> None:
    """As the protocol requires: close its input, wait a moment, then end it and its children."""
    with contextlib.suppress(OSError):
        program.stdin.close()
    deadline = anyio.current_time() + seconds
    while program.poll() is None and anyio.current_time() < deadline:
        await anyio.sleep(0.01)
    await anyio.to_thread.run_sync(program.kill)
    program.stdout.close()


def _first(problem: BaseException) -> BaseException:
    """The one error inside nested groups of one, else the group's first."""
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    return problem


def _said(problem: Exception) -> str:
    cause = _first(problem)
    if isinstance(cause, AddressRefused | RecollectError):
        return str(cause)
    if isinstance(cause, BrokenFrame):
        return f"it sent {cause}"
    if type(cause).__name__ == "ValidationError":
        return "its greeting does not follow the protocol"
    if isinstance(cause, TimeoutError):
        return "it did not greet in time"
    if isinstance(cause, OSError):
        return f"it could not be reached: {cause.strerror or type(cause).__name__}"
    return f"it failed: {plain(str(cause), 300) or type(cause).__name__}"
