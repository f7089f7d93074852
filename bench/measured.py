"""One program run once: how long, how much work, how much memory.

A small launcher, not the benchmark itself, starts the program and waits for it with
``wait4``: the kernel then counts the CPU of the program and of all it waited for, and the
largest memory of any one of them. A process inherits the memory mark of whoever starts
it, which is why the launcher imports next to nothing (about 11 MB; nothing here needs less).

Figures of several rounds are joined: the median wall time with its spread, the median CPU
time, the largest memory. Programs that are compared take turns, so that whatever else the
machine does falls on all of them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# stdin: one JSON job. stdout: one JSON answer. Runs with -I -S: nothing but the standard library.
LAUNCHER = """
import json, os, sys, threading, time
job = json.load(sys.stdin)
def resident(pid):
    try:
        with open("/proc/%s/statm" % pid) as sizes:
            total = int(sizes.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        for task in os.listdir("/proc/%s/task" % pid):
            with open("/proc/%s/task/%s/children" % (pid, task)) as children:
                total += sum(map(resident, children.read().split()))
        return total
    except (OSError, IndexError):
        return 0
peak, ended = [0], threading.Event()
def watch(root):
    while not ended.wait(0.1):
        peak[0] = max(peak[0], resident(root))
opened = [(os.POSIX_SPAWN_OPEN, 0, job["stdin"], os.O_RDONLY, 0)]
for fd, name in ((1, "stdout"), (2, "stderr")):
    opened.append((os.POSIX_SPAWN_OPEN, fd, job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
start = time.perf_counter()
pid = os.posix_spawn(job["command"][0], job["command"], job["env"], file_actions=opened)
watcher = threading.Thread(target=watch, args=(pid,))
if job["is_family_watched"]:
    watcher.start()
_, code, used = os.wait4(pid, 0)
wall = time.perf_counter() - start
ended.set()
print(json.dumps({
    "code": os.waitstatus_to_exitcode(code), "wall": wall, "cpu": used.ru_utime + used.ru_stime,
    "memory": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024), "family": peak[0],
}))
"""


class Taken(NamedTuple):
    """What one run took: seconds and bytes. ``family`` is the memory of all its processes together."""

    wall: float
    cpu: float
    memory: int
    family: int = 0
    output: str = ""
    spread: tuple[float, float] | None = None  # the least and the most wall time of several rounds
    cpu_spread: tuple[float, float] | None = None

    def __str__(self) -> str:
        return f"{self.wall_text} wall, {seconds(self.cpu)} CPU, {self.memory / 1e6:.0f} MB"

    @property
    def wall_text(self) -> str:
        """The wall time, and between which two it was."""
        return _between(self.wall, self.spread)

    @property
    def cpu_text(self) -> str:
        """The CPU time, and between which two it was."""
        return _between(self.cpu, self.cpu_spread)


class Failed(Exception):
    """A measured program did not do its work; a time without the work is worth nothing."""


def run(
    command: Sequence[str | Path],
    env: Mapping[str, str],
    *,
    stdin: str = "",
    is_family_watched: bool = False,
    expected: Sequence[int] = (0,),
) -> Taken:
    """Run a program to its end. Raises ``Failed`` where it exits with anything but an expected status."""
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as place:
        streams = {name: str(Path(place) / name) for name in ("stdin", "stdout", "stderr")}
        Path(streams["stdin"]).write_text(stdin, encoding="utf-8")
        job = {
            "command": [str(part) for part in command],
            "env": dict(env),
            "is_family_watched": is_family_watched,
            **streams,
        }
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER]
        done = subprocess.run(launcher, input=json.dumps(job), capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"{command[0]}: could not be started: {done.stderr.strip()[-300:]}")
        answer = json.loads(done.stdout)
        if answer["code"] not in expected:
            told = Path(streams["stderr"]).read_text(encoding="utf-8", errors="replace").strip()
            raise Failed(f"{' '.join(map(str, command))}: exit {answer['code']}: {told[-600:]}")
        output = Path(streams["stdout"]).read_text(encoding="utf-8", errors="replace")
    return Taken(answer["wall"], answer["cpu"], answer["memory"], answer["family"], output)


def typical(runs: Sequence[Taken]) -> Taken:
    """The median wall and CPU time, the spread, and the most memory of some runs; the output of the last."""
    walls, cpus = [one.wall for one in runs], [one.cpu for one in runs]
    return Taken(
        statistics.median(walls),
        statistics.median(cpus),
        max(one.memory for one in runs),
        max(one.family for one in runs),
        runs[-1].output,
        (min(walls), max(walls)) if len(runs) > 1 else None,
        (min(cpus), max(cpus)) if len(runs) > 1 else None,
    )


def in_turns(rounds: int, **programs: Callable[[], Taken]) -> dict[str, Taken]:
    """What is typical of some rounds in which all programs run once each."""
    runs: dict[str, list[Taken]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            runs[name].append(program())
    return {name: typical(taken) for name, taken in runs.items()}


def _between(value: float, spread: tuple[float, float] | None) -> str:
    return seconds(value) + ("" if spread is None else f" ({seconds(spread[0])} to {seconds(spread[1])})")


def seconds(value: float) -> str:
    """A time with three figures or so, in seconds or milliseconds."""
    if value >= 10:
        return f"{value:.1f} s"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.3g} ms"
