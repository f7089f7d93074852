"""What a run is promised and what it gives back: limits, confinement, result.

Values only. Everything is immutable, so that what was decided about a run is what
runs (E07): nothing a command says can reach these and loosen them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Backend = Literal["auto", "bubblewrap", "landlock", "unconfined"]
Chosen = Literal["bubblewrap", "landlock", "unconfined"]

MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What a run may use up. ``seconds=None`` is for servers that live as long as their host."""

    seconds: float | None = 120
    memory_bytes: int = 2 * GIB
    """Of all processes together: by cgroup where one can be made, else by watching and killing; and of
    each process alone by RLIMIT_DATA (address space that is only reserved is not counted: V8 and Go
    reserve far more than they use)."""
    output_bytes: int = MIB
    """Kept of each stream; the rest is read and dropped, and the result says ``truncated``."""
    file_bytes: int = GIB
    """The largest file it may write, and the size of its private /tmp."""
    processes: int = 512
    """Threads count too, as the kernel counts them."""
    open_files: int = 1024
    keep_free_bytes: int = 512 * MIB
    """Where the disk of a writable directory has less left than this, the run is ended."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a run may reach. Reads are open except ``hidden``, writes and hosts closed except those named."""

    write: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] | None = None
    """Files and directories it cannot read; None means the places where keys are kept."""
    allow_hosts: tuple[str, ...] = ()
    """``example.org``, ``*.example.org``, ``example.org:8443``; ports 80 and 443 unless one is named."""
    backend: Backend = "auto"
    protect: bool = True
    """Keep the names others execute (``.git/hooks``, ``.mcp.json``) as they are inside writable trees."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run printed and how it ended. Output that was there before an interruption is kept."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    """128 + n after signal n, as shells say it; None when we ended it."""
    interrupted: bool
    truncated: bool
    sandbox: Chosen
    timed_out: bool = False
    ended_by: str | None = None
    """Why we ended it: ``time``, ``cancelled``, ``memory``, ``disk``; None when it ended by itself."""
    seconds: float = 0.0
    put_back: tuple[str, ...] = ()
    """Protected names it had changed, which stand again as they stood."""
    not_held: tuple[str, ...] = field(default=())
    """What this back end, on this machine and for this user, could not promise."""
