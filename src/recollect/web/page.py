"""A page: its sessions, what it works on in the background, and how its handlers become routes.

A handler is a function of the page and of typed parameters. The types say what a request may send, and the description of
the page is generated from them (``share/typed_http.py``).
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from msgspec import Struct
from starlette.responses import Response

from recollect.ask.conversation.content import Cache
from recollect.ask.secrets.redactor import Redactor
from recollect.ask.sessions.projects import ProjectFilter
from recollect.ask.sessions.session import Session
from recollect.errors import RecollectError
from recollect.index import cost_queries, stat_queries
from recollect.index.frame import call_key
from recollect.index.stat_queries import CallPlace, session_titles
from recollect.model.cost.report import UsageLog
from recollect.model.files.history import FileEvents, absolute
from recollect.model.files.reports import EDITING_TOOLS, FileChange, LineTally, change_tally, changes_by_call
from recollect.model.lines.damage import readable
from recollect.model.text.titles import project_name
from recollect.share.typed_http import Media, TypedRoute
from recollect.store.logs.reader import OpenLog, entry_in
from recollect.web.desk import PageBackend
from recollect.web.health import SecretJob
from recollect.web.sessions import PageSessions

_EDITS_KEPT = 20_000


# ---- edits -----------------------------------------------------------------------------------------------

_MOST_LOOKED_AT = 2_000


class _Edit(Struct, frozen=True, gc=False):
    """What the lines say of an edit."""

    path: str
    uuid: str | None
    at: dt.datetime | None
    tally: LineTally


class RecentEditDocument(Struct, frozen=True, kw_only=True):
    """One write or edit of a file. ``uuid`` is the line that reports it, as in the versions of the file."""

    session: str
    title: str
    project: str
    cwd: str
    agent: str | None
    path: str
    tool: str
    at: dt.datetime | None
    uuid: str | None
    added: int
    removed: int


class RecentEditsDocument(Struct, frozen=True, kw_only=True):
    """Edits of all sessions, newest first. ``next``: where to continue; null at the end.

    ``total`` counts all edits of the project; ``looked``: among how many of them a text was looked for.
    """

    edits: list[RecentEditDocument]
    total: int
    looked: int
    next: int | None


class RecentEdits:
    """Answers about one backend. What a line says of an edit never changes, so it is read once."""

    def __init__(self, desk: PageBackend) -> None:
        self._desk = desk
        self._read = Cache(_EDITS_KEPT)

    def document(self, project: str | None, text: str | None, start: int, count: int) -> RecentEditsDocument:
        """Edits, newest first. ``text`` is a part of the path, looked for in the lines."""
        with self._desk.index.opened() as opened:
            database = opened.database
            numbers = cost_queries.names(database)
            tools = {number for number, name in numbers.items() if name in EDITING_TOOLS}
            fits = ProjectFilter(project) if project else None
            logs = {
                number: log
                for number, log in cost_queries.logs(database).items()
                if not log.is_gone and (fits is None or fits.fits(log.project))
            }
            places = [
                (one, number)
                for one in stat_queries.newest_edits(database, tools)
                if one.file in logs
                for number in range(one.changes or 1)
            ]
            titles = session_titles(database)
        wanted = (text or "").lower()
        found: list[RecentEditDocument] = []
        end = start
        while end < min(len(places), start + _MOST_LOOKED_AT) and len(found) < count:
            one, number = places[end]
            log, edits = logs[one.file], self._edits(logs[one.file], one)
            if number < len(edits) and wanted in edits[number].path.lower():
                title = titles.get(log.session, "")
                found.append(_document(log, one, edits[number], numbers[one.tool], title))
            end += 1
        return RecentEditsDocument(
            edits=found, total=len(places), looked=end, next=end if end < len(places) else None
        )

    def _edits(self, log: UsageLog, place: CallPlace) -> list[_Edit]:
        key = (log.path, place.place, place.answer)
        return self._read.get(key, None, lambda: _read_edits(Path(log.path), place))


def _document(log: UsageLog, place: CallPlace, edit: _Edit, tool: str, title: str) -> RecentEditDocument:
    return RecentEditDocument(
        session=log.session,
        title=title,
        project=project_name(log.project, Path(log.path).parent.name),
        cwd=log.project,
        agent=place.agent,
        path=edit.path,
        tool=tool,
        at=edit.at,
        uuid=edit.uuid,
        added=edit.tally.added,
        removed=edit.tally.removed,
    )


def _read_edits(log: Path, place: CallPlace) -> list[_Edit]:
    """The changes that the call at a place made; none where the lines are not there any more, or tell of none."""
    if place.answer is None:
        return []
    try:
        with OpenLog(log) as opened:
            call, answer = (readable(entry_in(opened, at)) for at in (place.offset, place.answer))
    except RecollectError:
        return []
    if call is None or answer is None:
        return []
    if place.changes:
        listed = changes_by_call(answer, call.raw)
        changes = next((found for name, found in listed if call_key(name) == place.key), [])
    else:
        events = FileEvents(None)
        events.add(call)
        events.add(answer)
        changes = [event for event in events.in_order() if isinstance(event, FileChange)][:1]
    return [
        _Edit(
            absolute(change.path, change.context.cwd or ""),
            change.context.entry_uuid,
            change.context.at,
            change_tally(change),
        )
        for change in changes
    ]


AT = "/api/sessions/{session}"
File = Annotated[Response, Media("application/octet-stream")]
_Handler = TypeVar("_Handler", bound=Callable[..., Any])


class ExportFormat(NamedTuple):
    """An export format: how a session is written, without secrets by default."""

    media_type: str
    suffix: str
    pieces: Callable[[Session, bool, Redactor | None], Iterable[bytes]]


class Page:
    """Everything the handlers work on."""

    def __init__(
        self, backend: PageBackend, token: str, version: str, exports: Mapping[str, ExportFormat]
    ) -> None:
        self.backend, self.token, self.version, self.exports = backend, token, version, dict(exports)
        self.listed = PageSessions(backend)
        self.secrets = SecretJob(backend)
        self.edits = RecentEdits(backend)
        self.is_remembered = False
        self.stopping = threading.Event()


class Routes(list[TypedRoute]):
    """The routes of a module, each added by its handler."""

    def get(self, path: str) -> Callable[[_Handler], _Handler]:
        return self._add("GET", path, {"cookie": []})

    def post(self, path: str) -> Callable[[_Handler], _Handler]:
        return self._add("POST", path, {"cookie": [], "token": []})

    def _add(self, method: str, path: str, security: dict[str, list[str]]) -> Callable[[_Handler], _Handler]:
        def add(run: _Handler) -> _Handler:
            self.append(TypedRoute(method, path, run, in_body=method == "POST", security=[security]))
            return run

        return add
