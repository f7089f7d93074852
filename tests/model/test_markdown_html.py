"""Hostile text as HTML: what Markdown becomes, and that nothing else does."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model import markdown_html
from recollect.model.markdown_html import attribute, pre_html, prose_html, text_html, visible_text

REL = 'rel="noopener noreferrer nofollow"'


class Elements(HTMLParser):
    """Names and attributes of elements, whether they nest, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.is_sound = True
        self.feed(page)
        self.close()
        self.is_sound &= not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))
        self.open += [] if tag in ("br", "hr") else [tag]

    def handle_endtag(self, tag: str) -> None:
        self.is_sound &= bool(self.open) and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        self.is_sound = False

    def handle_decl(self, decl: str) -> None:
        self.is_sound = False

    def handle_pi(self, data: str) -> None:
        self.is_sound = False


@pytest.mark.parametrize(
    ("prose", "page"),
    [
        ("", ""),
        ("one\ntwo", "<p>one\ntwo</p>\n"),
        ("*a* **b** ~~c~~ `d`", "<p><em>a</em> <strong>b</strong> <s>c</s> <code>d</code></p>\n"),
        ("# You", '<p class="heading h1">You</p>\n'),
        ("##### Deep", '<p class="heading h3">Deep</p>\n'),
        ("7. x", '<ol start="7"><li>x\n</li>\n</ol>\n'),
        ("- x", "<ul><li>x\n</li>\n</ul>\n"),
        ("> x", "<blockquote><p>x</p>\n</blockquote>\n"),
        ("```py now\n<b>\n```", '<div class="language">py now</div><pre class="code">\n&lt;b&gt;</pre>\n'),
        ("a  \nb", "<p>a<br>\nb</p>\n"),
        ("---", "<hr>\n"),
        ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>\n"),
        ("<!-- x -->", "<p>&lt;!-- x --&gt;</p>\n"),
        ("[r]: http://a.example", "<p>[r]: http://a.example</p>\n"),
        ("![p](http://a.example/b)", '<p><span class="target">[picture: p, http://a.example/b]</span></p>\n'),
    ],
)
def test_markdown_becomes_elements(prose: str, page: str) -> None:
    """Headings stand below the page's own; HTML, comments and definitions of links stay text."""
    assert page == prose_html(prose)


@pytest.mark.parametrize(
    ("prose", "page"),
    [
        ("<https://a.example>", f'<a href="https://a.example" {REL}>https://a.example</a>'),
        (
            "[x](https://a.example/?b&c)",
            f'<a href="https://a.example/?b&amp;c" {REL}>x</a> <span class="target">(https://a.example/?b&amp;c)</span>',
        ),
        ("[x](docs/a.md)", '<span>x</span> <span class="target">(docs/a.md)</span>'),
        (
            "[https://good.example](https://evil.example)",
            (
                f'<a href="https://evil.example" {REL}>https://good.example</a> '
                '<span class="target">(https://evil.example)</span>'
            ),
        ),
        (
            '[x](ftp://a.example "T")',
            '<span>x</span> <span class="target">(ftp://a.example)</span> <span class="target">(T)</span>',
        ),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
    ],
)
def test_links_say_where_they_lead(prose: str, page: str) -> None:
    """http, https and mailto are links; every target can be read, also where the words name another."""
    assert f"<p>{page}</p>\n" == prose_html(prose)


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("a\r\nb\tc", "a\nb\tc"),
        ("\x1b[0m", '<i class="x">\\x1b</i>[0m'),
        ("\\x1b", "\\x1b"),
        ("a\u202eb", 'a<i class="x">\\u{202e}</i>b'),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("a\u200db", 'a<i class="x">\\u{200d}</i>b'),
        ("\ud800", '<i class="x">\\u{d800}</i>'),
        ("<&>\"'", "&lt;&amp;&gt;&quot;&#x27;"),
    ],
)
def test_what_cannot_be_seen_is_shown(text: str, page: str) -> None:
    """An escape is set apart from text that looks like one; joiners of emoji stay."""
    assert page == text_html(text)


