"""The newest edits of files over all sessions: the index knows where they are, and only their lines are read."""

from __future__ import annotations

import datetime as dt
import threading
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from recollect.errors import RecollectError
from recollect.index import cost_queries, stat_queries
from recollect.index.frame import call_key
from recollect.index.prompt_queries import session_titles
from recollect.index.stat_queries import CallPlace
from recollect.model.blocks import ToolResultBlock, ToolUseBlock
from recollect.model.cost.report import UsageLog
from recollect.model.damage import Damage, Line
from recollect.model.entry import Assistant, Entry, User
from recollect.model.files.call_changes import changes_by_call
from recollect.model.files.edit_tools import EDITING_TOOLS
from recollect.model.files.events import FileEvents, absolute
from recollect.model.files.line_tally import LineTally, change_tally
from recollect.model.files.reports import FileChange
from recollect.services.cost.report import logs_of
from recollect.services.documents.page import RecentEditDocument, RecentEditsDocument
from recollect.services.page.desk import PageBackend
from recollect.services.page.sessions import project_name
from recollect.services.projects import ProjectFilter
from recollect.services.stats.usage import database_of
from recollect.storage.logs.reader import LogReader, OpenLog, entry_in

# A result stands a few lines after its call; calls that are made together come before their results.
_LINES_TO_RESULT = 60
_MOST_LOOKED_AT = 2_000
_KEPT = 20_000


class _Edit(Struct, frozen=True, gc=False):
    """What the lines say of an edit."""

    path: str
    uuid: str | None
    at: dt.datetime | None
    tally: LineTally


class RecentEdits:
    """Answers about one backend. What a line says of an edit never changes, so it is read once."""

    def __init__(self, desk: PageBackend) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._read: OrderedDict[tuple[str, int, int | None], list[_Edit]] = OrderedDict()

    def document(self, project: str | None, text: str | None, start: int, count: int) -> RecentEditsDocument:
        """Edits from the ``start``-th on, newest first. ``text`` is a part of the path, looked for in the lines."""
        with self._desk.index.opened() as opened:
            database = database_of(opened)
            numbers = cost_queries.names(database)
            tools = {number for number, name in numbers.items() if name in EDITING_TOOLS}
            fits = None if not project else ProjectFilter(project)
            logs = {
                number: log
                for number, log in logs_of(cost_queries.logs(database)).items()
                if not log.is_gone and (fits is None or fits.fits(log.project))
            }
            places = [
                (one, number)
                for one in stat_queries.newest_edits(database, tools)
                if one.file in logs
                for number in range(one.changes or 1)
            ]
            titles = session_titles(database)
        wanted = text.lower() if text else ""
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
        with self._lock:
            if key in self._read:
                return self._read[key]
        edits = _read_edits(Path(log.path), place)
        with self._lock:
            self._read[key] = edits
            while len(self._read) > _KEPT:
                self._read.popitem(last=False)
        return edits


def _document(log: UsageLog, place: CallPlace, edit: _Edit, tool: str, title: str) -> RecentEditDocument:
    return RecentEditDocument(
        session=log.session,
        title=title,
        project=project_name(log.project, Path(log.path)),
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
    try:
        if place.answer is not None:
            return [_listed_edit(one) for one in _listed_changes(log, place, place.answer)]
        entries = list(_call_and_result(log, place))
    except RecollectError:
        return []
    events = FileEvents(None)
    for entry in entries:
        events.add(entry)
    changes = [one for one in events.in_order() if isinstance(one, FileChange)]
    return [
        _Edit(events.path_of(one), one.context.entry_uuid, one.context.at, change_tally(one))
        for one in changes[:1]
    ]


def _listed_changes(log: Path, place: CallPlace, answer: int) -> list[FileChange]:
    """What the result of a call lists: the line of the call and that of its result are read."""
    with OpenLog(log) as opened:
        asked, item = next(opened.lines(place.offset), None), entry_in(opened, answer)
    entry = item.readable if isinstance(item, Damage) else item
    if entry is None or not isinstance(asked, Line):
        return []
    found = changes_by_call(entry, asked.data)
    return next((changes for call, changes in found if call_key(call) == place.key), [])


def _listed_edit(change: FileChange) -> _Edit:
    context = change.context
    path = absolute(change.path, context.cwd or "")
    return _Edit(path, context.entry_uuid, context.at, change_tally(change))


def _call_and_result(log: Path, place: CallPlace) -> Iterator[Entry]:
    for item in islice(LogReader(log).entries(place.offset), _LINES_TO_RESULT):
        entry = item.readable if isinstance(item, Damage) else item
        if entry is None:
            continue
        if _names_call(entry, place.key):
            yield entry
            if isinstance(entry.body, User):
                return


def _names_call(entry: Entry, key: int) -> bool:
    body = entry.body
    if isinstance(body, Assistant):
        blocks = (block for block in body.message.blocks if isinstance(block, ToolUseBlock))
        return any(call_key(block.id) == key for block in blocks)
    if isinstance(body, User) and not isinstance(body.message.content, str):
        results = (block for block in body.message.content if isinstance(block, ToolResultBlock))
        return any(call_key(block.tool_use_id) == key for block in results)
    return False
