"""Ctrl-C at any instruction of an append: nothing acknowledged is lost and nobody waits for ever (S2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
INTERRUPTS = 20_000 if TORTURE else 1_500
ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="needs a timer that sends a signal"),
]


def test_an_interrupt_breaks_no_promise(tmp_path: Path) -> None:
    """One thread is interrupted again and again while two others share its batches.

    Afterwards every acknowledged line is there and no refused one, no fragment is in the file, no thread waits,
    the lock is free and the same object appends.
    """
    command = [sys.executable, "-m", "tests.crash.interrupt_loop", str(tmp_path / "log.jsonl")]
    ran = subprocess.run(
        [*command, str(INTERRUPTS), "7"], capture_output=True, text=True, check=False, timeout=1800, cwd=ROOT
    )
    assert ("", 0) == (ran.stderr, ran.returncode)
    counts: dict[str, int] = json.loads(ran.stdout)
    print("\ninterrupts:", ", ".join(f"{value:,} {name}" for name, value in counts.items()))
    (tmp_path / "log.jsonl").unlink()

    expected = {
        "interrupts": INTERRUPTS,
        "threads left waiting": 0,
        "lock is free": 1,
        "acknowledged lost": 0,
        "refused but stored": 0,
        "fragments": 0,
    }

    assert expected == {name: counts.get(name, 0) for name in expected}
