"""Starts the server and stops it in order: no new connections, finish requests, end streams, close the
database.

It also parses database addresses.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from ipaddress import ip_network
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from recollect.errors import MissingExtra, UsageError
from recollect.model.cost.prices import PriceList
from recollect.server.app import JsonLineFormatter, PageApp, make_app
from recollect.server.database.contract import Database
from recollect.server.limits import ServerLimits
from recollect.server.request_log import RequestLog
from recollect.server.service import ObjectWork, Service

if TYPE_CHECKING:
    from recollect.server.oidc.sign_in import SignIns

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


def open_database(
    address: str, replica: str | None = None, connections: int = 10, clusters: Path | None = None
) -> Database:
    """The database at an address: ``memory:``, ``sqlite:///path`` or ``postgresql://…``. ``clusters``: a file that names
    more of PostgreSQL."""
    kind, _, rest = address.partition(":")
    if kind in ("postgresql", "postgres"):
        try:
            from recollect.server.database.postgres import PostgresDatabase
        except ImportError:
            raise MissingExtra("PostgreSQL", "asyncpg", "server", "pg") from None
        first = PostgresDatabase(address, replica=replica, connections=connections)
        if clusters is None:
            return first
        from recollect.server.clusters.router import ClusterDatabase
        from recollect.server.clusters.settings import MAIN, load_clusters

        more = {
            name: PostgresDatabase(one.address, replica=one.replica, connections=connections)
            for name, one in load_clusters(clusters).items()
        }
        return ClusterDatabase({MAIN: first, **more}).as_database()
    if clusters is not None:
        raise UsageError("--clusters: needs PostgreSQL", hint="leave it out")
    if replica is not None:
        raise UsageError("a replica needs PostgreSQL", hint="leave --replica out")
    if kind == "memory" and not rest:
        return _database_for_a_try()
    if kind == "sqlite" and rest.startswith("///") and len(rest) > 3:
        from recollect.server.database.sqlite import SqliteDatabase

        return SqliteDatabase(Path(rest[3:]))
    raise UsageError(
        "database: the address is not valid",
        hint="write sqlite:////var/lib/recollect/team.sqlite, postgresql://user@host/name, or memory:",
    )


def _database_for_a_try() -> Database:
    """SQLite in a directory that is removed with the process."""
    import tempfile
    import weakref

    from recollect.server.database.sqlite import SqliteDatabase

    directory = tempfile.TemporaryDirectory(prefix="recollect-try-")
    database = SqliteDatabase(Path(directory.name) / "team.sqlite")
    weakref.finalize(database, directory.cleanup)
    return database


def identity_providers(path: Path, origin: str | None) -> Callable[[Database], SignIns]:
    """Sign-in through the providers that a file names. ``origin``: the public address of the page."""
    try:
        from recollect.server.oidc.provider import IdentityProvider
        from recollect.server.oidc.settings import load_providers
        from recollect.server.oidc.sign_in import SignIns
    except ImportError as missing:
        raise MissingExtra("sign-in", missing.name or "joserfc", "server", "oidc") from None
    providers = [IdentityProvider(one, one.secret()) for one in load_providers(path)]
    return lambda database: SignIns(database, providers, origin)


def check_listening(settings: ServerSettings) -> None:
    """Refuse to send tokens and conversations unencrypted over a network."""
    if settings.host in _LOOPBACK or settings.is_behind_proxy or settings.certificate:
        return
    raise UsageError(
        f"{settings.host}: reachable from other machines without TLS",
        hint="give --tls-certificate and --tls-key, or --behind-proxy where a proxy does TLS",
    )


def checked_proxies(texts: Sequence[str]) -> tuple[str, ...]:
    """Networks of proxies, or the loopback where none are given."""
    for text in texts:
        try:
            ip_network(text)
        except ValueError:
            raise UsageError(
                f"--trusted-proxy {text!a}: not an address or a network",
                hint="write 10.0.0.7 or 10.0.0.0/24, without bits after the mask",
            ) from None
    return tuple(texts) or ServerSettings().trusted_proxies


def run(
    database: Database,
    settings: ServerSettings,
    limits: ServerLimits | None = None,
    prices: PriceList | None = None,
    *,
    page_of: Callable[[Service], PageApp] | None = None,
    sign_in_of: Callable[[Database], SignIns] | None = None,
    mover: ObjectWork | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; with a page for members if ``page_of`` is given, and sign-in through identity
    providers if ``sign_in_of`` is. ``mover``: for bodies of logs in an object store."""
    try:
        import uvicorn

        from recollect.server.protocol import protocol_for
    except ImportError as missing:
        raise MissingExtra("the server", missing.name or "uvicorn", "server") from None
    check_listening(settings)
    log_as_json(is_quiet=settings.is_quiet)
    asyncio.run(_check(database))
    service = Service(database, limits=limits, prices=prices)
    service.mover = mover
    if not settings.is_quiet:
        service.notes.log = RequestLog(sys.stderr.buffer)
    if sign_in_of is not None:
        service.sign_in = sign_in_of(database)
    page = None if page_of is None else page_of(service)

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
        http=protocol_for(service),
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
    # What is here now stays: a collection of cycles need not look at it again while requests wait.
    gc.freeze()
    try:
        server.run()
    finally:
        signal.signal(signal.SIGTERM, before)
        if service.notes.log is not None:
            service.notes.log.flush()
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
