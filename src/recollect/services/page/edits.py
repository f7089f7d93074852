"""The newest edits of files over all sessions: Claude's are found in the index, those of other agents in their logs."""

from __future__ import annotations

import datetime as dt
import threading
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from msgspec import Raw, Struct

from recollect.errors import RecollectError
from recollect.index import cost_queries, stat_queries
from recollect.index.frame import call_key
from recollect.index.prompt_queries import session_titles
from recollect.index.stat_queries import CallPlace
from recollect.model import codec
from recollect.model.blocks import ToolResultBlock, ToolUseBlock
from recollect.model.cost.report import UsageLog
from recollect.model.damage import Damage, Line
from recollect.model.entry import Assistant, Entry, User
from recollect.model.files.call_changes import call_changes
from recollect.model.files.edit_tools import EDITING_TOOLS
from recollect.model.files.events import FileEvents, absolute
from recollect.model.files.line_tally import LineTally, change_tally
from recollect.model.files.reports import FileChange
from recollect.model.json.text import loose_value
from recollect.model.line_views.tool_calls import call_line
from recollect.services.cost.report import logs_of
from recollect.services.documents.page import RecentEditDocument, RecentEditsDocument
from recollect.services.page.desk import PageBackend
from recollect.services.page.log import signature_of
from recollect.services.page.sessions import project_name
from recollect.services.projects import ProjectFilter
from recollect.services.stats.usage import database_of
from recollect.storage.logs.reader import LogReader, OpenLog
from recollect.system.paths import CLAUDE

# A result stands a few lines after its call; calls that are made together come before their results.
_LINES_TO_RESULT = 60
_MOST_LOOKED_AT = 2_000
_KEPT = 20_000
_LISTS = b'"changedFiles":'


class _Edit(Struct, frozen=True, gc=False):
    """What the lines say of an edit."""

    path: str
    uuid: str | None
    at: dt.datetime | None
    tally: LineTally


_Listed: TypeAlias = dict[int, list[_Edit]]


class RecentEdits:
    """Answers about one backend. What a line says of an edit never changes, so it is read once."""

    def __init__(self, desk: PageBackend) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._read: OrderedDict[tuple[str, int], _Edit | None] = OrderedDict()
        self._lists: dict[str, tuple[object, _Listed]] = {}

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
            listed = {number: self._listed(log) for number, log in logs.items() if log.client != CLAUDE}
            files = {number for number, edits in listed.items() if edits}
            places = [
                (one, edit)
                for one in stat_queries.newest_calls(database, tools, files)
                if one.file in logs
                for edit in (listed[one.file].get(one.key, ()) if one.file in files else (None,))
            ]
            titles = session_titles(database)
        wanted = text.lower() if text else ""
        found: list[RecentEditDocument] = []
        end = start
        while end < min(len(places), start + _MOST_LOOKED_AT) and len(found) < count:
            one, known = places[end]
            log, edit = logs[one.file], known or self._edit(logs[one.file], one)
            if edit is not None and wanted in edit.path.lower():
                found.append(_document(log, one, edit, numbers[one.tool], titles.get(log.session, "")))
            end += 1
        return RecentEditsDocument(
            edits=found, total=len(places), looked=end, next=end if end < len(places) else None
        )

    def _listed(self, log: UsageLog) -> _Listed:
        """The edits in a log of another agent, by call. The index does not know which of its calls are edits."""
        path = Path(log.path)
        try:
            seen = signature_of(path)
            known = self._lists.get(log.path)
            if known is None or known[0] != seen:
                known = self._lists[log.path] = seen, _listed_edits(path)
        except RecollectError:
            return {}
        return known[1]

    def _edit(self, log: UsageLog, place: CallPlace) -> _Edit | None:
        key = (log.path, place.place)
        with self._lock:
            if key in self._read:
                return self._read[key]
        edit = _read_edit(Path(log.path), place)
        with self._lock:
            self._read[key] = edit
            while len(self._read) > _KEPT:
                self._read.popitem(last=False)
        return edit


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


def _read_edit(log: Path, place: CallPlace) -> _Edit | None:
    """The change that the call at a place made; None where the lines are not there any more, or tell of none."""
    try:
        entries = list(_call_and_result(log, place))
    except RecollectError:
        return None
    events = FileEvents(None)
    for entry in entries:
        events.add(entry)
    changes = [one for one in events.in_order() if isinstance(one, FileChange)]
    if not changes:
        return None
    change = changes[0]
    return _Edit(events.path_of(change), change.context.entry_uuid, change.context.at, change_tally(change))


def _listed_edits(log: Path) -> _Listed:
    """The edits that the results in a log list, by the key of their call. What another branch tells again counts once."""
    found: _Listed = {}
    told: set[tuple[str, bytes]] = set()
    with OpenLog(log) as opened:
        before: Line | Damage | None = None
        for line in opened.lines():
            if isinstance(line, Line) and _LISTS in line.data:
                for call, rich, changes in _changes_by_call(line, before):
                    if (call, rich) not in told:
                        told.add((call, rich))
                        found.setdefault(call_key(call), []).extend(map(_listed_edit, changes))
            before = line
    return found


def _changes_by_call(
    line: Line, before: Line | Damage | None
) -> Iterator[tuple[str, bytes, list[FileChange]]]:
    """``before`` is the line with the calls where there are several results, as OpenCode has them."""
    item = codec.decode(line)
    entry = item.readable if isinstance(item, Damage) else item
    if entry is None or not isinstance(entry.body, User) or not isinstance(entry.body.tool_use_result, Raw):
        return
    asked = call_line(before.data) if isinstance(before, Line) else None
    given = {} if asked is None else {one.id: one.input for one in asked.calls}
    for block in entry.body.message.blocks:
        if isinstance(block, ToolResultBlock):
            name = block.tool_use_id
            values = loose_value(given[name]) if name in given else None
            yield name, bytes(entry.body.tool_use_result), call_changes(name, values, entry)


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
