"""The life of one server: started when needed, restarted with growing pauses, given up in the end.

The ``keep`` task owns the connection; callers only wait for it. A failure inside becomes the message of
a ``ServerFailed``; other servers and the host continue.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from recollect.errors import RecollectError, ServerFailed
from recollect.mcp.addresses import AddressRefused
from recollect.mcp.connection import Launch, connected
from recollect.mcp.fault import ConnectionFault
from recollect.mcp.framing import BrokenFrame
from recollect.mcp.launch import ProgramSpec
from recollect.mcp.plain import plain
from recollect.mcp.result import CallResult, call_result
from recollect.mcp.tools import ToolDescription, full_name

if TYPE_CHECKING:
    from mcp import ClientSession


class _ConnectionAttempt:
    """One attempt to connect, which several callers may await."""

    def __init__(self) -> None:
        self.settled = anyio.Event()
        self.session: ClientSession | None = None
        self.problem: RecollectError | None = None

    def settle(self, session: ClientSession | None, problem: RecollectError | None = None) -> None:
        """Give the waiting callers the result."""
        self.session, self.problem = session, problem
        self.settled.set()


class McpServer:
    """A server that may be started; create it inside a running event loop."""

    def __init__(self, order: ProgramSpec, launch: Launch) -> None:
        self.order = order
        self.name = order.server.name
        self.listing_is_current = False
        self._launch = launch
        self._requested = anyio.Event()
        self._attempt = _ConnectionAttempt()
        self._fault = ConnectionFault()
        self._failures = 0

    async def keep(self) -> None:
        """Connect whenever a caller waits; runs until cancelled."""
        while True:
            await self._requested.wait()
            await anyio.sleep(self.order.limits.backoff(self._failures))
            attempt, self._fault = self._attempt, ConnectionFault()
            problem = await self._connection(attempt)
            self._fault.settled.set()
            self._requested, self._attempt = anyio.Event(), _ConnectionAttempt()
            self._failures += 1
            self.listing_is_current = False
            attempt.settle(None, problem)
            # Errors and their frames reference each other, and through them megabytes that a hostile server
            # sent.
            gc.collect()

    async def _connection(self, attempt: _ConnectionAttempt) -> RecollectError:
        """Serve one connection until it ends; returns why."""
        fault = self._fault
        greeting = anyio.CancelScope(deadline=anyio.current_time() + self.order.limits.start_seconds)
        try:
            # One scope around all of it, with its deadline removed later: connecting opens scopes that
            # outlive it.
            with greeting:
                async with connected(self.order, self._launch, fault, self._tools_changed) as session:
                    greeting.deadline = math.inf
                    attempt.settle(session)
                    await fault.ended.wait()
            if greeting.cancelled_caught:
                fault.note("it did not greet in time")
        except Exception as cause:  # noqa: BLE001 - any failure of a server is reported as its own
            fault.note(_said(cause))
            known = _first(cause)
            if isinstance(known, RecollectError):
                return known
        return self._failed(fault.why)

    def _tools_changed(self) -> None:
        self.listing_is_current = False

    async def session(self) -> ClientSession:
        """The initialised session; waits for a start, and raises the reason when there is none."""
        if self._attempt.session is not None and not self._fault.ended.is_set():
            return self._attempt.session
        if self._attempt.session is not None:
            # It ended, and its task has not noticed yet.
            attempt = self._attempt
            while self._attempt is attempt:
                await anyio.sleep(0.005)
        if self._failures > self.order.limits.restarts:
            raise self._failed(f"it failed {self._failures} times and is not started again")
        attempt = self._attempt
        self._requested.set()
        await attempt.settled.wait()
        if attempt.session is None:
            raise attempt.problem or self._failed("it ended")
        return attempt.session

    async def list_tools(self) -> list[ToolDescription]:
        """All pages of its tools, within the limits."""
        import mcp_types as types

        limits, found = self.order.limits, list[ToolDescription]()
        cursor: str | None = None
        for _ in range(limits.pages):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            request = types.ListToolsRequest(params=params)
            page = await self._answer(request, types.ListToolsResult, limits.list_seconds)
            found += [_described(tool) for tool in page.tools]
            if len(found) > limits.tools:
                raise self._failed(f"it has more than {limits.tools:,} tools")
            cursor = page.next_cursor
            if not cursor:
                return found
        raise self._failed(f"its list of tools has more than {limits.pages} pages")

    async def call(self, tool: str, arguments: Mapping[str, object], seconds: float) -> CallResult:
        """Call one tool. The SDK's check against the server's schema is skipped: its patterns may be
        hostile."""
        import mcp_types as types

        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        result = await self._answer(types.CallToolRequest(params=params), types.CallToolResult, seconds)
        blocks = [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content]
        name = full_name(self.name, tool)
        return call_result(name, blocks, result.structured_content, bool(result.is_error), self.order.limits)

    async def _answer(self, request: Any, kind: type[Any], seconds: float) -> Any:
        """The answer to a request, or ``ServerFailed``. Any keeps the SDK's types out of our signatures."""
        from mcp import MCPError
        from pydantic import ValidationError

        session, fault = await self.session(), self._fault
        try:
            answer = await session.send_request(request, kind, request_read_timeout_seconds=seconds)
        except MCPError as problem:
            raise await self._from_protocol(problem, fault, seconds) from problem
        except (ValidationError, RecursionError) as problem:
            raise self._failed("its answer does not follow the protocol") from problem
        self._failures = 0
        return answer

    async def _from_protocol(self, problem: Any, fault: ConnectionFault, seconds: float) -> ServerFailed:
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        if problem.code == REQUEST_TIMEOUT:
            return self._failed(f"it did not answer within {seconds:g} s")
        # Servers use this code for their own errors too, so the SDK's message must match as well.
        closed = problem.code == CONNECTION_CLOSED and problem.message == "Connection closed"
        if closed or fault.ended.is_set():
            with anyio.move_on_after(self.order.limits.stop_seconds + 1):
                await fault.settled.wait()
            return self._failed(fault.why or "it closed the connection")
        if problem.message == "Session terminated":
            fault.note("it ended the session")
        self._failures = 0
        return self._failed(f"it answered with an error: {plain(problem.message, 2_000)}")

    def _failed(self, why: str) -> ServerFailed:
        return ServerFailed(self.name, why or "it ended")


def _described(tool: Any) -> ToolDescription:
    hints = tool.annotations.model_dump(mode="json", exclude_none=True) if tool.annotations else {}
    return ToolDescription(tool.name, tool.title or "", tool.description or "", tool.input_schema, hints)


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
