"""Sessions as pages that open without us: only text of a transcript, whole, linked, redacted."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import NotFound, StorageError, UsageError
from recollect.model.markdown_html import visible_text
from recollect.services.archive import archive as keep
from recollect.services.export import export, html_export, html_frame
from recollect.services.export.export import Redactor
from recollect.services.export.html_export import export_project, export_session, one_page
from recollect.services.homes import Home
from tests.cli.session_logs import OTHER, SESSION, SessionLog, branched, call, compacted, talk, text
from tests.model.secrets.samples import SAMPLES, Dice
from tests.services.export.html_pages import (
    Page,
    dead_links,
    hostile_session,
    pages_below,
    payloads,
    structured,
)

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()


@pytest.fixture
def home(own_home: Path) -> Path:
    return own_home / ".claude"


def paged(monkeypatch: pytest.MonkeyPatch, *, messages: int = 3) -> None:
    """Make small sessions huge."""
    monkeypatch.setattr(html_export, "PAGE_MESSAGES", messages)
    monkeypatch.setattr(html_export, "ONE_PAGE_MESSAGES", messages)


def page_of(log: SessionLog, home: Path, **options: Any) -> Page:
    """A session as one page."""
    log.write(home)
    page = Page(b"".join(one_page(Home(home).session(SESSION), None, **options)))
    assert [] == page.problems
    return page


def raw_page(log: SessionLog, home: Path) -> str:
    log.write(home)
    return b"".join(one_page(Home(home).session(SESSION), None)).decode()


def with_agent(home: Path, name: str = "a1b2", **meta: Any) -> SessionLog:
    """A session whose one call sent an agent that has a log and a meta file; the agent makes a call too."""
    log = (
        SessionLog()
        .prompt("u1", "Send somebody")
        .answer("a1", call("Task", "c1", description="Look", prompt="Look around"))
        .result("r1", "c1", "It is green")
        .answer("a2", text("Good"))
    )
    log.write(home)
    agent = (
        SessionLog()
        .prompt("g1", "Look around")
        .answer("g2", text("All *green*"), call("Bash", "gc1", command="ls"))
    )
    agent.result("g3", "gc1", "leaf")
    directory = home / "projects" / "-srv-app" / SESSION / "subagents"
    directory.mkdir(parents=True)
    lines = [json.dumps(json.loads(line) | {"isSidechain": True, "agentId": name}) for line in agent.lines]
    (directory / f"agent-{name}.jsonl").write_text("".join(line + "\n" for line in lines))
    meta = {"agentType": "scout", "description": "Look around", "toolUseId": "c1", **meta}
    (directory / f"agent-{name}.meta.json").write_text(json.dumps(meta))
    return log


# ---- hostile text ----------------------------------------------------------------------------------------


def test_hostile_text_stays_text(home: Path, tmp_path: Path) -> None:
    """Over 200 payloads in every place of a session: only elements and attributes of the list, closed in order (W1)."""
    several = payloads()
    hostile_session(several).write(home)
    with_agent_meta = home / "projects" / "-srv-app" / SESSION / "subagents"
    with_agent_meta.mkdir(parents=True)
    agent = json.loads(SessionLog().prompt("g1", several[0]).lines[0]) | {"isSidechain": True}
    (with_agent_meta / "agent-a1.jsonl").write_text(json.dumps(agent) + "\n")
    meta = {"agentType": several[0], "description": several[1], "toolUseId": "c0"}
    (with_agent_meta / "agent-a1.meta.json").write_text(json.dumps(meta))
    export_session(Home(home).session(SESSION), tmp_path / "out", None, whole=True)
    pages = pages_below(tmp_path / "out")

    assert 200 <= len(set(several))
    assert [] == [problem for page in pages.values() for problem in page.problems]
    assert [] == dead_links(pages)


def test_hostile_text_can_be_read(home: Path) -> None:
    """Every payload that a tool gave back stands on the page, letter by letter, as a person would see it."""
    several = payloads()
    log = SessionLog().prompt("u1", "Go")
    for number, one in enumerate(several):
        log.answer(f"a{number}", call("Bash", f"c{number}")).result(f"r{number}", f"c{number}", f"[{one}]")
    shown = page_of(log, home).text

    assert [] == [one for one in several if f"[{visible_text(one)}]" not in shown and "\ud800" not in one]


def test_nothing_runs_and_nothing_is_asked_for(home: Path, tmp_path: Path) -> None:
    """In a real browser the title is ours and no request reaches a server that every payload names (W2)."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed: the page was only parsed, not opened")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        where = f"127.0.0.1:{server.getsockname()[1]}"
        several = [one.replace("evil.example", where) for one in payloads()]
        several += [
            f"<img src=http://{where}/i>",
            f"![x](http://{where}/m)",
            f"<script src=//{where}/s></script>",
        ]
        log = SessionLog()
        for number, one in enumerate(several):
            log.prompt(f"u{number}", one, parent="" if number else None)
            log.answer(
                f"a{number}", text(f"{one}\n\n[x]({one}) ![x]({one})"), call(one, f"c{number}", command=one)
            )
            log.result(f"r{number}", f"c{number}", one)
        log.meta({"type": "custom-title", "customTitle": "Mine", "sessionId": SESSION})
        log.write(home)
        page = tmp_path / "page.html"
        page.write_bytes(b"".join(one_page(Home(home).session(SESSION), None)))
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
        ]
        done = subprocess.run(
            [*command, "--dump-dom", page.as_uri()], check=True, capture_output=True, timeout=120
        )
        with pytest.raises(BlockingIOError):
            server.accept()

    assert [b"<title>Mine</title>"] == re.findall(rb"<title>.*?</title>", done.stdout)


