"""The project's MCP servers for synchronous code: one event loop in a thread.

A server starts when its tools are first requested, and only if it is trusted. The host decides every
call again; a person's approval is passed on for that call only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from recollect.errors import RecollectError
from recollect.policy.decision import Decision
from recollect.runtime.gate import PermissionGate
from recollect.runtime.outcome import ApprovedCall, ToolFailed, ToolOutcome
from recollect.system.locations import HomeRoot

if TYPE_CHECKING:
    from concurrent.futures import Future

    from anyio.from_thread import BlockingPortal

    from recollect.mcp import CallResult, Host, McpLimits, Tool, ToolListing


class McpTools:
    """MCP servers behind synchronous calls. A context manager: leaving ends every server."""

    def __init__(
        self,
        project: Path,
        gate: PermissionGate,
        *,
        homes: Sequence[HomeRoot],
        data: Path | None = None,
        limits: McpLimits | None = None,
    ) -> None:
        from recollect.mcp import Host

        self._gate = gate
        self._approved: set[str] = set()
        self._host: Host = Host(
            project, homes=homes, data=data, engine=self, approve=self._was_approved, limits=limits
        )
        self._open = ExitStack()
        self._portal: BlockingPortal | None = None

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision:
        """For the host: the same decision the runner made."""
        return self._gate.decide(tool, arguments, self._gate.root)

    async def _was_approved(self, name: str, arguments: Mapping[str, object], decision: Decision) -> bool:
        return decision.bound_to in self._approved

    def __enter__(self) -> Self:
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as opening:
            self._portal = opening.enter_context(start_blocking_portal())
            opening.enter_context(self._portal.wrap_async_context_manager(self._host))
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal = None
        self._open.close()

    def listing(self) -> ToolListing:
        """The tools of every trusted server, and why others are missing."""
        return self._loop().call(self._host.tools)

    def offered(self) -> list[Tool]:
        """The tools that a model is offered."""
        return [tool for tool in self.listing().tools if self._gate.offers(tool.name)]

    def call(self, call: ApprovedCall, decision: Decision, cancelled: threading.Event) -> ToolOutcome:
        """Make an allowed call and wait for it; cancelled calls are also cancelled at the server."""
        call.require_still_allowed()
        self._approved.add(decision.bound_to)
        future: Future[CallResult] = self._loop().start_task_soon(
            self._host.call, call.tool, dict(call.arguments)
        )
        try:
            result = _waited_for(future, cancelled)
        except RecollectError as problem:
            raise ToolFailed(problem.message) from problem
        finally:
            self._approved.discard(decision.bound_to)
        return _outcome(result)

    def _loop(self) -> BlockingPortal:
        if self._portal is None:
            raise ToolFailed("The MCP servers of this project are not open.")
        return self._portal


class Stopped(Exception):
    """The run was cancelled during a call."""


def _waited_for(future: Future[CallResult], cancelled: threading.Event) -> CallResult:
    import concurrent.futures

    while True:
        try:
            return future.result(timeout=0.05)
        except concurrent.futures.TimeoutError:
            if future.done():
                raise
            if cancelled.is_set():
                future.cancel()
                raise Stopped from None


def _outcome(result: CallResult) -> ToolOutcome:
    """As the client stores it: structured content instead of the text, a single text as itself."""
    if result.is_error:
        text = result.text or "The server reported an error."
        return ToolOutcome(text, f"Error: {text}", True)
    if result.structured is not None:
        text = json.dumps(result.structured, separators=(",", ":"), ensure_ascii=False)
        return ToolOutcome(text, text, marks={"mcpMeta": {"structuredContent": result.structured}})
    blocks = [_block(one) for one in result.content]
    return ToolOutcome(blocks or "", blocks or "")


def _block(block: Mapping[str, object]) -> dict[str, Any]:
    """A block the Messages API accepts; other kinds become text."""
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    data, kind = block.get("data"), block.get("mimeType")
    if block.get("type") == "image" and isinstance(data, str) and isinstance(kind, str):
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
    return {"type": "text", "text": json.dumps(block, ensure_ascii=False)}
