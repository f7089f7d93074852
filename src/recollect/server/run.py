"""Starts the server and stops it in order: no new connections, finish requests, end streams, close the
database.

It also parses database addresses.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import uvicorn

from recollect.errors import MissingExtra, UsageError
from recollect.server.app import JsonLineFormatter, make_app
from recollect.server.database.sql import Database
from recollect.server.database.sqlite import SqliteDatabase
from recollect.server.metrics import RequestLog
from recollect.server.page.routes import MembersApp
from recollect.server.service import Service
from recollect.web.app import TimedProtocol

_GRACE_SECONDS = 20
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ServerSettings(NamedTuple):
    """Where and how to listen."""

    host: str = "127.0.0.1"
    port: int = 8787
    certificate: str | None = None
    key: str | None = None
    is_behind_proxy: bool = False
    is_quiet: bool = False
    # Addresses and networks of proxies whose X-Forwarded-For is believed.
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")


def open_database(address: str, replica: str | None = None, connections: int = 10) -> Database:
    """The database at an address: ``memory:``, ``sqlite:///path`` or ``postgresql://…``."""
    kind, _, rest = address.partition(":")
    if kind in ("postgresql", "postgres"):
        try:
            from recollect.server.database.postgres import PostgresDatabase
        except ImportError:
            raise MissingExtra("PostgreSQL", "asyncpg", "server") from None
        return PostgresDatabase(address, replica=replica, connections=connections)
    if replica is not None:
        raise UsageError("a replica needs PostgreSQL", hint="leave --replica out")
    if kind == "memory" and not rest:
        return _database_for_a_try()
    if kind == "sqlite" and rest.startswith("///") and len(rest) > 3:
        return SqliteDatabase(Path(rest[3:]))
    raise UsageError(
        "database: the address is not valid",
        hint="write sqlite:////var/lib/recollect/team.sqlite, postgresql://user@host/name, or memory:",
    )


def _database_for_a_try() -> Database:
    """SQLite in a directory that is removed with the process."""
    directory = tempfile.TemporaryDirectory(prefix="recollect-try-")
    database = SqliteDatabase(Path(directory.name) / "team.sqlite")
    weakref.finalize(database, directory.cleanup)
    return database


def check_listening(settings: ServerSettings) -> None:
    """Refuse to send tokens and conversations unencrypted over a network."""
    if settings.host in _LOOPBACK or settings.is_behind_proxy or settings.certificate:
        return
    raise UsageError(
        f"{settings.host}: reachable from other machines without TLS",
        hint="give --tls-certificate and --tls-key, or --behind-proxy where a proxy does TLS",
    )


def run(service: Service, settings: ServerSettings, page: MembersApp | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    check_listening(settings)
    log_as_json(is_quiet=settings.is_quiet)
    asyncio.run(_check(service.database))
    if not settings.is_quiet:
        service.request_log = RequestLog(sys.stderr.buffer)

    class TeamServer(uvicorn.Server):
        def handle_exit(self, sig: int, frame: object) -> None:
            service.closing.set()
            if page is not None:
                page.stop()
            super().handle_exit(sig, frame)  # type: ignore[arg-type]

    config = uvicorn.Config(
        make_app(service, page=page),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        limit_concurrency=service.limits.connections,
        http=TimedProtocol,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        proxy_headers=settings.is_behind_proxy,
        forwarded_allow_ips=list(settings.trusted_proxies),
        ws="none",
    )
    server = TeamServer(config)
    # uvicorn raises the signal again after shutdown; that must not turn an orderly end into a kill.
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        server.run()
    finally:
        signal.signal(signal.SIGTERM, before)
    if not server.started:
        raise UsageError("the server did not start", hint="see its log on stderr")


async def _check(database: Database) -> None:
    """Open it once, so that a failure is reported in plain words."""
    await database.open()
    await database.close()


def log_as_json(*, is_quiet: bool) -> None:
    """Everything that is written to stderr from now on is one JSON object a line: also warnings, and what no one caught
    in a thread, a task or a destructor."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("recollect.server", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.WARNING if is_quiet else logging.INFO)
    logging.captureWarnings(capture=True)
    sys.excepthook = lambda *found: root.critical("uncaught", exc_info=found)
    threading.excepthook = lambda found: _uncaught(found.exc_type, found.exc_value, found.exc_traceback)
    sys.unraisablehook = lambda found: _uncaught(found.exc_type, found.exc_value, found.exc_traceback)


def _uncaught(kind: type[BaseException], problem: BaseException | None, where: TracebackType | None) -> None:
    if problem is not None:
        logging.getLogger().error("uncaught", exc_info=(kind, problem, where))