def test_the_policy_allows_our_script_and_style_by_their_hashes(home: Path) -> None:
    """Nothing else runs, and nothing is loaded but data: pictures; the hashes are those of what the page holds."""
    shown = raw_page(talk(), home)
    hashes = {
        name: base64.b64encode(hashlib.sha256(found.encode()).digest()).decode()
        for name in ("script", "style")
        for found in re.findall(rf"<{name}>(.*?)</{name}>", shown, re.DOTALL)
    }

    assert (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src 'sha256-{hashes['style']}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    ) == re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', shown)[0]
    assert 'style="' not in shown


def test_one_file_decides_the_colours_of_the_page_and_of_exports(home: Path) -> None:
    """Every token in an export has the value it has in web/src/tokens.css, and no colour stands beside them."""
    tokens = (Path(__file__).parents[3] / "web" / "src" / "tokens.css").read_text()
    ours = {name: _colours(value) for name, value in re.findall(r"(--[a-z0-9-]+): *([^;]+);", tokens)}
    frame = Path(html_frame.__file__).parent / "frame"
    for name in ("page.css", "index.css"):
        root, _, rest = (frame / name).read_text().partition("}")
        used = {token: _colours(value) for token, value in re.findall(r"(--[a-z0-9-]+):([^;}]+)", root)}
        assert len(used) > 15
        assert {token: ours[token] for token in used} == used
        assert [] == re.findall(r"#[0-9a-f]{3,8}\b|rgb", rest)


def _colours(value: str) -> list[str]:
    """The colours of a value, in full: a short form means the same."""
    found = re.findall(r"#([0-9a-f]{3}(?:[0-9a-f]{3})?)\b", value)
    return ["".join(one * 2 for one in code) if len(code) == 3 else code for code in found]


# ---- what a reader gets ----------------------------------------------------------------------------------


def test_call_and_result_are_one_unit(home: Path) -> None:
    """The result stands in the call's details, once, with how it ended and how long it took."""
    shown = raw_page(talk(), home)

    assert 1 == shown.count("E  assert 1 == 2")
    assert re.search(
        r'<details class="call error"><summary><b>Bash</b> <code>make test</code> <span class="chip bad">error</span> '
        r"<span>10 s</span></summary><pre>\ncommand: make test</pre>\n"
        r'<div class="result"><pre>\nE  assert 1 == 2\n1 failed</pre>\n</div></details>',
        shown,
    )


