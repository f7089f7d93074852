"""What a repair does about each error: one line at a time, and no other line.

An error names a line; its fix changes that line, splits it, or sets it aside. So a repair touches only what
``check`` calls an error, and a line without one keeps its bytes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from recollect.model.checks import RuleViolation
from recollect.model.checks.lines import parts_of
from recollect.model.draft import iso_time
from recollect.model.repair.content import mend_content
from recollect.model.repair.draft import RepairDraft

_LINES = frozenset(["invalid-json", "glued-objects", "nul-run", "torn-tail"])
_LINKS = frozenset(["history-cut", "unlinked-answer"])
_SPLIT = {"nul-run": "nul-trimmed", "glued-objects": "glued-split"}
_SET_ASIDE = {"nul-run": "nul-trimmed", "torn-tail": "torn-tail"}


def fix_errors(draft: RepairDraft, errors: Sequence[tuple[int, RuleViolation]], written: dt.datetime) -> bool:
    """Fix the errors, each given with the number of its row; True if anything changed.

    Damaged lines come first and alone: with what they hold, other errors may be none.
    """
    lines = [one for one in errors if one[1].code in _LINES]
    is_changed = False
    # From the end, so that the rows before a split one keep their numbers.
    for number, error in sorted(lines or errors, key=lambda one: -one[0]):
        if error.code in _LINES:
            _recover(draft, number, error)
            is_changed = True
        elif error.code in _LINKS:
            is_changed |= _relink(draft, number, error)
        elif error.code == "session-not-found":
            is_changed |= error.subject == "timestamp" and _fill_time(draft, number, written)
        else:
            is_changed |= mend_content(draft, number)
    return is_changed


def _recover(draft: RepairDraft, number: int, error: RuleViolation) -> None:
    """Give each entry of a damaged line a line of its own; what is no entry is set aside."""
    parts = list(parts_of(draft.text(number)))
    kept = sum(part.is_entry for part in parts)
    code = _SPLIT.get(error.code, "entry-saved") if kept else _SET_ASIDE.get(error.code, "unreadable")
    draft.split(number, parts, code, f"{error.what}; " + (f"{kept} complete kept" if kept else "set aside"))


def _relink(draft: RepairDraft, number: int, error: RuleViolation) -> bool:
    """Give an entry the parent that the error names."""
    if error.parent is None:
        return False
    why = f"{error.what.partition(': nothing before')[0]}; now follows {error.parent}"
    return draft.change(number, {"parentUuid": error.parent}, "relinked", why)


def _fill_time(draft: RepairDraft, number: int, written: dt.datetime) -> bool:
    """Give an entry a time just after that of the nearest earlier entry that has one."""
    earlier = (entry.at for row in range(number - 1, -1, -1) if (entry := draft.entry(row)) is not None)
    at = next((one for one in earlier if one is not None), written) + dt.timedelta(milliseconds=1)
    why = "no time that can be read: the client would not find the session"
    return draft.change(number, {"timestamp": iso_time(at)}, "time-filled", why)
