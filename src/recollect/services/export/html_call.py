"""A tool call and its result as one collapsible part of an exported page: input or diff, result, pictures.

Everything is text. A diff is the client's own if it recorded one, else it is computed from the input. A
picture is embedded in the page if its first bytes show one of four kinds; others, and SVG, are only named.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from recollect.model.blocks import (
    Block,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    UnknownBlock,
)
from recollect.model.conversation.agents import AGENT_TOOLS
from recollect.model.conversation.tool_calls import DESCRIPTIVE_FIELDS, ToolCall, ToolCallStatus
from recollect.model.entry import Entry, User
from recollect.model.files.call_changes import call_changes, call_tally, is_edit
from recollect.model.files.edit_tools import EDITING_TOOLS
from recollect.model.files.line_tally import LineTally
from recollect.model.files.reports import FileChange
from recollect.model.json.text import loose_value
from recollect.model.markdown_html import pre_html, text_html
from recollect.services.export.html_frame import words_of
from recollect.services.export.html_turns import duration, tally
from recollect.services.page.content import media_type_of

LONGEST = 200_000
_LARGEST_PICTURE = 8 << 20
_MOST_LINES, _MOST_COMPARED = 4_000, 1_000
_GIST = 160
_MCP = re.compile(r"mcp__(.+?)__(.+)", re.DOTALL)
_PATHS = ("file_path", "notebook_path", "path")
_SHOWN_PARTS = 3
_BAD = (ToolCallStatus.ERROR, ToolCallStatus.DENIED)
_ENDS = {**{status: str(status) for status in ToolCallStatus}, ToolCallStatus.MISSING: "no result"}
_TODO_MARKS = {"completed": "☑", "in_progress": "▶", "pending": "☐"}
_Values = Mapping[str, object]


class ShownCall(Struct, frozen=True):
    """A call with its input, the client's richer form of its result, and the changes that it lists, each read once."""

    call: ToolCall
    answer: Entry | None
    values: object
    reported: object
    changes: list[FileChange] = []

    @property
    def kind(self) -> str:
        return " edit" if is_edit(self.call.name, self.changes) else ""


def shown_call(call: ToolCall, answer: Entry | None = None) -> ShownCall:
    raw = answer.body.tool_use_result if answer is not None and isinstance(answer.body, User) else None
    reported = loose_value(raw) if call.name in EDITING_TOOLS and isinstance(raw, Raw) else None
    given = loose_value(call.input)
    return ShownCall(call, answer, given, reported, call_changes(call.id, given, answer))


def opening(shown: ShownCall) -> str:
    """The collapsible part up to its content: tool, subject, outcome."""
    call = shown.call
    ended = []
    if shown.kind and call.status is ToolCallStatus.OK:
        changed = call_tally(call.name, shown.values, shown.reported, shown.changes) or LineTally()
        ended.append(f"<span>{tally(changed.added, changed.removed)}</span>")
    if call.status is not ToolCallStatus.OK:
        ended.append(f'<span class="chip{" bad" if call.status in _BAD else ""}">{_ENDS[call.status]}</span>')
    if call.elapsed_ms is not None and call.status is not ToolCallStatus.MISSING:
        ended.append(f"<span>{duration(call.elapsed_ms)}</span>")
    about = gist(shown.values, call.name)
    subject = f" <code>{text_html(about)}</code>" if about else ""
    return (
        f'<details class="call {call.status}{shown.kind}"><summary><b>{text_html(_tool_name(call.name))}</b>{subject}'
        f"{''.join(f' {one}' for one in ended)}</summary>"
    )


def group_opening(calls: Sequence[ShownCall]) -> str:
    """The collapsible part around several calls of one tool, up to the first: how many, about what, how many failed."""
    name = calls[0].call.name
    failed = sum(one.call.status in _BAD for one in calls)
    about = words_of(", ".join(gist(one.values, name) for one in calls), _GIST)
    chip = f' <span class="chip bad">{failed} failed</span>' if failed else ""
    kind = max(one.kind for one in calls)
    # What failed is in sight without unfolding first.
    return (
        f'<details class="call group{kind}"{" open" if failed else ""}><summary><b>{text_html(_tool_name(name))} '
        f"× {len(calls)}</b> <i>{text_html(about)}</i>{chip}</summary>\n"
    )


