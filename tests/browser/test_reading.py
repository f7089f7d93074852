"""Reading in a real browser: open, search, jump, scroll, branches, following; by keys, on a phone, aloud."""

from __future__ import annotations

import json
from pathlib import Path

from recollect.ask.library import Home
from recollect.share.export.export import write_file
from recollect.share.export.page import session_page
from tests.browser.chromium import Chromium
from tests.browser.conftest import Place
from tests.browser.home import (
    BRANCHED,
    BROKEN,
    FIRST_WORD,
    FOUND,
    LAST_LONG,
    LIVE,
    LONG,
    LONG_MESSAGES,
    NEEDLE,
    RICH,
    SENT,
    appended,
)
from tests.small_home import prompt, reply, said, uuid_of


def test_the_key_leaves_the_address_and_the_list_comes(opened: Place, page: Chromium) -> None:
    """The key is not in the address bar after opening, and every session is in the list."""
    page.do("wait", selector=f'[data-session="{RICH}"]')
    assert page.do("count", selector="[data-session]") == 12
    assert "key=" not in page.do("hash")
    assert page.do("told")["problems"] == []


def test_a_search_finds_a_word_and_jumps_to_its_message(page: Chromium) -> None:
    """Slash, a word, Enter on the hit: the message with the word is in sight."""
    page.do("wait", selector="[data-session]")
    page.do("press", keys=["/"])
    page.do("type", text=NEEDLE)
    page.do("wait", selector="[data-hit]", text=NEEDLE)
    page.do("press", keys=["Enter", "Enter"])
    assert page.do("isInSight", uuid=uuid_of(2))
    assert f"m={uuid_of(2)}" in page.do("hash")


def test_a_session_reads_as_it_was(page: Chromium) -> None:
    """A turn is a prompt, a strip and an answer; unfolded to its edits: Markdown, a diff, a failed command, thinking
    folded; a picture from our own server, which a click enlarges."""
    page.do("go", hash=f"#/s/{RICH}", wait=".strip")
    told = page.do("wait", selector=".strip", text="3 calls")
    assert [part in told for part in ("1 failed", "2 edits", "+2", "−1", "6.0 s", "$0.0013")] == [True] * 6
    assert page.do("texts", selector=".who") == ["You", "Assistant", "You", "Assistant"]
    page.do("press", keys=["x", "x"])
    page.do("wait", selector=".message .diff")
    assert page.do("texts", selector=".prose .heading") == ["Plan"]
    assert page.do("texts", selector=".diff .added .t") == ["c"]
    assert "https://example.org/a" in " ".join(page.do("texts", selector=".address"))
    assert page.do("count", selector=".call.error .detail") == 1
    assert page.do("texts", selector=".thinking .prose") == []
    page.do("wait", selector="img.picture")
    assert page.do("attribute", selector="img.picture", name="src").startswith("/api/sessions/")
    page.do("click", selector=".enlarge", direct=True)
    page.do("wait", selector="dialog.large[open] img")
    page.do("press", keys=["Escape", "x", "x"])
    page.do("gone", selector=".diff", text="a")


def test_folds_are_remembered_through_back_and_reload_and_other_tabs(page: Chromium) -> None:
    """A strip and a call that were unfolded by hand stay so; another session is not touched by it."""
    page.do("go", hash=f"#/s/{RICH}", wait=".strip")
    page.do("click", selector=".strip")
    page.do("click", selector='[data-call="toolu_3"] .fold')
    page.do("wait", selector='[data-call="toolu_3"] .detail')
    page.do("go", hash=f"#/s/{SENT}", wait=".strip")
    assert page.do("attribute", selector=".strip", name="aria-expanded") == "false"
    page.do("back")
    page.do("wait", selector='[data-call="toolu_3"] .detail')
    page.do("reload", wait='[data-call="toolu_3"] .detail')
    page.do("click", selector=".strip")
    page.do("gone", selector=".call", text="pytest")
    page.do("reload", wait=".strip")
    assert page.do("attribute", selector=".strip", name="aria-expanded") == "false"


