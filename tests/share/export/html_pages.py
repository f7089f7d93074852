"""A session of hostile text, and a strict look at what a page is made of."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from recollect.share.export import page
from tests.cli.session_logs import SESSION, SessionLog, call, text


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

_CLASS, _ANY = re.compile(r"[a-z]+( [a-z]+)?"), re.compile(r".*", re.DOTALL)
_LINK = re.compile(r"[A-Za-z0-9._%-]+\.html")
_PLAIN = "b body br dd details div dl dt footer h1 h2 head main nav p pre span style summary table tbody td th thead title tr"
ALLOWED: dict[str, dict[str, re.Pattern[str]]] = {
    **{name: {"class": _CLASS} for name in _PLAIN.split()},
    "h1": {"dir": re.compile("auto")},
    "div": {"class": _CLASS, "id": re.compile("app")},
    "td": {"class": _CLASS, "colspan": re.compile("4")},
    "a": {"href": _LINK},
    "data": {"value": re.compile(r"-?\d+(\.\d+)?")},
    "html": {"lang": re.compile("en")},
    "script": {
        "type": re.compile("application/json"),
        "class": re.compile("message"),
        "id": re.compile("session|days"),
        "data-agent": _ANY,
    },
    "meta": {
        "charset": re.compile("utf-8"),
        "http-equiv": re.compile("Content-Security-Policy"),
        "name": _ANY,
        "content": _ANY,
    },
}
_VOID = frozenset(["meta", "br"])
_ONCE = ("html", "head", "style", "body", "main")
_SCRIPT = (Path(page.__file__).parent / "frame" / "page.js").read_text()


class Page(HTMLParser):
    """One page as it is without scripts: its elements checked against the list; its text, links and documents."""

    def __init__(self, data: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.words: list[str] = []
        self.links: list[str] = []
        self.path: list[tuple[str, dict[str, str | None]]] = []
        self.seen: list[str] = []
        self.messages: list[dict[str, Any]] = []
        self.agents: dict[str, list[dict[str, Any]]] = {}
        self.documents: dict[str, Any] = {}
        self.feed(data.decode("utf-8"))
        self.close()
        self.problems += [f"not closed: {name}" for name, _ in self.path]
        self.problems += [
            f"{self.seen.count(name)} of {name}" for name in _ONCE if self.seen.count(name) != 1
        ]

    @property
    def text(self) -> str:
        return "".join(self.words)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        allowed = ALLOWED.get(tag)
        if allowed is None:
            self.problems.append(f"element {tag} {attrs}")
            return
        for name, value in attrs:
            if name not in allowed or allowed[name].fullmatch(value or "") is None:
                self.problems.append(f"{tag} {name}={value!r}")
        self.links += [str(value) for name, value in attrs if name == "href"]
        self.path += [(tag, dict(attrs))] if tag not in _VOID else []

    def handle_endtag(self, tag: str) -> None:
        if not self.path or self.path.pop()[0] != tag:
            self.problems.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        name, about = self.path[-1] if self.path else ("", {})
        if name == "script":
            self._script(about, data)
        elif name != "style":
            self.words.append(data)

    def _script(self, about: dict[str, str | None], data: str) -> None:
        """Ours, or a document that no browser runs."""
        if not about:
            self.problems += (
                [] if data == _SCRIPT and "main" not in self.seen else ["a script that is not ours"]
            )
            return
        self.problems += ["markup in a document"] if "<" in data or not about.get("type") else []
        document = json.loads(data)
        if about.get("class") != "message":
            self.documents[str(about["id"])] = document
        elif "data-agent" in about:
            self.agents.setdefault(str(about["data-agent"]), []).append(document)
        else:
            self.messages.append(document)

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
    """Links to files of the export that are not there."""
    return [
        f"{path.name}: {link}"
        for path, page in pages.items()
        for link in page.links
        if (path.parent / unquote(link)).resolve() not in pages
    ]