def asked(shown: ShownCall) -> Iterator[str]:
    """The input, or what it changes."""
    diff = [*_listed_diff(shown.changes)] or [*_diff(shown)]
    yield f'<pre class="diff">\n{"".join(diff)}</pre>\n' if diff else block_text(_asked(shown.values))


def answered(shown: ShownCall) -> Iterator[str]:
    """The result."""
    if shown.answer is None:
        yield '<p class="note bad">There is no result in the log.</p>'
        return
    blocks = _result_of(shown.call.id, shown.answer)
    yield from result(piece for block in blocks for piece in content(block))


def result(pieces: Iterable[str]) -> Iterator[str]:
    """A part that the filter for results shows and hides."""
    yield '<div class="result">'
    yield from pieces
    yield "</div>"


def _result_of(call: str, answer: Entry) -> list[Block]:
    for block in answer.message.blocks if answer.message is not None else ():
        if isinstance(block, ToolResultBlock) and block.tool_use_id == call:
            return block.blocks()
    return []


def _tool_name(name: str) -> str:
    """mcp__server__tool is a tool of a server."""
    found = _MCP.fullmatch(name)
    return words_of(f"{found[1]} · {found[2]}" if found else name, 100)


# ---- blocks that are not prose ---------------------------------------------------------------------------


def block_text(text: str, kind: str = "") -> str:
    """Plain text; a very long one is cut, with a note about the rest."""
    if not text.strip():
        return ""
    if len(text) <= LONGEST:
        return pre_html(text, kind) + "\n"
    left = f"{len(text) - LONGEST:,} more characters are not on this page; the session's log has them."
    return f'{pre_html(text[:LONGEST], kind)}\n<p class="note bad">{left}</p>\n'


def content(block: Block) -> Iterator[str]:
    """A block of a result, or any other that is shown as text."""
    match block:
        case TextBlock(text):
            yield block_text(text)
        case ImageBlock(source):
            yield _picture(source)
        case DocumentBlock():
            yield _note(f"[document: {block.title or 'without a title'}]")
        case ToolReferenceBlock():
            yield _note(f"[tool {block.tool_name or '?'}]")
        case ToolResultBlock():
            for inner in block.blocks():
                yield from content(inner)
        case UnknownBlock():
            yield _note(f"[block of type {block.type_name or '?'}]")
            yield block_text(block.json.decode("utf-8", "replace"))
        case _:
            found = getattr(block, "content", msgspec.UNSET)
            yield block_text(_json(loose_value(found)) if isinstance(found, Raw) else "")


def _note(text: str) -> str:
    return f'<p class="note">{text_html(words_of(text, 500))}</p>\n'


def _picture(source: Raw) -> str:
    values = loose_value(source)
    fields = values if isinstance(values, dict) else {}
    encoded = fields.get("data")
    if fields.get("type") != "base64" or not isinstance(encoded, str):
        return _note(f"[picture elsewhere, not loaded: {fields.get('url') or fields.get('file_id') or '?'}]")
    try:
        data = base64.b64decode(encoded, validate=False)
    except (binascii.Error, ValueError):
        return _note("[picture that cannot be read]")
    kind = media_type_of(data)
    if not kind.startswith("image/") or len(data) > _LARGEST_PICTURE:
        return _note(f"[{len(data):,} bytes that are not a supported picture]")
    return f'<img alt="picture" src="data:{kind};base64,{base64.b64encode(data).decode()}">\n'


# ---- input -----------------------------------------------------------------------------------------------


def gist(values: object, tool: str = "") -> str:
    """The subject of a call, on one line."""
    if not isinstance(values, dict):
        return words_of(_json(values), _GIST)
    if tool in AGENT_TOOLS:
        kind, about = values.get("subagent_type"), values.get("description")
        return words_of(": ".join(one for one in (kind, about) if isinstance(one, str) and one), _GIST)
    for name in DESCRIPTIVE_FIELDS:
        value = values.get(name)
        if isinstance(value, str) and value.strip():
            return words_of(_tail(value) if name in _PATHS else value, _GIST)
    return words_of(_json(values), _GIST) if values else ""


