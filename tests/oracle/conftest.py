"""Clients of the versions we promise to be loaded by; the marker clients leaves tests out where there are none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.client_runner import Client, running_stub

VERSIONS = ("2.0.76", "2.1.197", "2.1.325")
TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
# A start of a client takes a second of the processor, of the oldest two. `make oracle` runs every test with all of them;
# daily the newest is asked everything. The oldest is asked daily what only it does: to load every shape we write in one
# log, to take turns with us, and where it loses what newer clients find.
old_and_new = pytest.mark.parametrize(
    "client", VERSIONS if TORTURE else (VERSIONS[0], VERSIONS[-1]), indirect=True
)


@pytest.fixture(params=VERSIONS if TORTURE else VERSIONS[-1:])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A client with a HOME of its own and an API that is only a stub."""
    command = command_of(request.param)
    with running_stub() as stub:
        yield Client(request.param, command, tmp_path, stub)


def command_of(version: str) -> list[str]:
    """How to start that version. A test that asks for it carries the marker ``clients``."""
    root = os.environ["RECOLLECT_CLIENTS"]
    program, script = Path(root, version, "claude"), Path(root, version, "cli.js")
    node = shutil.which("node")
    if program.is_file():
        return [str(program)]
    if script.is_file() and node:
        return [node, str(script)]
    pytest.fail(f"no client {version} in {root}" if not script.is_file() else "node is not installed")
