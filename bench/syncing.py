"""The sync client: how much CPU a first push takes, and how long a push takes that has nothing to send.

The server is a process of its own on SQLite; only the client's CPU counts. The push with nothing to send is a fresh
process over a home of 1,000 sessions, each with its log, a sub-agent and a tool result: what somebody waits for, or a
timer costs, every time. It makes no connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bench.measured import Failed
from bench.report import Row
from bench.workplace import Workplace

REDACTED_MBPS, MBPS, NOTHING_MS, SESSIONS = 200, 50, 300, 1_000


def run(place: Workplace) -> list[Row]:
    """All figures."""
    scratch = place.scratch / "sync"
    scratch.mkdir()
    try:
        with _serving(scratch) as (url, tokens):
            return [
                *_first_rows(place, *(_logged_in(scratch / str(at), url, tokens[at]) for at in (0, 1))),
                _nothing_row(place, scratch, _logged_in(scratch / "2", url, tokens[2])),
            ]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _first_rows(place: Workplace, redacted: dict[str, str], plain: dict[str, str]) -> list[Row]:
    """Both pushes, and what one takes more than the other: all else that a push does is the same in both."""
    size = sum(path.stat().st_size for path in (place.home / "projects").rglob("*.jsonl"))
    _, whole = _pushed(place.home, redacted)
    _, rest = _pushed(place.home, plain, "--no-redact")
    return [
        _rate_row("first push, secrets taken out", size, whole, REDACTED_MBPS),
        _rate_row("– taking them out, without the rest of it", size, whole - rest, REDACTED_MBPS),
        _rate_row("first push, --no-redact", size, rest, MBPS),
    ]


def _rate_row(what: str, size: int, cpu: float, least: int) -> Row:
    rate = size / 1e6 / cpu
    return Row(what, f"{rate:.0f} MB/s of CPU", f">= {least} MB/s of CPU", rate >= least)


def _nothing_row(place: Workplace, scratch: Path, environment: dict[str, str]) -> Row:
    home = scratch / "thousand"
    _thousand_sessions(home)
    _pushed(home, environment)
    walls = [_pushed(home, environment)[0] for _ in range(place.rounds)]
    ms = min(walls) * 1_000
    what = f"push of {SESSIONS:,} sessions with nothing new"
    return Row(what, f"{ms:.0f} ms", f"<= {NOTHING_MS} ms", ms <= NOTHING_MS)


def _thousand_sessions(home: Path) -> None:
    for number in range(SESSIONS):
        session = f"00000000-0000-4000-8000-{number:012d}"
        project = home / "projects" / f"-srv-app-{number % 40}"
        line = json.dumps({"type": "user", "sessionId": session, "cwd": f"/srv/app/{number % 40}"}) + "\n"
        for path in (
            project / f"{session}.jsonl",
            project / session / "subagents" / "agent-1.jsonl",
            project / session / "tool-results" / "toolu_1.txt",
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(line)


def _pushed(home: Path, environment: dict[str, str], *options: str) -> tuple[float, float]:
    """Wall and CPU seconds of one push."""
    command = [sys.executable, "-m", "recollect", "--home", str(home), "team", "push", "--json", *options]
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, errors = process.stdout, process.stderr
    if output is None or errors is None:
        raise Failed("no pipes")
    answer, said = output.read(), errors.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    output.close()
    errors.close()
    if process.returncode or json.loads(answer)["problems"]:
        raise Failed(f"sync push: {said.decode()[-300:]}{answer.decode()[-300:]}")
    return wall, used.ru_utime + used.ru_stime


def _logged_in(own: Path, url: str, token: str) -> dict[str, str]:
    """An environment of its own, with a login."""
    own.mkdir()
    environment = {**os.environ, "HOME": str(own)}
    environment.update({f"XDG_{name}_HOME": str(own / name.lower()) for name in ("DATA", "CONFIG", "CACHE")})
    command = [sys.executable, "-m", "recollect", "team", "login", url]
    subprocess.run(command, env=environment, input=token, text=True, check=True, capture_output=True)
    return environment


@contextlib.contextmanager
def _serving(scratch: Path) -> Iterator[tuple[str, list[str]]]:
    """A server, and a token for each of three organisations: what one has sent, another has not."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "RECOLLECT_DATABASE": f"sqlite:///{scratch / 'team.sqlite'}"}
    own = [sys.executable, "-m", "recollect"]
    tokens = []
    for org in ("one", "two", "three"):
        for words in (("org", "add", org), ("user", "add", org, "ada"), ("token", "add", org, "ada")):
            command = [*own, "team", "admin", *words, "--json"]
            made = subprocess.run(command, env=environment, check=True, capture_output=True)
        tokens.append(json.loads(made.stdout)["token"])
    with (scratch / "server.log").open("wb") as log:
        command = [*own, "team", "serve", "--port", str(port)]
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, server)
        yield url, tokens
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz", timeout=5):
            return
        if server.poll() is not None:
            break
        time.sleep(0.05)
    raise Failed("the server did not start")
