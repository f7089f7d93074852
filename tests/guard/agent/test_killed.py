"""kill -9 at any moment: the log is whole, and the session goes on with every call answered."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from recollect.guard.agent import resumed_session
from recollect.model.lines.damage import Damage
from tests.guard.agent.workshop import Script, Workshop, plain

KILLS = 500 if os.environ.get("RECOLLECT_TORTURE") else 5


def test_a_killed_run_can_be_resumed(tmp_path: Path) -> None:
    """No damaged line before the last newline; the next request pairs each call with one result."""
    chance = random.Random(20260131)
    moments = 0
    for _ in range(KILLS):
        place = tmp_path / f"run{moments}"
        log = killed(place, chance.uniform(0, 0.06))
        moments += 1
        if log is None:
            continue
        workshop = Workshop(place)
        workshop.session = resumed_session(workshop.home, log.stem, workshop.project, data=workshop.data)
        script = Script("Going on.")

        result = workshop.agent(script).run("Go on.")

        whole = log.read_bytes().rpartition(b"\n")[0]
        damage = [item for item in workshop.read_back().entries() if isinstance(item, Damage)]
        assert ("success", True) == (result.ending, all(item.offset < len(whole) for item in damage))
        assert len(damage) <= 1  # a torn line, set apart by the next writer
        sent = plain(script.asked[-1]["messages"])
        assert ids(sent, "tool_use", "id") == ids(sent, "tool_result", "tool_use_id")
    assert KILLS == moments


def killed(place: Path, seconds: float) -> Path | None:
    """Run, kill after so long, and say which log was left; None where it was not yet begun."""
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.guard.agent.killed_run", str(place)],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert "begun\n" == process.stdout.readline()
        time.sleep(seconds)
        process.kill()
        process.wait()
    return next(iter((place / "home" / ".claude").glob("projects/*/*.jsonl")), None)


def ids(messages: list[dict[str, Any]], kind: str, name: str) -> list[str]:
    return [block[name] for message in messages for block in message["content"] if block["type"] == kind]
