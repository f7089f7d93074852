"""What stands around a conversation: home, list, panes, palette, health, and a server that goes away."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.browser.chromium import Chromium
from tests.browser.conftest import Place
from tests.browser.home import LONG, RICH, SENT, SNAPSHOT, WINDOWS
from tests.surfaces.case import Case

TOKENS = dict.fromkeys(
    (
        "input_tokens",
        "output_tokens",
        "cache_write_5m_tokens",
        "cache_write_1h_tokens",
        "cache_read_tokens",
        "web_searches",
    ),
    1,
)
BLOCK = {"responses": 1, "messages": 1, "unpriced_responses": 0, "is_active": False}


@pytest.fixture(scope="module")
def told(opened: Place, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the command says of the same home."""
    document: dict[str, Any] = Case(opened.home, tmp_path_factory.mktemp("told")).document(
        "report", "--figures"
    )
    return document


def test_a_first_load_shows_home_with_its_title_and_its_place_in_the_rail(
    page: Chromium, opened: Place
) -> None:
    page.do("open", url=f"{opened.base}#key=used-before")
    page.do("wait", selector=".home h1")
    assert page.do("texts", selector=".rail a[aria-current]") == ["Home"]
    assert page.do("title") == "Home · recollect"


def test_home_shows_the_figures_of_the_command_and_leads_to_sessions(
    page: Chromium, told: dict[str, Any]
) -> None:
    page.do("go", hash="#/home?since=all", wait=".home .figure")
    exact = page.do("attribute", selector=".figure:nth-of-type(4) .money", name="title")
    assert exact == f"exactly ${told['total_cost_usd']}"
    assert Decimal(str(told["total_cost_usd"])) > 0
    # Bars that are compared begin at one place.
    parts = [page.do("box", selector=f".measured li:nth-child({number}) .part")["x"] for number in (1, 2, 3)]
    assert len(set(parts)) == 1
    rows = page.do("texts", selector=".home table.numbers tbody tr td:nth-child(2)")
    tools = told["tools"]
    assert isinstance(tools, list)
    assert rows[:12] == [f"{one['calls']:,}" for one in tools[:12]]
    page.do("click", selector=".measured a", text="till")
    page.do("wait", selector=".cost tbody a", text="From Windows")
    assert page.do("texts", selector=".cost tbody a") == ["From Windows"]
    page.do("back")
    page.do("wait", selector=".home table.numbers .linkish")
    page.do("click", selector=".home table.numbers .linkish", text=tools[0]["name"])
    page.do("wait", selector=".behind a")
    page.do("click", selector=".behind a")
    page.do("wait", selector=".talk .head")
    assert page.do("hash").startswith("#/s/")


def test_blocks_stand_in_time_with_a_rate_each_and_lead_to_their_sessions(
    page: Chromium, told: dict[str, Any]
) -> None:
    """Times are those of the reader; a pause is a gap; what the client said of its limit is shown with its block."""
    rows = [
        {**BLOCK, "block": start, "start": start, "end": end, "cost_usd": usd}
        for start, end, usd in (
            ("2026-11-14T00:00:00Z", "2026-11-14T05:00:00Z", "10"),
            ("2026-11-15T00:00:00Z", "2026-11-15T05:00:00Z", "5"),
        )
    ]
    limits = [{"used_percentage": 93, "at": "2026-11-15T01:00:00Z", "resets_at": None}]
    blocks = {**told["blocks"], "rows": rows, "limits": limits}
    page.do("pretend", path="/api/stats", body={**told, "blocks": blocks})
    try:
        page.do("go", hash="#/home?since=all", wait="[data-block]")
        card = ".home .card:has-text('Five-hour blocks')"
        times = "svg text:text-matches('^[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}$')"
        assert [page.do("count", selector=f"{card} {one}") for one in ("svg text", times)] == [2, 2]
        first, last = (page.do("box", selector=f"[data-block='{row['start']}'] .fill") for row in rows)
        assert 4 < (last["x"] - first["x"]) / first["width"] < 6  # 24 hours from start to start, five wide
        assert first["height"] > 1.8 * last["height"]
        names = [
            page.do("attribute", selector=f"[data-block='{row['start']}']", name="aria-label") for row in rows
        ]
        assert ["$2.00 an hour" in names[0], "$1.00 an hour, limit 93 % used" in names[1]] == [True, True]
        assert "Limit seen: 93 % used" in page.do("wait", selector="[data-limit]")
        assert page.do("count", selector="[data-block] .full") == 1
        page.do("click", selector="[data-block='2026-11-15T00:00:00Z'] .fill", force=True)
    finally:
        page.do("honest")
    page.do("wait", selector=".sums", text="session")
    assert [part in page.do("hash") for part in ("#/sessions?since=2026-11-15", "&until=2026-11-15")] == [
        True
    ] * 2


