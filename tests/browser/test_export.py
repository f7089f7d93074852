"""An exported page in a real browser: from a file, without a server, and nothing is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.share.export.export import write_file
from recollect.share.export.page import session_page
from recollect.share.export.project import export_project
from tests.browser.chromium import Chromium
from tests.browser.home import FOUND, HOSTILE, RICH, SENT, WORDS, hostile, own, rich, sent, with_words
from tests.browser.payloads import PAYLOADS
from tests.browser.test_hostile import FORBIDDEN, INSIDE
from tests.cli.session_logs import SESSION
from tests.share.export.test_page import with_agent
from tests.small_home import put

_TALKS = {
    FOUND: ("found", with_words),
    RICH: ("shop", rich),
    SENT: ("sent", sent),
    HOSTILE: ("evil", hostile),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four sessions as files, and one project as a directory."""
    root = tmp_path_factory.mktemp("exported")
    for session, (name, entries) in _TALKS.items():
        put(root / "claude", session, [own(entry, name) for entry in entries()], cwd=f"/srv/{name}")
    home = Home(root / "claude", data=root / "data")
    for session in _TALKS:
        write_file(root / f"{session}.html", session_page(home.session(session), None))
    export_project(home, "/srv/shop", root / "project", None)
    return root


@pytest.fixture
def browser(chromium: Chromium) -> Chromium:
    chromium.do("size", width=1440, height=900)
    chromium.do("theme", scheme="light")
    return chromium


def _open(browser: Chromium, page: Path) -> None:
    browser.do("visit", url=page.as_uri())


def test_search_filters_and_folds_need_no_server(files: Path, browser: Chromium) -> None:
    """Each of 24 words, wherever it is, is unfolded, marked and on screen; kinds that are off are not searched; the
    fold level is one choice; nothing was asked for but the file."""
    _open(browser, files / f"{FOUND}.html")
    found = browser.do("sought", words=list(WORDS))
    assert [] == [word for word, said in found.items() if said is None or not said.startswith("1 of ")]

    browser.do("click", selector='[data-kind="thinking"]')
    browser.do("fill", selector="#q", text="hyacinth")
    browser.do("wait", selector="#n", text="Nothing found")
    assert browser.do("inPrint", selector=".thinking") is False
    browser.do("click", selector='[data-kind="thinking"]')
    browser.do("wait", selector="#n", text="1 found")

    browser.do("fill", selector="#q", text="")
    browser.do("settle", ms=400)
    open_at = {}
    for level in "0123":
        browser.do("choose", selector="#fold", value=level)
        folds = browser.do("folds")
        kinds = ("work", "edit", "call", "thinking")
        open_at[level] = {kind: {bool(one) for one in folds[kind]} for kind in kinds}
        assert [1, 1] == folds["chapter"]
    assert {"work": {False}, "edit": set(), "call": set(), "thinking": {False}} == open_at["0"]
    assert {"work": {True}, "edit": {False}, "call": {False}, "thinking": {False}} == open_at["1"]
    assert ({True}, True, True) == (
        open_at["2"]["work"],
        True in open_at["2"]["edit"],
        False in open_at["2"]["call"],
    )
    assert {"work": {True}, "edit": {True}, "call": {True}, "thinking": {True}} == open_at["3"]

    told = browser.do("told")
    assert {(files / f"{FOUND}.html").as_uri()} == set(told["requests"])
    assert ([], 0) == (told["problems"], told["dialogs"])


def test_the_theme_follows_the_system_and_a_switch(files: Path, browser: Chromium) -> None:
    """Dark where the system is dark, until the switch says otherwise; the choice is kept."""
    _open(browser, files / f"{RICH}.html")
    light = browser.do("colour")
    browser.do("theme", scheme="dark")
    dark = browser.do("colour")
    browser.do("click", selector="#theme")
    assert "Theme: light" == browser.do("wait", selector="#theme")
    assert (light, True) == (browser.do("colour"), light != dark)
    browser.do("reload", wait="#theme")
    assert light == browser.do("colour")
    browser.do("click", selector="#theme")
    browser.do("theme", scheme="light")
    assert dark == browser.do("colour")


