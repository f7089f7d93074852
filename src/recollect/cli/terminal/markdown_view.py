"""A conversation as Markdown that no transcript can break out of.

A fence is longer than any run of its character inside it. Prose stays Markdown, but each
line is made safe: fences are rewritten at the margin, unmatched backticks are escaped,
headings are moved below ours, HTML and images (a remote image is a beacon) become text.
Other programs therefore see the same blocks as this module, and a heading that names a
speaker is always one of ours. Control characters are made visible first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.cli.terminal.conversation_view import (
    DisplayOptions,
    MessagePart,
    MessagePartKind,
    ToolDetail,
    only_results,
    parts,
    safe_text,
    speaker,
    when,
)
from recollect.cli.terminal.text import visible
from recollect.model.conversation.conversation import Message

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
    """One message, followed by an empty line; "" if no part of it is shown."""
    shown = list(parts(source, view))
    if not shown:
        return ""
    heading = [] if only_results(source) else [_heading(source)]
    return "\n\n".join([*heading, *(_part(part, view) for part in shown)]) + "\n\n"


def _heading(source: Message) -> str:
    facts = [when(source.at), source.model or ""]
    about = ", ".join(_inline(visible(fact)) for fact in facts if fact)
    who = _inline(visible(speaker(source)))
    return f"## {who}" + (f" ({about})" if about else "")


def _part(part: MessagePart, view: DisplayOptions) -> str:
    text = safe_text(part.text)
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
