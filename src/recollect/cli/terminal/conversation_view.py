"""A message as text: who wrote it, when, and its parts.

Transcript text is hostile. Parts hold it unchanged; the function that turns parts into
output also makes them safe. Everything but ``show --raw`` uses ``safe_text``. On a terminal,
rich renders prose as Markdown from text that is already safe, without links; of rich's
output, only colour codes reach the terminal.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Raw, Struct, UnsetType

from recollect.cli.terminal import output
from recollect.cli.terminal.text import counted, shortened, visible, visible_lines
from recollect.model.blocks import (
    Block,
    DocumentBlock,
    ImageBlock,
    McpToolUseBlock,
    RedactedThinkingBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    blocks_of,
)
from recollect.model.conversation.client_text import ClientPart, client_parts
from recollect.model.conversation.conversation import Message, model_name
from recollect.model.conversation.tool_calls import DESCRIPTIVE_FIELDS

_SHORT_COLUMNS = 100
_LONGEST_MARKDOWN = 50_000
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


class ToolDetail(enum.StrEnum):
    """How much of tool calls and their results is shown."""

    NONE = "none"
    SHORT = "short"
    FULL = "full"


class DisplayOptions(Struct, frozen=True):
    """Which parts of a message are shown."""

    tools: ToolDetail = ToolDetail.SHORT
    thinking: bool = False
    markdown: bool = True  # on a terminal, laid out by rich, which takes a while to import
    tagged: bool = False  # what the client wrote in the user's name stays in its tags


class MessagePartKind(enum.Enum):
    """The kind of a message part."""

    PROSE = "prose"
    THINKING = "thinking"
    CALL = "call"
    RESULT = "result"
    OTHER = "other"


class MessagePart(Struct, frozen=True):
    """A part of a message. ``title`` names a tool call or the kind of a result; ``text`` is unchanged from the log, but
    for the tags of what the client wrote in the user's name."""

    kind: MessagePartKind
    text: str
    title: str = ""
    is_error: bool = False


def parts(message: Message, view: DisplayOptions) -> Iterator[MessagePart]:
    """The parts of a message that the options show."""
    for block in message.blocks:
        if isinstance(block, TextBlock) and message.role == "user" and not view.tagged:
            yield from (
                one for part in client_parts(block.text) if (one := _client_part(part, view)) is not None
            )
            continue
        part = _part(block, view)
        if part is not None:
            yield part


def _client_part(part: ClientPart, view: DisplayOptions) -> MessagePart | None:
    """Commands read as they were typed; what the client added is as short as a tool's result is."""
    match part.kind:
        case "text" | "command":
            return MessagePart(MessagePartKind.PROSE, part.text) if part.text.strip() else None
        case "shell":
            return MessagePart(MessagePartKind.PROSE, f"! {part.text}")
        case "interrupted":
            return MessagePart(MessagePartKind.OTHER, part.text)
    if view.tools is ToolDetail.NONE:
        return None
    text = _short_result(part.text) if view.tools is ToolDetail.SHORT else part.text
    return MessagePart(MessagePartKind.RESULT, text, part.kind)


def _part(block: Block, view: DisplayOptions) -> MessagePart | None:
    match block:
        case TextBlock(text):
            return MessagePart(MessagePartKind.PROSE, text) if text.strip() else None
        case ThinkingBlock(thinking):
            return (
                MessagePart(MessagePartKind.THINKING, thinking)
                if view.thinking and thinking.strip()
                else None
            )
        case RedactedThinkingBlock():
            hidden = "(encrypted by the API; cannot be read)"
            return MessagePart(MessagePartKind.THINKING, hidden) if view.thinking else None
        case ToolUseBlock() | ServerToolUseBlock() | McpToolUseBlock():
            return _call(block, view)
        case ImageBlock() | DocumentBlock() | ToolReferenceBlock():
            return MessagePart(MessagePartKind.OTHER, _described(block))
        case UnknownBlock():
            return MessagePart(MessagePartKind.OTHER, _described(block))
    return _result(block, view)


def _call(
    block: ToolUseBlock | ServerToolUseBlock | McpToolUseBlock, view: DisplayOptions
) -> MessagePart | None:
    if view.tools is ToolDetail.NONE:
        return None
    values = _input(block.input)
    text = _all_of(values) if view.tools is ToolDetail.FULL else _gist(values)
    return MessagePart(MessagePartKind.CALL, text, title=block.name)


def _input(raw: Raw) -> object:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(raw).decode("utf-8", "replace")


def _gist(values: object) -> str:
    """The most telling field of a call, on one line."""
    if isinstance(values, dict):
        for name in DESCRIPTIVE_FIELDS:
            if isinstance(values.get(name), str) and values[name].strip():
                return _first_line(values[name])
        return _first_line(_json(values)) if values else ""
    return _first_line(_json(values))


def _all_of(values: object) -> str:
    if not isinstance(values, dict):
        return _json(values)
    return "\n".join(f"{name}: {_value(value)}" for name, value in values.items())


def _value(value: object) -> str:
    text = value if isinstance(value, str) else _json(value)
    return "\n" + text if "\n" in text else text


