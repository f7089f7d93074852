"""Run the team server: sessions of many machines in one database, over HTTP.

  recollect serve --migrate   create or update the tables, then exit
  recollect serve             listen on 127.0.0.1:8787, with SQLite in the data
                              directory

The database is sqlite:////path, postgresql://user@host/name (several hosts for
failover), or memory: for a trial that stores nothing. $RECOLLECT_DATABASE also
sets it and keeps a password out of the process list. Several servers can share
one PostgreSQL. `recollect admin` manages organisations, members and tokens. On
SIGTERM, open requests finish first. Each request is logged as one JSON line on
stderr, without content.

--objects s3://BUCKET moves lines older than an hour out of PostgreSQL into
objects, and reads them from there. `recollect serve worker` only moves lines;
with --no-worker a server leaves that to it.

--clusters FILE names more PostgreSQL clusters: each organisation is in one of
them, and `recollect admin org move` moves it while its members work.

--page ADDRESS also serves the page of `recollect web`, read-only, to members
with a token, at the public address of this server (docs/guides/team-page.md).
--oidc FILE lets them sign in at their organisation's identity provider, there
and with `recollect sync login --sso` (docs/guides/sign-in.md).

Example:
  recollect serve --migrate
  recollect admin org add Acme
  recollect serve --port 8787
  recollect serve --behind-proxy --page https://recollect.example.org
  recollect serve worker --objects s3://recollect-bodies
"""

from __future__ import annotations

import asyncio
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.terminal import output
from recollect.cli.terminal.change_plans import own_cache, own_data
from recollect.errors import Busy, MissingExtra, UsageError
from recollect.services.home_guard import refuse_agent_home

if TYPE_CHECKING:
    from recollect.server.app import PageApp
    from recollect.server.database.contract import Database
    from recollect.server.objects.mover import BodyMover, ClusterMovers
    from recollect.server.oidc.sign_in import SignIns
    from recollect.server.service import Service

DATABASE, OBJECTS, CLUSTERS = "RECOLLECT_DATABASE", "RECOLLECT_OBJECTS", "RECOLLECT_CLUSTERS"
_MIB = 1 << 20


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("role", nargs="?", choices=("worker",), help="worker: only move lines to objects")
    add_database(parser)
    parser.add_argument(
        "--objects",
        metavar="ADDRESS",
        help="s3://BUCKET/PREFIX for lines older than an hour (default: $RECOLLECT_OBJECTS, else none)",
    )
    parser.add_argument(
        "--no-worker", action="store_true", help="read objects, but leave moving lines to a worker"
    )
    parser.add_argument("--once", action="store_true", help="worker: move what there is, then exit")
    parser.add_argument("--replica", metavar="ADDRESS", help="a PostgreSQL replica for reads")
    parser.add_argument("--migrate", action="store_true", help="create or update the tables, then exit")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8787, help="port to listen on (default 8787)")
    parser.add_argument("--tls-certificate", metavar="FILE", help="certificate for TLS")
    parser.add_argument("--tls-key", metavar="FILE", help="key for TLS")
    parser.add_argument(
        "--behind-proxy", action="store_true", help="a proxy in front handles TLS: listen without it"
    )
    parser.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="CIDR",
        help="believe X-Forwarded-For of proxies there (repeatable; default: this machine)",
    )
    parser.add_argument(
        "--page", metavar="ADDRESS", help="serve the page to members, at this public https:// address"
    )
    parser.add_argument(
        "--page-cache", metavar="DIR", help="copies of sessions for the page (default: cache directory)"
    )
    parser.add_argument(
        "--oidc", metavar="FILE", help="sign-in through the identity providers of this TOML file"
    )
    parser.add_argument(
        "--connections", type=int, default=10, help="most connections to PostgreSQL (default 10)"
    )
    parser.add_argument(
        "--max-body", type=int, default=16, metavar="MIB", help="largest request or line (default 16)"
    )
    parser.add_argument(
        "--max-rate",
        type=int,
        default=500,
        metavar="N",
        help="most requests per second and token (default 500)",
    )
    parser.add_argument("--quiet", action="store_true", help="log only warnings")


def add_database(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--database",
        metavar="ADDRESS",
        help="sqlite:////path, postgresql://… or memory: (default: $RECOLLECT_DATABASE, else SQLite in the data directory)",
    )
    parser.add_argument(
        "--clusters",
        metavar="FILE",
        help="a TOML file that names more PostgreSQL clusters (default: $RECOLLECT_CLUSTERS, else none)",
    )


def asked_database(options: Namespace, **more: object) -> Database:
    """The database that was named, or the default one."""
    try:
        from recollect.server.run import open_database
    except ImportError as missing:
        raise MissingExtra("the server", missing.name or "starlette", "server") from None
    default = f"sqlite:///{own_data(options).absolute() / 'team.sqlite'}"
    address = options.database or os.environ.get(DATABASE) or default
    named = options.clusters or os.environ.get(CLUSTERS)
    clusters = Path(named) if named else None
    return open_database(address, clusters=clusters, **more)  # type: ignore[arg-type]


