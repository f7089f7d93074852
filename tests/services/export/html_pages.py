"""Hostile text for pages, and a strict look at what a page is made of."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from recollect.services.export import html_frame
from tests.cli.session_logs import SESSION, SessionLog, call, text

_ACT = "document.title='owned'"
_TAGS = [
    "script",
    "img",
    "svg",
    "math",
    "iframe",
    "object",
    "embed",
    "video",
    "audio",
    "body",
    "input",
    "form",
    "style",
    "link",
    "meta",
    "base",
    "details",
    "marquee",
    "template",
]
_HANDLERS = [
    "onerror",
    "onload",
    "onclick",
    "ontoggle",
    "onmouseover",
    "onfocus",
    "onbegin",
    "onanimationstart",
]
_SCHEMES = [
    "javascript:{}",
    "JaVaScRiPt:{}",
    "java\tscript:{}",
    "java\nscript:{}",
    " javascript:{}",
    "\x01javascript:{}",
    "javascript&colon;{}",
    "&#106;avascript:{}",
    "javascript&#58;{}",
    "vbscript:{}",
    "data:text/html,<script>{}</script>",
    "data:text/html;base64,PHNjcmlwdD4=",
    "data:image/svg+xml,<svg onload={}>",
    "blob:{}",
    "file:///etc/passwd",
    "//evil.example/x",
    "view-source:{}",
    "filesystem:{}",
]
_BREAKS = [
    "--><script>{}</script>",
    "<!--><script>{}</script>-->",
    "<!-- --!><script>{}</script>",
    "]]><script>{}</script>",
    "<![CDATA[<script>{}</script>]]>",
    "<?xml version='1.0'?><script>{}</script>",
    "</pre><script>{}</script>",
    "</code></pre></details></article><script>{}</script>",
    "</title><script>{}</script>",
    "</style><script>{}</script>",
    "</textarea><script>{}</script>",
    "</summary><script>{}</script>",
    '"><script>{}</script>',
    "'><script>{}</script>",
    '" onmouseover="{}',
    "' onmouseover='{}",
    "` onmouseover=`{}",
    "<scr<script>ipt>{}</scr</script>ipt>",
    "<<script>{}//<</script>",
    "<script/x>{}</script/x>",
    "<script\x00>{}</script>",
    "<\x00script>{}</script>",
    "<img src=x onerror={}//",
    "<svg/onload={}>",
    "<svg><style><img src=x onerror={}></style></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror={}></style></mglyph></table></mtext></math>",
    '<math href="javascript:{}">x</math>',
    '<svg><a xlink:href="javascript:{}"><text>x</text></a></svg>',
    "<svg><animate onbegin={} attributeName=x dur=1s>",
    "<style>@import 'http://evil.example/x.css';</style>",
    '<div style="background:url(http://evil.example/x.png)">x</div>',
    '<div style="width:expression({})">x</div>',
    "<link rel=stylesheet href=http://evil.example/x.css>",
    '<meta http-equiv=refresh content="0;url=javascript:{}">',
    '<base href="http://evil.example/">',
    '<form action="javascript:{}"><button>x</button></form>',
    '<iframe srcdoc="<script>{}</script>"></iframe>',
    "<template shadowrootmode=open><script>{}</script></template>",
    '<noscript><p title="</noscript><script>{}</script>">',
    "<a href=x id=__proto__>x</a>",
    "<form id=x><input name=attributes></form>",
    "+ADw-script+AD4-{}+ADw-/script+AD4-",
    "\ufeff<script>{}</script>",
    "\xbcscript\xbe{}\xbc/script\xbe",
    "＜script＞{}＜/script＞",
    "&lt;script&gt;{}&lt;/script&gt;",
    "&#60;script&#62;{}&#60;/script&#62;",
    "\\u003cscript\\u003e{}",
    "%3Cscript%3E{}%3C/script%3E",
]
_MARKDOWN = [
    "[x]({})",
    "[x](<{}>)",
    "[x]({} 'a')",
    "<{}>",
    "![x]({})",
    "[![x]({})](http://a.example)",
    "[x][r]\n\n[r]: {}",
    "`{}`",
    "```{}\nx\n```",
    "~~~\n{}\n~~~",
    "> {}",
    "- {}",
    "|a|\n|-|\n|{}|",
    "# {}",
    "    {}",
]
_LETTERS = [
    *(f"a{chr(code)}b" for code in (*range(0x09), *range(0x0B, 0x20), 0x7F, 0x85, 0x9B)),
    *(
        f"a{one}b"
        for one in "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200e\u200f\u061c\u2028\u2029\ufeff\xad"
    ),
    "\x1b[31mred\x1b[0m",
    "\x1b]0;owned\x07",
    "\x1b]8;;http://evil.example\x07x\x1b]8;;\x07",
    "\x1b]52;c;cm0gLXJm\x07",
    "&#27;[2J",
    "\U000e0041\U000e0042",
    "a\ud800b",
]


def payloads() -> list[str]:
    """More than two hundred texts that want to be more than text."""
    tags = [f"<{tag} {handler}={_ACT} src=x>" for tag in _TAGS for handler in _HANDLERS[:4]]
    closed = [f"<{tag}>{_ACT}</{tag}>" for tag in _TAGS]
    handlers = [f'<b {handler}="{_ACT}" autofocus tabindex=1>x</b>' for handler in _HANDLERS]
    links = [one.format(_ACT) for one in _SCHEMES]
    inside = [
        frame.format(one.format(_ACT).replace("\n", " "))
        for frame in _MARKDOWN
        for one in (_SCHEMES[0], _SCHEMES[10], _BREAKS[6])
    ]
    return [*tags, *closed, *handlers, *links, *(one.format(_ACT) for one in _BREAKS), *inside, *_LETTERS]


def hostile_session(several: list[str]) -> SessionLog:
    """Every payload in every place that a page shows."""
    everything = " ".join(several[::7])
    log = SessionLog(cwd=f"/srv/{several[0]}{everything}")
    for number, one in enumerate(several):
        log.prompt(f"u{number}", one, gitBranch=one)
        log.answer(
            f"a{number}",
            {"type": "thinking", "thinking": one, "signature": "s"},
            text(one),
            text(
                f"[{one}]({one}) <{one}> **{one}** `{one}`\n\n```{one}\n{one}\n```\n\n|{one}|\n|-|\n|{one}|\n\n![{one}]({one})"
            ),
            call(one, f"c{number}", command=one, **{one[:20]: [one, {one[:20]: one}]}),
            call("Edit", f"e{number}", file_path=one, old_string=one, new_string=one + one),
            call("TodoWrite", f"t{number}", todos=[{"content": one, "status": one}]),
            {"type": f"odd{one}", "what": one},
            {"type": "document", "source": {}, "title": one},
            {"type": "image", "source": {"type": "url", "url": one}},
            {"type": "image", "source": {"type": "base64", "media_type": one, "data": one}},
            {"type": "server_tool_use", "id": "x", "name": one, "input": {"query": one}},
            {"type": "web_search_tool_result", "tool_use_id": "x", "content": [{"type": one, "title": one}]},
            model=one,
        )
        results = [
            {"type": "tool_result", "tool_use_id": f"c{number}", "content": one},
            {"type": "tool_result", "tool_use_id": f"e{number}", "content": [text(one)], "is_error": True},
            {"type": "tool_result", "tool_use_id": f"none{one}", "content": one},
        ]
        patch = {
            "structuredPatch": [{"oldStart": one, "newStart": one, "lines": [f"+{one}", f"-{one}", one]}]
        }
        log.add("user", f"r{number}", message={"role": "user", "content": results}, toolUseResult=patch)
    log.prompt("s1", everything, isCompactSummary=True)
    log.prompt("o1", everything, isMeta=True)
    log.add("system", "l1", subtype="local_command", content=everything)
    log.prompt("u-last", "The end")
    return log.meta({"type": "custom-title", "customTitle": everything, "sessionId": SESSION})


# ---- a strict look ---------------------------------------------------------------------------------------

_CLASSES = re.compile(r"[a-z]+( [a-z]+){0,2}|swatch k\d+|heading h[123]")
_ANCHOR = re.compile(r"(m|agent-\d+-)\d+|agent-\d+|side")
_LABEL = re.compile(r"Pages, (before|after)|Prompts|Cost by day[-0-9, to]*")
_NUMBER = re.compile(r"[0-9. ]+")
_LOCAL = re.compile(r"#[a-z0-9-]+|(\.\./)?[A-Za-z0-9._%-]+(/[A-Za-z0-9._%-]+)?\.html?(#[a-z0-9-]+)?")
_REMOTE = re.compile(r"(?i:https?://|mailto:)[!-~\xa1-\U0010fffd]+")
_PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_ANY = re.compile(r".*", re.DOTALL)
_PLAIN = [
    "article",
    "b",
    "blockquote",
    "body",
    "br",
    "code",
    "details",
    "div",
    "em",
    "dd",
    "del",
    "dl",
    "dt",
    "footer",
    "g",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "hr",
    "i",
    "ins",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "s",
    "section",
    "span",
    "strong",
    "summary",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "time",
    "title",
    "tr",
    "ul",
]
ALLOWED: dict[str, dict[str, re.Pattern[str]]] = {
    **{name: {"class": _CLASSES, "id": _ANCHOR} for name in _PLAIN},
    "details": {"class": _CLASSES, "id": _ANCHOR, "open": re.compile("")},
    "ol": {"start": re.compile(r"\d{1,9}")},
    "a": {
        "href": re.compile(f"{_LOCAL.pattern}|{_REMOTE.pattern}"),
        "rel": re.compile("noopener noreferrer nofollow"),
    },
    "img": {"src": _PICTURE, "alt": re.compile("picture")},
    "time": {"datetime": _TIME},
    "html": {"lang": re.compile("en")},
    "style": {},
    "nav": {"class": _CLASSES, "id": re.compile("side"), "aria-label": _LABEL},
    "td": {"class": _CLASSES, "colspan": re.compile("4")},
    "data": {"value": re.compile(r"-?\d+(\.\d+)?")},
    "svg": {
        "class": re.compile("days"),
        "role": re.compile("img"),
        "aria-label": _LABEL,
        "viewbox": _NUMBER,
        "preserveaspectratio": re.compile("none"),
    },
    "rect": {
        "class": re.compile(r"k\d+"),
        **dict.fromkeys(("x", "y", "width", "height"), _NUMBER),
    },
    "meta": {
        "charset": re.compile("utf-8"),
        "http-equiv": re.compile("Content-Security-Policy"),
        "name": _ANY,
        "content": _ANY,
    },
}
# Controls and the script stand around the content and come from the program alone, word by word.
AROUND = frozenset(["script", "header", "input", "button", "select", "option"])
_VOID = frozenset(["meta", "br", "hr", "img", "input", "rect"])
_ONCE = ("html", "head", "style", "script", "body", "header", "main")
_SCRIPT = (Path(html_frame.__file__).parent / "frame" / "page.js").read_text()


class Page(HTMLParser):
    """One page: its elements checked against the list, its text, its links and anchors."""

    def __init__(self, data: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.words: list[str] = []
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.pictures: list[str] = []
        self.metas: list[dict[str, str | None]] = []
        self.path: list[str] = []
        self.seen: list[str] = []
        self.scripts: list[str] = []
        self.summaries: list[tuple[str, list[str]]] = []
        self.unfolded: list[str] = []
        self._folds: list[str] = []
        self.feed(data.decode("utf-8"))
        self.close()
        self.problems += [f"not closed: {name}" for name in self.path]
        self.problems += [] if [_SCRIPT] == self.scripts else [f"scripts {self.scripts}"]
        self.problems += [f"{self.seen.count(name)} of {name}" for name in _ONCE if self.seen.count(name) > 1]

    @property
    def text(self) -> str:
        return "".join(self.words)

    @property
    def strips(self) -> list[str]:
        """The lines that stand for the work of a turn."""
        return ["".join(found) for kind, found in self.summaries if kind == "work"]

    @property
    def chapters(self) -> list[str]:
        return ["".join(found) for kind, found in self.summaries if kind == "chapter"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if "header" in self.path or (tag in AROUND and self.path in (["html", "head"], ["html", "body"])):
            self.path += [tag] if tag not in _VOID else []
            return
        allowed = ALLOWED.get(tag)
        if allowed is None:
            self.problems.append(f"element {tag} {attrs}")
            return
        for name, value in attrs:
            if name not in allowed or allowed[name].fullmatch(value or "") is None:
                self.problems.append(f"{tag} {name}={value!r}")
        values = dict(attrs)
        self._folds += [str(values.get("class"))] if tag == "details" else []
        self.unfolded += [str(values.get("class"))] if tag == "details" and "open" in values else []
        self.summaries += [(self._folds[-1], [])] if tag == "summary" else []
        self.links += [str(values["href"])] if "href" in values else []
        self.anchors += [str(values["id"])] if values.get("id", "side") != "side" else []
        self.pictures += [str(values["src"])] if "src" in values else []
        self.metas += [values] if tag == "meta" else []
        self.path += [tag] if tag not in _VOID else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag == "details":
            self._folds.pop()
        if not self.path or self.path.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if self.path and self.path[-1] == "script":
            self.scripts.append(data)
        elif not {"style", "header"} & set(self.path):
            self.words.append(data)
            if "summary" in self.path:
                self.summaries[-1][1].append(data)

    def handle_comment(self, data: str) -> None:
        self.problems.append(f"comment {data!r}")

    def handle_decl(self, decl: str) -> None:
        if decl != "doctype html":
            self.problems.append(f"declaration {decl!r}")

    def handle_pi(self, data: str) -> None:
        self.problems.append(f"instruction {data!r}")

    def unknown_decl(self, data: str) -> None:
        self.problems.append(f"declaration {data!r}")


def pages_below(root: Path) -> dict[Path, Page]:
    """Every page of an export."""
    return {path: Page(path.read_bytes()) for path in sorted(root.rglob("*.html"))}


def dead_links(pages: dict[Path, Page]) -> list[str]:
    """Links to files or anchors of the export that are not there, and anchors that are there twice."""
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if _REMOTE.fullmatch(link):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / unquote(name)).resolve() if name else path
            if target not in pages or (anchor and anchor not in pages[target].anchors):
                dead.append(f"{path.name}: {link}")
        dead += [f"{path.name}: {one} twice" for one in set(page.anchors) if page.anchors.count(one) > 1]
    return dead


def structured(**fields: Any) -> dict[str, Any]:
    """The client's richer form of a result, for a line."""
    return {"toolUseResult": fields}
