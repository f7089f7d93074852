"""What a hostile transcript can do on the page: nothing (W1 to W3)."""

from __future__ import annotations

from tests.browser.chromium import Chromium
from tests.browser.conftest import Place
from tests.browser.home import HOSTILE

# Elements of transcript text, and of the frame around it. No script, style, iframe, form field of a transcript, object.
INSIDE = {
    "div article header footer span button a p pre code strong em del ins br ul ol li table thead tbody tr th td",
    "blockquote hr small",
}
FORBIDDEN = {"iframe", "object", "embed", "base", "math", "form", "audio", "video"}


def test_hostile_text_stays_text_everywhere(opened: Place, page: Chromium) -> None:
    """More than 200 payloads in every place of a session, on every page: nothing runs, no other host is
    asked, no element is outside the list, no address is other than the web's, mail's or ours."""
    stays_text(page, opened.base, [("#/files", ".edits li"), ("#/health", ".health .lines")])


def stays_text(page: Chromium, base: str, more: list[tuple[str, str]]) -> None:
    """Walk through the hostile session and every screen that shows something of it, and ``more`` screens."""
    page.do("go", hash="#/sessions", wait=f'[data-session="{HOSTILE}"]')
    listed = page.do("elements", root=".list")
    page.do("go", hash=f"#/s/{HOSTILE}", wait=".message")
    seen = _Seen()
    page.do("size", width=1280, height=4000)
    for _ in range(400):
        seen.note(page.do("elements", root=".messages"))
        if page.do("walk", most=1) == 0:
            break
    else:
        raise AssertionError("the end was not reached")
    inside = set(seen.inside)
    pages = [
        ("#/sessions?q=globalThis", "[data-hit]"),
        ("#/home?since=all", ".home .figure"),
        (f"#/s/{HOSTILE}/files", ".version .code"),
        (f"#/s/{HOSTILE}/todos", ".narrow"),
        (f"#/s/{HOSTILE}/findings", ".drawer .findings, .drawer .waiting strong"),
        ("#/cost?since=all&by=branch", ".numbers td"),
        *more,
    ]
    page.do("go", hash=f"#/s/{HOSTILE}/files", wait=".version .code")
    pages += [(one, ".version .code") for one in page.do("fileLinks", most=12)]
    for address, wanted in pages:
        page.do("go", hash=address, wait=wanted)
        page.do("settle", ms=200)
        there = page.do("elements", root="main")
        seen.note(there)
        assert not set(there["tags"]) & FORBIDDEN
        assert there["ran"] is None
    told = page.do("told")
    ours = base.rstrip("/")
    assert listed["ran"] is None
    assert inside - _words(INSIDE) == set()
    assert {name for name in seen.attributes if name.startswith("on")} == set()
    assert {url for url in told["requests"] if not url.startswith((ours, "blob:" + ours, "about:"))} == set()
    assert {one for one in seen.addresses if not _is_plain(one)} == set()
    assert told["dialogs"] == 0
    assert [one for one in told["problems"] if "Content Security Policy" in one] == []


class _Seen:
    """What was met on the way."""

    def __init__(self) -> None:
        self.inside: set[str] = set()
        self.attributes: set[str] = set()
        self.addresses: set[str] = set()

    def note(self, found: dict[str, list[str]]) -> None:
        self.inside |= set(found["inside"])
        self.attributes |= set(found["attributes"])
        self.addresses |= set(found["addresses"])


def _words(texts: set[str]) -> set[str]:
    return {word for text in texts for word in text.split()}


def _is_plain(address: str) -> bool:
    return address.startswith(
        ("#", "/api/sessions/", "/assets/", "/icon.svg", "http://", "https://", "mailto:")
    )
