"""Nothing gets out: 200 attempts and more, as root and as nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.guard.sandbox import escape_attempts

DRIVER = Path(__file__).with_name("escape_driver.py")
NOBODY = 65534


@pytest.fixture(params=["ourselves", pytest.param("nobody", marks=pytest.mark.root)])
def user(request: pytest.FixtureRequest) -> int:
    """Whoever runs the tests, and where that is root also somebody without rights."""
    if request.param == "ourselves":
        return os.getuid()
    return NOBODY


@pytest.fixture
def top(user: int) -> Iterator[Path]:
    """A directory of that user's, outside /tmp, which a jail has for itself."""
    place = Path(tempfile.mkdtemp(prefix="recollect-escape-", dir="/var/tmp"))
    os.chown(place, user, user if user == NOBODY else os.getgid())
    yield place
    shutil.rmtree(place)


def let_loose(backend: str, user: int, top: Path) -> dict[str, Any]:
    """The driver's document."""
    done = subprocess.run(
        [sys.executable, "-B", str(DRIVER), backend, str(top), str(user)],
        check=False,
        capture_output=True,
        cwd="/",
        timeout=900,
    )
    assert b"" == done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.bubblewrap
def test_no_attempt_gets_out(user: int, top: Path) -> None:
    """Protected names stand as they stood."""
    answer = let_loose("bubblewrap", user, top)
    escaped = {name for name, text in answer["attempts"].items() if text.startswith("ESCAPED")}

    assert user == answer["user"]
    assert len(answer["attempts"]) >= 200
    gaps = {"write_to_a_named_pipe"} if "named pipes" in " ".join(answer["not_held"]) else set()
    assert gaps == escaped - escape_attempts.PROTECTED.keys()
    assert {} == answer["world"]
    assert [] == answer["contacts"]


def test_the_attempts_have_teeth(user: int, top: Path) -> None:
    """Without a sandbox every one of the harmless attempts gets out: what is held above is held by the sandbox."""
    found = let_loose("unconfined", user, top)
    held = {name: said for name, said in found["attempts"].items() if not said.startswith("ESCAPED")}

    assert {} == held
    assert escape_attempts.CONTROLS == found["attempts"].keys()
    assert {"unix stream", "unix datagram", "abstract", "tcp", "udp"} == set(found["contacts"])