def test_a_call_without_result_says_so(home: Path) -> None:
    """Nothing is made up."""
    log = SessionLog().prompt("u1", "Go").answer("a1", call("Bash", "c1", command="ls"))

    assert "There is no result in the log." in page_of(log, home).text


def test_a_result_without_its_call_is_shown(home: Path) -> None:
    """It answers nothing that is there, and is not lost."""
    log = SessionLog().prompt("u1", "Go").answer("a1", text("Yes")).result("r1", "c9", "stray words")

    assert "Result not shown with a call\nstray words" in page_of(log, home).text


def test_a_second_result_of_a_call_is_shown(home: Path) -> None:
    """The first stands with the call, the other by itself."""
    log = talk().result("r2", "c1", "said again").answer("a3", text("So"))

    assert "said again" in page_of(log, home).text


@pytest.mark.parametrize(
    ("number", "is_error", "is_open"), [(2, False, None), (3, False, False), (4, True, True)]
)
def test_three_calls_of_one_tool_in_a_row_are_one_line(
    home: Path, number: int, is_error: bool, is_open: bool | None
) -> None:
    """As on the page: how many, about what; unfolded where one failed. Another tool ends the row."""
    calls = [call("Read", f"c{place}", file_path=f"/srv/{place}.py") for place in range(number)]
    log = SessionLog().prompt("u1", "Read").answer("a1", *calls, call("Bash", "b", command="ls"))
    for place in range(number):
        log.result(f"r{place}", f"c{place}", "text", is_error=is_error and place == 1)
    page = page_of(log.answer("a2", text("Done.")), home)
    groups = {kind: "".join(words) for kind, words in page.summaries if "group" in kind}

    expected = f"Read × {number} " + ", ".join(f"/srv/{place}.py" for place in range(number))
    assert ({} if is_open is None else {"call group": expected + (" 1 failed" if is_error else "")}) == groups
    assert (is_open is True) == ("call group" in page.unfolded)
    assert number + 1 == sum(kind.startswith("call ") and "group" not in kind for kind, _ in page.summaries)


@pytest.mark.parametrize("path", ["/srv/shop/src/till/basket.py", "C:\\shop\\src\\till\\basket.py"])
def test_a_path_is_shortened_to_its_last_parts(home: Path, path: str) -> None:
    """Those of Windows, too; the whole path stands inside."""
    log = SessionLog().prompt("u1", "Read").answer("a1", call("Read", "c1", file_path=path))
    page = page_of(log.result("r1", "c1", "text").answer("a2", text("Done.")), home)
    assert "Read …/src/till/basket.py" in [
        " ".join("".join(words).split()[:2]) for _, words in page.summaries
    ]
    assert path in page.text


def test_thinking_is_folded(home: Path) -> None:
    """It is there, and closed."""
    log = (
        SessionLog().prompt("u1", "Go").answer("a1", {"type": "thinking", "thinking": "Hm, <b>"}, text("Yes"))
    )

    assert (
        '<details class="thinking"><summary>Thinking <i>Hm, &lt;b&gt;</i></summary>'
        '<pre class="plain">\nHm, &lt;b&gt;</pre>\n</details>'
    ) in raw_page(log, home)


def test_an_edit_is_a_diff(home: Path) -> None:
    """The client's own where it recorded one."""
    patch = [{"oldStart": 7, "oldLines": 2, "newStart": 7, "newLines": 2, "lines": [" same", "-old", "+new"]}]
    log = (
        SessionLog()
        .prompt("u1", "Go")
        .answer("a1", call("Edit", "c1", file_path="/srv/a.py", old_string="x", new_string="y"))
        .add(
            "user",
            "r1",
            message={
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}],
            },
            **structured(structuredPatch=patch),
        )
    )

    assert (
        '<pre class="diff">\n<div class="at">/srv/a.py</div><div class="at">@@ -7 +7 @@</div>'
        '<div> same</div><div class="cut">-old</div><div class="add">+new</div></pre>'
    ) in raw_page(log, home)


