"""What homes of many people cost a team server and its PostgreSQL: CPU, disk and WAL of one raw byte, and searches.

python -m bench.loading HOMES [--servers N] [--first 1] [--at 20,60] [--at-once 4]

HOMES is a directory with one directory a person (p1, p2, …), each with a home `.claude` that ``bench.recollect_corpus`` wrote. Everyone
pushes with ``recollect team push``, some at once, through the servers in turn; PostgreSQL has ``fsync`` and ``full_page_writes``. After
each number of people of ``--at`` the figures of all of them are printed, the costs of each person are compared with the truth of
their home, and words that are absent, rare and common are searched for. CPU time is that of the processes; PostgreSQL's with those
that have ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from urllib.request import Request, urlopen

from bench.measured import Failed
from bench.recollect_corpus import TRUTH
from tests.server.live import LiveServer
from tests.server.postgres_cluster import Cluster

_TICKS = os.sysconf("SC_CLK_TCK")
_TABLES = {
    "bodies": ("segments",),
    "words": ("texts",),
    "usage and sums": ("usage", "rollup"),
    "audit log": ("audit",),
}
_ASKED = (("absent", "qqabsentqq"), ("rare", "qorvalith"), ("common", "error"), ("two words", "test error"))
_TIMES = 10


class LoadState(NamedTuple):
    """Counters since the start: CPU seconds of the parts, and bytes of WAL."""

    servers: float
    postgres: float
    clients: float
    wal: int


class Load:
    """A cluster, its servers and the people who push."""

    def __init__(self, homes: Path, servers: int, place: Path, stack: contextlib.ExitStack) -> None:
        self.homes, self._place = homes, place
        settings = {"shared_buffers": "512MB", "max_wal_size": "4GB", "max_connections": "100"}
        self.cluster = Cluster(settings, is_durable=True)
        stack.callback(self.cluster.stop)
        self.cluster.make()
        self._address = self.cluster.dsn()
        self.admin("team", "serve", "--migrate")
        self.admin("team", "admin", "org", "add", "Load")
        self.servers = [
            stack.enter_context(LiveServer(self._address, place, "--max-rate", "100000"))
            for _ in range(servers)
        ]
        self.reader = self._token("reader", "admin", "read")
        self.raw, self.people = 0, list[str]()

    def admin(self, *words: str) -> Any:
        environment = {**os.environ, "RECOLLECT_DATABASE": self._address, "HOME": str(self._place)}
        done = subprocess.run(
            [sys.executable, "-m", "recollect", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Failed(f"{' '.join(words)}: {done.stderr[-500:]}")
        return json.loads(done.stdout) if "--json" in words else None

    def _token(self, name: str, role: str, scopes: str) -> str:
        self.admin("team", "admin", "user", "add", "Load", name, "--role", role)
        words = (
            "team",
            "admin",
            "token",
            "add",
            "Load",
            name,
            "--scope",
            scopes,
            "--machine",
            name,
            "--json",
        )
        return str(self.admin(*words)["token"])

    def push(self, person: str, number: int) -> None:
        """One person's home, through one of the servers."""
        home = self.homes / person
        for made in (".config", ".local", ".cache"):
            shutil.rmtree(home / made, ignore_errors=True)
        token = self._token(person, "member", "read,write")
        _sync(home, "login", self.servers[number % len(self.servers)].url, given=f"{token}\n")
        _sync(home, "push")

    def state(self) -> LoadState:
        servers = sum(_cpu(one.process.pid) for one in self.servers if one.process is not None)
        clients = resource.getrusage(resource.RUSAGE_CHILDREN)
        wal = self.cluster.psql("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')")
        return LoadState(
            servers, tree_cpu(self.cluster.pid), clients.ru_utime + clients.ru_stime, int(float(wal))
        )

    def ask(self, path: str) -> Any:
        request = Request(self.servers[0].url + path, headers={"Authorization": f"Bearer {self.reader}"})
        with urlopen(request, timeout=120) as answer:
            return json.loads(answer.read())

    def wrong_costs(self) -> list[str]:
        """People whose cost differs from the truth of their home."""
        found = {row["keys"]["person"]: row["pico_usd"] for row in self.ask("/v1/cost?by=person")["rows"]}
        truth = {
            one: json.loads((self.homes / one / ".claude" / TRUTH).read_text())["total"]
            for one in self.people
        }
        return [one for one, total in truth.items() if found.get(one) != total["cost_nano_usd"] * 1000]


