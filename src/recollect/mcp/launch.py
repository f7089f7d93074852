"""The one place where a server's program is started: through ``execution``, in its sandbox, never another way.

A clean environment with the variables of the entry, the project as the working directory, nothing writable and no
network but what the user granted when he trusted the entry. stderr is kept, bounded, for messages.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from recollect.mcp.limits import McpLimits
from recollect.services.settings.mcp_servers import KnownServer

if TYPE_CHECKING:
    from recollect.execution import RunningProcess


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """What to start, and where."""

    server: KnownServer
    project: Path
    limits: McpLimits


class RawFile(Protocol):
    """An unbuffered end of a pipe."""

    def fileno(self) -> int:
        """The descriptor."""

    def write(self, data: bytes, /) -> int | None:
        """Write what fits; None when nothing does."""

    def close(self) -> None:
        """Let the other end see the end."""


class ServerProgram:
    """A running server program: its pipes, what it said on stderr, and its end."""

    def __init__(self, running: RunningProcess) -> None:
        self._running = running
        stdin = running.stdin
        self.stdin: RawFile = stdin.raw if isinstance(stdin, io.BufferedWriter) else stdin
        self.stdout = running.stdout.fileno()

    def has_ended(self) -> bool:
        """Whether the program itself is gone; what it started may still be there."""
        return self._running.poll() is not None

    def beyond(self) -> str | None:
        """Which of its limits it is beyond (``memory``, ``disk``), or None."""
        return self._running.why_end()

    def said(self) -> str:
        """What it said on stderr, as far as it was kept."""
        return self._running.stderr.decode("utf-8", "replace")

    def end(self) -> None:
        """End it and everything it started; returns when nothing of it is alive. Can be called again."""
        self._running.kill()
        self._running.stdout.close()


def start(order: ProgramSpec) -> ServerProgram:
    """Start the program of a trusted entry. The caller has checked that it is trusted."""
    from recollect import execution

    config, grants = order.server.config, order.server.grants
    confinement = execution.Confinement(
        write=tuple(Path(one) for one in grants.write),
        allow_hosts=grants.allow_hosts,
        backend="unconfined" if grants.unconfined else "auto",
    )
    limits = execution.RunLimits(
        seconds=None, memory_bytes=order.limits.memory_bytes, output_bytes=order.limits.stderr_bytes
    )
    running = execution.start(
        [config.command, *config.args],
        cwd=order.project,
        confinement=confinement,
        limits=limits,
        environment=dict(config.env),
    )
    return ServerProgram(running)