def test_a_picture_is_enlarged_by_a_click_or_by_a_key(files: Path, browser: Chromium) -> None:
    """It fills the window as on the page; Escape and a click close it, and the focus is back at the picture."""
    _open(browser, files / f"{RICH}.html")
    small = browser.do("box", selector="main img")
    browser.do("click", selector="main img")
    assert browser.do("box", selector="dialog[open] img")["width"] > small["width"]
    assert [] == browser.do("problems")
    browser.do("press", keys=["Escape"])
    browser.do("wait", selector="body:not(:has(dialog))")
    assert 0 == browser.do("count", selector="dialog[open]")
    browser.do("press", keys=["Enter"])
    browser.do("click", selector="dialog[open] button")
    assert "Enlarge the picture" == browser.do("focused")
    assert {(files / f"{RICH}.html").as_uri()} == {
        url for url in browser.do("told")["requests"] if not url.startswith("data:image/png;base64,")
    }


def test_what_sub_agents_did_is_found_and_unfolded(browser: Chromium, tmp_path: Path) -> None:
    """In the call that started one, and at the end where no call names it."""
    for place, started_by in enumerate(["c1", "c-unknown"]):
        home = tmp_path / str(place) / ".claude"
        with_agent(home, toolUseId=started_by).write(home)
        session = Home(home, data=home.parent / "data").session(SESSION)
        write_file(tmp_path / f"{place}.html", session_page(session, None))
        _open(browser, tmp_path / f"{place}.html")
        assert {"leaf": "1 of 1"} == browser.do("sought", words=["leaf"])


def test_it_prints_whole(files: Path, browser: Chromium, tmp_path: Path) -> None:
    """On paper everything is unfolded and there are no controls; afterwards the folds are as they were."""
    _open(browser, files / f"{FOUND}.html")
    paper = browser.do("printed", path=str(tmp_path / "out.pdf"))

    assert paper["before"] > 1
    assert (0, paper["before"]) == (paper["during"], paper["after"])
    assert paper["sheets"] > 10
    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF")
    assert (False, False, True) == tuple(
        browser.do("inPrint", selector=one) for one in ("#side", ".top", "main .k-prompt")
    )


def test_the_sidebar_leads_to_prompts_also_on_a_phone(files: Path, browser: Chromium) -> None:
    """Nothing is wider than 390 pixels, everything unfolded; the prompts are behind a button there."""
    for page in (f"{FOUND}.html", f"{SENT}.html", f"{HOSTILE}.html", "project/index.html"):
        _open(browser, files / page)
        browser.do("size", width=390, height=800)
        browser.do("unfold")
        assert (page, 0) == (page, browser.do("tooWide"))
    _open(browser, files / f"{FOUND}.html")
    browser.do("click", selector="#menu")
    browser.do("click", selector="#side a", text="Do the work")
    browser.do("wait", selector="article.k-prompt", text="Do the work")
    browser.do("wait", selector="#side", hidden=True)
    browser.do("size", width=1440, height=900)
    browser.do("click", selector="#side a", text="Show a table")
    browser.do("wait", selector="#side [aria-current]", text="Show a table")


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1440), ("dark", 390), ("light", 390), ("dark", 1440)]
)
def test_nothing_is_in_the_way_of_assistive_technology(
    files: Path, browser: Chromium, artefacts: Path, scheme: str, width: int
) -> None:
    """axe finds nothing, of any severity."""
    browser.do("theme", scheme=scheme)
    browser.do("size", width=width, height=900)
    for page in (f"{SENT}.html", f"{RICH}.html", "project/index.html"):
        _open(browser, files / page)
        browser.do("unfold")
        assert [] == browser.do("problems")
        browser.do("shot", path=str(artefacts / f"export-{page.replace('/', '-')[:8]}-{scheme}-{width}.png"))


def test_hostile_text_stays_text(files: Path, browser: Chromium) -> None:
    """Every payload of the page's own test, in every place: nothing runs, no other host is asked, no element is outside
    the list, and what they say can be read."""
    _open(browser, files / f"{HOSTILE}.html")
    browser.do("unfold")
    seen = browser.do("elements", root=".rows")
    told = browser.do("told")

    assert len(PAYLOADS) >= 200
    assert seen["ran"] is None
    assert set(seen["inside"]) - {word for words in INSIDE for word in words.split()} == set()
    assert not set(seen["tags"]) & FORBIDDEN
    assert [] == [name for name in seen["attributes"] if name.startswith("on")]
    assert [] == [
        one for one in seen["addresses"] if not one.startswith(("#", "http://", "https://", "mailto:"))
    ]
    assert {(files / f"{HOSTILE}.html").as_uri()} == set(told["requests"])
    assert ([], 0) == (told["problems"], told["dialogs"])