def test_findings_are_a_quiet_badge_and_a_drawer_and_nothing_moves(page: Chromium) -> None:
    """The badge has its place before the count is known; the drawer leaves the conversation where it is, and leads to the line."""
    page.do("size", width=1440, height=900)
    page.do("go", hash=f"#/s/{BROKEN}", wait=".message")
    page.do("wait", selector=".head .sum", text="$0.0007")
    before = {name: page.do("box", selector=name) for name in (".message", ".head .sum", ".badge", ".tabs")}
    page.do("wait", selector=".badge span", text="1")
    assert {name: page.do("box", selector=name) for name in before} == before
    assert page.do("count", selector=".messages .finding, .messages .wrong, .messages .bad") == 0
    page.do("click", selector=".badge")
    page.do("wait", selector=".drawer .findings li")
    assert page.do("box", selector=".message") == before[".message"]
    assert page.do("count", selector=".drawer .findings li") == 1
    page.do("press", keys=["Escape"])
    page.do("gone", selector=".drawer", text="Findings")
    assert page.do("hash") == f"#/s/{BROKEN}"


def test_thinking_unfolds_with_a_key_and_is_remembered(page: Chromium) -> None:
    """After ``z`` the thinking is there, also after a reload; another ``z`` folds it."""
    page.do("go", hash=f"#/s/{RICH}", wait=".strip")
    page.do("press", keys=["x"])
    page.do("wait", selector=".thinking")
    page.do("press", keys=["z"])
    page.do("reload", wait=".thinking .prose")
    assert page.do("texts", selector=".thinking .prose") == ["Let me think."]
    page.do("press", keys=["z", "x", "x", "x"])
    page.do("gone", selector=".thinking .prose", text="Let me think.")


def test_a_link_opens_the_last_of_thousands_of_messages(page: Chromium) -> None:
    """A message near the end of a long session is shown by its link, with few rows in the page."""
    page.do("go", hash=f"#/s/{LONG}?m={LAST_LONG}", wait=".message")
    assert page.do("isInSight", uuid=LAST_LONG)
    assert page.do("attribute", selector=".messages", name="data-total") == str(LONG_MESSAGES)
    assert page.do("count", selector="article") < 60


