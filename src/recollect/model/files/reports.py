"""What the results of file tools report about files.

A call names a file; its result reports, in a shape that depends on tool and client version, what was written,
what was there before and how the two differ. ``FileReports`` remembers the calls and turns each result into a
``FileChange`` or a ``FileSight``. The result takes precedence over the call, because a person may have
altered the change before it was made; without a rich result the call is used.

Calls that failed, were denied or have no result report nothing. Neither does a Read of part of a file, or of
bytes the client could not decode.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct, UnsetType

from recollect.model.files.text_edits import Hunk, Replacement
from recollect.model.lines.blocks import ToolResultBlock, ToolUseBlock
from recollect.model.lines.entry import Assistant, Entry, ToolCallBody, ToolResultBody, User
from recollect.model.lines.json_text import loose_value
from recollect.model.views.fact_line import fact_line

EDITING_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})


_FILE_TOOLS = EDITING_TOOLS | {"Read"}
# A result that names none of these is about something else; searching costs less than decoding.
_MARKS = (b'"filePath"', b'"file"', b'"notebook_path"')
_CHANGED = b'{"changedFiles":'
_ERRORS = ("Error", "InputValidationError", "<tool_use_error>")
_REPLACED = "\ufffd"
_CREATED = "File created successfully"  # what a result says of a new file where it has no fields

_Fields: TypeAlias = Mapping[str, object]


class ReportContext(Struct, frozen=True):
    """Where and when an entry was written."""

    cwd: str | None = None
    at: dt.datetime | None = None
    entry_uuid: str | None = None


class FileChange(Struct, frozen=True, kw_only=True):
    """A file was written. Without ``content`` it must be computed from the previous version.

    ``is_notebook``: the tool changed one cell and wrote the whole file again, perhaps with other indents.
    ``proposed`` is what the model had asked for, where a person altered it before it was written: a whole text, or
    replacements.
    """

    path: str
    context: ReportContext
    is_edit: bool
    content: str | None = None
    original: str | None = None
    created: bool = False
    is_notebook: bool = False
    replacements: tuple[Replacement, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    proposed: str | tuple[Replacement, ...] | None = None


class FileSight(Struct, frozen=True, kw_only=True):
    """A file was read as a whole; without ``content`` another writer's note that it changed, or is gone."""

    path: str
    context: ReportContext
    content: str | bytes | None = None
    existed: bool = True


def report_context(entry: Entry) -> ReportContext:
    chain = entry.chain
    return ReportContext(chain.cwd if chain else None, entry.at, entry.uuid)


