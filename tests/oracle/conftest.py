"""Clients of the versions we promise to be loaded by; tests skip where they are not installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.client_runner import Client, running_stub

VERSIONS = ("2.0.76", "2.1.197", "2.1.325")
# A start of a client costs up to two seconds: the daily run asks the oldest and the newest, `make oracle` all.
DAILY = VERSIONS if os.environ.get("RECOLLECT_TORTURE") else (VERSIONS[0], VERSIONS[-1])


@pytest.fixture(params=DAILY)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A client with a HOME of its own and an API that is only a stub."""
    command = command_of(request.param)
    with running_stub() as stub:
        yield Client(request.param, command, tmp_path, stub)


def command_of(version: str) -> list[str]:
    """How to start that version; skips the test where it cannot be started."""
    root = os.environ.get("RECOLLECT_CLIENTS")
    if not root:
        pytest.skip("RECOLLECT_CLIENTS names no directory of clients (see tests/oracle/client_runner.py)")
    program, script = Path(root, version, "claude"), Path(root, version, "cli.js")
    node = shutil.which("node")
    if program.is_file():
        return [str(program)]
    if script.is_file() and node:
        return [node, str(script)]
    pytest.skip(f"no client {version} in {root}" if not script.is_file() else "node is not installed")
