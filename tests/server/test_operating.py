"""What an operator sees of a server: its log, and its metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from recollect import __version__
from recollect.server import app, objects
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.records import SweepResult, Unavailable
from recollect.server.service import Service
from tests.server.conftest import Kind
from tests.server.world import World, in_world

# Everything that Python and libraries would write to stderr in their own words.
_TROUBLE = """
import asyncio, gc, logging, threading, warnings
from recollect.server.run import log_as_json
log_as_json(is_quiet=False)
logging.getLogger("recollect.server").info("started")
logging.getLogger("somebody.elses").error("lost\\nconnection", exc_info=OSError("gone\\naway"))
warnings.warn("old")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start(); thread.join()
class Bad:
    def __del__(self):
        raise ValueError("late")
Bad(); gc.collect()
async def failing():
    raise KeyError("task")
async def main():
    task = asyncio.create_task(failing())
    await asyncio.sleep(0)
    del task
    gc.collect()
asyncio.run(main())
gc.collect()
raise RuntimeError("at the end")
"""


def test_every_line_of_the_log_is_json() -> None:
    """Also what no one caught: in a thread, a task, a destructor, a library, and at the end of the process."""
    done = subprocess.run([sys.executable, "-c", _TROUBLE], capture_output=True, check=False, timeout=60)
    lines = [json.loads(line) for line in done.stderr.splitlines()]

    assert {line["level"] for line in lines} == {"info", "error", "warning", "critical"}
    problems = " ".join(str(line.get("problem", "")) for line in lines)
    assert all(
        name in problems
        for name in ("ZeroDivisionError", "ValueError", "KeyError", "RuntimeError", "OSError")
    )


def test_metrics_tell_of_build_process_database_and_pool(kind: Kind) -> None:
    """In Prometheus' format: a name, labels and a number a line."""

    async def scene(made: World) -> dict[str, float]:
        made.service.metrics.swept(await made.database.sweep(0, 0), 0.5)
        secret, _ = await made.secret(await made.member("Eve"), ("metrics",))
        text = (await made.ask("GET", "/metrics", token=secret)).text
        rows = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(number) for name, _, number in rows}

    found = in_world(kind, scene)
    assert found[f'recollect_build_info{{version="{__version__}"}}'] == 1
    assert found["recollect_database_up"] == 1
    assert found["recollect_sweep_backlog"] == 0
    assert found["recollect_sweeps_total"] == 1
    assert found["process_cpu_seconds_total"] > 0
    if kind.name != "memory":
        assert 1 <= found["recollect_pool_connections"] <= found["recollect_pool_most_connections"]


class _FailingJobs:
    """A database whose first work of each kind fails as a full disk does; the second is noted."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.again = asyncio.Event()

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) == 1:
            raise OSError(28, "No space left on device")
        self.again.set()

    async def sweep(self, now: int, grace_ms: int) -> SweepResult:
        await self._called("sweep")
        return SweepResult(deleted=3)

    async def remove_bodies(self, *_: object) -> int:
        await self._called("bodies")
        raise Unavailable("the second time it is away")

    async def body_backlog(self, _: int) -> tuple[int, int]:
        return 0, 0


def _until_again(
    jobs: _FailingJobs, running: Callable[[], Coroutine[Any, Any, None]], after: Callable[[], Any]
) -> Any:
    async def scene() -> Any:
        task = asyncio.create_task(running())
        await asyncio.wait_for(jobs.again.wait(), 10)
        await asyncio.sleep(0.01)
        task.cancel()
        found = after()
        return await found if asyncio.iscoroutine(found) else found

    return asyncio.run(scene())


def test_a_sweep_that_fails_with_anything_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing restarts the task: if it ended, retention would stop until the server is restarted."""
    monkeypatch.setattr(app, "_SWEEP_EVERY", 0.001)
    jobs = _FailingJobs()
    service = Service(cast("Any", jobs))
    with caplog.at_level(logging.INFO, "recollect.server"):
        text = _until_again(
            jobs, lambda: app._sweep_forever(service, None), lambda: service.metrics.text((0, 0))
        )
    assert "recollect_sweep_failures_total 1\n" in text
    assert "recollect_swept_deleted_sessions_total" in text
    told = [json.loads(app.JsonLineFormatter().format(one)) for one in caplog.records]
    assert ("sweep", "error", "OSError") == tuple(told[0][name] for name in ("event", "level", "problem"))


def test_a_pass_of_the_worker_that_fails_with_anything_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objects, "_EVERY_SECONDS", 0.05)
    jobs = _FailingJobs()

    class Store:
        delete = None

    worker = objects.BodyMover(cast("PostgresDatabase", jobs), cast("objects.BlobStore", Store()))
    gauges = _until_again(jobs, worker.run, worker.gauges)
    assert 2 == gauges["bodies_failed_passes"]
