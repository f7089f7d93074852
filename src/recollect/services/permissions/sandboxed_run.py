"""A command run under the permission rules and inside a sandbox: both, always.

The rules are asked first, about the very words that are then run (no shell reads
them again); where they say no, or want a person asked who is not here, nothing is
started. Then the sandbox: writable is the working directory and what was named,
reachable are the hosts that were named.
"""

from __future__ import annotations

import shlex
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recollect import execution
from recollect.errors import NotPermitted
from recollect.policy.decision import Decision, Verdict

if TYPE_CHECKING:
    from recollect.execution.running import OnOutput
    from recollect.storage.home import ClaudeHome


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What somebody wants run, and what it may use."""

    argv: tuple[str, ...]
    cwd: Path
    write: tuple[Path, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    is_unconfined: bool = False
    seconds: float = 120
    accepts_ask: bool = False
    """Whoever asks has said yes by name; a deny stays a deny."""

    @property
    def call(self) -> str:
        """The call the rules are asked about."""
        return f"Bash({shlex.join(self.argv)})"


def run(
    wish: RunRequest,
    home: ClaudeHome,
    *,
    cancelled: threading.Event | None = None,
    on_output: OnOutput | None = None,
) -> execution.RunResult:
    """Decide, then run. ``NotPermitted`` and ``NoSandbox`` mean that nothing was started."""
    require_permission(wish, decided(wish, home))
    confinement = execution.Confinement(
        write=(wish.cwd, *wish.write),
        allow_hosts=wish.allow_hosts,
        backend="unconfined" if wish.is_unconfined else "auto",
    )
    return execution.run(
        wish.argv,
        cwd=wish.cwd,
        confinement=confinement,
        limits=execution.RunLimits(seconds=wish.seconds),
        cancelled=cancelled,
        on_output=on_output,
    )


def decided(wish: RunRequest, home: ClaudeHome) -> Decision:
    """What the rules that count in the working directory say to the command."""
    from recollect.services.permissions.engine import permit

    return permit(home, wish.cwd).decide("Bash", {"command": shlex.join(wish.argv)})


def require_permission(wish: RunRequest, decision: Decision) -> None:
    """Raise unless it is allowed, or only asked about and the answer was given with the wish."""
    if decision.verdict is Verdict.ALLOW or (decision.verdict is Verdict.ASK and wish.accepts_ask):
        return
    see = f"`recollect perm explain {_quoted(wish.call)} --cwd {_quoted(str(wish.cwd))}` shows why"
    if decision.verdict is Verdict.DENY:
        raise NotPermitted(wish.call, decision.why, hint=see)
    raise NotPermitted(wish.call, decision.why, hint=f"{see}; --yes runs it all the same")


def _quoted(text: str) -> str:
    return shlex.quote(text if len(text) <= 300 else text[:297] + "...")