def test_an_edit_without_a_recorded_diff_is_one_too(home: Path) -> None:
    """From what the input replaces."""
    given = {"file_path": "/a", "edits": [{"old_string": "1\n2", "new_string": "1\n3"}]}
    log = (
        SessionLog()
        .prompt("u1", "Go")
        .answer("a1", call("MultiEdit", "c1", **given))
        .result("r1", "c1", "ok")
    )

    assert '<div> 1</div><div class="cut">-2</div><div class="add">+3</div></pre>' in raw_page(log, home)


def test_pictures_stand_in_the_page(home: Path) -> None:
    """By their own first bytes; SVG, addresses and false names are text."""

    def picture(**source: str) -> dict[str, Any]:
        return {"type": "image", "source": source}

    svg = base64.b64encode(b"<svg onload=x>").decode()
    content = [
        picture(type="base64", media_type="image/svg+xml", data=PIXEL),
        picture(type="base64", media_type="image/png", data=svg),
        picture(type="url", url="http://evil.example/b.png"),
    ]
    log = SessionLog().add("user", "u1", None, message={"role": "user", "content": content})
    page = page_of(log.answer("a1", text("Seen")), home)

    assert [f"data:image/png;base64,{PIXEL}"] == page.pictures
    assert "[14 bytes that are not a supported picture]" in page.text
    assert "[picture elsewhere, not loaded: http://evil.example/b.png]" in page.text


def test_tokens_and_cost_are_shown(home: Path) -> None:
    """Two answers of a million input tokens at three dollars each: in the strip of their turn, and in all."""
    page = page_of(talk(), home)

    assert ["1 call · 1 failed · 20 s · $6.00"] == page.strips
    assert "in 2,000,000 tokens, $6.00" in page.text
    assert 2 == page.text.count("$")


def test_a_turn_without_work_has_its_cost_at_the_answer(home: Path) -> None:
    """Once; in cents, or finer where it is little."""
    log = (
        SessionLog()
        .prompt("u1", "Go")
        .answer("a1", text("Yes"))
        .prompt("u2", "On")
        .answer("a2", text("Well"))
    )
    page = page_of(log, home)

    assert [] == page.strips
    assert 2 == page.text.count("$3.00")


def test_a_model_without_a_price_has_no_cost(home: Path) -> None:
    """Unknown is not zero (law 6)."""
    log = SessionLog().prompt("u1", "Go").answer("a1", text("Yes"), model="nobody-1")
    shown = page_of(log, home).text

    assert "cost not known, without nobody-1, which has no price" in shown
    assert "nobody-1 unpriced" in shown


def test_what_the_client_wrote_is_a_chip_and_starts_no_turn(home: Path) -> None:
    """Commands read as commands, notes and output are folded, an interruption is a mark; none is in the sidebar."""
    log = (
        SessionLog()
        .prompt("u1", "<command-name>/review</command-name>\n<command-args>the diff</command-args>")
        .answer("a1", text("Reviewed"))
        .prompt("u2", "<local-command-stdout>All is well</local-command-stdout>")
        .prompt("u3", "Fix it <system-reminder>Be brief & kind</system-reminder>")
        .answer("a2", text("Fixed"))
        .prompt("u4", "[Request interrupted by user]")
    )
    shown = raw_page(log, home)
    side = re.findall(r'<li><a href="#m\d+">(.*?)</a>', shown)

    assert '<p class="slash"><code>/review the diff</code></p>' in shown
    assert '<summary><span class="chip">Output</span> <i>All is well</i></summary><pre>' in shown
    assert (
        '<summary><span class="chip">Reminder of the client</span> <i>Be brief &amp; kind</i></summary>'
        in shown
    )
    assert '<span class="chip warn">Interrupted</span>' in shown
    assert "&lt;command-name" not in shown.partition("<main>")[2].partition("</main>")[0]
    assert ["/review the diff", "Fix it"] == [one.partition(" &lt;")[0] for one in side]


