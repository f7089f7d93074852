"""A real server process, started as a user would and ended by its own id."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Self


class LiveServer:
    """``recollect team serve`` on a free port of this machine. ``prelude`` is run in the process before it."""

    prelude: ClassVar[str] = ""

    def __init__(self, address: str, directory: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._address, self._directory, self._options = address, directory, options
        self.process: subprocess.Popen[bytes] | None = None
        self.log = directory / f"server-{self.port}.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def command(self) -> list[str]:
        program = ["-c", f"{self.prelude}\n{_MAIN}"] if self.prelude else ["-m", "recollect"]
        return [sys.executable, *program, "team", "serve", "--port", str(self.port), *self._options]

    def start(self) -> None:
        # A server outlives the test it was started in: it sees no home of this machine, and none of that test.
        places = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
        environment = {
            **os.environ,
            **dict.fromkeys(places, str(self._directory)),
            "RECOLLECT_DATABASE": self._address,
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + 120
        while not self._is_ready():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(self.log.read_text()[-2000:])
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End it; the exit status."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(60)

    def memory(self) -> int:
        """Bytes the process holds in memory, and the most it ever held since ``forget_peak``."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024

    def forget_peak(self) -> None:
        assert self.process is not None
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def requests(self) -> list[dict[str, object]]:
        """The lines the server wrote about requests."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == "request"]


_MAIN = """
import sys
from recollect.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
_LIMITED = """
import json, os, sys
from recollect.server.service import ServerLimits
from recollect.server.run import ServerSettings, open_database, run
from recollect.server.service import Service
settings = ServerSettings(port=int(sys.argv[1]), is_quiet=sys.argv[2] == "quiet")
database, limits = open_database(os.environ["RECOLLECT_DATABASE"]), ServerLimits(**json.loads(sys.argv[3]))
run(Service(database, limits=limits), settings)
"""


class TrialServer(LiveServer):
    """A server that refuses nobody for being quick."""

    limits: ClassVar[dict[str, int]] = {"requests_per_second": 10**9, "failures_per_second": 10**9}

    def command(self) -> list[str]:
        how = "quiet" if "--quiet" in self._options else "talks"
        return [sys.executable, "-c", _LIMITED, str(self.port), how, json.dumps(self.limits)]


class ImpatientServer(TrialServer):
    """A server that lets a reader go who has taken nothing for a second."""

    limits: ClassVar[dict[str, int]] = {"slow_grace_seconds": 1}


def until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait for a fact; the time is only there to end a test that would hang."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
