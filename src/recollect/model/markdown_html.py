"""Hostile text as safe HTML: escaped, with Markdown for prose.

Nothing in a transcript becomes markup by itself. ``text_html`` escapes it, and ``prose_html`` reads it as
Markdown without raw HTML and writes only elements of a short list; an unknown token is text. Links are http,
https and mailto, and their target is always visible; pictures are named, never loaded. Invisible and
direction-changing characters are shown as escapes.

What cannot be parsed as Markdown in reasonable time or depth is shown as plain text.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LONGEST = 60_000
_MOST_BRACKETS = 500  # for each one that opens a link, the parser searches to the end of the text
_DEEPEST = 60
# Controls except tab and newline, soft hyphen, marks and overrides of direction, zero width, line separators,
# halves of surrogate pairs, tags. Joiners (U+200C, U+200D) stay: some letters and emoji need them.
_CHARACTERS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE = re.compile(f"[{_CHARACTERS}]|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])")
# Most texts have none of them, and one class is searched several times as fast as an alternation.
_PERHAPS_INVISIBLE = re.compile(f"[{_CHARACTERS}\u200c\u200d]")
_VISIBLE_ASCII = bytes([*b"\t\n", *range(0x20, 0x7F)])
_LINK = re.compile(r"(?:https?://|mailto:)[!-~\u00a1-\U0010fffd]+", re.IGNORECASE)


# A text without any of these is paragraphs, and parsing it takes fifty times as long as writing them.
_PERHAPS_MARKUP = re.compile(
    r"[\\`*_~\[<&|\t\r\x00\x0b\x0c\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
    r"|\n\n\n| $|^(?: |[-+=>#:]|\d{1,9}[.)])",
    re.MULTILINE,
)


def visible_text(text: str) -> str:
    """Text with invisible characters escaped; tab and newline keep their meaning."""
    text = text.replace("\r\n", "\n")
    return _INVISIBLE.sub(lambda found: _escape(found[0]), text) if _may_hide(text) else text


def _may_hide(text: str) -> bool:
    """Whether a text may have an invisible character."""
    if text.isascii():
        return bool(text.encode().translate(None, _VISIBLE_ASCII))
    return _PERHAPS_INVISIBLE.search(text) is not None


def text_html(text: str) -> str:
    """Text as HTML; escapes of invisible characters are marked up, so that text cannot imitate them."""
    escaped = html.escape(text.replace("\r\n", "\n"))
    if not _may_hide(escaped):
        return escaped
    return _INVISIBLE.sub(lambda found: f'<i class="x">{_escape(found[0])}</i>', escaped)


def attribute(text: str) -> str:
    """Text for an attribute in double quotes."""
    return html.escape(visible_text(text))


def pre_html(text: str, kind: str = "") -> str:
    """A block of preformatted text. Browsers drop the first newline after the tag, so one is added."""
    return f'<pre class="{kind}">\n{text_html(text)}</pre>' if kind else f"<pre>\n{text_html(text)}</pre>"


def prose_html(text: str) -> str:
    if not text.strip():
        return ""
    if len(text) > _LONGEST or text.count("[") > _MOST_BRACKETS:
        return pre_html(text, "plain")
    if _PERHAPS_MARKUP.search(text) is None:
        return "".join(f"<p>{text_html(part)}</p>\n" for part in text.strip("\n").split("\n\n"))
    tokens = _markdown().parse(text)
    # The parser drops what is nested deeper.
    if any(token.level >= _DEEPEST - 2 for token in tokens):
        return pre_html(text, "plain")
    return "".join(_block(token) for token in tokens)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


@functools.cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    # Link definitions render as nothing: as text, no part of a message is hidden.
    return made.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])


# ---- blocks ----------------------------------------------------------------------------------------------

_PLAIN = {
    "paragraph": "p",
    "bullet_list": "ul",
    "list_item": "li",
    "blockquote": "blockquote",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
    "em": "em",
    "strong": "strong",
    "s": "s",
}


def _block(token: Token) -> str:
    if token.type == "inline":
        return _inline(token.children or [])
    if token.type in ("paragraph_open", "paragraph_close") and token.hidden:
        return "\n" if token.type == "paragraph_close" else ""
    write = _BLOCKS.get(token.type)
    return write(token) if write is not None else _tag(token)


def _tag(token: Token) -> str:
    """An element without attributes from the text; an unknown token is text."""
    kind, _, side = token.type.rpartition("_")
    name = _PLAIN.get(kind)
    if name is None or side not in ("open", "close"):
        return text_html(token.content)
    return f"<{name}>" if side == "open" else f"</{name}>\n"


def _heading(token: Token) -> str:
    """Headings of a transcript are no headings of the page: they would break its outline."""
    level = min(int(token.tag[1:]), 3)
    return f'<p class="heading h{level}">' if token.type == "heading_open" else "</p>\n"


def _ordered(token: Token) -> str:
    start = str(token.attrGet("start") or 1)
    return f'<ol start="{start}">' if start.isdecimal() and start != "1" else "<ol>"


def _fence(token: Token) -> str:
    about = token.info.strip()
    label = f'<div class="language">{text_html(about)}</div>' if about else ""
    return f"{label}{pre_html(token.content.removesuffix(chr(10)), 'code')}\n"


_BLOCKS: dict[str, Callable[[Token], str]] = {
    "heading_open": _heading,
    "heading_close": _heading,
    "ordered_list_open": _ordered,
    "ordered_list_close": lambda _: "</ol>\n",
    "fence": _fence,
    "code_block": _fence,
    "hr": lambda _: "<hr>\n",
}


# ---- within a line ---------------------------------------------------------------------------------------


def _inline(tokens: Sequence[Token]) -> str:
    pieces: list[str] = []
    links: list[tuple[str, str, int]] = []
    for token in tokens:
        match token.type:
            case "text":
                pieces.append(text_html(token.content))
            case "softbreak":
                pieces.append("\n")
            case "hardbreak":
                pieces.append("<br>\n")
            case "code_inline":
                pieces.append(f"<code>{text_html(token.content)}</code>")
            case "image":
                pieces.append(_picture(token))
            case "link_open":
                target = str(token.attrGet("href") or "")
                links.append((target, str(token.attrGet("title") or ""), len(pieces)))
                pieces.append(_link_start(target))
            case "link_close":
                pieces.append(_link_end(*links.pop(), pieces))
            case _:
                pieces.append(_tag(token).rstrip("\n"))
    return "".join(pieces)


def _link_start(target: str) -> str:
    if _LINK.fullmatch(target) is None:
        return "<span>"
    return f'<a href="{attribute(target)}" rel="noopener noreferrer nofollow">'


def _link_end(target: str, title: str, start: int, pieces: list[str]) -> str:
    """The end of a link, and its target unless that is the link text."""
    shown = "".join(pieces[start + 1 :])
    end = "</a>" if _LINK.fullmatch(target) is not None else "</span>"
    said = [one for one in (target, title) if one and text_html(one) != shown]
    return end + "".join(f' <span class="target">({text_html(one)})</span>' for one in said)


def _picture(token: Token) -> str:
    """Loading a remote picture would reveal that this page was read, so only its name is shown."""
    words = ", ".join(one for one in (token.content, str(token.attrGet("src") or "")) if one)
    return f'<span class="target">[picture: {text_html(words)}]</span>'