def test_what_is_left_out_is_said(home: Path) -> None:
    """Branches and what a compaction hides are not on the page, and the page says so (law 11)."""
    assert "Other branches (1) are not shown" in page_of(branched(), home).text
    hidden = page_of(compacted(), home, whole=False).text
    assert "what its compactions hide is not shown" in hidden
    assert "Long answer" not in hidden


def test_the_whole_session_is_there_in_chapters(home: Path) -> None:
    """With what the compaction hides, and a line to fold where it cut."""
    page = page_of(compacted(), home)

    assert page.text.index("Long answer") < page.text.index("Chapter 2") < page.text.index("Gone on")
    assert ["Chapter 1", "Chapter 2 · after a compaction"] == [
        one.rpartition(" · ")[0].partition(", ")[0] for one in page.chapters
    ]


def test_damaged_lines_are_counted(home: Path) -> None:
    """They are not on the page, and it says how many."""
    log = talk().raw("{torn")

    assert "1 lines of the log cannot be read" in page_of(log, home).text


@pytest.mark.parametrize(
    "block",
    [
        text("x" * 200_007),
        {"type": "thinking", "thinking": "x" * 200_007},
        {"type": "odd", "what": "x" * (200_007 - len('{"type": "odd", "what": ""}'))},
    ],
)
def test_a_very_long_text_is_cut_and_says_so(home: Path, block: dict[str, Any]) -> None:
    """A page opens at once whatever a message holds."""
    shown = page_of(SessionLog().prompt("u1", "Go").answer("a1", block), home).text

    assert 199 <= shown.count("x" * 1000) <= 200
    assert "\n7 more characters are not on this page" in shown


# ---- agents ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["Task", "spawn_agent"])
def test_an_agent_stands_in_the_call_that_sent_it(home: Path, tool: str) -> None:
    """With its own messages and calls, folded, before the call ends; other agents' tools have other names."""
    with_agent(home)
    log = next(home.rglob(f"{SESSION}.jsonl"))
    log.write_bytes(log.read_bytes().replace(b'"Task"', json.dumps(tool).encode()))
    shown = b"".join(one_page(Home(home).session(SESSION), None)).decode()

    assert re.search(
        r'<details class="agent" id="agent-1"><summary><b>Sub-agent 1</b> scout: Look around</summary>\n'
        r".*All <em>green</em>.*<pre>\nleaf</pre>\n</div></details>\n</article>\n</details>\n"
        r'<div class="result"><pre>\nIt is green</pre>\n</div></details>\n</article>',
        shown,
        re.DOTALL,
    )
    assert 1 == shown.count("All <em>green</em>")
    assert 1 == shown.partition("</nav>")[0].count("<p>Look around</p>")  # its task


def test_what_an_agent_answered_is_shown_once(home: Path) -> None:
    """With the call; another last word stays with its steps."""
    log = with_agent(home)
    agent = next(home.rglob("agent-a1b2.jsonl"))
    last = json.loads(SessionLog().prompt("g3", "").answer("g4", text("It is green")).lines[-1])
    marks = {"isSidechain": True, "agentId": "a1b2"}
    with agent.open("a") as out:
        out.write(json.dumps(last | marks | {"parentUuid": "g3"}) + "\n")
    once = b"".join(one_page(Home(home).session(SESSION), None)).count(b"It is green")
    agent.write_text(agent.read_text().replace("It is green", "Rather blue"))

    assert (1, 1) == (once, b"".join(one_page(Home(home).session(SESSION), None)).count(b"Rather blue"))
    assert log.lines


def test_an_agent_that_two_calls_name_is_shown_once(home: Path) -> None:
    """The second call links to it."""
    log = with_agent(home).answer("a3", call("Task", "c2", prompt="More")).result("r3", "c2", "agentId: a1b2")
    page = page_of(log, home)

    assert 1 == page.text.count("All green")
    assert ["#agent-1"] == [link for link in page.links if link == "#agent-1"]


def test_an_agent_that_no_call_names_is_there_too(home: Path) -> None:
    """At the end, so that nothing is lost."""
    with_agent(home, toolUseId="c-unknown")
    page = Page(b"".join(one_page(Home(home).session(SESSION), None)))

    assert page.text.index("Good") < page.text.index("All green")


