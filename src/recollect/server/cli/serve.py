"""Run the team server: sessions of many machines in one database, over HTTP.

  recollect team serve --migrate   create or update the tables, then exit
  recollect team serve             listen on 127.0.0.1:8787, with SQLite in the
                                   data directory

The database is sqlite:////path, postgresql://user@host/name (several hosts for
failover), or memory: for a trial that stores nothing. $RECOLLECT_DATABASE also
sets it and keeps a password out of the process list. Several servers can share
one PostgreSQL. `recollect team admin` manages organisations, members and
tokens. On SIGTERM, open requests finish first. Each request is logged as one
JSON line on stderr, without content.

--objects s3://BUCKET moves lines older than an hour out of PostgreSQL into
objects, and reads them from there. `recollect team serve worker` only moves
lines; with --no-worker a server leaves that to it.

--page ADDRESS also serves the page of `recollect web`, read-only, to members
with a token, at the public address of this server (docs/guides/team-page.md).
--oidc FILE lets them sign in at their organisation's identity provider, there
and with `recollect team login --sso` (docs/guides/sign-in.md).

Example:
  recollect team serve --migrate
  recollect team admin org add Acme
  recollect team serve --port 8787
  recollect team serve --behind-proxy --page https://recollect.example.org
  recollect team serve worker --objects s3://recollect-bodies
"""

from __future__ import annotations

import asyncio
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.ask.sessions.home_guard import refuse_agent_home
from recollect.cli.terminal import output
from recollect.cli.terminal.options import own_cache, own_data
from recollect.cli.web import exports
from recollect.errors import Busy, MissingExtra, UsageError
from recollect.server.database.records import Unavailable
from recollect.server.database.sql import Database
from recollect.server.page.members import MirrorBackends
from recollect.server.page.routes import MembersApp, PublicAddress, address_of
from recollect.server.run import ServerSettings, log_as_json, open_database
from recollect.server.run import run as serve
from recollect.server.service import ServerLimits, Service
from recollect.server.tenancy import GRANTABLE, founded
from recollect.store.own_settings import price_list
from recollect.version import __version__
from recollect.web.answers import BuiltFiles

if TYPE_CHECKING:
    from recollect.server.objects import BodyMover
    from recollect.server.sign_in import SignIns

DATABASE, OBJECTS = "RECOLLECT_DATABASE", "RECOLLECT_OBJECTS"
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


def asked_database(options: Namespace, **more: object) -> Database:
    """The database that was named, or the default one."""
    default = f"sqlite:///{own_data(options).absolute() / 'team.sqlite'}"
    address = options.database or os.environ.get(DATABASE) or default
    return open_database(address, **more)  # type: ignore[arg-type]


def run(options: Namespace) -> int:
    database = asked_database(options, replica=options.replica, connections=max(options.connections, 2))

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
        _checked_proxies(options.trusted_proxy),
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
    service = Service(database, limits=limits, prices=price_list())
    service.mover = mover
    address = address_of(options.page) if options.page else None
    if options.oidc:
        service.sign_in = _sign_ins(Path(options.oidc), database, address.origin if address else None)
    page = _page(options, service, address)
    try:
        serve(service, settings, page)
    except Unavailable as problem:
        raise Busy(str(problem), hint="check that it is running and that the address is right") from None
    return 0


def _checked_proxies(texts: Sequence[str]) -> tuple[str, ...]:
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


def _migrated(database: Database) -> int:
    try:
        steps = asyncio.run(database.migrate())
    except (Unavailable, OSError) as problem:
        raise Busy(
            f"cannot reach the database: {problem}",
            hint="check that it is running and that the address is right",
        ) from None
    output.say(f"The tables are up to date ({steps} new)." if steps else "The tables were up to date.")
    return 0


def _mover_of(options: Namespace, database: Database) -> BodyMover | None:
    """What moves bodies of logs to an object store, where one is named."""
    address = options.objects or os.environ.get(OBJECTS)
    for name in ("once",) if options.role is None else ("no_worker", "migrate", "page"):
        if getattr(options, name):
            what = "is for `team serve worker`" if options.role is None else "is not for a worker"
            raise UsageError(f"--{name.replace('_', '-')}: {what}", hint="leave it out")
    if not address:
        if options.role is not None or options.no_worker:
            raise UsageError("a worker needs an object store", hint="give --objects s3://BUCKET")
        return None
    try:
        from recollect.server.objects import with_objects
    except ImportError as missing:
        raise MissingExtra("an object store", missing.name or "obstore", "server", "data") from None
    mover = with_objects(database, address, os.environ)
    mover.is_working = not options.no_worker
    return mover


def _worked(options: Namespace, mover: BodyMover | None) -> int:
    """A worker's life: until a signal, or with --once until nothing is left."""
    if mover is None:
        return 0
    try:
        if options.once:
            done = asyncio.run(mover.work_once())
            output.say(
                f"Moved {done.lines} lines into {done.objects} objects ({done.raw_bytes} to {done.stored_bytes} bytes),"
                f" removed {done.removed} objects."
            )
            if done.problem is not None:
                raise Busy(done.problem, hint="check the object store's address and credentials")
            return 0
        log_as_json(is_quiet=options.quiet)
        asyncio.run(mover.work_until_signal())
    except Unavailable as problem:
        raise Busy(str(problem), hint="check that it is running and that the address is right") from None
    return 0


def _page(options: Namespace, service: Service, address: PublicAddress | None) -> MembersApp | None:
    """The page for members, if wanted."""
    if address is None:
        if options.page_cache:
            raise UsageError("--page-cache: needs --page", hint="add --page ADDRESS")
        return None
    place = Path(options.page_cache) if options.page_cache else own_cache(options) / "team-page"
    refuse_agent_home(place, "--page-cache DIR")
    backends = MirrorBackends(place.absolute(), service)
    return MembersApp(service, backends, address, version=__version__, exports=exports(), built=BuiltFiles())


def _sign_ins(path: Path, database: Database, origin: str | None) -> SignIns:
    """Sign-in through the providers that a file names. ``origin``: the public address of the page."""
    try:
        from recollect.server.identity_provider import IdentityProvider, load_providers
        from recollect.server.sign_in import SignIns
    except ImportError as missing:
        raise MissingExtra("sign-in", missing.name or "joserfc", "server") from None
    providers = [IdentityProvider(settings, settings.secret()) for settings in load_providers(path)]
    return SignIns(database, providers, origin)


async def _first_token(database: Database) -> str:
    """A token for a database that stores nothing: without one, it could not be used."""

    await database.migrate()
    await database.open()
    try:
        return await founded(database, "try", "admin", GRANTABLE)
    finally:
        await database.close()
