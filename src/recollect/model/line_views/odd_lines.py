"""What the index keeps of a line that the narrow decoder of ``line_facts`` refuses or does not know.

The codec reads it: other dialects, titles, odd shapes, unknown types. Few lines come here, so this
is imported only when one does; callers use ``facts.facts_of``.
"""

from __future__ import annotations

from msgspec import UnsetType

from recollect.model.cost.line_usage import ResponseUsage, is_billed, response_usage
from recollect.model.entry import (
    AiTitle,
    Assistant,
    Attachment,
    CustomTitle,
    Entry,
    PrLink,
    Progress,
    Summary,
    System,
    Tag,
    ToolCallBody,
    ToolResultBody,
    UnknownBody,
    UnknownShapeBody,
    User,
)
from recollect.model.json.text import content_of
from recollect.model.line_views.facts import (
    OTHER,
    PROSE,
    TITLE,
    TOOL_INPUT,
    TOOL_RESULT,
    WITHOUT_TEXT,
    LineFacts,
    LineTexts,
    joined,
    milliseconds,
    of_any_content,
    one_text,
    progress_usage,
    recorded_total,
    strings_in,
    strings_of,
)
from recollect.model.line_views.links import links_of
from recollect.model.line_views.view import raw_of, readable_entry, text_of


def facts_by_codec(data: bytes) -> LineFacts | None:
    """What the index keeps of a line of any dialect or shape; None where it is blank or cannot be read."""
    entry = readable_entry(data)
    if entry is None:
        return None
    entry = _with_content(entry)
    body, fields, chain = entry.body, entry.fields(), entry.chain
    links = links_of(entry)
    kind = str(entry.kind)
    if isinstance(body, UnknownShapeBody) and body.type_name in WITHOUT_TEXT:
        kind = body.type_name
    texts = None if kind in WITHOUT_TEXT else _entry_texts(entry)
    return LineFacts(
        kind,
        links["uuid"],
        links["parent_uuid"],
        milliseconds(links["timestamp"]),
        links["session_id"],
        links["agent_id"],
        links["is_sidechain"] is True,
        fields.get("forkedFrom") is not None,
        links["is_meta"] is True,
        links["cwd"],
        text_of(fields, "gitBranch") if chain is None else chain.git_branch,
        text_of(fields, "version") if chain is None else chain.version,
        texts,
        _entry_usage(entry, texts),
        recorded_total(entry.raw) if kind == "cost-state" else None,
    )


def _entry_texts(entry: Entry) -> LineTexts | None:
    body = entry.body
    match body:
        case User() | Assistant():
            return of_any_content(content_of(entry.fields()), PROSE)[0]
        case System(message=None):
            told = None if isinstance(body.content, UnsetType) else joined(strings_in(body.content))
            return one_text(OTHER, told)
        case System():
            return of_any_content(content_of(entry.fields()), OTHER)[0]
        case Attachment():
            return one_text(OTHER, joined(strings_in(body.attachment)))
        case ToolCallBody():
            return one_text(TOOL_INPUT, "\n".join((body.name, *strings_in(body.input))))
        case ToolResultBody():
            told = "" if isinstance(body.content, UnsetType) else "\n".join(strings_in(body.content))
            # One dialect has the words of a failure in the content, the other beside it.
            error = body.error if body.error and body.error not in told else None
            return one_text(TOOL_RESULT, "\n".join(part for part in (told, error) if part))
        case CustomTitle(custom_title=text) | AiTitle(ai_title=text) | Summary(summary=text) | Tag(tag=text):
            return one_text(TITLE, text)
        case PrLink(pr_url=url, pr_repository=repository):
            return one_text(OTHER, " ".join(part for part in (repository, url) if part))
        case UnknownBody() | UnknownShapeBody():
            return one_text(OTHER, joined(strings_of(_without_links(entry))))
    return one_text(OTHER, joined(strings_of(_without_links(entry))))


_LINKS = frozenset(
    ("type", "uuid", "parentUuid", "timestamp", "sessionId", "version", "userType", "cwd", "gitBranch")
)


def _without_links(entry: Entry) -> dict[str, object]:
    return {name: value for name, value in entry.fields().items() if name not in _LINKS}


def _entry_usage(entry: Entry, texts: LineTexts | None) -> ResponseUsage | None:
    if isinstance(entry.body, Progress):
        return progress_usage(entry.body.data)
    body = entry.body
    if not isinstance(body, Assistant) or body.message.usage is None:
        return None
    message = body.message
    if not is_billed("assistant", message.model):
        return None
    called = texts[TOOL_INPUT] if texts else None
    return response_usage(
        body.message.usage,
        is_sidechain=body.is_sidechain,
        message_id=message.id,
        request_id=body.request_id,
        model=message.model,
        stop_reason=message.stop_reason,
        tool=called.partition("\n")[0] if called else None,
        cost=None if body.cost_usd is None else repr(body.cost_usd).encode(),
        duration_ms=body.duration_ms,
    )


def _with_content(entry: Entry) -> Entry:
    """A message without content is one that says nothing, and keeps its usage."""
    body, fields = entry.body, entry.fields()
    message = fields.get("message")
    is_spoken = isinstance(body, UnknownShapeBody) and body.type_name in ("user", "assistant")
    if not is_spoken or not isinstance(message, dict) or message.get("content") is not None:
        return entry
    return readable_entry(bytes(raw_of({**fields, "message": {**message, "content": ""}}))) or entry
