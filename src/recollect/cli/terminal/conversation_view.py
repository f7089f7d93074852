"""A message as text: who wrote it, when, and its parts; for a terminal, and as Markdown that no transcript breaks out of.

Transcript text is hostile. Parts hold it unchanged; the function that turns parts into output makes them safe. On a
terminal rich lays prose out from text that is already safe, without links, and only its colours pass. In Markdown a fence
is longer than any run of its character inside it, headings are moved below ours, HTML and images become text.
"""

from __future__ import annotations

import enum
import io
import re
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Raw, Struct, UnsetType

from recollect.cli.terminal import output
from recollect.cli.terminal.text import counted, shortened, visible, visible_lines, when
from recollect.model.conversation.conversation import Message, model_name
from recollect.model.conversation.tool_calls import DESCRIPTIVE_FIELDS, ClientPart, client_parts
from recollect.model.lines.blocks import (
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


def lines(
    message: Message, view: DisplayOptions, safe: Callable[[str], str] = visible_lines
) -> Iterator[str]:
    """What begins with a message, and the message as lines, then an empty line. Nothing if no part of it is shown."""
    for seam in message.seams:
        yield from (output.styled(f"--- {seam.words} ---", "yellow"), "")
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

    from rich.console import Console
    from rich.markdown import Markdown

    page = io.StringIO()
    console = Console(file=page, force_terminal=True, width=_columns(), legacy_windows=False)
    console.print(Markdown(text, hyperlinks=False))
    # Markdown can encode control characters (&#27;), so rich's output is made safe again, except its colours.
    pieces = _COLOUR.split(page.getvalue().rstrip("\n"))
    return "".join(piece if index % 2 else visible_lines(piece) for index, piece in enumerate(pieces)).split(
        "\n"
    )


def _columns() -> int:
    return min(output.terminal_size()[0], 100)


_FENCE = re.compile(r"(?P<indent>[ \t]*)(?:(?P<ticks>`{3,})(?P<info>[^`]*)|(?P<tildes>~{3,})(?P<about>.*))")
_MARKERS = r"(?P<before>[ \t]*(?:(?:>|[-*+]|[0-9]{1,9}[.)])[ \t]*)*)"  # of quotes and lists
_HEADING = re.compile(_MARKERS + r"(?P<marks>#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(_MARKERS + r"(?P<line>=+|-+)[ \t]*")
_HTML = re.compile(r"<(?=[A-Za-z/!?])")
_CODE_OR_ESCAPE = re.compile(r"\\.|`+")


def document_head(title: str, session: str, cwd: str) -> str:
    """The title and the session line."""
    name = _inline(visible(title)) or "Session"
    return f"# {name}\n\nSession `{_code(session)}`" + (f", in `{_code(cwd)}`" if cwd else "") + "\n\n"


def message(source: Message, view: DisplayOptions) -> str:
    """What begins with a message, and the message, followed by an empty line; "" if no part of it is shown."""
    shown = list(parts(source, view))
    seams = [f"---\n\n*{seam.words}*" for seam in source.seams]
    heading = [_markdown_heading(source)] if shown and not only_results(source) else []
    return "".join(
        f"{piece}\n\n" for piece in [*seams, *heading, *(_markdown_part(part, view) for part in shown)]
    )


def _markdown_heading(source: Message) -> str:
    facts = [when(source.at), source.model or ""]
    about = ", ".join(_inline(visible(fact)) for fact in facts if fact)
    who = _inline(visible(speaker(source)))
    return f"## {who}" + (f" ({about})" if about else "")


def _markdown_part(part: MessagePart, view: DisplayOptions) -> str:
    text = visible_lines(part.text)
    match part.kind:
        case MessagePartKind.PROSE:
            return prose(text)
        case MessagePartKind.THINKING:
            return f"*Thinking*\n\n{fenced(text)}"
        case MessagePartKind.CALL | MessagePartKind.RESULT:
            title = "Call" if part.kind is MessagePartKind.CALL else "Result"
            name = f": `{_code(part.title)}`" if part.kind is MessagePartKind.CALL or part.is_error else ""
            body = f"\n\n{fenced(text)}" if text else ""
            return f"*{title}*{name}{body}" if view.tools is not ToolDetail.NONE else ""
        case MessagePartKind.OTHER:
            return fenced(text)


def fenced(text: str, info: str = "") -> str:
    """Text in a code block; the fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}\n{text}\n{fence}"


def prose(text: str) -> str:
    """Markdown that cannot affect the text around it. ``text`` has no control characters except tab and newline."""
    return "\n".join(_prose_lines(text.split("\n")))


def _prose_lines(lines: list[str]) -> Iterator[str]:
    position = 0
    while position < len(lines):
        opening = _FENCE.fullmatch(lines[position])
        if opening is None:
            yield _prose_line(lines[position])
            position += 1
            continue
        end = _end_of_fence(lines, position + 1, opening["ticks"] or opening["tildes"])
        words = (opening["info"] or opening["about"] or "").split()
        inside = [_outdented(line, len(opening["indent"])) for line in lines[position + 1 : end]]
        yield fenced("\n".join(inside), re.sub(r"[^\w+#.-]", "", words[0]) if words else "")
        position = end + 1


def _end_of_fence(lines: list[str], start: int, fence: str) -> int:
    """The line that closes a fence, or the end of the text."""
    closing = re.compile(rf"[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*")
    return next((index for index in range(start, len(lines)) if closing.fullmatch(lines[index])), len(lines))


def _outdented(line: str, columns: int) -> str:
    return line[:columns].lstrip(" \t") + line[columns:]


def _prose_line(line: str) -> str:
    underline = _UNDERLINE.fullmatch(line)
    if underline is not None:
        return f"{underline['before']}\\{underline['line']}"
    heading = _HEADING.match(line)
    if heading is not None:
        line = f"{heading['before']}{'#' * min(6, len(heading['marks']) + 2)}{line[heading.end() :]}"
    return _inline(line)


def _inline(line: str) -> str:
    """One line with balanced code spans, without HTML and images."""
    pieces: list[str] = []
    position = 0
    while (found := _CODE_OR_ESCAPE.search(line, position)) is not None:
        pieces.append(_text(line[position : found.start()]))
        position = found.end()
        if found[0].startswith("\\"):
            pieces.append(found[0] if found[0] != "\\<" else "&lt;")
            continue
        closing = re.compile(rf"(?<!`){found[0]}(?!`)").search(line, position)
        if closing is None:
            pieces.append("\\`" * len(found[0]))
        else:
            pieces.append(line[found.start() : closing.end()])
            position = closing.end()
    return "".join([*pieces, _text(line[position:])])


def _text(piece: str) -> str:
    return _HTML.sub("&lt;", piece).replace("![", "!\\[")


def _code(text: str) -> str:
    """Text for a code span of one backtick."""
    return visible(text).replace("`", "'")