def tree_cpu(process: int) -> float:
    """Of a process, its children that have ended, and those that live."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return _cpu(process, is_with_ended=True) + sum(_cpu(int(child)) for child in children)


def _cpu(process: int, *, is_with_ended: bool = False) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if is_with_ended else 13])) / _TICKS


def _sync(home: Path, *words: str, given: str = "") -> None:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    done = subprocess.run(
        [sys.executable, "-m", "recollect", "team", *words],
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{home.name}: sync {words[0]}: {done.stderr[-500:]} {done.stdout[-500:]}")


def _told(load: Load, before: LoadState, wall: float) -> list[str]:
    now, raw = load.state(), load.raw
    mb = raw / 1e6
    lines = [
        f"{len(load.people)} people, {mb:,.0f} MB raw, {len(load.servers)} servers, {wall:,.0f} s by the clock",
        *(
            f"CPU of {name}: {getattr(now, name) - getattr(before, name):.1f} s, {(getattr(now, name) - getattr(before, name)) / mb:.4f} s per MB"
            for name in ("servers", "postgres", "clients")
        ),
        f"WAL {(now.wal - before.wal) / raw:.3f} bytes of a raw byte",
    ]
    sizes = dict(
        line.split("|")
        for line in load.cluster.psql(
            "SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_class c WHERE c.relkind = 'r'",
            "recollect",
        ).splitlines()
    )
    rest = int(load.cluster.psql("SELECT pg_database_size('recollect')"))
    lines.append(f"database {rest / raw:.3f} bytes of a raw byte")
    for name, tables in _TABLES.items():
        size = sum(int(size) for table, size in sizes.items() if table.startswith(tables))
        rest -= size
        lines.append(f"  {name} {size / raw:.3f}")
    return [*lines, f"  the rest {rest / raw:.3f}"]


def _searched(load: Load) -> list[str]:
    lines = []
    for name, words in _ASKED:
        path = f"/v1/search?q={quote(words)}&limit=20"
        hits = len(load.ask(path)["hits"])
        before, server = tree_cpu(load.cluster.pid), load.state().servers
        for _ in range(_TIMES):
            load.ask(path)
        cpu = (tree_cpu(load.cluster.pid) - before) / _TIMES * 1000
        served = (load.state().servers - server) / _TIMES * 1000
        lines.append(
            f"search {name}: {hits} hits, PostgreSQL {cpu:.1f} ms CPU, server {served:.1f} ms CPU a search"
        )
    return lines


def main() -> int:
    """Print the figures; 1 where a cost is wrong."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("homes", type=Path)
    options.add_argument("--servers", type=int, default=1)
    options.add_argument("--first", type=int, default=1, help="the number of the first person")
    options.add_argument("--at", default="20,60")
    options.add_argument("--at-once", type=int, default=4)
    options.add_argument("--hold", action="store_true", help="keep the servers until the standard input ends")
    given = options.parse_args()
    wrong: list[str] = []
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="recollect-load-")))
        load = Load(given.homes, given.servers, place, stack)
        before, start = load.state(), time.monotonic()
        for most in map(int, given.at.split(",")):
            people = [f"p{given.first + number}" for number in range(len(load.people), most)]
            with ThreadPoolExecutor(given.at_once) as pool:
                list(pool.map(load.push, people, range(len(people))))
            load.people += people
            load.raw += sum(_size(given.homes / person) for person in people)
            print("\n".join(_told(load, before, time.monotonic() - start)), flush=True)
            searching, begun = load.state(), time.monotonic()
            print("\n".join(_searched(load)), flush=True)
            wrong = load.wrong_costs()
            print(
                f"{len(load.people)} costs compared with the truth, {len(wrong)} differ: {wrong}", flush=True
            )
            # What was asked is no part of the load.
            spent = [now - then for now, then in zip(load.state(), searching, strict=True)]
            before = LoadState._make(then + one for then, one in zip(before, spent, strict=True))
            start += time.monotonic() - begun
        # Old months fill only while history is brought in; then autovacuum does this, and searches read no lists of new words.
        load.cluster.psql("VACUUM texts", "recollect")
        print("\n".join(["after VACUUM:", *_searched(load)]), flush=True)
        if given.hold:
            print(load.cluster.dsn(), load.cluster.pid, load.servers[0].url, load.reader, flush=True)
            sys.stdin.read()
    return 1 if wrong else 0


def _size(home: Path) -> int:
    return sum(path.stat().st_size for path in (home / ".claude" / "projects").rglob("*") if path.is_file())


if __name__ == "__main__":
    raise SystemExit(main())
