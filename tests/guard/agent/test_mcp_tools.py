"""Tools of MCP servers in the cycle: decided, called, and written down as the client writes them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recollect.guard import sandbox as execution
from recollect.guard.agent import ToolRunner
from recollect.guard.agent.calls import PermissionGate
from recollect.guard.agent.model import McpTools
from recollect.guard.mcp import servers as mcp_servers
from recollect.store.trust import ServerGrants
from recollect.system.locations import HomeRoot
from tests.guard.agent.workshop import Workshop, call
from tests.guard.mcp import echo_server
from tests.guard.mcp.project import processes_with


class Servers(Workshop):
    """A workshop whose project has the smallest server."""

    def __init__(
        self, place: Path, *, trusted: bool = True, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()
    ):
        super().__init__(place, allow=allow, deny=deny)
        entry = {"command": sys.executable, "args": ["-I", echo_server.__file__]}
        (self.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": entry}}))
        self.roots = [HomeRoot(self.home.root, place / "claude.json", "test", exists=True)]
        if trusted:
            self.trust()

    def trust(self) -> None:
        import datetime as dt

        known = mcp_servers.project_servers(self.project, self.roots, data=self.data)
        grants = ServerGrants(unconfined=execution.unavailable() is not None)
        for server in known.servers:
            mcp_servers.trust(known, server, grants, dt.datetime(2026, 1, 31, tzinfo=dt.UTC))

    @contextmanager
    def opened(self) -> Iterator[tuple[ToolRunner, McpTools]]:
        gate = PermissionGate(self.permit)
        with McpTools(self.project, gate, homes=self.roots, data=self.data) as mcp:
            yield self.runner(mcp=mcp, gate=gate), mcp


def test_a_call_is_answered_with_the_structured_content(tmp_path: Path) -> None:
    """That JSON stands in the block, and beside it under ``mcpMeta``, as the client stores it."""
    workshop = Servers(tmp_path, allow=("mcp__demo",))
    with workshop.opened() as (runner, _):
        ran = runner.run(call("mcp__demo__echo", {"text": "ping"}))

    line = workshop.last()
    assert ('{"echoed":true}', '{"echoed":true}') == (ran.block["content"], line["toolUseResult"])
    assert {"structuredContent": {"echoed": True}} == line["mcpMeta"]


def test_a_failing_tool_is_an_error(tmp_path: Path) -> None:
    """The server's words, as the client words them."""
    workshop = Servers(tmp_path, allow=("mcp__demo",))
    with workshop.opened() as (runner, _):
        ran = runner.run(call("mcp__demo__fail", {}))

    assert ("it failed", True) == (ran.block["content"], ran.block["is_error"])
    assert "Error: it failed" == workshop.last()["toolUseResult"]


def test_what_no_rule_allows_is_not_called(tmp_path: Path) -> None:
    """Ask is a no, and no server is started for it."""
    workshop = Servers(tmp_path)
    with workshop.opened() as (runner, _):
        ran = runner.run(call("mcp__demo__echo", {"text": "ping"}))

        started = processes_with(str(workshop.project))
    assert ("Claude requested permissions to use mcp__demo__echo, but you haven't granted it yet.", []) == (
        ran.block["content"],
        started,
    )


def test_a_yes_is_passed_on_to_the_host(tmp_path: Path) -> None:
    """For this very call; the next one is asked about again."""
    workshop = Servers(tmp_path)
    gate = PermissionGate(workshop.permit)
    answers = iter([True, False])
    with McpTools(workshop.project, gate, homes=workshop.roots, data=workshop.data) as mcp:
        runner = workshop.runner(mcp=mcp, gate=gate, ask=lambda *_: next(answers))

        ran = [runner.run(call("mcp__demo__echo", {"text": "ping"})).outcome.is_error for _ in range(2)]
    assert [False, True] == ran


def test_a_denied_tool_is_not_offered(tmp_path: Path) -> None:
    """The others of its server are."""
    workshop = Servers(tmp_path, allow=("mcp__demo",), deny=("mcp__demo__fail",))
    with workshop.opened() as (_, mcp):
        names = [tool.name for tool in mcp.offered()]

    assert ("mcp__demo__echo" in names, "mcp__demo__fail" in names) == (True, False)


def test_an_untrusted_server_is_not_started(tmp_path: Path) -> None:
    """No tools, one sentence why, and a call says so too."""
    workshop = Servers(tmp_path, trusted=False, allow=("mcp__demo",))
    with workshop.opened() as (runner, mcp):
        listing = mcp.listing()
        ran = runner.run(call("mcp__demo__echo", {"text": "ping"}))

    assert ((), ["demo"]) == (listing.tools, [problem.server for problem in listing.problems])
    assert ran.outcome.is_error


def test_a_stop_ends_a_call_that_is_out(tmp_path: Path) -> None:
    """The call is written down as rejected, and leaving ends the server."""
    workshop = Servers(tmp_path, allow=("mcp__demo",))
    stop = threading.Event()
    gate = PermissionGate(workshop.permit)
    with McpTools(workshop.project, gate, homes=workshop.roots, data=workshop.data) as mcp:
        runner = workshop.runner(mcp=mcp, gate=gate, cancelled=stop)
        mcp.listing()
        stop.set()
        ran = runner.run(call("mcp__demo__echo", {"text": "ping"}))

    assert (True, []) == (ran.outcome.interrupted, processes_with(str(workshop.project)))
