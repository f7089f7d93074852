"""Every screen at three widths, in light and dark: axe finds nothing of any severity, and nothing is scrolled sideways."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.chromium import Chromium
from tests.browser.home import AGENT, BRANCHED, BROKEN, EDITED, FOUND, NEEDLE, RICH, SENT

WIDTHS = (1440, 1024, 390)
# Address, what has to be there, and what is then pressed and has to be there.
SCREENS: dict[str, tuple[str, str, list[str], str]] = {
    "home": ("#/home?since=all", ".home .figure", [], ""),
    "sessions": ("#/sessions", "[data-session]", [], ""),
    "search": (f"#/sessions?q={NEEDLE}", "[data-hit]", [], ""),
    "nothing": ("#/sessions?starred=true", ".waiting strong", [], ""),
    "conversation": (f"#/s/{RICH}", ".strip", [], ""),
    "hit": (f"#/s/{RICH}?q={NEEDLE}", ".message .call", [], ""),
    "everything": (f"#/s/{RICH}", ".strip", ["x", "x", "x", "z"], ".thinking .prose"),
    "chapters": (f"#/s/{SENT}", ".boundary", [], ""),
    "agent": (f"#/s/{SENT}?a={AGENT}", ".message", [], ""),
    "branches": (f"#/s/{BRANCHED}", ".message", ["b"], ".branches [data-branch]"),
    "find": (f"#/s/{FOUND}", ".message", ["/"], ".panel input:focus"),
    "files": (f"#/s/{EDITED}/files", ".version .code", [], ""),
    "todos": (f"#/s/{RICH}/todos", ".narrow .waiting strong", [], ""),
    "findings": (f"#/s/{BROKEN}/findings", ".drawer .findings li", [], ""),
    "recent": ("#/files", ".edits li", [], ""),
    "cost": ("#/cost?since=all", ".heat svg", [], ""),
    "health": ("#/health", ".health .lines", [], ""),
    "settings": ("#/settings", "main h1", [], ""),
    "gallery": ("#/gallery", ".gallery", [], ""),
    "gone": ("#/s/no-such-session", ".waiting.trouble", [], ""),
    "palette": ("#/sessions", "[data-session]", ["Control+k"], ".palette li"),
    "keys": ("#/sessions", "[data-session]", ["?"], "dialog[open] .help"),
}


def looks() -> list[tuple[int, str, tuple[str, ...]]]:
    """All six with every screen in the long run; otherwise every screen once, each look with a third or sixth of them."""
    pairs = [(width, scheme) for width in WIDTHS for scheme in ("light", "dark")]
    names = tuple(SCREENS)
    if os.environ.get("RECOLLECT_TORTURE"):
        return [(width, scheme, names) for width, scheme in pairs]
    return [(width, scheme, names[place::6]) for place, (width, scheme) in enumerate(pairs)]


@pytest.mark.parametrize(("width", "scheme", "names"), looks())
def test_no_screen_shuts_anybody_out(
    page: Chromium, artefacts: Path, width: int, scheme: str, names: tuple[str, ...]
) -> None:
    page.do("size", width=width, height=900)
    page.do("theme", scheme=scheme)
    found = []
    for name in names:
        address, wanted, keys, then = SCREENS[name]
        page.do("go", hash="#/settings", wait=".settings")
        page.do("go", hash=address, wait=wanted)
        if keys:
            page.do("press", keys=keys)
            page.do("wait", selector=then)
        page.do("settle", ms=250)
        page.do("shot", path=str(artefacts / f"{name}-{width}-{scheme}.png"))
        found += [(name, one) for one in page.do("problems")]
        found += [(name, wide) for wide in [page.do("tooWide")] if wide > 0]
        if keys:
            page.do("press", keys=["Escape"])
    assert found == []
    assert [one for one in page.do("told")["problems"] if "404" not in one] == []