def test_a_bar_of_commits_leads_to_commits_and_one_of_edits_to_edits(
    page: Chromium, told: dict[str, Any]
) -> None:
    day = {**told["days"][-1], "edits": 5, "commits": 5}
    page.do("pretend", path="/api/stats", body={**told, "days": [day]})
    try:
        page.do("size", width=1280, height=2600)
        page.do("go", hash="#/home?since=all", wait=".home .figure")
        chart = ".home .card:has-text('Edits and commits by day') svg"
        for height, work in ((0.25, "commits"), (0.7, "edits")):
            page.do("clickAt", selector=chart, x=0.53, y=height)
            assert page.do("wait", selector="dialog[open] h2") == f"{day['day']}: {work}"
            page.do("press", keys=["Escape"])
            page.do("gone", selector="dialog[open]", text="")
    finally:
        page.do("honest")


def test_rows_of_cost_lead_to_their_sessions(page: Chromium) -> None:
    """A tool to the sessions that called it, a repository to its list, a sub-agent to its own conversation."""
    page.do("go", hash="#/cost?since=all&by=tool", wait=".cost tbody .linkish")
    page.do("click", selector=".cost tbody .linkish")
    page.do("click", selector=".behind a")
    page.do("wait", selector=".talk .head")
    page.do("go", hash="#/cost?since=all&by=repo", wait=".cost tbody a:has-text('till')")
    page.do("click", selector=".cost tbody a", text="till")
    page.do("wait", selector=".sums", text="1 session")
    assert page.do("attribute", selector="[data-session]", name="data-session") == WINDOWS
    page.do("go", hash="#/cost?since=all&by=agent", wait=".cost tbody tr a")
    links = {
        page.do("attribute", selector=f".cost tbody tr:nth-child({row}) a", name="href") for row in (1, 2)
    }
    assert len([one for one in links if "?a=" in one]) == 1
    assert links - {one for one in links if "?a=" in one} == {"#/sessions"}


def test_cost_says_what_is_uncertain_once_in_dollars_and_that_there_is_more(page: Chromium) -> None:
    """The great sum has what is known and that something has no price."""
    row = {"day": "2026-11-15", "model": "claude-opus-4-5", "cost_usd": "335.66", **TOKENS, **BLOCK}
    body = {
        "by": ["day"],
        "mode": "calculate",
        "timezone": "local",
        "rows": [row],
        "totals": {**row, "unpriced_responses": 2},
        "unpriced": [{"model": "new-model", "responses": 2, **TOKENS}],
        "uncertain": [
            {"model": "claude-opus-4-5", "responses": 3, "output_tokens": 9, "cost_usd": "12.30"},
            {"model": "new-model", "responses": 2, "output_tokens": 9, "cost_usd": "0"},
        ],
        "gone": 0,
        "notes": [],
    }
    page.do("pretend", path="/api/cost", body=body)
    try:
        page.do("go", hash="#/cost?since=all", wait=".cost .doubts")
        assert page.do("wait", selector=".cost .figures .big .money") == "$335.66 + unpriced"
        told = page.do("wait", selector=".cost")
        assert [told.count("lower bound"), told.count("$12.30 of opus 4.5")] == [1, 1]
        assert "In no amount, because no price is known: new-model (2 responses)." in told
    finally:
        page.do("honest")


