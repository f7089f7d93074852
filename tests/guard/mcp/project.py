"""A project with MCP servers for tests: its ``.mcp.json``, its trust, and a host over the real sandbox."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import anyio

from recollect.guard import sandbox as execution
from recollect.guard.mcp import Host, McpLimits
from recollect.guard.mcp import servers as mcp_servers
from recollect.model.settings.decision import Decision, Verdict
from recollect.store.trust import ServerGrants
from recollect.system.locations import HomeRoot

Answer = TypeVar("Answer")
HOSTILE = Path(__file__).with_name("hostile_server.py")
# Small enough that what never comes is given up soon, large enough for a busy machine. Only the burst bounds messages:
# whether a flood comes faster than a rate depends on the machine.
LIMITS = McpLimits(
    start_seconds=120,
    call_seconds=120,
    list_seconds=120,
    stop_seconds=0.2,
    backoff_seconds=0.02,
    messages_per_second=1e-6,
)


class Rules:
    """A stand-in for the permission engine that says one thing to every call, and remembers the calls."""

    def __init__(self, verdict: Verdict = Verdict.ALLOW) -> None:
        self.verdict = verdict
        self.asked: list[tuple[str, Mapping[str, object]]] = []

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision:
        self.asked.append((tool, arguments))
        return Decision(self.verdict, "Rule(x)", None, "because of the test")


def hostile(behaviour: str, *more: str) -> dict[str, Any]:
    """The entry of a server that behaves so."""
    return {"command": sys.executable, "args": ["-I", "-S", str(HOSTILE), behaviour, *more]}


class Project:
    """A directory with an ``.mcp.json``; nothing in it is trusted before ``trust``."""

    def __init__(self, root: Path, **servers: dict[str, Any]) -> None:
        self.root = root / "project"
        self.data = root / "data"
        self.state = self.root / "state"
        self.config = root / "claude.json"
        self.root.mkdir()
        self.write(**servers)

    @property
    def homes(self) -> list[HomeRoot]:
        """One home, whose config file may be there."""
        return [HomeRoot(self.config.parent / "home", self.config, "test", exists=True)]

    def write(self, **servers: dict[str, Any]) -> None:
        """Write ``.mcp.json`` anew."""
        (self.root / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def known(self) -> mcp_servers.ProjectServers:
        """The servers as they stand now."""
        return mcp_servers.project_servers(self.root, self.homes, data=self.data)

    def trust(self, **grants: Any) -> Project:
        """Trust every server as it is written now."""
        confined = execution.unavailable() is None
        given = ServerGrants(**{"write": (str(self.root),), "unconfined": not confined, **grants})
        project = self.known()
        for server in project.servers:
            mcp_servers.trust(project, server, given, dt.datetime(2026, 1, 31, tzinfo=dt.UTC))
        return self

    def host(self, **options: Any) -> Host:
        """A host that allows every call, unless an engine is given."""
        settings = {"engine": Rules(), "limits": LIMITS, **options}
        return Host(self.root, homes=self.homes, data=self.data, **settings)

    def ask(self, question: Callable[[Host], Awaitable[Answer]], **options: Any) -> Answer:
        """Open a host, ask it something, close it."""

        async def asked() -> Answer:
            async with self.host(**options) as host:
                return await question(host)

        return anyio.run(asked)


def processes_with(word: str) -> list[int]:
    """Processes of this machine whose command line contains the word."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = Path(entry.path, "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in line:
                found.append(int(entry.name))
    return found
