"""Differences between two texts as the client's ``structuredPatch``: hunks with three lines of context."""

from __future__ import annotations

import difflib
from typing import Any

_CONTEXT = 3
_MOST_LINES = 4_000
_NO_NEWLINE = "\\ No newline at end of file"


def structured_patch(old: str, new: str) -> list[dict[str, Any]]:
    """The hunks from the old text to the new one."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    start, end = _common(before, after)
    left = max(start - _CONTEXT, 0)
    right = max(end - _CONTEXT, 0)
    middle = before[left : len(before) - right], after[left : len(after) - right]
    return [_hunk(*middle, opcodes, left) for opcodes in _groups(*middle)]


def _common(before: list[str], after: list[str]) -> tuple[int, int]:
    """The number of equal lines at the start, and of the rest at the end."""
    most = min(len(before), len(after))
    start = next((at for at in range(most) if before[at] != after[at]), most)
    end = next((at for at in range(most - start) if before[-1 - at] != after[-1 - at]), most - start)
    return start, end


def _groups(before: list[str], after: list[str]) -> list[list[tuple[str, int, int, int, int]]]:
    if len(before) + len(after) > _MOST_LINES:  # a diff of two long texts takes too long
        return [[("replace", 0, len(before), 0, len(after))]]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    groups = [list(group) for group in matcher.get_grouped_opcodes(_CONTEXT)]
    return [group for group in groups if any(one[0] != "equal" for one in group)]


def _hunk(
    before: list[str], after: list[str], opcodes: list[tuple[str, int, int, int, int]], shift: int
) -> dict[str, Any]:
    lines: list[str] = []
    for kind, old_start, old_end, new_start, new_end in opcodes:
        if kind == "equal":
            lines += _marked(" ", before[old_start:old_end])
        else:
            lines += _marked("-", before[old_start:old_end]) + _marked("+", after[new_start:new_end])
    old_lines, new_lines = opcodes[-1][2] - opcodes[0][1], opcodes[-1][4] - opcodes[0][3]
    return {
        "oldStart": shift + opcodes[0][1] + (1 if old_lines else 0),
        "oldLines": old_lines,
        "newStart": shift + opcodes[0][3] + (1 if new_lines else 0),
        "newLines": new_lines,
        "lines": lines,
    }


def _marked(mark: str, lines: list[str]) -> list[str]:
    found = []
    for line in lines:
        found.append(mark + line.rstrip("\n"))
        if not line.endswith("\n"):
            found.append(_NO_NEWLINE)
    return found