def test_an_attribute_cannot_be_left() -> None:
    """Quotes, brackets and ampersands are escaped, what cannot be seen is shown."""
    assert "&quot; onload=&quot;x&#x27;&lt;&gt;&amp;\\x00" == attribute('" onload="x\'<>&\x00')


def test_a_first_empty_line_is_kept() -> None:
    """Browsers leave out one newline behind the tag: that is ours."""
    assert "<pre>\n\nx</pre>" == pre_html("\nx")


@pytest.mark.parametrize("prose", ["> " * 100 + "deep", "[" * 3_000 + "many", "x" * 70_000 + " long"])
def test_what_is_too_much_is_shown_as_it_stands(prose: str) -> None:
    """Too deep, too many brackets, too long: no Markdown, and no letter lost."""
    assert f'<pre class="plain">\n{prose.replace(">", "&gt;")}</pre>' == prose_html(prose)


_PIECES = [
    "`",
    "``",
    "```",
    "~~~",
    ">",
    "-",
    "1.",
    "#",
    "---",
    "===",
    "a",
    "<",
    "<b>",
    "<!--",
    "-->",
    "<script>",
    "</script>",
    "![",
    "](",
    ")",
    "[r]",
    ":",
    "\\",
    "*",
    "**",
    "_",
    "|",
    "~~",
    "&lt;",
    "&#0;",
    "javascript:",
    "http://a.b",
    "data:",
    '"',
    "'",
    "<http://x>",
    "(x)",
    "+",
    "\x00",
    "\x1b",
    "\u202e",
]


# Every element that prose can become.
_ELEMENTS = {
    *("a", "blockquote", "br", "code", "div", "em", "hr", "i", "li", "ol", "p", "pre", "s", "span", "strong"),
    *("table", "tbody", "td", "th", "thead", "tr", "ul"),
}


@given(st.lists(st.sampled_from([*_PIECES, " ", "    ", "\n", "\n\n", "\t", "> ", "- "]), max_size=25))
def test_no_mixture_of_marks_is_markup(pieces: list[str]) -> None:
    """Whatever prose is made of: elements of the list, with our attributes, closed in order."""
    seen = Elements(prose_html("".join(pieces)))

    assert seen.is_sound
    assert set() == {name for name, _ in seen.found} - _ELEMENTS
    assert set() == {name for _, names in seen.found for name in names} - {"class", "href", "rel", "start"}


@given(st.text())
def test_text_comes_back_as_it_can_be_seen(text: str) -> None:
    """Without the element that sets escapes apart, a browser shows what ``visible_text`` says."""
    page = text_html(text).replace('<i class="x">', "").replace("</i>", "")

    assert visible_text(text) == unescape(page)


def test_a_text_without_invisible_characters_is_told_by_its_characters() -> None:
    """Every character that is escaped somewhere is looked for first; no plain one is."""
    codes = [*range(0x3000), *range(0xD700, 0x10000), *range(0x1D100, 0x1D200), *range(0xE0000, 0xE1100)]
    escaped = [code for code in codes if markdown_html._INVISIBLE.search(f"a{chr(code)}b")]

    assert (escaped, False) == (
        [code for code in codes if markdown_html._may_hide(f"a{chr(code)}b")],
        markdown_html._may_hide("\t\n~ é 日"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "One line",
        "One\ntwo\n\nthree; four (five) 6. seven - eight # nine\n",
        'Ümläut, 日本語 and 😀!\n\n"quoted" > that\'s 5 + 5 = 10',
        "\n\nBlank lines around\n\n",
        "Blank\n\n\nlines",
        "1. a list\n2. of two",
        "Title\n=====\n\nTitle\n---",
        "a\n- b",
        "    code",
        "two  \nspaces",
        "a \n b",
        "\u3000wide space\u3000",
        "a\u200bb & <c>",
    ],
)
def test_plain_paragraphs_are_written_as_the_parser_would(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way without the parser gives the same, or is not taken."""
    quick = prose_html(text)
    monkeypatch.setattr(markdown_html, "_PERHAPS_MARKUP", re.compile(""))

    assert prose_html(text) == quick
