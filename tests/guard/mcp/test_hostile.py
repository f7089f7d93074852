"""What servers do wrong on stdio (M1): the host survives each of it, and a server beside goes on.

All servers of a group and a good one run in one host; each is called, and after each of them the good one.
``answers`` is what the call returns, ``fails`` words of why it, or the listing before it, did not.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from recollect.errors import RecollectError
from recollect.guard.mcp import Host
from tests.guard.mcp.project import LIMITS, Project, hostile, processes_with

PATIENT = 120.0
# For what never comes: it is given up soon.
SOON = 0.5
BEHAVIOURS: dict[str, list[tuple[str, str, str, float]]] = {
    group: [(name, end, words, SOON if more else PATIENT) for name, (end, words, *more) in cases.items()]
    for group, cases in tomllib.loads(Path(__file__).with_name("hostile.toml").read_text("utf-8")).items()
}


async def outcome(host: Host, server: str = "bad", seconds: float = PATIENT) -> tuple[str, str, str]:
    """What came of a call of the hostile server, and then of the good one."""
    try:
        answer = await host.call(f"mcp__{server}__echo", {"text": "hi"}, seconds=seconds)
        first = ("answers", answer.text)
    except RecollectError as problem:
        first = ("fails", problem.message)
    good = await host.call("mcp__good__echo", {"text": "still here"}, seconds=PATIENT)
    return (*first, good.text)


@pytest.mark.parametrize("group", list(BEHAVIOURS))
def test_each_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str) -> None:
    """Each ends as the table says, the good server answers, nothing drives a terminal, nothing is left running."""
    monkeypatch.setenv("MY_SECRET", "s3cr3t")
    cases = BEHAVIOURS[group]
    state = str(tmp_path / "project" / "state")
    entries = {name: hostile(name, f"{state}-{name}") for name, *_ in cases}
    project = Project(tmp_path, good=hostile("fine", state), **entries).trust()
    limits = dataclasses.replace(LIMITS)

    async def all_of_them(host: Host) -> dict[str, tuple[str, str, str]]:
        if "never" in group:
            # The good server may take its time to start; the others are given up soon.
            await host.call("mcp__good__echo", {"text": "first"}, seconds=PATIENT)
            object.__setattr__(limits, "start_seconds", 1.0)
        await host.tools()
        return {name: await outcome(host, name, seconds) for name, _, _, seconds in cases}

    found = project.ask(all_of_them, limits=limits)

    assert {name: (end, "still here") for name, end, _, _ in cases} == {
        name: (end, good) for name, (end, _, good) in found.items()
    }
    assert [] == [
        (name, words, found[name][1][:300]) for name, _, words, _ in cases if words not in found[name][1]
    ]
    assert [] == [name for name, (_, text, _) in found.items() if not text.replace("\n", "").isprintable()]
    assert [] == processes_with(str(tmp_path))


def test_there_are_at_least_forty() -> None:
    """As many as docs/design/threats.md says (M1), each of them once."""
    names = [name for cases in BEHAVIOURS.values() for name, *_ in cases]

    assert len(names) >= 40
    assert len(names) == len(set(names))


def test_all_of_them_together_take_little_memory() -> None:
    """A process of its own goes through them one by one: at most 64 MiB above what it takes when idle (M1)."""
    program = Path(__file__).with_name("memory_run.py")
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)

    assert (0, "") == (ran.returncode, ran.stderr)
    assert int(ran.stdout) <= 64
