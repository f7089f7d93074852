"""Nothing gets out: 200 attempts and more, for each back end that works here, as root and as nobody."""

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

from recollect import execution
from tests.execution import escape_attempts

DRIVER = Path(__file__).with_name("escape_driver.py")
NOBODY = 65534
# What Landlock has no right for, as `not_held` says of it.
GAPS = {"bubblewrap": set(), "landlock": {"change_mode_outside", "change_times_outside"}}
GAP_PLACES = ("/outside/mode", "/outside/times")


@pytest.fixture(params=["ourselves", "nobody"])
def user(request: pytest.FixtureRequest) -> int:
    """Whoever runs the tests, and where that is root also somebody without rights."""
    if request.param == "ourselves":
        return os.getuid()
    if os.getuid() != 0:
        pytest.skip("not root: the attempts run as ourselves only")
    return NOBODY


@pytest.fixture
def top(user: int) -> Iterator[Path]:
    """A directory of that user's, outside /tmp, which a jail has for itself."""
    place = Path(tempfile.mkdtemp(prefix="recollect-escape-", dir="/var/tmp"))
    os.chown(place, user, user if user == NOBODY else os.getgid())
    yield place
    shutil.rmtree(place)


def need(backend: str) -> None:
    """Skip where a back end does not work, and say why."""
    reason = execution.available().why_not[backend]
    if reason is not None:
        pytest.skip(f"{backend}: {reason}")


def as_user(user: int) -> dict[str, Any]:
    return {} if user == os.getuid() else {"user": user, "group": user, "extra_groups": []}


def interpreter_for(user: int) -> str:
    """A Python 3.11 that this user may start and that can read the project."""
    check = f"import sys; open({str(DRIVER)!r}); sys.exit(sys.version_info < (3, 11))"
    for candidate in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            subprocess.run(
                [candidate, "-c", check], check=True, capture_output=True, cwd="/", **as_user(user)
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return candidate
    pytest.skip(f"user {user} can start no Python 3.11 that reads the project")


def let_loose(backend: str, user: int, top: Path) -> dict[str, Any]:
    """The driver's document."""
    done = subprocess.run(
        [interpreter_for(user), "-B", str(DRIVER), backend, str(top)],
        check=False,
        capture_output=True,
        cwd="/",
        timeout=900,
        **as_user(user),
    )
    assert b"" == done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_no_attempt_gets_out(backend: str, user: int, top: Path) -> None:
    """None but what the back end itself says it cannot hold; protected names stand as they stood."""
    need(backend)
    found = let_loose(backend, user, top)
    escaped = {name for name, said in found["attempts"].items() if said.startswith("ESCAPED")}
    changed = {name: how for name, how in found["world"].items() if not name.endswith(GAP_PLACES)}

    print(
        f"{backend} as {user}: {len(found['attempts'])} attempts, got out: {sorted(escaped - escape_attempts.PROTECTED.keys())}"
    )
    assert user == found["user"]
    assert len(found["attempts"]) >= 200
    assert GAPS[backend] == escaped - escape_attempts.PROTECTED.keys()
    assert {} == (changed if GAPS[backend] else found["world"])
    assert [] == found["contacts"]


@pytest.mark.slow
def test_the_attempts_have_teeth(user: int, top: Path) -> None:
    """Without a sandbox every one of the harmless attempts gets out: what is held above is held by the sandbox."""
    found = let_loose("unconfined", user, top)
    held = {name: said for name, said in found["attempts"].items() if not said.startswith("ESCAPED")}

    assert {} == held
    assert escape_attempts.CONTROLS == found["attempts"].keys()
    assert {"unix stream", "unix datagram", "abstract", "tcp", "udp"} == set(found["contacts"])
