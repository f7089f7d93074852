"""A message as people read it: who spoke, when, and what, part by part.

Transcript text is hostile. Parts hold it as it stands; whoever turns
parts into output names the function that makes them safe, and everything but
``show --raw`` names ``safe_text``. On a terminal prose is set as Markdown by
rich, from text that was made safe before, without links, and of what rich gives
back only colours reach the terminal.
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
from recollect.model.conversation.conversation import Message

_SHORT_COLUMNS = 100
_LONGEST_MARKDOWN = 50_000
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
# What a call is about, best first, where its input has such a field.
_TELLING = (
    "command",
    "file_path",
    "notebook_path",
    "pattern",
    "url",
    "query",
    "path",
    "description",
    "prompt",
)


class ToolDetail(enum.StrEnum):
    """How much of calls and their results is shown."""

    NONE = "none"
    SHORT = "short"
    FULL = "full"


class DisplayOptions(Struct, frozen=True):
    """What of a message is shown."""

    tools: ToolDetail = ToolDetail.SHORT
    thinking: bool = False


class MessagePartKind(enum.Enum):
    """What a part is."""

    PROSE = "prose"
    THINKING = "thinking"
    CALL = "call"
    RESULT = "result"
    OTHER = "other"


class MessagePart(Struct, frozen=True):
    """A piece of a message. ``title`` names a call or what a result is; ``text`` is as it stands in the log."""

    kind: MessagePartKind
    text: str
    title: str = ""
    is_error: bool = False


def parts(spoken: Message, view: DisplayOptions) -> Iterator[MessagePart]:
    """The parts of a message that are to be shown."""
    for block in spoken.blocks:
        part = _part(block, view)
        if part is not None:
            yield part


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
            hidden = "(only its author can read it)"
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
    """What a call is about, on one line."""
    if isinstance(values, dict):
        for name in _TELLING:
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
    """A result as text; what is no text is named."""
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


def speaker(spoken: Message) -> str:
    """Who speaks: the person, the model, or the client in somebody's name."""
    if spoken.is_summary:
        return "Summary of what was compacted"
    if spoken.role == "user":
        return "Client, to the model" if spoken.is_meta else "You"
    names = {"assistant": "Claude", "system": "Client"}
    return names.get(spoken.role, spoken.role)


def only_results(spoken: Message) -> bool:
    """Whether a message is nothing but what tools gave back."""
    return bool(spoken.blocks) and all(isinstance(block, ToolResultBlock) for block in spoken.blocks)


def when(moment: dt.datetime | None) -> str:
    """A time for people, here."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M") if moment is not None else ""


def safe_text(text: str) -> str:
    """``visible_lines``, with a look at whole lines first: most hold nothing to be made visible."""
    return "\n".join(
        line if line.replace("\t", " ").isprintable() else visible_lines(line) for line in text.split("\n")
    )


def lines(spoken: Message, view: DisplayOptions, safe: Callable[[str], str] = safe_text) -> Iterator[str]:
    """A message as lines of text, followed by an empty one; nothing where nothing of it is to be shown."""
    shown = list(parts(spoken, view))
    if not shown:
        return
    if not only_results(spoken):
        yield _heading(spoken, safe)
    for part in shown:
        yield from _part_lines(part, view, safe, markdown=spoken.role == "assistant")
    yield ""


def _heading(spoken: Message, safe: Callable[[str], str]) -> str:
    who = safe(speaker(spoken)).replace("\n", " ")
    style = {"user": "green", "assistant": "cyan"}.get(spoken.role, "yellow")
    facts = [when(spoken.at), spoken.model, spoken.uuid[:8]]
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
    """Markdown for a terminal, from text that is safe already."""
    if len(text) > _LONGEST_MARKDOWN:
        return text.split("\n")
    import io

    from rich.console import Console
    from rich.markdown import Markdown

    page = io.StringIO()
    console = Console(file=page, force_terminal=True, width=_columns(), legacy_windows=False)
    console.print(Markdown(text, hyperlinks=False))
    # Markdown has escapes of its own (&#27;): whatever rich made of them, only colours get through.
    pieces = _COLOUR.split(page.getvalue().rstrip("\n"))
    return "".join(piece if index % 2 else safe_text(piece) for index, piece in enumerate(pieces)).split("\n")


def _columns() -> int:
    import shutil

    return max(20, min(shutil.get_terminal_size().columns, 100))
