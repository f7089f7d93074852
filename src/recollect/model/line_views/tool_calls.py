"""The calls a line asks for and the results it brings, inputs and results undecoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from recollect.model.json.text import content_of
from recollect.model.line_views.links import links_of
from recollect.model.line_views.view import SessionView, raw_of, text_of

if TYPE_CHECKING:
    from recollect.model.entry import Entry

CALL, RESULT = "tool_use", "tool_result"
_SPOKEN = ("user", "assistant")
# Types of lines that are calls themselves, in other dialects.
_ALONE = ("tool_use", "tool_call")


class CallBlock(Struct, frozen=True, gc=False):
    """A block of content, with the fields of calls and results."""

    type: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""
    is_error: bool | None = None
    content: Raw = Raw(b"null")


class CallMessage(Struct, frozen=True, gc=False):
    """Content that is blocks; text alone holds no calls."""

    content: list[CallBlock]


class CallLine(Struct, rename="camel", frozen=True, gc=False):
    """Blocks, and where and when they were written."""

    message: CallMessage
    type: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    session_id: str | None = None
    tool_use_result: Raw | None = None  # what the client itself kept of a result

    @property
    def calls(self) -> list[CallBlock]:
        """What is asked for; a call without a name is none."""
        is_said = self.type in _SPOKEN or self.type in _ALONE
        return [one for one in self.message.content if one.type == CALL and one.name] if is_said else []

    @property
    def results(self) -> list[CallBlock]:
        """What calls gave back."""
        return [one for one in self.message.content if one.type == RESULT] if self.type in _SPOKEN else []


def _of_entry(entry: Entry) -> CallLine:
    from recollect.model.entry import ToolCallBody

    body, links = entry.body, links_of(entry)
    content = content_of(entry.fields())
    blocks = [_block(one) for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    if isinstance(body, ToolCallBody):
        blocks = [CallBlock(CALL, body.call_id or "", body.name, body.input)]
    kept = entry.fields().get("toolUseResult")
    return CallLine(
        CallMessage(blocks),
        links["type"],
        links["timestamp"],
        links["cwd"],
        links["session_id"],
        None if kept is None else raw_of(kept),
    )


def _block(fields: dict[str, Any]) -> CallBlock:
    is_error = fields.get("is_error")
    return CallBlock(
        text_of(fields, "type") or "",
        text_of(fields, "id") or "",
        text_of(fields, "name") or "",
        raw_of(fields.get("input", {})),
        text_of(fields, "tool_use_id") or "",
        is_error if isinstance(is_error, bool) else None,
        raw_of(fields.get("content")),
    )


call_line = SessionView(CallLine, _of_entry)
