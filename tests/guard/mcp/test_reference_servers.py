"""The public reference servers, as npm has them: RECOLLECT_MCP_SERVERS names where they were fetched to.

``tools/fetch_mcp_servers.sh DIRECTORY`` fetches them; without it these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.guard.mcp import Host
from tests.guard.mcp.project import Project


@pytest.fixture(scope="module")
def servers() -> Path:
    """The directory of the packages."""
    place = os.environ.get("RECOLLECT_MCP_SERVERS")
    packages = Path(place or "/nonexistent") / "node_modules" / "@modelcontextprotocol"
    if not packages.is_dir() or shutil.which("node") is None:
        pytest.skip(
            "RECOLLECT_MCP_SERVERS names no fetched servers (tools/fetch_mcp_servers.sh), or node is missing"
        )
    return packages


def node(servers: Path, package: str, *arguments: str) -> dict[str, object]:
    """The entry of a package."""
    program = shutil.which("node") or "node"
    return {"command": program, "args": [str(servers / package / "dist" / "index.js"), *arguments]}


def trusted(project: Project, servers: Path) -> Project:
    """Trusted, and shown its own package: the sandbox has a /tmp of its own, which is where tests often fetch to."""
    return project.trust(write=(str(project.root), str(servers.parent.parent)))


async def sum_and_echo(host: Host) -> tuple[set[str], str, str]:
    """The names of its tools, and what two of them answer."""
    listing = await host.tools()
    echo = await host.call("mcp__one__echo", {"message": "hello"})
    total = await host.call("mcp__one__get-sum", {"a": 19, "b": 23})
    return {tool.tool for tool in listing.tools}, echo.text, total.text


def test_everything_over_stdio(tmp_path: Path, servers: Path) -> None:
    """In the sandbox; its tools are listed and called."""
    project = trusted(Project(tmp_path, one=node(servers, "server-everything")), servers)
    names, echo, total = project.ask(sum_and_echo)

    assert {"echo", "get-sum", "get-tiny-image"} <= names
    assert ("Echo: hello", True) == (echo, "42" in total)


def test_everything_sends_an_image_and_progress(tmp_path: Path, servers: Path) -> None:
    """An image stays an image, a long call with progress ends as it should."""
    project = trusted(Project(tmp_path, one=node(servers, "server-everything")), servers)

    async def ask(host: Host) -> tuple[list[object], str]:
        image = await host.call("mcp__one__get-tiny-image", {})
        long = await host.call("mcp__one__trigger-long-running-operation", {"duration": 1, "steps": 5})
        return [block["type"] for block in image.content], long.text

    kinds, text = project.ask(ask)

    assert "image" in kinds
    assert "completed" in text


@pytest.fixture(params=["streamableHttp", "sse"])
def everything_at(request: pytest.FixtureRequest, servers: Path) -> Iterator[tuple[str, str]]:
    """The same server behind a port, by both transports."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        shutil.which("node") or "node",
        str(servers / "server-everything" / "dist" / "index.js"),
        request.param,
    ]
    process = subprocess.Popen(
        command, env={**os.environ, "PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        is_sse = request.param == "sse"
        yield ("sse" if is_sse else "http", f"http://127.0.0.1:{port}/{'sse' if is_sse else 'mcp'}")
    finally:
        process.kill()
        process.wait()


def test_everything_over_the_network(tmp_path: Path, everything_at: tuple[str, str]) -> None:
    """Streamable HTTP and SSE give the same answers as stdio."""
    kind, url = everything_at
    project = Project(tmp_path, one={"type": kind, "url": url}).trust(private_address=True)
    names, echo, total = project.ask(sum_and_echo)

    assert ({"echo", "get-sum"} <= names, "Echo: hello", True) == (True, echo, "42" in total)


def test_filesystem_reads_and_writes_only_what_it_was_given(tmp_path: Path, servers: Path) -> None:
    """Its own list of directories is the program's promise; the sandbox holds where that would not."""
    project = Project(tmp_path)
    project.write(one=node(servers, "server-filesystem", str(tmp_path)))
    trusted(project, servers)
    (project.root / "a.txt").write_text("content of a")
    outside = tmp_path / "outside.txt"

    async def ask(host: Host) -> tuple[str, bool]:
        read = await host.call("mcp__one__read_text_file", {"path": str(project.root / "a.txt")})
        arguments = {"path": str(project.root / "b.txt"), "content": "b"}
        inside = await host.call("mcp__one__write_file", arguments)
        # Refused, or (below /tmp) written into the /tmp of the sandbox, which is gone with it.
        await host.call("mcp__one__write_file", {"path": str(outside), "content": "x"})
        return read.text, inside.is_error

    assert ("content of a", False) == project.ask(ask)
    assert ("b", False) == ((project.root / "b.txt").read_text(), outside.exists())