class FileReports:
    """Turns the entries of a log, in order, into file reports."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolUseBlock] = {}
        # Of mirrored results: their calls, and what they say.
        self._listed: set[tuple[tuple[str, ...], int]] = set()

    def of(self, entry: Entry) -> list[FileChange | FileSight]:
        """The reports of this entry; most have none."""
        body = entry.body
        if isinstance(body, Assistant):
            self._remember(block for block in body.message.blocks if isinstance(block, ToolUseBlock))
        elif isinstance(body, ToolCallBody) and body.call_id is not None:
            self._remember([ToolUseBlock(body.call_id, body.name, body.input)])
        elif isinstance(body, User) and not isinstance(body.message.content, str):
            results = [block for block in body.message.content if isinstance(block, ToolResultBlock)]
            # There is one rich result per line: with several results its call is unknown.
            changed = listed_changes(body.tool_use_result, report_context(entry))
            if changed is not None:
                return changed if self._is_new(results, body.tool_use_result) else []
            rich = body.tool_use_result if len(results) == 1 else msgspec.UNSET
            return [report for block in results if (report := self._answered(entry, block, rich))]
        elif isinstance(body, ToolResultBody) and body.call_id is not None:
            block = ToolResultBlock(body.call_id, body.content, body.error is not None)
            report = self._answered(entry, block, msgspec.UNSET)
            return [report] if report else []
        return []

    def _is_new(self, results: Iterable[ToolResultBlock], rich: Raw | UnsetType) -> bool:
        """Whether no other branch has told the same: a resumed session of Gemini holds its calls twice."""
        what = b"" if isinstance(rich, UnsetType) else bytes(rich)
        # With what it says, because the services of some models number the calls of each answer from 0.
        key = tuple(block.tool_use_id for block in results), hash(what)
        is_new = key not in self._listed
        self._listed.add(key)
        return is_new

    def _remember(self, blocks: Iterable[ToolUseBlock]) -> None:
        for block in blocks:
            # For other tools only the name is stored: a stored input would keep the whole line in memory.
            self._calls[block.id] = block if block.name in _FILE_TOOLS else ToolUseBlock(block.id, block.name)

    def _answered(
        self, entry: Entry, block: ToolResultBlock, rich: Raw | UnsetType
    ) -> FileChange | FileSight | None:
        call = self._calls.pop(block.tool_use_id, None)
        if block.is_error is True or (call is not None and call.name not in _FILE_TOOLS):
            return None
        fields = _rich_fields(rich)
        if isinstance(fields, str):
            return None if fields.startswith(_ERRORS) else _from_call(entry, call, block)
        report = None if fields is None else _from_result(report_context(entry), call, fields)
        return report or (_from_call(entry, call, block) if fields is None else None)


def _rich_fields(rich: Raw | UnsetType) -> _Fields | str | None:
    """The rich result as fields, or as text; None where there is none."""
    if isinstance(rich, UnsetType):
        return None
    raw = bytes(rich)
    if raw[:1] == b"{":
        value = loose_value(raw) if any(mark in raw for mark in _MARKS) else {}
        return value if isinstance(value, dict) else None
    value = loose_value(raw)
    return value if isinstance(value, str) else None


def listed_changes(
    rich: Raw | UnsetType | None, context: ReportContext
) -> list[FileChange | FileSight] | None:
    """What a mirrored line of another agent says it changed, however many files; None where it says nothing."""
    if rich is None or isinstance(rich, UnsetType) or not bytes(rich).startswith(_CHANGED):
        return None
    value = loose_value(bytes(rich))
    listed = value.get("changedFiles") if isinstance(value, dict) else None
    found: list[FileChange | FileSight] = []
    for fields in listed if isinstance(listed, list) else ():
        if not isinstance(fields, dict):
            continue
        if fields.get("type") == "delete":
            path = fields.get("filePath")
            found += [FileSight(path=path, context=context, existed=False)] if isinstance(path, str) else []
        elif (report := _from_result(context, None, fields)) is not None:
            found.append(report)
    return found


# ---- results ---------------------------------------------------------------------------------------------


def _from_result(
    context: ReportContext, call: ToolUseBlock | None, fields: _Fields
) -> FileChange | FileSight | None:
    file = fields.get("file")
    if isinstance(file, dict):
        return _sight(context, call, file, is_text=fields.get("type") == "text")
    if isinstance(fields.get("notebook_path"), str):
        return _notebook(context, fields)
    path = fields.get("filePath")
    if not isinstance(path, str):
        return None
    original = fields.get("originalFile", fields.get("originalFileContents"))
    content = fields.get("content")
    if "oldString" in fields:
        names = {"old_string": "oldString", "new_string": "newString", "replace_all": "replaceAll"}
        replacements = _several([{name: fields.get(theirs) for name, theirs in names.items()}])
    else:
        replacements = _several(fields.get("edits"))
    if not replacements and not isinstance(content, str):
        return None
    return FileChange(
        path=path,
        context=context,
        is_edit=bool(replacements),
        content=content if isinstance(content, str) and not replacements else None,
        original=original if isinstance(original, str) else None,
        created=fields.get("type") == "create",
        replacements=replacements,
        hunks=_hunks(fields.get("structuredPatch")),
        proposed=_proposed(call) if fields.get("userModified") is True else None,
    )


def _notebook(context: ReportContext, fields: _Fields) -> FileChange | None:
    if fields.get("error"):
        return None
    original, updated = fields.get("original_file"), fields.get("updated_file")
    return FileChange(
        path=str(fields["notebook_path"]),
        context=context,
        is_edit=True,
        is_notebook=True,
        content=updated if isinstance(updated, str) else None,
        original=original if isinstance(original, str) else None,
    )


def _sight(
    context: ReportContext, call: ToolUseBlock | None, file: _Fields, *, is_text: bool
) -> FileSight | None:
    path = file.get("filePath") or (_arguments(call).get("file_path") if call else None)
    content = file.get("content") if is_text else _whole_bytes(file)
    if not isinstance(path, str) or not isinstance(content, str | bytes):
        return None
    is_whole = file.get("startLine") == 1 and file.get("numLines") == file.get("totalLines")
    if isinstance(content, str) and (not is_whole or _REPLACED in content):
        return None
    return FileSight(path=path, context=context, content=content)


def _whole_bytes(file: _Fields) -> bytes | None:
    """Base64 of a picture or document; a large picture is scaled down, which its size reveals."""
    encoded = file.get("base64")
    if not isinstance(encoded, str):
        return None
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if len(data) == file.get("originalSize") else None


def _several(edits: object) -> tuple[Replacement, ...]:
    steps = [
        _replacement(edit.get("old_string"), edit.get("new_string"), edit.get("replace_all"))
        for edit in (edits if isinstance(edits, list) else [])
        if isinstance(edit, dict)
    ]
    # All or none: with one step missing, the others would lead to a text that never was.
    return tuple(step for step in steps if step) if all(steps) else ()


def _replacement(old: object, new: object, everywhere: object) -> Replacement | None:
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    return Replacement(old, new, everywhere is True)


def _hunks(patch: object) -> tuple[Hunk, ...]:
    try:
        return tuple(msgspec.convert(patch, list[Hunk]))
    except msgspec.ValidationError:
        return ()


# ---- calls -----------------------------------------------------------------------------------------------


def _from_call(entry: Entry, call: ToolUseBlock | None, block: ToolResultBlock) -> FileChange | None:
    """The effect of a successful call whose result does not describe it."""
    if call is None or call.name == "Read":
        return None
    given = _arguments(call)
    path = given.get("notebook_path" if call.name == "NotebookEdit" else "file_path")
    content = given.get("content") if call.name == "Write" else None
    if not isinstance(path, str):
        return None
    return FileChange(
        path=path,
        context=report_context(entry),
        is_edit=call.name != "Write",
        content=content if isinstance(content, str) else None,
        created=call.name == "Write" and _CREATED in block.text(),
        replacements=_several([given] if call.name == "Edit" else given.get("edits")),
    )


def _proposed(call: ToolUseBlock | None) -> str | tuple[Replacement, ...]:
    given = {} if call is None else _arguments(call)
    content = given.get("content")
    if isinstance(content, str):
        return content
    return _several(given.get("edits", [given]))


def _arguments(call: ToolUseBlock) -> _Fields:
    value = loose_value(call.input)
    return value if isinstance(value, dict) else {}


_MOST_COMPARED = 1_000


class LineTally(Struct, frozen=True):
    """Lines that were added and removed."""

    added: int = 0
    removed: int = 0

    def __add__(self, other: LineTally) -> LineTally:
        return LineTally(self.added + other.added, self.removed + other.removed)


def change_tally(change: FileChange) -> LineTally:
    """The lines that a reported change added and removed."""
    if change.hunks:
        return _signed(line for hunk in change.hunks for line in hunk.lines)
    if change.content is not None:
        return _between((change.original or "").splitlines(), change.content.splitlines())
    pairs = ((one.old.splitlines(), one.new.splitlines()) for one in change.replacements)
    return sum((_between(old, new) for old, new in pairs), LineTally())


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
    import difflib  # most lines of a log report no change

    return _signed(list(difflib.unified_diff(old, new, lineterm="", n=0))[2:])


def _signed(lines: Iterable[str]) -> LineTally:
    signs = [line[:1] for line in lines]
    return LineTally(signs.count("+"), signs.count("-"))


def line_changes(
    rich: Raw | UnsetType | None, context: ReportContext | None = None
) -> list[FileChange] | None:
    """The changes that a line of results lists; None where it lists none, as Claude's do."""
    listed = listed_changes(rich, context or ReportContext())
    return None if listed is None else [change for change in listed if isinstance(change, FileChange)]


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
    if len(results) == 1:
        return changes
    said = "\n".join(_texts(given))
    return [one for one in changes if one.path in said and all(line in said for line in _replaced(one))]


def changes_by_call(answer: Entry, asked: bytes | None) -> Iterator[tuple[str, list[FileChange]]]:
    """The listed changes of each call that a line answers. ``asked``: the line with the calls, which tells several apart."""
    if not isinstance(answer.body, User):
        return
    line = None if asked is None else fact_line(asked)
    given = {} if line is None else {one.id: one.input for one in line.calls}
    for block in answer.body.message.blocks:
        if isinstance(block, ToolResultBlock):
            name = block.tool_use_id
            yield name, call_changes(name, loose_value(given[name]) if name in given else None, answer)


def call_tally(
    tool: str, given: object, reported: object, changes: Sequence[FileChange] = ()
) -> LineTally | None:
    """The lines that a call changed; None if it is no edit. ``reported`` is the client's richer form of the result."""
    if changes:
        return sum(map(change_tally, changes), LineTally())
    if tool not in EDITING_TOOLS:
        return None
    hunks = _hunks(reported.get("structuredPatch")) if isinstance(reported, Mapping) else ()
    if hunks:
        return _signed(line for hunk in hunks for line in hunk.lines)
    return _intended(given) if isinstance(given, Mapping) else LineTally()


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
