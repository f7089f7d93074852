"""Goes through the hostile behaviours that could cost memory, and prints the peak above idle in MiB.

Run as a program, so that nothing but the host is measured. The peak is the kernel's (VmHWM), reset when idle.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.guard.mcp.project import Project, hostile
from tests.guard.mcp.test_hostile import outcome

HEAVY = (
    "huge-line",
    "endless-line",
    "blank-lines",
    "many-values",
    "deep",
    "objects-up-to-the-limit",
    "wide-text-up-to-the-limit",
    "many-tools",
    "notification-flood",
    "ping-flood",
    "progress-flood",
    "stderr-flood",
    "large-text",
    "long-description",
    "schema-bomb",
)


def status(field: str) -> int:
    """A figure of this process in MiB, rounded up."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return -(-next(int(line.split()[1]) for line in lines if line.startswith(field)) // 1024)


async def measured(project: Project) -> int:
    """The peak above what the host takes with a good server only."""
    async with project.host() as host:
        await host.call("mcp__good__echo", {"text": "hi"})
        idle = status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        for name in HEAVY:
            await outcome(host, name)
        return status("VmHWM") - idle


def main() -> None:
    """Print one number."""
    with tempfile.TemporaryDirectory() as place:
        entries = {name: hostile(name) for name in HEAVY}
        project = Project(Path(place), good=hostile("fine"), **entries).trust()
        print(anyio.run(measured, project))


if __name__ == "__main__":
    main()
