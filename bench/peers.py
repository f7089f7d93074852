"""The programs that stand beside ours: ccusage for cost, agentsview for index and search.

``RECOLLECT_PEERS`` names a directory that ``tools/fetch_peers.sh`` filled; without it they
are fetched once into the benchmark's cache. Where that fails the benchmark says so and
goes on without them. They run offline, in UTC, with a home directory of their own, so that
they see the corpus and nothing else of this machine. Each is started as the native program
that its package wraps, which is the fastest way to call it.

agentsview answers searches only through its server. The benchmark starts that server as
its own child and ends that very process.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import platform
import shutil
import socket
import subprocess
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.corpora import cache_directory
from bench.measured import Failed, Taken, run

FETCH = Path(__file__).resolve().parents[1] / "tools" / "fetch_peers.sh"
_FETCH_SECONDS = 900
_START_SECONDS = 60
_IDLE_SECONDS = 0.5
_CCUSAGE = "node_modules/@ccusage/ccusage-linux-x64/bin/ccusage"
_AGENTSVIEW = "av/lib/python3*/site-packages/agentsview/bin/agentsview"
_ALL_SESSIONS = ("--include-children", "--include-automated", "--include-one-shot")


class Peers(NamedTuple):
    """The peers that can run here."""

    ccusage: Path | None
    agentsview: Path | None

    def versions(self, user_home: Path) -> list[str]:
        """Each with its version, as it says itself."""
        told = [
            run([program, "--version"], plain_environment(user_home)).output.split()[:2]
            for program in self
            if program is not None
        ]
        return [" ".join(words) for words in told]


def find_peers() -> Peers:
    """Those of ``RECOLLECT_PEERS``, else those of the cache, fetched if need be."""
    named = os.environ.get("RECOLLECT_PEERS")
    directory = Path(named) if named else cache_directory() / "peers"
    if not named:
        _fetch(directory)
    found = _in_directory(directory)
    for name, program in zip(found._fields, found, strict=True):
        if program is None:
            print(f"{name} is not here: rows that need it are left out ({FETCH.name} fetches it)", flush=True)
    return found


def plain_environment(user_home: Path) -> dict[str, str]:
    """What every measured program is started with: no settings of whoever runs the benchmark."""
    return {
        "HOME": str(user_home),
        "PATH": os.environ.get("PATH", os.defpath),
        "TZ": "UTC",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
    }


class CCUsage:
    """ccusage over one home. It keeps nothing: each report reads every log."""

    def __init__(self, program: Path, home: Path, user_home: Path) -> None:
        self._program = program
        self._environment = {**plain_environment(user_home), "CLAUDE_CONFIG_DIR": str(home)}

    def daily(self) -> Taken:
        """Cost by day."""
        return run([self._program, "claude", "daily", "--offline", "--json"], self._environment)

    def status_line(self, told: str) -> Taken:
        """Its status line, worked out anew."""
        return run([self._program, "statusline", "--offline", "--no-cache"], self._environment, stdin=told)


class AgentsView:
    """agentsview over one home, with a data directory of its own."""

    def __init__(self, program: Path, home: Path, user_home: Path, data: Path) -> None:
        self._program = program
        self._data = data
        self._environment = {
            **plain_environment(user_home),
            "AGENTSVIEW_DATA_DIR": str(data),
            "CLAUDE_PROJECTS_DIR": str(home / "projects"),
            "AGENTSVIEW_TELEMETRY_ENABLED": "0",
            "DO_NOT_TRACK": "1",
            "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1",
            "AGENTSVIEW_NO_BROWSER": "1",
        }

    def remove(self) -> None:
        """Forget its index."""
        shutil.rmtree(self._data, ignore_errors=True)

    def sync(self) -> Taken:
        """Bring its index up to date; the first time this builds it."""
        alone = {**self._environment, "AGENTSVIEW_NO_DAEMON": "1"}
        return run([self._program, "sync"], alone, is_family_watched=True)

    def size(self) -> int:
        """Bytes of its database."""
        return sum(path.stat().st_size for path in self._data.glob("sessions.db*"))

    @contextlib.contextmanager
    def serving(self) -> Iterator[Server]:
        """Its server, for as long as it is asked."""
        port = _free_port()
        command: list[str | Path] = [
            self._program,
            "serve",
            "--port",
            str(port),
            "--no-browser",
            "--no-sync",
            "--no-update-check",
        ]
        process = subprocess.Popen(
            command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait_for(port, process)
            _wait_until_idle(process.pid)
            yield Server(port, self._program, self._environment)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Server:
    """A running agentsview."""

    def __init__(self, port: int, program: Path, environment: dict[str, str]) -> None:
        self._program = program
        self._environment = environment
        self.url = f"http://127.0.0.1:{port}"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def search(self, query: str) -> tuple[float, bytes]:
        """The newest 20 hits over a connection that stays open: seconds and the answer."""
        asked = urllib.parse.urlencode({"q": query, "limit": 20, "sort": "recency"})
        start = time.perf_counter()
        self._connection.request("GET", f"/api/v1/search?{asked}")
        answer = self._connection.getresponse()
        data = answer.read()
        taken = time.perf_counter() - start
        if answer.status != http.HTTPStatus.OK:
            raise Failed(f"agentsview search {query!r}: {answer.status} {data[:200]!r}")
        return taken, data

    def search_command(self, query: str) -> Taken:
        """The same as a fresh process that asks the server."""
        command: list[str | Path] = [
            self._program,
            "session",
            "search",
            query,
            "--fts",
            *_ALL_SESSIONS,
            "--limit",
            "20",
            "--json",
        ]
        return run([*command, "--server", self.url], self._environment)


def _in_directory(directory: Path) -> Peers:
    ccusage = directory / _CCUSAGE
    agentsview = next(iter(sorted(directory.glob(_AGENTSVIEW))), None)
    return Peers(ccusage if os.access(ccusage, os.X_OK) else None, agentsview)


def _fetch(directory: Path) -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return
    try:
        subprocess.run(
            [str(FETCH), str(directory)], check=True, timeout=_FETCH_SECONDS, stdout=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as problem:
        print(f"the peers could not be fetched: {problem}", flush=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.05)
    raise Failed("agentsview: its server did not start")


def _wait_until_idle(pid: int) -> None:
    """A server that has just started still fills its caches, at the cost of whatever is measured then."""
    deadline = time.monotonic() + _START_SECONDS
    before = -1
    while time.monotonic() < deadline and (now := _ticks(pid)) != before:
        before = now
        time.sleep(_IDLE_SECONDS)


def _ticks(pid: int) -> int:
    """CPU time of a process so far, in hundredths of a second or so; 0 where nobody can tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])