def _tail(path: str) -> str:
    """The last parts of a path, which tell files apart."""
    names = path.replace("\\", "/").split("/")
    return path if len(names) <= _SHOWN_PARTS + 1 else "…/" + "/".join(names[-_SHOWN_PARTS:])


def _asked(values: object) -> str:
    if not isinstance(values, dict):
        return _json(values)
    todos = values.get("todos")
    if isinstance(todos, list) and todos and all(isinstance(one, dict) for one in todos):
        return "\n".join(
            f"{_TODO_MARKS.get(str(one.get('status')), '☐')} {one.get('content')}" for one in todos
        )
    return "\n".join(f"{name}: {_value(value)}" for name, value in values.items())


def _value(value: object) -> str:
    text = value if isinstance(value, str) else _json(value)
    return "\n" + text if "\n" in text else text


def _json(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (UnicodeEncodeError, RecursionError):
        return ascii(value)


# ---- diffs -----------------------------------------------------------------------------------------------


def _diff(shown: ShownCall) -> Iterator[str]:
    """The lines that an edit changed; nothing if the call is not an edit."""
    values = shown.values
    if shown.call.name not in EDITING_TOOLS or not isinstance(values, dict):
        return
    lines = list(_recorded(shown.reported)) or list(_intended(values))
    if not lines:
        return
    path = values.get("file_path") or values.get("notebook_path")
    yield from _file_diff(path, lines)


def _listed_diff(changes: Iterable[FileChange]) -> Iterator[str]:
    """The changes that a result lists, each below its path."""
    for one in changes:
        lines = [
            line for hunk in one.hunks for line in (f"@@ -{hunk.old_start} +{hunk.new_start} @@", *hunk.lines)
        ]
        if not lines and one.content is not None:
            lines = [*_replaced((one.original or "").splitlines(), one.content.splitlines())]
        pairs = () if lines else one.replacements
        lines += [line for each in pairs for line in _replaced(each.old.splitlines(), each.new.splitlines())]
        yield from _file_diff(one.path, lines)


def _file_diff(path: object, lines: Sequence[str]) -> Iterator[str]:
    yield _line("at", path) if isinstance(path, str) else ""
    for line in lines[:_MOST_LINES]:
        yield _line({"+": "add", "-": "cut", "@": "at"}.get(line[:1], ""), line)
    if len(lines) > _MOST_LINES:
        yield _line("at", f"({len(lines) - _MOST_LINES:,} more lines)")


def _line(kind: str, text: str) -> str:
    shown = text_html(text[:LONGEST]) or " "
    return f'<div class="{kind}">{shown}</div>' if kind else f"<div>{shown}</div>"


def _recorded(rich: object) -> Iterator[str]:
    """The client's own diff."""
    hunks = rich.get("structuredPatch") if isinstance(rich, dict) else None
    for hunk in hunks if isinstance(hunks, list) else ():
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        if isinstance(lines, list):
            yield f"@@ -{hunk.get('oldStart')} +{hunk.get('newStart')} @@"
            yield from (str(line) for line in lines)


def _intended(values: _Values) -> Iterator[str]:
    """The replacement described by the input."""
    edits = values.get("edits")
    for edit in edits if isinstance(edits, list) else [values]:
        if not isinstance(edit, dict):
            continue
        old, new = edit.get("old_string", ""), edit.get("new_string", edit.get("content"))
        new = edit.get("new_source", "") if new is None else new
        if isinstance(old, str) and isinstance(new, str) and (old or new):
            yield from _replaced(old.splitlines(), new.splitlines())


def _replaced(old: list[str], new: list[str]) -> Iterable[str]:
    if len(old) + len(new) > _MOST_COMPARED:  # comparing takes quadratic time
        return [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    return [
        line for line in difflib.unified_diff(old, new, lineterm="", n=3) if line[:3] not in ("---", "+++")
    ]
