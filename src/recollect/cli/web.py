"""The command ``web``: the page in the browser."""

from __future__ import annotations

import contextlib
import functools
import sys
import webbrowser
from argparse import ArgumentParser, Namespace
from socket import socket

from recollect.ask.homes import Homes
from recollect.cli.export import session_pieces
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import SAMPLE, chosen_homes
from recollect.cli.terminal.options import flag, own_cache, own_data
from recollect.errors import Busy
from recollect.store.page_files import PageAddressFile
from recollect.version import __version__
from recollect.web.answers import BuiltFiles
from recollect.web.app import ServedPage, bound, serve
from recollect.web.desk import PageBackend
from recollect.web.page import ExportFormat

_USUAL_PORT = 8721  # of an address that is kept


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port (default: a free one)")
    kept = parser.add_mutually_exclusive_group()
    flag(kept, "--remember", "keep the address and the cookie for the next starts")
    flag(kept, "--forget", "forget them; serve nothing")
    flag(parser, "--no-open", "print the address; do not open a browser")
    flag(parser, "--json", "print the address as one JSON document")


def run(options: Namespace) -> int:
    file = PageAddressFile(own_data(options))
    if options.forget:
        was_kept = file.forget()
        output.say("The address is forgotten." if was_kept else "No address was kept.")
        return 0
    listening, cookie = _listening(options, file)
    port = int(listening.getsockname()[1])
    served = _served(options, port, cookie)
    address = served.address
    if options.json:
        output.print_json({"url": address, "port": port, "host": "127.0.0.1"})
    else:
        output.say(f"The page is at {address}")
        output.note("The address works once, in one browser. Ctrl-C ends the page.")
        if cookie is not None:
            output.note(f"Signed in once, that browser can keep http://127.0.0.1:{port}/ as a bookmark.")
    sys.stdout.flush()
    if not options.no_open:
        _open(address)
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the normal end
        serve(served, listening)
    return 0


def _listening(options: Namespace, file: PageAddressFile) -> tuple[socket, str | None]:
    """A port, and the cookie of earlier starts if the address is kept."""
    kept = file.read()
    if kept is None and not options.remember:
        return bound(options.port), None
    try:
        listening = bound(options.port or (kept.port if kept else _USUAL_PORT))
    except Busy as problem:
        if options.port or options.remember:
            raise
        output.note(f"{problem.message}: this time the page has another address.")
        return bound(0), None
    if options.port and kept is not None and options.port != kept.port and not options.remember:
        return listening, None  # another address, asked for once
    return listening, file.keep(int(listening.getsockname()[1])).cookie


def _served(options: Namespace, port: int, cookie: str | None) -> ServedPage:
    roots = chosen_homes(options.homes)
    data = own_data(options)
    words = [part for home in options.homes for part in ("--home", home)]
    words += ["--data", options.data] if options.data else []
    words += ["--agent", ",".join(options.only_agents)] if options.only_agents else []
    desk = PageBackend(
        Homes(*[root.path for root in roots], data=data),
        data=data,
        cache=own_cache(options),
        words=words,
        is_sample=SAMPLE in options.homes,
    )
    return ServedPage(desk, port, __version__, exports(), BuiltFiles(), cookie=cookie)


def _open(address: str) -> None:
    """Open the user's browser. If there is none, the page is still served."""
    try:
        webbrowser.open(address)
    except webbrowser.Error as problem:
        output.note(f"No browser could be opened ({problem}): open the address yourself.")


def exports() -> dict[str, ExportFormat]:
    """The formats of `recollect export`, for the page."""
    formats = {
        "html": ("text/html", "html"),
        "md": ("text/markdown", "md"),
        "json": ("application/json", "json"),
        "jsonl": ("application/x-ndjson", "jsonl"),
        "flat": ("application/x-ndjson", "flat.jsonl"),
    }
    return {
        name: ExportFormat(media_type, suffix, functools.partial(session_pieces, name))
        for name, (media_type, suffix) in formats.items()
    }
