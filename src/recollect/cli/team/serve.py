"""Run the team server: logs of many machines in one database, over HTTP.

  recollect serve --migrate           make or update the tables, then end
  recollect serve                     listen on 127.0.0.1:8787, with SQLite below the data directory

The database is sqlite:////path, postgresql://user@host/name (with several hosts: a failover is followed), or memory:
for a try that keeps nothing; $RECOLLECT_DATABASE names it too, and hides a password from the process list. Any number of
servers may run on one PostgreSQL. Organisations, members and tokens: recollect admin. Ends well on SIGTERM: open
requests finish first. One JSON line a request goes to stderr, without contents.

--page ADDRESS also shows members the page of `recollect web`, for reading: at the public address of this server, behind
the same tokens (docs/guides/team-page.md). Copies of the sessions it shows lie below the cache directory.

Example:
  recollect serve --migrate
  recollect admin org add Acme
  recollect serve --port 8787
  recollect serve --behind-proxy --page https://recollect.example.org
"""

from __future__ import annotations

import asyncio
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.terminal import output
from recollect.cli.terminal.plans import own_cache, own_data
from recollect.errors import Busy, MissingExtra, UsageError

if TYPE_CHECKING:
    from recollect.server.app import PageApp
    from recollect.server.database.contract import Database
    from recollect.server.service import Service

DATABASE = "RECOLLECT_DATABASE"
_MIB = 1 << 20


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_database(parser)
    parser.add_argument("--replica", metavar="ADDRESS", help="a PostgreSQL replica that answers reads")
    parser.add_argument("--migrate", action="store_true", help="make or update the tables, then end")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8787, help="the port to listen on (8787)")
    parser.add_argument("--tls-certificate", metavar="FILE", help="speak TLS with this certificate")
    parser.add_argument("--tls-key", metavar="FILE", help="and this key")
    parser.add_argument(
        "--behind-proxy", action="store_true", help="a proxy before this speaks TLS: listen in the clear"
    )
    parser.add_argument(
        "--page", metavar="ADDRESS", help="show members the page, at this public address: https://host"
    )
    parser.add_argument(
        "--page-cache", metavar="DIR", help="where the page keeps copies of sessions (the cache directory)"
    )
    parser.add_argument("--connections", type=int, default=10, help="to PostgreSQL, at most (10)")
    parser.add_argument(
        "--max-body", type=int, default=16, metavar="MIB", help="the largest request and line (16)"
    )
    parser.add_argument(
        "--max-rate", type=int, default=500, metavar="N", help="requests a second of one token (500)"
    )
    parser.add_argument("--quiet", action="store_true", help="only warnings on stderr")


def add_database(parser: ArgumentParser) -> None:
    """Which database; the same for every command that works on it."""
    parser.add_argument(
        "--database",
        metavar="ADDRESS",
        help="sqlite:////path, postgresql://… or memory: (default: $RECOLLECT_DATABASE, else SQLite in the data directory)",
    )


def asked_database(options: Namespace, **more: object) -> Database:
    """The database that was named, or our own."""
    try:
        from recollect.server.run import open_database
    except ImportError as missing:
        raise MissingExtra("the server", missing.name or "starlette", "server") from None
    default = f"sqlite:///{own_data(options).absolute() / 'team.sqlite'}"
    address = options.database or os.environ.get(DATABASE) or default
    return open_database(address, **more)  # type: ignore[arg-type]


def run(options: Namespace) -> int:
    """Migrate, or serve until told to end."""
    database = asked_database(options, replica=options.replica, connections=max(options.connections, 2))
    from recollect.server.database.contract import Unavailable
    from recollect.server.limits import ServerLimits
    from recollect.server.run import ServerSettings
    from recollect.server.run import run as serve
    from recollect.storage.config.our_config import price_list

    if options.migrate:
        try:
            steps = asyncio.run(database.migrate())
        except (Unavailable, OSError) as problem:
            raise Busy(
                f"the database does not answer: {problem}", hint="is it running, and the address right?"
            ) from None
        output.say(f"The tables are up to date ({steps} new)." if steps else "The tables were up to date.")
        return 0
    if bool(options.tls_certificate) != bool(options.tls_key):
        raise UsageError("TLS needs a certificate and its key", hint="give --tls-certificate and --tls-key")
    settings = ServerSettings(
        options.host,
        options.port,
        options.tls_certificate,
        options.tls_key,
        options.behind_proxy,
        options.quiet,
    )
    most = max(options.max_body, 1) * _MIB
    limits = ServerLimits(
        body_bytes=most,
        line_bytes=most,
        buffered_bytes=max(most * 3 // 2, 24 * _MIB),
        requests_per_second=max(options.max_rate, 1),
    )
    if options.database == "memory:":
        output.say(f"A token for this try, shown once: {asyncio.run(_first_token(database))}")
    try:
        serve(database, settings, limits, price_list(), _page_of(options))
    except Unavailable as problem:
        raise Busy(str(problem), hint="is it running, and the address right?") from None
    return 0


def _page_of(options: Namespace) -> Callable[[Service], PageApp] | None:
    """The page for members, if it was asked for: made of the server's door and the page's routes, which do not know each other."""
    if not options.page:
        if options.page_cache:
            raise UsageError("--page-cache: there is no page", hint="give its public address with --page")
        return None
    from recollect import __version__
    from recollect.cli.look.web import exports
    from recollect.server.page_access import TokenAuthenticator
    from recollect.services.page.members import MirrorBackends
    from recollect.web.built_files import BuiltFiles
    from recollect.web.members import MembersApp, address_of

    address = address_of(options.page)
    place = Path(options.page_cache) if options.page_cache else own_cache(options) / "team-page"

    def page_of(service: Service) -> PageApp:
        door = TokenAuthenticator(service)
        desks = MirrorBackends(place.absolute(), door.sessions_of)
        return MembersApp(door, desks, address, version=__version__, exports=exports(), built=BuiltFiles())

    return page_of


async def _first_token(database: Database) -> str:
    """So that a server that keeps nothing can be used at all."""
    from recollect.server.tenancy import GRANTABLE, founded

    await database.migrate()
    await database.open()
    try:
        return await founded(database, "try", "admin", GRANTABLE)
    finally:
        await database.close()
