"""What an operator sees of a server: its log, and its metrics."""

from __future__ import annotations

import json
import subprocess
import sys

from recollect import __version__
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
