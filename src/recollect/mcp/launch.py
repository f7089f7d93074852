"""The only place that starts a server's program: through ``execution``, in its sandbox.

The program gets a clean environment with the entry's variables and the project as its working
directory. It can write nothing and has no network, except what the user granted when trusting the
entry. A bounded part of stderr is kept for messages.
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

    def fileno(self) -> int: ...

    def write(self, data: bytes, /) -> int | None:
        """Write what fits; None when nothing does."""

    def close(self) -> None: ...


class ServerProgram:
    """A running server program: its pipes, its stderr, and its end."""

    def __init__(self, running: RunningProcess) -> None:
        self._running = running
        stdin = running.stdin
        self.stdin: RawFile = stdin.raw if isinstance(stdin, io.BufferedWriter) else stdin
        self.stdout = running.stdout.fileno()

    def has_ended(self) -> bool:
        """Whether the program itself has ended; processes it started may still run."""
        return self._running.poll() is not None

    def beyond(self) -> str | None:
        """The limit it exceeds (``memory``, ``disk``), or None."""
        return self._running.why_end()

    def said(self) -> str:
        """Its stderr, as far as it was kept."""
        return self._running.stderr.decode("utf-8", "replace")

    def end(self) -> None:
        """End it and everything it started; returns when none is alive. May be called again."""
        self._running.kill()
        self._running.stdout.close()


def start(order: ProgramSpec) -> ServerProgram:
    """Start the program of an entry. The caller has checked that it is trusted."""
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
