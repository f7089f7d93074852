"""Run a command under the permission rules and inside a sandbox, always both.

The rules decide first, about exactly the arguments that are then run (no shell parses them again). If they
deny, or require a question that was not answered, nothing is started. In the sandbox the working directory
and the named paths are writable, and the named hosts are reachable.
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
    """A command to run, and what it may use."""

    argv: tuple[str, ...]
    cwd: Path
    write: tuple[Path, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    show: tuple[Path, ...] = ()
    is_unconfined: bool = False
    seconds: float = 120
    memory_bytes: int = execution.RunLimits().memory_bytes
    commands: tuple[str, ...] | None = None
    accepts_ask: bool = False
    """The caller has confirmed explicitly; a deny stays a deny."""

    @property
    def call(self) -> str:
        """The call that the rules decide about."""
        return f"Bash({shlex.join(self.argv)})"


def run(
    request: RunRequest,
    home: ClaudeHome,
    *,
    cancelled: threading.Event | None = None,
    on_output: OnOutput | None = None,
) -> execution.RunResult:
    """Decide, then run. ``NotPermitted`` and ``NoSandbox`` mean that nothing was started."""
    require_permission(request, decided(request, home))
    confinement = execution.Confinement(
        write=(request.cwd, *request.write),
        allow_hosts=request.allow_hosts,
        show=request.show,
        commands=request.commands,
        backend="unconfined" if request.is_unconfined else "auto",
    )
    return execution.run(
        request.argv,
        cwd=request.cwd,
        confinement=confinement,
        limits=execution.RunLimits(seconds=request.seconds, memory_bytes=request.memory_bytes),
        cancelled=cancelled,
        on_output=on_output,
    )


def decided(request: RunRequest, home: ClaudeHome) -> Decision:
    """The decision of the rules that apply in the working directory."""
    from recollect.services.permissions.engine import permit

    return permit(home, request.cwd, with_config=True).decide("Bash", {"command": shlex.join(request.argv)})


def require_permission(request: RunRequest, decision: Decision) -> None:
    """Raise unless the command is allowed, or needs a confirmation that was given."""
    if decision.verdict is Verdict.ALLOW or (decision.verdict is Verdict.ASK and request.accepts_ask):
        return
    see = f"`recollect perm explain {_quoted(request.call)} --cwd {_quoted(str(request.cwd))}` shows why"
    if decision.verdict is Verdict.DENY:
        raise NotPermitted(request.call, decision.why, hint=see)
    raise NotPermitted(request.call, decision.why, hint=f"{see}; --yes runs it anyway")


def _quoted(text: str) -> str:
    return shlex.quote(text if len(text) <= 300 else text[:297] + "...")