def _json(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _result(block: Block, view: DisplayOptions) -> MessagePart | None:
    if view.tools is ToolDetail.NONE:
        return None
    content = getattr(block, "content", msgspec.UNSET)
    is_error = isinstance(block, ToolResultBlock) and block.is_error is True
    text = result_text(content)
    if view.tools is ToolDetail.SHORT:
        text = _short_result(text)
    return MessagePart(MessagePartKind.RESULT, text, "error" if is_error else "result", is_error)


def result_text(content: Raw | UnsetType) -> str:
    """A result as text; blocks that are not text are named."""
    return "\n".join(
        block.text if isinstance(block, TextBlock) else _described(block) for block in blocks_of(content)
    )


def _short_result(text: str) -> str:
    lines = text.strip().split("\n")
    more = f"  (+{counted(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
    return (_first_line(text) or "(nothing)") + more


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:1000].rstrip()


def _described(block: Block) -> str:
    match block:
        case ImageBlock():
            return "[image]"
        case DocumentBlock():
            return f"[document{': ' + block.title if block.title else ''}]"
        case ToolReferenceBlock():
            return f"[tool {block.tool_name or '?'}]"
        case UnknownBlock():
            sample = block.json[:200].decode("utf-8", "replace")
            return f"[block of type {block.type_name or '?'}: {sample}]"
    return f"[{type(block).__name__.removesuffix('Block')}]"


def speaker(message: Message) -> str:
    """Who wrote the message: the person, the model, or the client on the person's behalf."""
    if message.is_summary:
        return "Summary of the compacted messages"
    if message.role == "user":
        return "Client, to the model" if message.is_meta else "Client" if _is_clients(message) else "You"
    names = {"assistant": model_name(message.model), "system": "Error" if message.is_error else "Client"}
    return names.get(message.role, message.role)


def _is_clients(message: Message) -> bool:
    """Whether the client wrote all of it: output of commands, reminders, notices."""
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    kinds = {part.kind for text in texts for part in client_parts(text)}
    return bool(kinds) and kinds <= {"output", "reminder", "notice"} and len(texts) == len(message.blocks)


def prompt_line(message: Message) -> str:
    """The beginning of a message for one line of a list: a command as it was typed, no tags."""
    parts = (
        client_parts(message.text[:4000]) if message.role == "user" else [ClientPart("text", message.text)]
    )
    return " ".join(f"! {one.text}" if one.kind == "shell" else one.text for one in parts).strip()[:400]


def only_results(message: Message) -> bool:
    """Whether a message holds only tool results."""
    return bool(message.blocks) and all(isinstance(block, ToolResultBlock) for block in message.blocks)


def when(moment: dt.datetime | None) -> str:
    """Local date and time, to the minute."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M") if moment is not None else ""


def safe_text(text: str) -> str:
    """``visible_lines``, but a line with nothing to escape is taken as it is: the usual, and faster, case."""
    return "\n".join(
        line if line.replace("\t", " ").isprintable() else visible_lines(line) for line in text.split("\n")
    )


def lines(message: Message, view: DisplayOptions, safe: Callable[[str], str] = safe_text) -> Iterator[str]:
    """A message as lines, then an empty line. Nothing if no part of it is shown."""
    shown = list(parts(message, view))
    if not shown:
        return
    if not only_results(message):
        yield _heading(message, safe)
    for part in shown:
        yield from _part_lines(part, view, safe, markdown=view.markdown and message.role == "assistant")
    yield ""


def _heading(message: Message, safe: Callable[[str], str]) -> str:
    who = safe(speaker(message)).replace("\n", " ")
    style = {"user": "green", "assistant": "cyan"}.get(message.role, "yellow")
    facts = [when(message.at), message.model, message.uuid[:8]]
    about = "  ".join(visible(fact) for fact in facts if fact)
    return f"{output.styled(who, style)}  {output.styled(about, 'dim')}"


def _part_lines(
    part: MessagePart, view: DisplayOptions, safe: Callable[[str], str], *, markdown: bool
) -> Iterator[str]:
    text = safe(part.text)
    match part.kind:
        case MessagePartKind.PROSE:
            yield from _prose(text) if markdown and output.coloured() else text.split("\n")
        case MessagePartKind.CALL | MessagePartKind.RESULT:
            yield from _tool_lines(part, text, view)
        case MessagePartKind.THINKING:
            yield from (output.styled(f"  ~ {line}", "dim") for line in text.split("\n"))
        case MessagePartKind.OTHER:
            yield f"  {text}"


def _tool_lines(part: MessagePart, text: str, view: DisplayOptions) -> Iterator[str]:
    mark = "→" if part.kind is MessagePartKind.CALL else "←"
    style = "red" if part.is_error else "dim"
    title = output.styled(f"  {mark} {visible(part.title)}", "red" if part.is_error else "yellow")
    if view.tools is ToolDetail.SHORT:
        yield f"{title}  {output.styled(shortened(text, _SHORT_COLUMNS), style)}" if text else title
        return
    yield title
    yield from (output.styled(f"      {line}", style) for line in text.split("\n"))


def _prose(text: str) -> list[str]:
    """Markdown for a terminal. The text must be safe already."""
    if len(text) > _LONGEST_MARKDOWN:
        return text.split("\n")
    import io

    from rich.console import Console
    from rich.markdown import Markdown

    page = io.StringIO()
    console = Console(file=page, force_terminal=True, width=_columns(), legacy_windows=False)
    console.print(Markdown(text, hyperlinks=False))
    # Markdown can encode control characters (&#27;), so rich's output is made safe again, except its colours.
    pieces = _COLOUR.split(page.getvalue().rstrip("\n"))
    return "".join(piece if index % 2 else safe_text(piece) for index, piece in enumerate(pieces)).split("\n")


def _columns() -> int:
    return min(output.terminal_size()[0], 100)
