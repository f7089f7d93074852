"""What a call changed, by the line that answers it: whether a call of any agent is an edit is decided here.

Results of other agents list their changes, whatever the tool is called: a shell may pass on a patch. Claude's tools that
edit are known by name. A step of OpenCode has the results of all its calls in one line, and their changes together:
there a change belongs to the call whose input names its file and its texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Raw, UnsetType

from recollect.model.blocks import ToolResultBlock
from recollect.model.entry import Entry, User
from recollect.model.files.edit_tools import EDITING_TOOLS
from recollect.model.files.line_tally import LineTally, change_tally, line_tally
from recollect.model.files.reports import FileChange, ReportContext, report_context, told_changes
from recollect.model.json.text import loose_value
from recollect.model.line_views.tool_calls import call_line


def line_changes(
    rich: Raw | UnsetType | None, context: ReportContext | None = None
) -> list[FileChange] | None:
    """The changes that a line of results lists; None where it lists none, as Claude's do."""
    told = told_changes(rich, context or ReportContext())
    return None if told is None else [one for one in told if isinstance(one, FileChange)]


def call_changes(call: str, given: object, answer: Entry | None) -> list[FileChange]:
    """The listed changes that are of this call, which was given this input."""
    if answer is None or not isinstance(answer.body, User):
        return []
    changes = line_changes(answer.body.tool_use_result, report_context(answer)) or []
    results = (
        [one for one in answer.body.message.blocks if isinstance(one, ToolResultBlock)] if changes else []
    )
    if not any(one.tool_use_id == call and one.is_error is not True for one in results):
        return []
    return changes if len(results) == 1 else _asked_for(given, changes)


def changes_by_call(answer: Entry, asked: bytes | None) -> Iterator[tuple[str, list[FileChange]]]:
    """The listed changes of each call that a line answers. ``asked``: the line with the calls, which tells several apart."""
    if not isinstance(answer.body, User):
        return
    line = None if asked is None else call_line(asked)
    given = {} if line is None else {one.id: one.input for one in line.calls}
    for block in answer.body.message.blocks:
        if isinstance(block, ToolResultBlock):
            name = block.tool_use_id
            yield name, call_changes(name, loose_value(given[name]) if name in given else None, answer)


def is_edit(tool: str, changes: Sequence[FileChange]) -> bool:
    return bool(changes) or tool in EDITING_TOOLS


def call_tally(tool: str, given: object, reported: object, changes: Sequence[FileChange]) -> LineTally | None:
    """The lines that a call changed; None if it is no edit."""
    return changes_tally(changes) if changes else line_tally(tool, given, reported)


def changes_tally(changes: Sequence[FileChange]) -> LineTally:
    return sum(map(change_tally, changes), LineTally())


def _asked_for(given: object, changes: Sequence[FileChange]) -> list[FileChange]:
    said = "\n".join(_texts(given))
    return [one for one in changes if one.path in said and all(line in said for line in _replaced(one))]


def _replaced(change: FileChange) -> Iterator[str]:
    """By lines, since a patch has a sign before each."""
    for one in change.replacements:
        yield from one.old.splitlines()
        yield from one.new.splitlines()


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