def test_of_a_huge_session_agents_have_pages(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call links to the agent, the agent back to the call, the index to both."""
    paged(monkeypatch)
    with_agent(home)
    export_session(Home(home).session(SESSION), tmp_path / "talk.html", None)
    pages = pages_below(tmp_path)
    names = {path.name: page for path, page in pages.items()}

    assert ["0001.html", "0002.html", "agent-0001-0001.html", "talk.html"] == sorted(names)
    assert "agent-0001-0001.html" in names["0001.html"].links
    assert "0001.html#m2" in names["agent-0001-0001.html"].links
    assert "talk-pages/agent-0001-0001.html" in names["talk.html"].links
    assert [] == dead_links(pages)


# ---- pages -----------------------------------------------------------------------------------------------


def test_pages_hold_every_message_once(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten prompts and answers on pages of at most three messages; the index lists what was asked."""
    paged(monkeypatch)
    log = SessionLog()
    for number in range(10):
        log.prompt(f"u{number}", f"ask {number}", parent="" if number else None)
        log.answer(f"a{number}", text(f"tell {number}!"))
    log.write(home)
    done = export_session(Home(home).session(SESSION), tmp_path / "out", None)
    pages = pages_below(tmp_path / "out")
    bodies = [page for path, page in pages.items() if path.name != "index.html"]
    index = pages[tmp_path / "out" / "index.html"]

    assert (8, 7) == (done.files, len(bodies))
    assert [f"m{number}" for number in range(1, 21)] == [one for page in bodies for one in page.anchors]
    assert [1] * 10 == [
        "".join(page.text for page in bodies).count(f"tell {number}!") for number in range(10)
    ]
    assert [f"ask {number}" for number in range(10)] == re.findall(
        r"ask \d", index.text.partition("Pages")[2]
    )
    assert [] == [problem for page in pages.values() for problem in page.problems] + dead_links(pages)


def test_a_page_ends_before_it_is_too_large(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the bytes of its lines; one line that is larger has a page of its own."""
    monkeypatch.setattr(html_export, "PAGE_BYTES", 2_000)
    monkeypatch.setattr(html_export, "ONE_PAGE_BYTES", 2_000)
    log = (
        SessionLog()
        .prompt("u1", "a")
        .answer("a1", text("b" * 5_000))
        .prompt("u2", "c")
        .answer("a2", text("d"))
    )
    log.write(home)
    export_session(Home(home).session(SESSION), tmp_path / "out", None)
    anchors = [
        page.anchors for path, page in pages_below(tmp_path / "out").items() if path.name != "index.html"
    ]

    assert [["m1"], ["m2"], ["m3", "m4"]] == anchors


def test_memory_does_not_grow_with_the_session(home: Path) -> None:
    """Eight megabytes in messages of 100 kB pass through less than three."""
    log = SessionLog()
    for number in range(40):
        log.prompt(f"u{number}", "x " * 50_000, parent="" if number else None)
        log.answer(f"a{number}", call("Bash", f"c{number}")).result(f"r{number}", f"c{number}", "y" * 100_000)
    log.write(home)
    del log
    session = Home(home, index=False).session(
        SESSION
    )  # an index would be built in the memory that is measured
    tracemalloc.start()
    try:
        written = sum(len(piece) for piece in one_page(session, None))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert written > 8_000_000
    assert peak < 3_000_000


# ---- secrets ---------------------------------------------------------------------------------------------


def test_no_secret_leaves(home: Path, tmp_path: Path) -> None:
    """In prompts, thoughts, calls, results, diffs, titles and what an agent is called; each place counted once."""
    kinds = sorted(SAMPLES)[::6]
    secrets = {kind: SAMPLES[kind].make(Dice(f"html {kind}")) for kind in kinds}
    log = SessionLog().prompt("u0", "Go")
    for number, (kind, secret) in enumerate(secrets.items()):
        words = f"**{SAMPLES[kind].before}{secret}{SAMPLES[kind].after}** _x_"
        log.prompt(f"u{number + 1}", words)
        log.answer(
            f"a{number}",
            {"type": "thinking", "thinking": words},
            text(words),
            call("Bash", f"c{number}", command=words),
        )
        log.result(f"r{number}", f"c{number}", words)
    title = next(iter(secrets.values()))
    log.meta({"type": "custom-title", "customTitle": f"Use {title} here", "sessionId": SESSION}).write(home)
    redactor = Redactor(tmp_path / "data")
    export_session(Home(home).session(SESSION), tmp_path / "out.html", redactor)
    shown = (tmp_path / "out.html").read_text()
    places = Redactor(tmp_path / "data")
    list(places.lines(export.log_bytes(Home(home).session(SESSION).path)))

    assert [] == [kind for kind, secret in secrets.items() if secret in shown]
    assert "[redacted:" in shown
    assert (
        len(places.found) <= len(redactor.found) <= len(places.found) + 3
    )  # the title is asked for on its own


def test_a_secret_that_markdown_would_cut_is_found(home: Path, tmp_path: Path) -> None:
    """Redaction comes before markup."""
    secret = SAMPLES["github-pat"].make(Dice("cut"))
    log = SessionLog().prompt("u1", f"_{secret}_ and **{secret}**").answer("a1", text("ok"))
    log.write(home)
    redactor = Redactor(tmp_path / "data")
    shown = b"".join(one_page(Home(home).session(SESSION), redactor)).decode()

    assert secret not in re.sub(r"<[^>]*>", "", shown)
    assert {"github-pat"} == {one.kind for one in redactor.found}


# ---- files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["out", "out.html"])
def test_a_failure_half_way_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Neither pages nor a temporary directory (P7)."""
    paged(monkeypatch, messages=1)
    talk().write(home)
    place = tmp_path / "place"
    place.mkdir()
    real, calls = export.fill, iter(range(10))

    def failing(path: Path, pieces: Iterator[bytes]) -> int:
        if next(calls) == 2:
            raise OSError(28, "no space")
        return real(path, pieces)

    monkeypatch.setattr(export, "fill", failing)
    with pytest.raises(StorageError):
        export_session(Home(home).session(SESSION), place / target, None)

    assert [] == list(place.iterdir())


def test_files_are_for_their_owner_only(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0600 and 0700 whatever the umask (K4)."""
    paged(monkeypatch, messages=1)
    talk().write(home)
    before = os.umask(0)
    try:
        export_session(Home(home).session(SESSION), tmp_path / "out", None)
    finally:
        os.umask(before)
    modes = {path.is_dir(): stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").rglob("*")}

    assert {True: 0o700, False: 0o600} == modes
    assert 0o700 == stat.S_IMODE((tmp_path / "out").stat().st_mode)


def test_what_is_there_is_not_replaced(home: Path, tmp_path: Path) -> None:
    """A file without force, a directory with something in it, pages of an earlier export; all stay."""
    talk().write(home)
    session = Home(home).session(SESSION)
    (tmp_path / "a.html").write_text("old")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").write_text("old")
    (tmp_path / "c-pages").mkdir()
    for name in ("a.html", "b", "c.html"):
        with pytest.raises(UsageError, match="already exists"):
            export_session(session, tmp_path / name, None)
    with pytest.raises(UsageError, match="already exists"):
        export_session(session, tmp_path / "b", None, force=True)

    assert ["a.html", "b", "c-pages"] == sorted(path.name for path in tmp_path.iterdir())
    assert "old" == (tmp_path / "a.html").read_text() == (tmp_path / "b" / "mine").read_text()


def test_an_empty_directory_is_taken_and_a_file_replaced_by_force(home: Path, tmp_path: Path) -> None:
    """Both hold the page afterwards."""
    talk().write(home)
    session = Home(home).session(SESSION)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.html").write_text("old")
    export_session(session, tmp_path / "empty", None)
    export_session(session, tmp_path / "a.html", None, force=True)

    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "empty" / "index.html").read_bytes()
    assert ["a.html", "empty"] == sorted(path.name for path in tmp_path.iterdir())


# ---- a project -------------------------------------------------------------------------------------------


def test_a_project_has_an_index(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sessions with pages, what cannot be read by name and reason, and nothing of another project."""
    paged(monkeypatch)
    talk().write(home)
    SessionLog(OTHER).prompt("u1", "Short").answer("a1", text("Yes")).write(home)
    empty = home / "projects" / "-srv-app" / "7c1d9c1e-0000-4000-8000-000000000003.jsonl"
    empty.write_text(json.dumps(json.loads(talk().lines[0]) | {"isSidechain": True}) + "\n")
    other = SessionLog("9c1d9c1e-0000-4000-8000-000000000004", cwd="/srv/else").prompt("u1", "Elsewhere")
    other.write(home)
    done = export_project(Home(home), "/srv/app", tmp_path / "out", None)
    pages = pages_below(tmp_path / "out")
    index = pages[tmp_path / "out" / "index.html"]

    assert {f"{SESSION}.html", f"{OTHER}.html"} == set(index.links)
    assert "it holds sub-agent lines only" in index.text
    assert "Elsewhere" not in "".join(page.text for page in pages.values())
    assert (2, len(pages), 1) == (done.sessions, done.files, len(done.problems))
    assert "index.html" in pages[tmp_path / "out" / f"{SESSION}.html"].links
    assert [] == [problem for page in pages.values() for problem in page.problems] + dead_links(pages)


def test_sessions_that_only_the_archive_has_belong_to_a_project(home: Path, tmp_path: Path) -> None:
    """One of two logs is gone from the home: both have pages, each once; another home's and project's have none."""
    talk().write(home)
    SessionLog(OTHER).prompt("u1", "Short").answer("a1", text("Kept for good")).write(home)
    SessionLog("9c1d9c1e-0000-4000-8000-000000000004", cwd="/srv/else").prompt("u1", "Elsewhere").write(home)
    archive = keep.archive_at(tmp_path / "data")
    keep.add_all(archive, list(Home(home).sessions()), dt.datetime(2026, 11, 16, tzinfo=dt.UTC))
    for name in (OTHER, "9c1d9c1e-0000-4000-8000-000000000004"):
        next(home.rglob(f"{name}.jsonl")).unlink()
    done = export_project(Home(home, data=tmp_path / "data"), "/srv/app", tmp_path / "out", None)
    pages = pages_below(tmp_path / "out")

    assert (2, []) == (done.sessions, done.problems)
    assert {f"{SESSION}.html", f"{OTHER}.html"} == set(pages[tmp_path / "out" / "index.html"].links)
    assert "Kept for good" in pages[tmp_path / "out" / f"{OTHER}.html"].text
    (tmp_path / "empty").mkdir()
    assert [] == list(Home(tmp_path / "empty", data=tmp_path / "data").archived_only())


def test_a_project_without_sessions_is_not_found(home: Path, tmp_path: Path) -> None:
    """And nothing is written."""
    talk().write(home)
    with pytest.raises(NotFound, match="no session"):
        export_project(Home(home), "/nowhere", tmp_path / "out", None)

    assert [] == list(tmp_path.iterdir())


def test_real_sessions_are_pages_too(shared: Path, tmp_path: Path) -> None:
    """What clients of several versions wrote: only elements of the list, and every link leads somewhere."""
    home = Home(*sorted((shared / "samples" / "claude-home").glob("*/.claude")))
    exported = 0
    # Of one version they are much alike: every fourth daily, all of them in a torture run.
    chosen = list(home.sessions())[:: 1 if os.environ.get("RECOLLECT_TORTURE") else 4]
    for number, session in enumerate(chosen):
        with contextlib.suppress(NotFound):  # logs without a conversation
            export_session(session, tmp_path / str(number), Redactor(tmp_path / "data"), whole=True)
            pages = pages_below(tmp_path / str(number))
            exported += 1
            assert [] == [problem for page in pages.values() for problem in page.problems] + dead_links(pages)

    assert exported > 50
