"""Real clients of other agents, closed in: where they are, and a few turns of theirs."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

RUN_SECONDS = 300
_ROOT = Path(__file__).resolve().parents[3]
# Where the program lies in what ``tools/fetch_agents.sh`` fetches, and the stub that answers it.
PROGRAMS = {
    "codex": ("codex/vendor/x86_64-unknown-linux-musl/bin/codex", "codex"),
    "codex-0.20.0": ("codex-0.20.0/bin/codex-x86_64-unknown-linux-musl", "codex"),
    "opencode": ("opencode/bin/opencode", "opencode-gemini-qwen"),
    "gemini": ("gemini/bundle/gemini.js", "opencode-gemini-qwen"),
    "qwen": ("qwen/cli.js", "opencode-gemini-qwen"),
}


class Ran(NamedTuple):
    """What a client did, and what its model service billed."""

    agent: str
    home: Path
    turns: list[dict[str, Any]]
    billed: list[dict[str, Any]]


def program_of(agent: str) -> Path:
    """The client; skips the test where it is not."""
    root = os.environ.get("RECOLLECT_AGENTS")
    if not root:
        pytest.skip("RECOLLECT_AGENTS names no directory of clients (tools/fetch_agents.sh fills one)")
    program = Path(root, PROGRAMS[agent][0])
    if not program.is_file():
        pytest.skip(f"no client of {agent} in {root}")
    if program.suffix == ".js" and shutil.which("node") is None:
        pytest.skip("node is not installed")
    return program


def ran(
    agent: str, transcripts: Path, root: Path, turns: list[dict[str, Any]], *, may_fail: bool = False
) -> Ran:
    """Let the client take these turns in a room below ``root``; every turn must end well, unless it may fail."""
    program = program_of(agent)
    work = root / "work"
    work.mkdir(parents=True, exist_ok=True)
    wish = {
        "agent": agent,
        "program": str(program),
        "oracle": str(transcripts / "dialects" / "oracle" / PROGRAMS[agent][1]),
        "root": str(root),
        "cwd": str(work),
        "turns": turns,
        "alone": bool(_namespace()),
    }
    # Nothing of our environment but the path of programs; and where there is no namespace, a proxy where nobody listens.
    nowhere = "http://127.0.0.1:9"
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(root),
        "PYTHONPATH": str(_ROOT),
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [*_namespace(), sys.executable, "-m", "tests.oracle.clients.room"],
        input=json.dumps(wish),
        env=environment,
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    failed = [turn["said"] for turn in told["turns"] if turn["exit"] != 0]
    assert may_fail or not failed, failed
    return Ran(agent, Path(told["home"]), told["turns"], told["billed"])


@functools.cache
def _namespace() -> tuple[str, ...]:
    """What closes a program in with nothing but a loopback; nothing where that is not allowed."""
    words = ("unshare", "--map-root-user", "--net")
    try:
        return (
            words
            if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
            else ()
        )
    except OSError:
        return ()
