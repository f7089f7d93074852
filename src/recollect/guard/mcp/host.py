"""The host: all MCP servers of a project, with a permission decision before every call.

    async with Host(project, engine=engine) as host:
        listing = await host.tools()
        result = await host.call("mcp__github__get_issue", {"number": 7})

Creating or entering a host starts nothing. The first request to a server starts it, and only if it is
``READY`` (content and workspace trusted, not disabled). A call is made only if the engine allows it;
``ask`` is refused unless ``approve`` accepts this call; ``deny`` cannot be approved. Leaving the host
ends every server and everything it started.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import anyio
from anyio.abc import TaskGroup

from recollect.errors import MissingExtra, NotFound, RecollectError, UsageError
from recollect.guard.mcp.limits import (
    CallResult,
    McpLimits,
    RefusedTool,
    ServerProblem,
    ToolListing,
    check_tools,
    refuse_changed,
    split_name,
)
from recollect.guard.mcp.servers import KnownServer, ProjectServers, ServerState, project_servers
from recollect.guard.permissions.engine import permit
from recollect.model.settings.decision import Decision, Verdict
from recollect.store.home import ClaudeHome
from recollect.system.locations import HomeRoot, claude_homes, home_at

if TYPE_CHECKING:
    from recollect.guard.mcp.server import Launch, McpServer


class Decider(Protocol):
    """The permission engine, as far as a host needs it."""

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision: ...


Approve = Callable[[str, Mapping[str, object], Decision], Awaitable[bool]]


class Host:
    """The MCP servers of one project. Use it in one event loop; enter and leave it in one task."""

    def __init__(
        self,
        project: Path | str = ".",
        *,
        homes: Sequence[HomeRoot] | None = None,
        data: Path | None = None,
        engine: Decider | None = None,
        approve: Approve | None = None,
        limits: McpLimits | None = None,
        environ: Mapping[str, str] | None = None,
        launch: Launch | None = None,
    ) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise MissingExtra("the MCP host", "mcp", "mcp")
        roots = list(homes) if homes is not None else claude_homes(environ)
        self.project: ProjectServers = project_servers(Path(project), roots, data=data, environ=environ)
        self.limits = limits or McpLimits()
        self._engine = engine if engine is not None else _engine(self.project.project, roots, environ)
        self._approve = approve
        self._launch = launch
        self._servers: dict[str, McpServer] = {}
        self._accepted: dict[str, ToolListing] = {}
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        tasks, self._tasks = self._tasks, None
        self._servers.clear()
        if tasks is None:
            return None
        tasks.cancel_scope.cancel()
        try:
            return await tasks.__aexit__(kind, problem, trace)
        except BaseExceptionGroup as group:
            if group.exceptions == (problem,):  # an exception from inside is raised as it was, not in a group
                return False
            raise

    @property
    def servers(self) -> tuple[KnownServer, ...]:
        return self.project.servers

    async def tools(self, *names: str) -> ToolListing:
        """The tools of these servers, or of all; the servers are queried concurrently."""
        known = [self.project.named(name) for name in names] if names else list(self.servers)
        found: dict[str, ToolListing] = {}
        problems: dict[str, ServerProblem] = {}

        async def ask(server: KnownServer) -> None:
            try:
                found[server.name] = await self._listed(server)
            except RecollectError as problem:
                problems[server.name] = ServerProblem(server.name, problem.message, problem.hint)

        async with anyio.create_task_group() as tasks:
            for server in known:
                tasks.start_soon(ask, server)
        order = [server.name for server in known]
        listings = [found[name] for name in order if name in found]
        return ToolListing(
            tuple(tool for listing in listings for tool in listing.tools),
            tuple(one for listing in listings for one in listing.refused),
            tuple(problems[name] for name in order if name in problems),
        )

    async def call(
        self, name: str, arguments: Mapping[str, object], *, seconds: float | None = None
    ) -> CallResult:
        """Call ``mcp__server__tool`` after a permission decision, with a timeout in seconds."""
        parts = split_name(name)
        if parts is None:
            raise UsageError(
                f"{ascii(name)[:120]} is not the name of an MCP tool", hint="write mcp__SERVER__TOOL"
            )
        server_name, tool_name = parts
        known = self.project.named(server_name)
        require_ready(known)
        self._require_small(name, arguments)
        await self._require_allowed(name, arguments)
        listing = await self._listed(known)
        if all(tool.tool != tool_name for tool in listing.tools):
            raise _no_such_tool(name, tool_name, listing.refused)
        return await self._server(known).call(tool_name, arguments, seconds or self.limits.call_seconds)

    async def accept_tools(self, name: str) -> ToolListing:
        """Accept the tools of a server as currently described; returns what was accepted."""
        known = self.project.named(name)
        require_ready(known)
        listing = await self._described(known)
        self.project.store.pin(known.hash, _pins(listing))
        self._accepted[name] = listing
        return listing

    async def described(self, name: str) -> ToolListing:
        """The tools of a server as currently described, accepted or not; to show, not to call."""
        known = self.project.named(name)
        require_ready(known)
        listing = await self._described(known)
        self._accepted.pop(name, None)
        return listing

    async def _listed(self, known: KnownServer) -> ToolListing:
        require_ready(known)
        server = self._server(known)
        if server.listing_is_current and known.name in self._accepted:
            return self._accepted[known.name]
        listing = await self._described(known)
        pins = self.project.store.pin(known.hash, _pins(listing), only_first=True)
        self._accepted[known.name] = refuse_changed(listing, pins)
        return self._accepted[known.name]

    async def _described(self, known: KnownServer) -> ToolListing:
        server = self._server(known)
        # Before the request: a change notification that arrives with the answer must not be lost.
        await server.session()
        server.listing_is_current = True
        return check_tools(known.name, await server.list_tools(), self.limits)

    def _server(self, known: KnownServer) -> McpServer:
        from recollect.guard.mcp.server import McpServer

        if self._tasks is None:
            raise UsageError("the MCP host is not open", hint="use it inside `async with Host(...) as host:`")
        if known.name not in self._servers:
            server = McpServer(known, self.project.project, self.limits, self._launch)
            self._servers[known.name] = server
            self._tasks.start_soon(server.keep)
        return self._servers[known.name]

    async def _require_allowed(self, name: str, arguments: Mapping[str, object]) -> None:
        decision = self._engine.decide(name, arguments)
        if decision.verdict is Verdict.ALLOW:
            return
        approve = self._approve if decision.verdict is Verdict.ASK else None
        if approve is not None and await approve(name, arguments, decision):
            return
        rule = f" by {decision.rule}" if decision.rule else ""
        verb = "denied" if decision.verdict is Verdict.DENY else "not allowed without approval"
        raise UsageError(
            f"{name}: {verb}{rule}: {decision.why}",
            hint=f"see `recollect rules check --explain '{name}'`; nothing was sent to the server",
        )

    def _require_small(self, name: str, arguments: Mapping[str, object]) -> None:
        try:
            size = len(json.dumps(arguments, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as cause:
            raise UsageError(f"{name}: the arguments are not JSON", hint="pass a JSON object") from cause
        if size > self.limits.argument_bytes:
            raise UsageError(
                f"{name}: the arguments have {size:,} bytes", hint=f"at most {self.limits.argument_bytes:,}"
            )


def _pins(listing: ToolListing) -> dict[str, str]:
    return {tool.tool: tool.fingerprint for tool in listing.tools}


def require_ready(known: KnownServer) -> None:
    """Raise unless the server may be started, with the step that would allow it."""
    if known.state is ServerState.READY:
        return
    hints = {
        ServerState.UNTRUSTED: f"look at it and trust it with `recollect mcp trust {known.name}`",
        ServerState.WORKSPACE_UNTRUSTED: f"look at it and trust it here with `recollect mcp trust {known.name}`",
        ServerState.DISABLED: "take it off that list to use it",
        ServerState.INCOMPLETE: "set the variables, or give them a default as ${NAME:-default}",
    }
    raise UsageError(f"MCP server {known.name} is not started: {known.why}", hint=hints[known.state])


def _no_such_tool(name: str, tool_name: str, refused: Sequence[RefusedTool]) -> RecollectError:
    for one in refused:
        if one.name == tool_name:
            again = f"; accept it with `recollect mcp trust {one.server} --tools`" if one.changed else ""
            return UsageError(f"{name} is refused: {one.why}", hint=f"nothing was sent{again}")
    return NotFound(f"{ascii(name)[:160]}: the server has no such tool", hint="see `recollect mcp tools`")


class _StrictestDecider:
    """Several engines as one, for a machine with several homes: the strictest decision wins."""

    def __init__(self, engines: Sequence[Decider]) -> None:
        self._engines = engines

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision:
        decisions = [engine.decide(tool, arguments) for engine in self._engines]
        return max(decisions, key=lambda decision: decision.verdict.strictness)


def _engine(project: Path, homes: Sequence[HomeRoot], environ: Mapping[str, str] | None) -> Decider:
    """The permission rules of the project; the default home is used when there is none."""

    roots = homes or [home_at("~/.claude", environ)]
    return _StrictestDecider([permit(ClaudeHome(root.path, root.config_file), project) for root in roots])