def test_the_first_row_is_a_few_tabs_away_and_no_row_counts_lines_or_expires(page: Chromium) -> None:
    page.do("wait", selector=".list .row a")
    assert page.do("tabsUntil", selector=".row a", most=9) <= 6
    rows = "\n".join(page.do("texts", selector=".list .row"))
    assert "messages" in rows
    assert " lines" not in rows
    # Two of them do, in five days and since ten; that is for Health.
    assert ["overdue" in rows, "expires" in rows] == [False, False]
    page.do("go", hash="#/gallery", wait=".gallery")
    assert "$335.66 + unpriced" in page.do("wait", selector=".gallery .money", text="335.66")


def test_the_palette_goes_to_screens_and_sessions(page: Chromium) -> None:
    page.do("press", keys=["Control+k"])
    page.do("wait", selector=".palette li")
    page.do("type", text="healt")
    page.do("wait", selector=".palette [aria-selected='true']", text="Health")
    page.do("press", keys=["Enter"])
    page.do("wait", selector=".health .lines")
    page.do("press", keys=["Control+k"])
    page.do("wait", selector=".palette-input")
    page.do("type", text="Begin")
    page.do("wait", selector=".palette li", text="live")
    page.do("press", keys=["Enter"])
    page.do("wait", selector=".talk .head")


def test_slash_searches_from_everywhere_help_opens_at_its_top_and_escape_closes_a_menu(
    page: Chromium,
) -> None:
    page.do("go", hash="#/cost?since=all", wait=".cost h1")
    page.do("press", keys=["/"])
    page.do("wait", selector="[data-search]:focus")
    page.do("go", hash="#/health", wait=".health .lines")
    page.do("press", keys=["/"])
    page.do("wait", selector="[data-search]:focus")
    page.do("go", hash="#/health", wait=".health .lines")
    page.do("press", keys=["?"])
    page.do("wait", selector="dialog[open] .help")
    assert page.do("top", selector="dialog[open]") == 0
    page.do("press", keys=["Escape"])
    page.do("go", hash=f"#/s/{RICH}", wait=".head .menu summary")
    page.do("click", selector=".head .menu summary")
    page.do("wait", selector=".menu[open]")
    page.do("press", keys=["Escape"])
    assert page.do("count", selector=".menu[open]") == 0


def test_three_panes_are_resized_and_stars_are_kept(page: Chromium) -> None:
    page.do("size", width=1440, height=900)
    page.do("go", hash=f"#/s/{RICH}", wait=".side .side-row[aria-current]")
    page.do("wait", selector=".panel")
    before = page.do("box", selector=".side")["width"]
    page.do("click", selector=".divider", force=True)
    page.do("press", keys=["ArrowRight", "ArrowRight"])
    page.do("reload", wait=".side .side-row")
    assert page.do("box", selector=".side")["width"] == before + 40
    page.do("go", hash="#/sessions", wait=".list .row .star")
    page.do("click", selector=f".row:has([data-session='{RICH}']) .star", force=True)
    page.do("wait", selector=".star[aria-pressed='true']")
    page.do("go", hash="#/sessions?starred=true")
    page.do("wait", selector=".sums", text="1 session")
    page.do("reload", wait=".star[aria-pressed='true']")
    assert page.do("count", selector=".list .row") == 1
    page.do("click", selector=".star[aria-pressed='true']", force=True)
    page.do("wait", selector=".waiting", text="No session fits")


def test_health_is_a_handful_of_lines_and_its_plans_are_sentences(page: Chromium) -> None:
    page.do("go", hash="#/health", wait=".health .lines")
    assert page.do("texts", selector=".lines h2")[:5] == ["At risk", "Expiring", "Damaged", "Secrets", "Disk"]
    assert page.do("wait", selector=".lines li:has-text('Expiring') .count") != "0"
    page.do("click", selector=".lines button", text="Archive all")
    said = page.do("wait", selector="dialog[open] .plan dd", text="will be")
    assert "will be copied into recollect’s archive." in said
    page.do("press", keys=["Escape"])
    page.do("click", selector=".lines li:has-text('Damaged') a.button")
    page.do("wait", selector=".sums", text="1 session")
    assert page.do("attribute", selector="[data-session]", name="data-session") == SNAPSHOT


