"""Summaries of transcripts, computed by the SDK's own fold and cached beside the log.

They are derived from the log and can always be computed again. A small file records how far the last one got,
so that only new lines are folded; it is valid only for the log and the SDK version it was made from. The
caller supplies the fold: the SDK is not imported here.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from recollect.errors import NotFound
from recollect.model.damage import Damage, Line
from recollect.storage.logs.reader import read_lines
from recollect.storage.sdk.entries import entry_of
from recollect.storage.sdk.keys import SessionKey, SessionStoreEntry, SessionSummaryEntry, TranscriptPlace
from recollect.storage.store_layout import StorePaths
from recollect.system import fsops
from recollect.system.peek import open_regular

_FOLDED_AT_ONCE = 1_000
# Named after the public module: users know and configure that name.
_notes = logging.getLogger("recollect.sdk")

FoldCall = Callable[[SessionSummaryEntry | None, SessionKey, list[SessionStoreEntry]], SessionSummaryEntry]


class _SummaryFile(msgspec.Struct):
    """The cache file of a summary: its source, and how far it got."""

    device: int
    inode: int
    folded_to: int
    sdk: str
    data: dict[str, Any]


def summary_of(
    paths: StorePaths, place: TranscriptPlace, fold: FoldCall, sdk: str
) -> SessionSummaryEntry | None:
    """A transcript's current summary; None where it was deleted meanwhile. ``sdk`` is the fold's version."""
    try:
        # Before reading: later changes make this summary look stale, never fresh.
        status = place.log.stat()
        state = _remembered(paths, place, status, sdk)
        before = state.folded_to
        for items in _in_batches(read_lines(place.log, before, status.st_size)):
            state = _folded(state, place.key, items, fold)
    except (FileNotFoundError, NotFound):
        return None
    if state.folded_to > before:
        _remember(place, state)
    mtime = status.st_mtime_ns // 1_000_000
    return {"session_id": place.key["session_id"], "mtime": mtime, "data": state.data}


def _remembered(paths: StorePaths, place: TranscriptPlace, log: os.stat_result, sdk: str) -> _SummaryFile:
    nothing = _SummaryFile(log.st_dev, log.st_ino, 0, sdk, {})
    try:
        with open_regular(paths.require_inside(place.summary)) as file:
            found = msgspec.json.decode(file.read(), type=_SummaryFile)
    except (OSError, msgspec.MsgspecError, ValueError):
        return nothing
    same = (found.device, found.inode, found.sdk) == (log.st_dev, log.st_ino, sdk)
    return found if same and found.folded_to <= log.st_size else nothing


def _remember(place: TranscriptPlace, summary: _SummaryFile) -> None:
    try:
        fsops.replace_file(place.summary, msgspec.json.encode(summary))
    except OSError as cause:  # a full or read-only disk slows down the next listing, but the answer is valid
        _notes.warning("%s: summary not cached: %s", place.summary, cause)


def _folded(state: _SummaryFile, key: SessionKey, items: list[Line | Damage], fold: FoldCall) -> _SummaryFile:
    """The summary after some more lines."""
    entries = [entry for item in items if isinstance(entry := entry_of(item), dict)]
    before: SessionSummaryEntry = {"session_id": key["session_id"], "mtime": 0, "data": state.data}
    summary = fold(before if state.folded_to else None, key, cast("list[SessionStoreEntry]", entries))
    return msgspec.structs.replace(state, folded_to=items[-1].end, data=summary["data"])


def _in_batches(items: Iterator[Line | Damage]) -> Iterator[list[Line | Damage]]:
    while batch := list(itertools.islice(items, _FOLDED_AT_ONCE)):
        yield batch
