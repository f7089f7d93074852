"""Limits, confinement and result of a run.

Immutable values: nothing a command does can change them during the run (E07).
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
    """What a run may use. ``seconds=None`` is for servers that live as long as their host."""

    seconds: float | None = 120
    memory_bytes: int = 2 * GIB
    """All processes together, by cgroup where possible, else by watching and killing. Each process alone
    by RLIMIT_DATA, which does not count address space that is only reserved (V8 and Go reserve far more
    than they use)."""
    output_bytes: int = MIB
    """Kept of each stream; the rest is read and dropped, and the result says ``truncated``."""
    file_bytes: int = GIB
    """The largest file it may write, and the size of its private /tmp."""
    processes: int = 512
    """Includes threads, as the kernel counts them."""
    open_files: int = 1024
    keep_free_bytes: int = 512 * MIB
    """The run is ended when the disk of a writable directory has less free space than this."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a run may reach. Reads are open except ``hidden``; writes and hosts are closed except as
    listed."""

    write: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] | None = None
    """Files and directories it cannot read; None means the places where keys are stored."""
    show: tuple[Path, ...] = ()
    """Files and directories it may read although they are hidden, or inside a hidden directory."""
    allow_hosts: tuple[str, ...] = ()
    """``example.org``, ``*.example.org``, ``example.org:8443``; ports 80 and 443 unless one is named."""
    commands: tuple[str, ...] | None = None
    """The programs it may be, each by the exact word that starts it; None for any."""
    backend: Backend = "auto"
    protect: bool = True
    """Keep the names others execute (``.git/hooks``, ``.mcp.json``) unchanged inside writable trees."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The output and end of a run. Output before an interruption is kept."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    """128 + n after signal n, as in shells; None when we ended it."""
    interrupted: bool
    truncated: bool
    sandbox: Chosen
    timed_out: bool = False
    ended_by: str | None = None
    """Why we ended it: ``time``, ``cancelled``, ``memory``, ``disk``; None when it ended by itself."""
    seconds: float = 0.0
    put_back: tuple[str, ...] = ()
    """Protected names that it changed, now restored."""
    not_held: tuple[str, ...] = field(default=())
    """What this back end cannot enforce on this machine and for this user."""
