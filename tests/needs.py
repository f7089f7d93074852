"""What some tests need beside the project and its tools.

A test whose need is not there is left out of the run, and one line at the end says how many and what was missing. `make
test` wants none of it; `make test-all` (``--all``) takes all that this machine has.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

# Real transcripts that may not be in the repository, in folders called samples, corpus, dialects and oracle.
TRANSCRIPTS = Path(os.environ.get("RECOLLECT_TRANSCRIPTS") or "/nonexistent")


# Values of a fixture that makes something of our own, and takes a real one where it is at hand.
MADE_AND_REAL = ("made", pytest.param("real", marks=pytest.mark.transcripts))


class Need(NamedTuple):
    """A marker of tests; ``lack`` says what is missing here, and nothing where it is there."""

    marker: str
    about: str
    lack: Callable[[], str | None]
    is_ordinary: bool = True


def _directory(variable: str, script: str = "") -> Callable[[], str | None]:
    def lack() -> str | None:
        place = os.environ.get(variable)
        if not place:
            return f"{variable} is not set" + (f" ({script} fetches them)" if script else "")
        if not Path(place).is_dir():
            raise pytest.UsageError(f"{variable} names no directory: {place}")
        return None

    return lack


def _browser() -> str | None:
    from tests.browser.chromium import missing

    return missing()


def _torture() -> str | None:
    return None if os.environ.get("RECOLLECT_TORTURE") else "RECOLLECT_TORTURE is not set (make torture)"


def _program(name: str, package: str = "") -> Callable[[], str | None]:
    return lambda: None if shutil.which(name) else f"{package or name} is not installed"


def _open_to_others() -> str | None:
    """What refuses to run as root, or must hold against another user, runs as nobody, who has to reach the project."""
    if getattr(os, "geteuid", lambda: 1)() != 0:
        return None
    closed = [place for place in Path(__file__).resolve().parents if not place.stat().st_mode & stat.S_IXOTH]
    return f"{closed[0]} is closed to other users" if closed else None


def _root() -> str | None:
    may_mount = hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("mount")
    return None if may_mount else "only root may mount a disk, give files away or make a control group"


def _no_root() -> str | None:
    return "root may read every file" if hasattr(os, "geteuid") and os.geteuid() == 0 else None


def _nothing() -> str | None:
    return None


NEEDS = (
    Need("transcripts", "reads real transcripts", _directory("RECOLLECT_TRANSCRIPTS")),
    Need(
        "clients",
        "runs real Claude Code",
        _directory("RECOLLECT_CLIENTS", "tools/fetch_clients.sh"),
        is_ordinary=False,
    ),
    Need(
        "agents",
        "runs real clients of other agents",
        _directory("RECOLLECT_AGENTS", "tools/fetch_agents.sh"),
        is_ordinary=False,
    ),
    Need(
        "mcp_servers",
        "runs public MCP servers",
        _directory("RECOLLECT_MCP_SERVERS", "tools/fetch_mcp_servers.sh"),
        is_ordinary=False,
    ),
    Need(
        "identity_provider",
        "signs in at a real identity provider",
        _directory("RECOLLECT_OIDC_PROVIDER", "tools/fetch_oidc_provider.sh"),
        is_ordinary=False,
    ),
    Need("browser", "drives a browser", _browser, is_ordinary=False),
    Need("postgres", "starts PostgreSQL", _open_to_others, is_ordinary=False),
    Need("kills", "kills programs at every step, or makes their calls fail", _nothing, is_ordinary=False),
    Need("long", "takes seconds, and says in detail what a quicker test says", _nothing, is_ordinary=False),
    Need("nobody", "runs programs as another user", _open_to_others),
    Need("bubblewrap", "needs bubblewrap", _program("bwrap", "bubblewrap")),
    Need("strace", "traces programs", _program("strace")),
    Need("compiler", "builds a library that makes calls fail", _program("cc", "a C compiler")),
    Need("zsh", "completes words in zsh", _program("zsh")),
    Need("fish", "completes words in fish", _program("fish")),
    Need("root", "mounts a disk, gives files away or makes a control group", _root),
    Need("no_root", "closes files to its own user", _no_root),
    Need("torture", "takes minutes", _torture),
)
# Fixtures that stand for a need, and values of parameters that do.
BY_FIXTURE = {
    "transcripts": "transcripts",
    "client": "clients",
    "hooked": "clients",
    "answers": "clients",
    "worked": "clients",
    "workshop": "clients",
    "servers": "mcp_servers",
    "real_provider": "identity_provider",
    "strace": "strace",
    "shim": "compiler",
    "small_disk": "root",
    "chromium": "browser",
    "postgres": "postgres",
    "cluster": "postgres",
    "pair": "postgres",
    "trio": "postgres",
}
BY_VALUE = {"postgres", "bubblewrap", "nobody"}


def mark(item: pytest.Item) -> None:
    """Give a test the markers that its fixtures and parameters stand for."""
    call = getattr(item, "callspec", None)
    values = {value for value in call.params.values() if isinstance(value, str)} if call else set()
    for name in {*getattr(item, "fixturenames", ())} & BY_FIXTURE.keys():
        item.add_marker(BY_FIXTURE[name])
    for name in values & BY_VALUE:
        item.add_marker(name)
    for room, name in (("tests/browser/", "browser"), ("tests/crash/", "kills")):
        if item.nodeid.startswith(room):
            item.add_marker(name)


def missing(*, is_all: bool) -> dict[str, str]:
    """By marker: why tests that carry it are left out of this run."""
    lacks = {
        need.marker: need.lack() if is_all or need.is_ordinary else "make test-all runs them"
        for need in NEEDS
    }
    return {marker: lack for marker, lack in lacks.items() if lack is not None}