def test_thousands_of_messages_scroll(page: Chromium, artefacts: Path) -> None:
    """Scrolling goes on through the list with few rows at a time; the frame times are recorded."""
    page.do("go", hash=f"#/s/{LONG}", wait=".messages[data-total]")
    seen = page.do("scroll", frames=240, pixels=400)
    times = sorted(seen.pop("times"))
    figures = {
        "messages": LONG_MESSAGES,
        "median_ms": round(times[len(times) // 2], 1),
        "p95_ms": round(times[len(times) * 95 // 100], 1),
        "longest_ms": round(times[-1], 1),
        **seen,
    }
    (artefacts / "frames.json").write_text(json.dumps(figures))
    assert seen["top"] > 50_000
    assert seen["rows"] < 60


def test_branches_can_be_switched(page: Chromium) -> None:
    """The other branch shows its own answer, and the way back shows the first again."""
    page.do("go", hash=f"#/s/{BRANCHED}", wait=".message")
    page.do("wait", selector=".message", text="Went right")
    page.do("press", keys=["b"])
    page.do("click", selector=".panel [data-branch]", text="Go left")
    page.do("wait", selector=".message", text="Went left")
    assert page.do("count", selector='.message:has-text("Went right")') == 0
    page.do("press", keys=["]"])
    page.do("wait", selector=".message", text="Went right")


def test_branches_are_a_tree_for_keys_and_ears(page: Chromium) -> None:
    """What left a branch stands in a list below it, with place, number and time; arrows and Enter switch to it."""
    page.do("go", hash=f"#/s/{BRANCHED}", wait=".message")
    page.do("press", keys=["b"])
    below = page.do("wait", selector=".branches .tree > li > ul > li > a")
    assert "leaves after message 2" in below
    assert "2 messages" in below
    assert "Go left" in below
    assert "Which way" in page.do("wait", selector='.branches [aria-current="true"]')
    page.do("click", selector=".branches .tree > li > a")
    page.do("press", keys=["ArrowDown", "Enter"])
    page.do("wait", selector=".message", text="Went left")
    assert "Go left" in page.do("wait", selector='.branches [aria-current="true"]:focus')
    assert page.do("problems") == []


def test_a_running_session_is_followed(opened: Place, page: Chromium) -> None:
    """A line that a client appends appears by itself, and the head counts it, dates it and prices it."""
    page.do("wait", selector=".row .live")
    page.do("go", hash=f"#/s/{LIVE}", wait=".message")
    page.do("wait", selector=".head .about", text="2 messages")
    page.do("wait", selector=".head .sum", text="$0.0003")
    appended(opened.home, LIVE, prompt(3, 2, "More"), reply(4, 3, said("Here is more")))
    page.do("wait", selector=".message", text="Here is more")
    page.do("wait", selector=".head .about", text="4 messages")
    page.do("wait", selector=".head .sum", text="$0.0007")
    assert "10:00" in page.do("wait", selector=".head .about", text="2026-11-15")


def test_a_sub_agent_stands_where_it_was_sent(page: Chromium) -> None:
    """Its call tells how long it took; unfolded, task and answer stand once, and its steps are its own."""
    page.do("go", hash=f"#/s/{SENT}", wait=".strip")
    page.do("click", selector=".strip")
    assert "1 min 1 s" in page.do("wait", selector=".call .took")
    page.do("click", selector=".call .fold")
    page.do("click", selector=".agent .fold")
    page.do("wait", selector=".agent .gist", text="2 messages")
    told = page.do("wait", selector=".call .detail")
    assert [told.count("Look around"), told.count("A tree")] == [1, 1]
    page.do("click", selector=".agent .alone")
    page.do("wait", selector=".message", text="Saw a tree")
    assert page.do("texts", selector=".who") == ["Task", "Sub-agent"]
    # Alone it has a head of its own: its task, its counts, its cost; and the way back to its session.
    assert page.do("wait", selector=".head h1") == "Look around"
    about = page.do("wait", selector=".head .about", text="2 messages")
    assert [part in about for part in ("of Long ago", "0 calls", "10 in, 20 out")] == [True] * 3
    assert page.do("wait", selector=".head .sum") == "$0.0003"
    page.do("click", selector=".head .about a")
    page.do("wait", selector=".head h1", text="Long ago")


def test_a_compacted_session_is_one_story_in_chapters(page: Chromium) -> None:
    """Both chapters are there and fold; what the client would load is a switch; no compaction is a branch."""
    page.do("go", hash=f"#/s/{SENT}", wait=".boundary")
    page.do("wait", selector=".message", text="Far away")
    assert [text[:9] for text in page.do("texts", selector=".boundary strong")] == ["Chapter 1", "Chapter 2"]
    # The list counts what the client would load, the head all of it; the head says both.
    assert "8 messages, 6 loaded" in page.do("wait", selector=".head .about", text="loaded")
    assert "auto, 190k tokens" in page.do("wait", selector=".boundary", text="Chapter 2")
    page.do("click", selector=".boundary .fold")
    page.do("gone", selector=".message", text="Far away")
    page.do("press", keys=["b"])
    page.do("wait", selector=".branches [data-branch]")
    assert page.do("count", selector=".branches a") == 1
    page.do("press", keys=["l"])
    page.do("wait", selector=".banner", text="As the client would load it")
    page.do("gone", selector=".message", text="Far away")
    assert page.do("hash") == f"#/s/{SENT}?l=1"


def test_what_the_client_wrote_is_no_prompt(page: Chromium) -> None:
    """A slash command reads as one, in the conversation and in the outline."""
    page.do("go", hash=f"#/s/{FOUND}?m={uuid_of(FIRST_WORD + 8)}", wait=".slash")
    assert page.do("texts", selector=".slash") == ["/plant fennelseed now"]
    assert "/plant fennelseed now" in page.do("wait", selector=".prompts", text="/plant")


def test_the_outline_has_every_prompt_of_a_long_session_and_follows_the_reader(page: Chromium) -> None:
    """Ten thousand prompts, of which the document holds those in sight."""
    total = LONG_MESSAGES // 2
    page.do("size", width=1440, height=900)
    page.do("go", hash=f"#/s/{LONG}", wait=".prompts button")
    page.do("wait", selector=".prompts .t", text="Message 1.")
    # Heights are measured as rows come in sight, so the end is reached in steps: more of them on a busy machine.
    for top in (32 * total // 2, *[99_999_999] * 50):
        page.do("scrollTo", selector=".panel .inside", top=top)
        page.do("gone", selector=".prompts .t", text="…")
        assert page.do("count", selector=".prompts li") < 120
        if f"Message {2 * total - 1}." in page.do("texts", selector=".prompts .t"):
            break
    page.do("wait", selector=".prompts .t", text=f"Message {2 * total - 1}.")
    assert page.do("attribute", selector=".prompts li", name="aria-setsize") == str(total)
    page.do("scrollTo", selector=".panel .inside", top=0)
    page.do("click", selector=".prompts button", text="Message 9.")
    page.do("wait", selector=".message", text="Message 9.")
    page.do("press", keys=["G"])
    page.do("wait", selector=".prompts .isNow", text=f"Message {2 * total // 100 - 1}")  # 39 and two digits
    page.do("inside", selector=".prompts .isNow", of=".panel .inside")


def test_keys_are_explained(page: Chromium) -> None:
    """A question mark lists the keys; Escape closes the list."""
    page.do("wait", selector="[data-session]")
    page.do("press", keys=["?"])
    assert "Previous" in page.do("wait", selector="dialog")
    page.do("press", keys=["Escape"])
    page.do("gone", selector="dialog", text="Keys")


def test_the_list_is_walked_with_keys(page: Chromium) -> None:
    """Two steps down, one up and Enter open the first session; ``u`` leads back, and the keys still work."""
    page.do("wait", selector="[data-session]")
    first = page.do("attribute", selector="[data-session]", name="data-session")
    page.do("press", keys=["j", "j", "k", "Enter"])
    page.do("wait", selector=".talk .message")
    assert page.do("hash") == f"#/s/{first}"
    page.do("press", keys=["u"])
    page.do("wait", selector="[data-session]")
    page.do("wait", selector=f'.isChosen[data-session="{first}"]')
    page.do("press", keys=["j"])
    page.do("wait", selector=f'.isChosen:not([data-session="{first}"])')


def test_a_browser_without_the_cookie_is_told_what_to_do(opened: Place, page: Chromium) -> None:
    """The cookie belongs to 127.0.0.1; at localhost the same page shows no session and says why."""
    page.do("open", url=opened.base.replace("127.0.0.1", "localhost"))
    assert "was not let in" in page.do("wait", selector=".waiting.trouble")
    assert page.do("problems") == []
    assert page.do("count", selector="[data-session]") == 0


def test_a_session_that_is_not_there_is_said_so(page: Chromium) -> None:
    """What cannot be found is said in words, with a way back."""
    page.do("go", hash="#/s/no-such-session", wait='.narrow a:has-text("All sessions")')
    assert page.do("count", selector=".narrow .waiting.trouble") == 1


def test_an_export_reads_as_the_page_does(opened: Place, page: Chromium, tmp_path: Path) -> None:
    """The strips, the names above messages and runs of one tool, word for word."""
    page.do("size", width=1280, height=4000)
    shown = {}
    for session in (RICH, SENT):
        page.do("go", hash=f"#/s/{session}", wait=".strip")
        page.do("wait", selector=".strip", text="$")
        page.do("choose", selector='.foot [aria-label="Fold level"]', value="open")
        shown[session] = [page.do("texts", selector=one) for one in _COMPARED]
        page.do("choose", selector='.foot [aria-label="Fold level"]', value="folded")
    for session, texts in shown.items():
        file = tmp_path / f"{session}.html"
        write_file(file, session_page(Home(opened.home).session(session), None))
        page.do("visit", url=file.as_uri())
        page.do("choose", selector="#fold", value="3")
        for selector, expected in zip(_COMPARED, texts, strict=True):
            if expected:  # rows out of sight are drawn a moment later, and have no text until then
                page.do("drawn", selector=selector)
        assert texts == [page.do("texts", selector=selector) for selector in _COMPARED]


def test_an_export_groups_calls_as_the_page_does(opened: Place, page: Chromium, tmp_path: Path) -> None:
    """Runs of one tool are the same lines, with the same number; what they are about follows."""
    page.do("size", width=1280, height=4000)
    page.do("go", hash=f"#/s/{FOUND}?q=xeranthemum", wait=".sought")
    page.do("press", keys=["n"])
    page.do("wait", selector=".call.group")
    told = page.do("texts", selector=".call.group .tool")
    write_file(tmp_path / "one.html", session_page(Home(opened.home).session(FOUND), None))
    page.do("visit", url=(tmp_path / "one.html").as_uri())
    assert page.do("sought", words=["xeranthemum"])["xeranthemum"] is not None
    assert told == page.do("texts", selector=".call.group .tool") == ["Read × 4"]


_COMPARED = (".strip", ".who", ".call.group .tool", ".message.isWork .call .gist")
