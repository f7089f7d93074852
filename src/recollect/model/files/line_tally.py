"""How many lines an edit added and removed: from the client's own patch, or else from what the call asked for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from recollect.model.files.edit_tools import EDITING_TOOLS
from recollect.model.files.reports import FileChange

_MOST_COMPARED = 1_000


class LineTally(Struct, frozen=True):
    """Lines that were added and removed."""

    added: int = 0
    removed: int = 0

    def __add__(self, other: LineTally) -> LineTally:
        return LineTally(self.added + other.added, self.removed + other.removed)


def line_tally(tool: str, given: object, reported: object) -> LineTally | None:
    """The lines that a call changed; None if it is no edit. ``reported`` is the client's richer form of the result."""
    if tool not in EDITING_TOOLS:
        return None
    hunks = reported.get("structuredPatch") if isinstance(reported, Mapping) else None
    if isinstance(hunks, list) and hunks:
        lines = [
            str(line) for hunk in hunks if isinstance(hunk, Mapping) for line in _texts(hunk.get("lines"))
        ]
        return _signed(lines)
    return _intended(given) if isinstance(given, Mapping) else LineTally()


def change_tally(change: FileChange) -> LineTally:
    """The lines that a reported change added and removed."""
    if change.hunks:
        return _signed(line for hunk in change.hunks for line in hunk.lines)
    if change.content is not None:
        return _between((change.original or "").splitlines(), change.content.splitlines())
    pairs = ((one.old.splitlines(), one.new.splitlines()) for one in change.replacements)
    return sum((_between(old, new) for old, new in pairs), LineTally())


def _texts(lines: object) -> Iterable[object]:
    return lines if isinstance(lines, list) else ()


def _intended(given: Mapping[str, object]) -> LineTally:
    edits = given.get("edits")
    tally = LineTally()
    for edit in edits if isinstance(edits, list) else [given]:
        if isinstance(edit, Mapping):
            old, new = edit.get("old_string", ""), edit.get("new_string", edit.get("content"))
            new = edit.get("new_source", "") if new is None else new
            if isinstance(old, str) and isinstance(new, str):
                tally += _between(old.splitlines(), new.splitlines())
    return tally


def _between(old: Sequence[str], new: Sequence[str]) -> LineTally:
    start = next(
        (at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    old, new = old[start:], new[start:]
    end = next(
        (at for at, (a, b) in enumerate(zip(old[::-1], new[::-1], strict=False)) if a != b),
        min(len(old), len(new)),
    )
    old, new = old[: len(old) - end], new[: len(new) - end]
    if len(old) + len(new) > _MOST_COMPARED:  # comparing takes quadratic time
        return LineTally(len(new), len(old))
    return _signed(list(difflib.unified_diff(old, new, lineterm="", n=0))[2:])


def _signed(lines: Iterable[str]) -> LineTally:
    signs = [line[:1] for line in lines]
    return LineTally(signs.count("+"), signs.count("-"))