def test_a_server_that_is_gone_is_said_and_the_page_recovers_by_itself(page: Chromium) -> None:
    page.do("wait", selector=".list .row")
    page.do("offline", on=True)
    try:
        page.do("go", hash="#/cost?since=all")
        assert "does not answer" in page.do("wait", selector=".gone")
    finally:
        page.do("offline", on=False)
    page.do("gone", selector=".gone", text="does not answer")
    page.do("go", hash="#/sessions", wait=".list .row")


def test_a_session_opens_where_reading_stopped_and_a_pin_leads_back(page: Chromium) -> None:
    page.do("size", width=1440, height=900)
    page.do("go", hash=f"#/s/{LONG}", wait=".messages article")
    place = page.do("readOn", pixels=6000)
    page.do("go", hash="#/sessions", wait=".list .row")
    page.do("go", hash=f"#/s/{LONG}", wait=".messages article")
    assert page.do("isInSight", uuid=place)
    page.do("reload", wait=".messages article")
    assert page.do("isInSight", uuid=place)
    # Reading goes on from there: the newest place counts, whichever way one comes back.
    place = page.do("readOn", pixels=20_000)
    page.do("reload", wait=".messages article")
    assert page.do("isInSight", uuid=place)
    page.do("go", hash="#/cost?since=all", wait=".cost h1")
    page.do("back")
    assert page.do("isInSight", uuid=place)
    page.do("click", selector=".tabs a", text="Files")
    page.do("wait", selector=".waiting strong")
    page.do("click", selector=".tabs a", text="Conversation")
    assert page.do("isInSight", uuid=place)
    page.do("press", keys=["Shift+P"])
    page.do("wait", selector=".pins a")
    page.do("reload", wait=".pins a")
    page.do("click", selector=".pins button")
    page.do("gone", selector=".pins a", text="")
    page.do("wait", selector=".messages article")
    page.do("click", selector=".head .pin")
    page.do("wait", selector=".pins a")
    page.do("click", selector=".pins button")
    page.do("click", selector=".head .star")
    page.do("wait", selector=".side-row[aria-current] .starred")
    page.do("click", selector=".head .star[aria-pressed='true']")
    page.do("wait", selector=".head .star[aria-pressed='false']")


def test_the_list_stays_where_it_was_and_shows_the_open_session(page: Chromium) -> None:
    """Back shows the list as it was scrolled; the list beside a conversation scrolls to the one that is open."""
    page.do("size", width=1440, height=560)
    page.do("wait", selector=".list .row")
    for _ in range(50):  # it can be scrolled so far once its rows are there
        page.do("scrollTo", selector=".list > div", top=99)
        if page.do("top", selector=".list > div") == 99:
            break
    page.do("go", hash=f"#/s/{WINDOWS}", wait=".messages article")
    page.do("inside", selector=".side-row[aria-current]", of=".side-list")
    page.do("back")
    page.do("scrolledTo", selector=".list > div", top=99)


@pytest.mark.parametrize("width", [1024, 390])
def test_pins_stand_in_the_outline_where_there_is_no_list(page: Chromium, width: int) -> None:
    page.do("size", width=width, height=900)
    page.do("go", hash=f"#/s/{SENT}", wait=".messages article")
    page.do("press", keys=["Shift+P"])
    page.do("wait", selector=".notice", text="in the outline")
    if width == 390:
        page.do("click", selector=".status .pill")
    pinned = page.do("attribute", selector=".panel .pins a", name="href").partition("m=")[2]
    page.do("click", selector=".panel .pins a")
    assert page.do("isInSight", uuid=pinned)
    if width == 390:
        page.do("click", selector=".status .pill")
    page.do("click", selector=".panel .pins button")
    page.do("gone", selector=".pins a", text="")