def run(options: Namespace) -> int:
    database = asked_database(options, replica=options.replica, connections=max(options.connections, 2))
    from recollect.server.database.contract import Unavailable
    from recollect.server.limits import ServerLimits
    from recollect.server.run import ServerSettings, checked_proxies
    from recollect.server.run import run as serve
    from recollect.storage.config.our_config import price_list

    mover = _mover_of(options, database)
    if options.migrate:
        return _migrated(database)
    if options.role == "worker":
        return _worked(options, mover)
    if bool(options.tls_certificate) != bool(options.tls_key):
        raise UsageError("TLS needs a certificate and its key", hint="give --tls-certificate and --tls-key")
    if options.trusted_proxy and not options.behind_proxy:
        raise UsageError("--trusted-proxy: needs --behind-proxy", hint="add --behind-proxy")
    settings = ServerSettings(
        options.host,
        options.port,
        options.tls_certificate,
        options.tls_key,
        options.behind_proxy,
        options.quiet,
        checked_proxies(options.trusted_proxy),
    )
    most = max(options.max_body, 1) * _MIB
    limits = ServerLimits(
        body_bytes=most,
        line_bytes=most,
        buffered_bytes=max(most * 3 // 2, 24 * _MIB),
        requests_per_second=max(options.max_rate, 1),
    )
    if options.database == "memory:":
        output.say(f"Token for this trial, shown once: {asyncio.run(_first_token(database))}")
    try:
        serve(
            database,
            settings,
            limits,
            price_list(),
            page_of=_page_of(options),
            sign_in_of=_sign_in_of(options),
            mover=mover,
        )
    except Unavailable as problem:
        raise Busy(str(problem), hint="check that it is running and that the address is right") from None
    return 0


def _migrated(database: Database) -> int:
    from recollect.server.database.contract import Unavailable

    try:
        steps = asyncio.run(database.migrate())
    except (Unavailable, OSError) as problem:
        raise Busy(
            f"cannot reach the database: {problem}",
            hint="check that it is running and that the address is right",
        ) from None
    output.say(f"The tables are up to date ({steps} new)." if steps else "The tables were up to date.")
    return 0


def _mover_of(options: Namespace, database: Database) -> BodyMover | ClusterMovers | None:
    """What moves bodies of logs to an object store, where one is named."""
    address = options.objects or os.environ.get(OBJECTS)
    for name in ("once",) if options.role is None else ("no_worker", "migrate", "page"):
        if getattr(options, name):
            what = "is for `serve worker`" if options.role is None else "is not for a worker"
            raise UsageError(f"--{name.replace('_', '-')}: {what}", hint="leave it out")
    if not address:
        if options.role is not None or options.no_worker:
            raise UsageError("a worker needs an object store", hint="give --objects s3://BUCKET")
        return None
    try:
        from recollect.server.objects.mover import with_objects
    except ImportError as missing:
        raise MissingExtra("an object store", missing.name or "asyncpg", "pg", "lake") from None
    mover = with_objects(database, address, os.environ)
    mover.is_working = not options.no_worker
    return mover


def _worked(options: Namespace, mover: BodyMover | ClusterMovers | None) -> int:
    """A worker's life: until a signal, or with --once until nothing is left."""
    from recollect.server.database.contract import Unavailable
    from recollect.server.objects.mover import work_until_signal, worked_once
    from recollect.server.run import log_as_json

    if mover is None:
        return 0
    try:
        if options.once:
            done = asyncio.run(worked_once(mover))
            output.say(
                f"Moved {done.lines} lines into {done.objects} objects ({done.raw_bytes} to {done.stored_bytes} bytes),"
                f" removed {done.removed} objects."
            )
            if done.problem is not None:
                raise Busy(done.problem, hint="check the object store's address and credentials")
            return 0
        log_as_json(is_quiet=options.quiet)
        asyncio.run(work_until_signal(mover))
    except Unavailable as problem:
        raise Busy(str(problem), hint="check that it is running and that the address is right") from None
    return 0


def _page_of(options: Namespace) -> Callable[[Service], PageApp] | None:
    """The page for members, if wanted. Joins the server's sign-in with the page's routes, which do not import each other."""
    if not options.page:
        if options.page_cache:
            raise UsageError("--page-cache: needs --page", hint="add --page ADDRESS")
        return None
    from recollect import __version__
    from recollect.cli.look.web import exports
    from recollect.server.page_access import TokenAuthenticator
    from recollect.services.page.members import MirrorBackends
    from recollect.web.built_files import BuiltFiles
    from recollect.web.members import MembersApp, address_of

    address = address_of(options.page)
    place = Path(options.page_cache) if options.page_cache else own_cache(options) / "team-page"
    refuse_agent_home(place, "--page-cache DIR")

    def page_of(service: Service) -> PageApp:
        door = TokenAuthenticator(service)
        desks = MirrorBackends(place.absolute(), door.copies_of, door.seen_by)
        return MembersApp(door, desks, address, version=__version__, exports=exports(), built=BuiltFiles())

    return page_of


def _sign_in_of(options: Namespace) -> Callable[[Database], SignIns] | None:
    if not options.oidc:
        return None
    from recollect.server.run import identity_providers

    origin = None
    if options.page:
        from recollect.web.members import address_of

        origin = address_of(options.page).origin
    return identity_providers(Path(options.oidc), origin)


async def _first_token(database: Database) -> str:
    """A token for a database that stores nothing: without one, it could not be used."""
    from recollect.server.tenancy import GRANTABLE, founded

    await database.migrate()
    await database.open()
    try:
        return await founded(database, "try", "admin", GRANTABLE)
    finally:
        await database.close()
