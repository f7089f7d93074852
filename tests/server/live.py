"""A real server process, started as a user would and ended by its own id."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx


class LiveServer:
    """``recollect serve`` on a free port of this machine."""

    def __init__(self, address: str, directory: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._address, self._directory, self._options = address, directory, options
        self.process: subprocess.Popen[bytes] | None = None
        self.log = directory / f"server-{self.port}.log"

    def __enter__(self) -> LiveServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def command(self) -> list[str]:
        return [sys.executable, "-m", "recollect", "serve", "--port", str(self.port), *self._options]

    def start(self) -> None:
        environment = {**os.environ, "RECOLLECT_DATABASE": self._address}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + 60
        while True:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(self.log.read_text()[-2000:])
            time.sleep(0.05)

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


_TRIAL = """
import os, sys
from recollect.server.limits import ServerLimits
from recollect.server.run import ServerSettings, open_database, run
limits = ServerLimits(requests_per_second=10**9, failures_per_second=10**9, follow_seconds=0)
run(open_database(os.environ["RECOLLECT_DATABASE"]), ServerSettings(port=int(sys.argv[1]), is_quiet=True), limits)
"""


class TrialServer(LiveServer):
    """A server whose followers get what there is and are let go, and that refuses nobody for being quick."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", _TRIAL, str(self.port)]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
