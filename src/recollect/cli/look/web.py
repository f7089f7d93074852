"""Open a page in the browser: read and search sessions, see costs and findings.

Serves on this machine only (loopback), on a free port. The address works once,
for the first browser that opens it. Nothing is fetched from the network.
Changes made on the page have the same plans and undo as the commands. Ctrl-C
ends it. Needs the extra recollect[web].

--remember keeps port and cookie in recollect's data directory: from then on the
page has the same address after each start, bookmarks and links work, and the
browser stays signed in for half a year. --forget ends that.

Example:
  recollect web
  recollect web --remember
  recollect web --port 8123 --no-open
  recollect --home :sample web
"""

from __future__ import annotations

import contextlib
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import SAMPLE, chosen_homes
from recollect.errors import Busy, MissingExtra
from recollect.services.documents.page import AddressDocument
from recollect.storage.page_address import PageAddressFile

if TYPE_CHECKING:
    from socket import socket

    from recollect.model.conversation.conversation import Messages
    from recollect.services.export.export import Redactor
    from recollect.services.session import Session
    from recollect.web.app import ServedPage
    from recollect.web.page import ExportFormat

_USUAL_PORT = 8721  # of an address that is kept


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port (default: a free one)")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument(
        "--remember", action="store_true", help="keep the address and the cookie for the next starts"
    )
    kept.add_argument("--forget", action="store_true", help="forget them; serve nothing")
    parser.add_argument("--no-open", action="store_true", help="print the address; do not open a browser")
    parser.add_argument("--json", action="store_true", help="print the address as one JSON document")


def run(options: Namespace) -> int:
    try:
        from recollect.web.launch import serve
    except ModuleNotFoundError as missing:
        raise MissingExtra("the page", missing.name or "uvicorn", "web") from missing
    file = PageAddressFile(change_plans.own_data(options))
    if options.forget:
        was_kept = file.forget()
        output.say("The address is forgotten." if was_kept else "No address was kept.")
        return 0
    listening, cookie = _listening(options, file)
    port = int(listening.getsockname()[1])
    served = _served(options, port, cookie)
    address = served.address
    if options.json:
        output.print_json(AddressDocument(address, port, "127.0.0.1"))
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
    from recollect.web.launch import bound

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
    from recollect import __version__
    from recollect.services.homes import Home
    from recollect.services.page.desk import PageBackend
    from recollect.web.app import ServedPage
    from recollect.web.built_files import BuiltFiles

    roots = chosen_homes(options.homes)
    data = change_plans.own_data(options)
    words = [part for home in options.homes for part in ("--home", home)]
    words += ["--data", options.data] if options.data else []
    words += ["--agent", ",".join(options.only_agents)] if options.only_agents else []
    desk = PageBackend(
        Home(*[root.path for root in roots], data=data),
        data=data,
        cache=change_plans.own_cache(options),
        words=words,
        is_sample=SAMPLE in options.homes,
    )
    return ServedPage(desk, port, __version__, exports(), BuiltFiles(), cookie=cookie)


def _open(address: str) -> None:
    """Open the user's browser. If there is none, the page is still served."""
    import webbrowser

    try:
        webbrowser.open(address)
    except webbrowser.Error as problem:
        output.note(f"No browser could be opened ({problem}): open the address yourself.")


# ---- export formats --------------------------------------------------------------------------------------


def exports() -> dict[str, ExportFormat]:
    """The formats of `recollect export`, for the page."""
    from recollect.web.page import ExportFormat

    return {
        "html": ExportFormat("text/html", "html", _html),
        "md": ExportFormat("text/markdown", "md", _markdown),
        "json": ExportFormat("application/json", "json", _json),
        "jsonl": ExportFormat("application/x-ndjson", "jsonl", _jsonl),
        "flat": ExportFormat("application/x-ndjson", "flat.jsonl", _flat),
    }


def _html(session: Session, whole: bool, redactor: Redactor | None) -> Iterable[bytes]:
    from recollect.services.export.html_export import one_page

    return one_page(session, redactor, whole=whole)


def _markdown(session: Session, whole: bool, redactor: Redactor | None) -> Iterable[bytes]:
    from recollect.cli.terminal import markdown_view
    from recollect.cli.terminal.conversation_view import DisplayOptions, ToolDetail

    view = DisplayOptions(ToolDetail("full"), True)

    def pieces() -> Iterator[bytes]:
        yield markdown_view.document_head(session.title, session.id, session.cwd).encode("utf-8", "replace")
        for message in _messages(session, whole):
            yield markdown_view.message(message, view).encode("utf-8", "replace")

    return pieces() if redactor is None else redactor.texts(pieces())


def _json(session: Session, whole: bool, redactor: Redactor | None) -> Iterable[bytes]:
    from recollect.services.documents.conversation import conversation_pieces

    messages = _messages(session, whole)
    damage = session.damage() if redactor is None else redactor.discreet(session.damage())
    pieces = conversation_pieces(session.id, messages, len(messages), damage)
    return pieces if redactor is None else redactor.fragments(pieces)


def _jsonl(session: Session, whole: bool, redactor: Redactor | None) -> Iterable[bytes]:
    from recollect.services.export import export

    pieces = export.log_bytes(session.path)
    return pieces if redactor is None else redactor.lines(pieces)


def _flat(session: Session, whole: bool, redactor: Redactor | None) -> Iterable[bytes]:
    from recollect.services.export import export

    pieces = export.flat_bytes(export.flat(session, whole=whole))
    return pieces if redactor is None else redactor.lines(pieces)


def _messages(session: Session, whole: bool) -> Messages:
    from recollect.services import whole_session

    conversation = session.conversation(whole=whole)
    return whole_session.whole_messages(session, conversation) if whole else conversation.messages
