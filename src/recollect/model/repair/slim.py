"""What a session does not need to be resumed: progress lines, records of requests, copies of tool results.

None of it is ever sent to the model. Progress lines are links of the chain, so what followed them is relinked
around them. The copy of a result (``toolUseResult``) keeps its shape, since clients display it; only its long
texts (a file's content, the original file, a command's output) are shortened. The list of messages must be
the same before and after, or the draft is left unchanged.

The results themselves stay, also those that a ``content-replacement`` line refers to: they are sent.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import UnsetType

from recollect.model.checks.lines import resumed_log
from recollect.model.conversation.graph import Graph
from recollect.model.lines.entry import Entry, Kind, User
from recollect.model.lines.json_text import loose_value
from recollect.model.repair.draft import RepairDraft, with_fields

PROGRESS, REQUESTS, COPIES = "progress", "request-records", "result-copies"
KINDS = (PROGRESS, REQUESTS, COPIES)
_REQUEST_KINDS = frozenset([Kind.API_REQUEST, Kind.API_REQUEST_BLOB, Kind.API_REQUEST_SHAPE])
_LONGEST_TEXT = 1000
_SHOWN_OF_IT = 200
_LEAST_SAVED = 500


def slimmed(draft: RepairDraft) -> tuple[RepairDraft, dict[str, int]]:
    """A smaller draft that sends the same messages, and the bytes saved by kind."""
    before = resumed_log(draft.graph(), draft.line_of, is_bounded=False)
    for kinds in (KINDS, (REQUESTS, COPIES)):
        trial = draft.copy()
        saved = _lighten(trial, kinds)
        after = resumed_log(trial.graph(), trial.line_of, is_bounded=False)
        if (after.messages, after.history) == (before.messages, before.history):
            return trial, saved
    draft.notes.append("slimming would change what is sent: nothing was slimmed")
    return draft, {}


def _lighten(draft: RepairDraft, kinds: Collection[str]) -> dict[str, int]:
    saved: dict[str, int] = {}
    leaving: set[int] = set()
    links: set[str] = set()
    for number, row in enumerate(draft.rows):
        entry = draft.entry(number)
        kind = _kind(entry)
        if entry is None or kind is None or kind not in kinds:
            continue
        if kind != COPIES:
            row.reason = kind
            leaving.add(number)
            links.update([entry.uuid] if entry.uuid else [])
            saved[kind] = saved.get(kind, 0) + len(entry.raw) + 1
        elif less := _shorten(draft, number, entry):
            saved[kind] = saved.get(kind, 0) + less
    for number in leaving:
        draft.act("slimmed", number, draft.rows[number].reason)
    if links:
        graph = draft.graph()
        _relink_around(draft, graph, links & graph.nodes.keys())
    draft.remove(leaving)
    return saved


def _relink_around(draft: RepairDraft, graph: Graph, leaving: set[str]) -> None:
    """Relink everything that follows, or marks, a removed entry to the nearest earlier one that stays."""

    def stays(name: str | None) -> str | None:
        seen: set[str] = set()
        while name in leaving and name not in seen:
            seen.add(name)
            name = graph.nodes[name].parent
        return None if name in leaving else name

    for node in graph.nodes.values():
        if node.parent in leaving and node.uuid not in leaving:
            parent = stays(node.parent)
            draft.change(node.offset, {"parentUuid": parent}, "relinked", f"now follows {parent}")
    for mark in graph.marks:
        if mark.leaf in leaving:
            leaf = stays(mark.leaf)
            draft.change(mark.offset, {"leafUuid": leaf}, "relinked", f"now marks {leaf}")


def _kind(entry: Entry | None) -> str | None:
    if entry is None:
        return None
    if entry.kind == Kind.PROGRESS:
        return PROGRESS
    if entry.kind in _REQUEST_KINDS:
        return REQUESTS
    body = entry.body
    has_copy = isinstance(body, User) and not isinstance(body.tool_use_result, UnsetType)
    return COPIES if has_copy else None


def _shorten(draft: RepairDraft, number: int, entry: Entry) -> int:
    """Shorten the long texts of a result's copy; returns the bytes saved."""
    body = entry.body
    if not isinstance(body, User) or isinstance(body.tool_use_result, UnsetType):
        return 0
    copy = bytes(body.tool_use_result)
    short = msgspec.json.encode(_cut(loose_value(copy))) if len(copy) > _LONGEST_TEXT else copy
    if len(copy) - len(short) < _LEAST_SAVED:
        return 0
    data = with_fields(entry, {"toolUseResult": msgspec.Raw(short)})
    draft.rewrite(number, data, "slimmed", COPIES, entry.uuid)
    return len(entry.raw) - len(data)


def _cut(value: object) -> object:
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{value[:_SHOWN_OF_IT]}... [{len(value)} characters, set aside by recollect]"
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    return value
