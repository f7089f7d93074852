"""Sessions as files that open without us: only text of a transcript, the page's own messages, redacted."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import json
import os
import re
import stat
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.ask import archive as keep
from recollect.ask.library import Home
from recollect.ask.secrets.redactor import Redactor
from recollect.cli.terminal.text import visible_lines
from recollect.errors import NotFound, StorageError, UsageError
from recollect.share.export import export, project
from recollect.share.export.page import session_page
from recollect.share.export.project import export_project
from tests.browser.payloads import PAYLOADS
from tests.cli.session_logs import OTHER, SESSION, SessionLog, branched, call, compacted, talk, text
from tests.model.secrets.samples import SAMPLES, Dice
from tests.share.export.html_pages import Page, dead_links, hostile_session, pages_below
from tests.web.pages import Browser, served

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()
ELSEWHERE = "9c1d9c1e-0000-4000-8000-000000000004"


@pytest.fixture
def home(own_home: Path) -> Path:
    return own_home / ".claude"


def exported(home: Path, redactor: Redactor | None = None, **options: Any) -> bytes:
    return b"".join(session_page(Home(home).session(SESSION), redactor, **options))


def page_of(log: SessionLog, home: Path, **options: Any) -> Page:
    """A session as a page that has nothing beside what it may have."""
    log.write(home)
    page = Page(exported(home, **options))
    assert [] == page.problems
    return page


def with_agent(home: Path, name: str = "a1b2", **meta: Any) -> SessionLog:
    """A session whose one call sent an agent that has a log and a meta file; the agent makes a call too."""
    log = (
        SessionLog()
        .prompt("u1", "Send somebody")
        .answer("a1", call("Task", "c1", description="Look", prompt="Look around"))
        .result("r1", "c1", "It is green")
        .answer("a2", text("Good"))
    )
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


def test_hostile_text_stays_text(home: Path) -> None:
    """Over 200 payloads in every place of a session: only elements of the list, one script, inert documents (W1)."""
    several = PAYLOADS
    directory = home / "projects" / "-srv-app" / SESSION / "subagents"
    directory.mkdir(parents=True)
    agent = json.loads(SessionLog().prompt("g1", several[0]).lines[0]) | {"isSidechain": True}
    (directory / "agent-a1.jsonl").write_text(json.dumps(agent) + "\n")
    meta = {"agentType": several[0], "description": several[1], "toolUseId": "c0"}
    (directory / "agent-a1.meta.json").write_text(json.dumps(meta))
    page = page_of(hostile_session(several), home)

    assert 200 <= len(set(several)) <= len(page.messages) / 2
    assert ["a1"] == list(page.agents)


def test_hostile_text_can_be_read(home: Path) -> None:
    """Every payload that a tool gave back is in the text without scripts as a person would see it, and in the document."""
    several = PAYLOADS
    log = SessionLog().prompt("u1", "Go")
    for number, one in enumerate(several):
        log.answer(f"a{number}", call("Bash", f"c{number}")).result(f"r{number}", f"c{number}", f"[{one}]")
    page = page_of(log, home)
    given = [one["calls"].values() for one in page.messages[1:]]

    several = [one for one in several if one.isprintable() or one.encode(errors="ignore").decode() == one]
    shown = [f"[{visible_lines(one)}]" for one in several]
    told = {block["text"] for calls in given for one in calls for block in one["blocks"]}
    assert [] == [one for one in shown if one.replace("\r\n", "\n") not in page.text]
    assert [] == [one for one in several if f"[{one}]" not in told]


def test_the_policy_allows_our_script_and_style_by_their_hashes(home: Path) -> None:
    """Nothing else runs, and nothing is loaded but data: pictures; the hashes are those of what the page holds."""
    talk().write(home)
    shown = exported(home).decode()
    hashes = {
        name: base64.b64encode(hashlib.sha256(found.encode()).digest()).decode()
        for name in ("script", "style")
        for found in re.findall(rf"<{name}>(.*?)</{name}>", shown, re.DOTALL)
    }

    assert (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src 'sha256-{hashes['style']}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    ) == re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', shown)[0]
    assert not re.search(
        "url\\(|@import|https?://(?!www.w3.org)", shown.partition("<style>")[2].partition("</style>")[0]
    )


# ---- what a reader gets ----------------------------------------------------------------------------------


def test_the_messages_are_those_of_the_page(home: Path, tmp_path: Path) -> None:
    """Each as the page's server sends it, but results, which are sent with their calls; the map and the turns too."""
    log = with_agent(home)
    log.prompt("u2", "<command-name>/review</command-name>").result("r9", "c9", "stray words").write(home)
    page = Page(exported(home))
    with Browser(served(home, tmp_path / "data")) as browser:
        at = f"/api/sessions/{SESSION}"
        sent = browser.get(f"{at}/messages?whole=true")["messages"]
        agent = browser.get(f"{at}/messages?agent=a1b2")["messages"]
        session = page.documents["session"]
        assert [one for one in sent if one["kind"] != "results"] == page.messages
        assert {"a1b2": [one for one in agent if one["kind"] != "results"]} == page.agents
        assert browser.get(f"{at}/map?whole=true") == session["map"]
        assert browser.get(f"{at}/costs?whole=true")["turns"] == session["turns"]
    assert [{"id": "a1b2", "title": "scout: Look around", "problem": ""}] == session["agents"]
    assert ["unmatched", "a1b2"] == [page.messages[-1]["kind"], page.messages[1]["calls"]["c1"]["agent"]]


def test_it_can_be_read_without_scripts(home: Path) -> None:
    """Prompts, answers, calls, results and what sub-agents did, in order, and the chapters of the whole story."""
    words = [
        "Send somebody",
        "Call: Task",
        "It is green",
        "Good",
        "Sub-agent 1: scout: Look around",
        "All *green*",
        "leaf",
    ]
    shown = page_of(with_agent(home), home).text
    assert sorted(places := [shown.find(one) for one in words]) == places
    assert -1 not in places
    whole = page_of(compacted(), home).text
    assert whole.index("Long answer") < whole.index("Gone on")


def test_what_is_left_out_is_said(home: Path) -> None:
    """Branches, damaged lines and what a compaction hides are not on the page, and the page says so (law 11)."""
    assert "Other branches (1) are not shown" in page_of(branched(), home).text
    assert "1 lines of the log cannot be read" in page_of(talk().raw("{torn"), home).text
    hidden = page_of(compacted(), home, whole=False).text
    assert "what its compactions hide is not shown" in hidden
    assert "Long answer" not in hidden


def test_tokens_and_cost_are_shown(home: Path) -> None:
    """Two answers of a million input tokens at three dollars each; an unknown price is not zero (law 6)."""
    assert "in 2,000,000 tokens, $6.00" in page_of(talk(), home).text
    log = SessionLog().prompt("u1", "Go").answer("a1", text("Yes"), model="nobody-1")

    assert "cost not known, without nobody-1, which has no price" in page_of(log, home).text


def test_pictures_stand_in_the_page(home: Path) -> None:
    """By their own first bytes; SVG, addresses and false names have none."""
    svg = base64.b64encode(b"<svg onload=x>").decode()
    sources = [
        {"type": "base64", "media_type": "image/png", "data": PIXEL},
        {"type": "base64", "media_type": "image/png", "data": svg},
        {"type": "url", "url": "http://evil.example/b.png"},
    ]
    content = [{"type": "image", "source": source} for source in sources]
    log = SessionLog().add("user", "u1", None, message={"role": "user", "content": content})
    blocks = page_of(log.answer("a1", text("Seen")), home).messages[0]["blocks"]

    assert [f"data:image/png;base64,{PIXEL}", None] == [block["source"]["url"] for block in blocks[:2]]
    assert sources[2] == blocks[2]["source"]


@pytest.mark.parametrize("block", [text("x" * 200_007), {"type": "thinking", "thinking": "x" * 200_007}])
def test_a_very_long_text_is_cut_and_says_so(home: Path, block: dict[str, Any]) -> None:
    """A page opens at once whatever a message holds."""
    page = page_of(SessionLog().prompt("u1", "Go").answer("a1", block), home)

    assert 199 <= page.text.count("x" * 1000) <= 200
    assert "[cut by recollect: 200,0" in page.text
    assert (True, 200_007) == (page.messages[1]["cut"], page.messages[1]["blocks"][0]["cut_characters"])


def test_two_hundred_messages_are_a_small_file(home: Path) -> None:
    """With the page's script and style at most 400 kB."""
    log = SessionLog()
    for number in range(50):
        log.prompt(f"u{number}", f"Please do number {number}", parent="" if number else None)
        log.answer(f"a{number}", call("Bash", f"c{number}", command="make test")).result(
            f"r{number}", f"c{number}", "ok " * 20
        )
        log.answer(f"b{number}", text("It is done. " * 5))
    log.write(home)

    assert len(exported(home)) < 400_000


def test_memory_does_not_grow_with_the_session(home: Path) -> None:
    """Eight megabytes in messages of 100 kB pass through less than four."""
    log = SessionLog()
    for number in range(40):
        log.prompt(f"u{number}", "x " * 50_000, parent="" if number else None)
        log.answer(f"a{number}", call("Bash", f"c{number}")).result(f"r{number}", f"c{number}", "y" * 100_000)
    log.write(home)
    del log
    session = Home(home).session(SESSION)
    session.spending()  # the index that it comes from is built in memory that is not measured
    tracemalloc.start()
    try:
        written = sum(len(piece) for piece in session_page(session, None))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert written > 8_000_000
    assert peak < 4_000_000


# ---- secrets ---------------------------------------------------------------------------------------------


def test_no_secret_leaves(home: Path, tmp_path: Path) -> None:
    """In prompts, thoughts, calls, results, titles and what an agent is called; each place counted once."""
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
    shown = exported(home, redactor).decode()
    places = Redactor(tmp_path / "data")
    list(places.lines(export.log_bytes(Home(home).session(SESSION).path)))

    assert [] == [kind for kind, secret in secrets.items() if secret in shown]
    assert "[redacted:" in shown
    assert [] == Page(shown.encode()).problems
    assert (
        len(places.found) <= len(redactor.found) <= len(places.found) + 3
    )  # the title is asked for on its own


def test_a_secret_of_a_sub_agent_stays(home: Path, tmp_path: Path) -> None:
    """In what it said and in what it is called."""
    secret = SAMPLES["github-pat"].make(Dice("cut"))
    with_agent(home, description=f"Use {secret}").write(home)
    log = next(home.rglob("agent-a1b2.jsonl"))
    log.write_text(log.read_text().replace("leaf", secret))
    redactor = Redactor(tmp_path / "data")

    assert secret not in exported(home, redactor).decode()
    assert {"github-pat"} == {one.kind for one in redactor.found}


# ---- a project -------------------------------------------------------------------------------------------


def test_a_project_has_an_index(home: Path, tmp_path: Path) -> None:
    """Its sessions with pages, what cannot be read by name and reason, and nothing of another project."""
    talk().write(home)
    SessionLog(OTHER).prompt("u1", "Short").answer("a1", text("Yes")).write(home)
    empty = home / "projects" / "-srv-app" / "7c1d9c1e-0000-4000-8000-000000000003.jsonl"
    empty.write_text(json.dumps(json.loads(talk().lines[0]) | {"isSidechain": True}) + "\n")
    SessionLog(ELSEWHERE, cwd="/srv/else").prompt("u1", "Elsewhere").write(home)
    done = export_project(Home(home), "/srv/app", tmp_path / "out", None)
    pages = pages_below(tmp_path / "out")
    index = pages[tmp_path / "out" / "index.html"]

    assert {f"{SESSION}.html", f"{OTHER}.html"} == set(index.links)
    assert "it holds sub-agent lines only" in index.text
    assert "Elsewhere" not in "".join(page.text for page in pages.values())
    assert (2, len(pages)) == (done.sessions, done.files)
    assert done.problems
    assert [empty.stem] == [one.session for one in done.problems]
    assert "index.html" in pages[tmp_path / "out" / f"{SESSION}.html"].links
    assert [] == [problem for page in pages.values() for problem in page.problems] + dead_links(pages)


def test_sessions_that_only_the_archive_has_belong_to_a_project(home: Path, tmp_path: Path) -> None:
    """One of two logs is gone from the home: both have pages, each once; another home's and project's have none."""
    talk().write(home)
    SessionLog(OTHER).prompt("u1", "Short").answer("a1", text("Kept for good")).write(home)
    SessionLog(ELSEWHERE, cwd="/srv/else").prompt("u1", "Elsewhere").write(home)
    archive = keep.archive_at(tmp_path / "data")
    keep.add_all(archive, list(Home(home).sessions()), dt.datetime(2026, 11, 16, tzinfo=dt.UTC))
    for name in (OTHER, ELSEWHERE):
        next(home.rglob(f"{name}.jsonl")).unlink()
    done = export_project(Home(home, data=tmp_path / "data"), "/srv/app", tmp_path / "out", None)
    pages = pages_below(tmp_path / "out")

    assert (2, []) == (done.sessions, done.problems)
    assert {f"{SESSION}.html", f"{OTHER}.html"} == set(pages[tmp_path / "out" / "index.html"].links)
    assert "Kept for good" in pages[tmp_path / "out" / f"{OTHER}.html"].text


def test_a_failure_half_way_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither pages nor a temporary directory (P7)."""
    talk().write(home)
    SessionLog(OTHER).prompt("u1", "Short").write(home)
    place = tmp_path / "place"
    place.mkdir()
    real, calls = export.fill, iter(range(10))

    def failing(path: Path, pieces: Iterator[bytes]) -> int:
        if next(calls) == 1:
            raise OSError(28, "no space")
        return real(path, pieces)

    monkeypatch.setattr(project, "fill", failing)
    with pytest.raises(StorageError):
        export_project(Home(home), "/srv/app", place / "out", None)

    assert [] == list(place.iterdir())


def test_files_are_for_their_owner_only(home: Path, tmp_path: Path) -> None:
    """0600 and 0700 whatever the umask (K4); an empty directory is taken."""
    talk().write(home)
    (tmp_path / "out").mkdir()
    before = os.umask(0)
    try:
        export_project(Home(home), "/srv/app", tmp_path / "out", None)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").rglob("*")}

    assert ({0o600}, 0o700) == (modes, stat.S_IMODE((tmp_path / "out").stat().st_mode))


def test_what_is_there_is_not_replaced(home: Path, tmp_path: Path) -> None:
    """A directory with something in it stays, and without sessions nothing is written."""
    talk().write(home)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").write_text("old")
    with pytest.raises(UsageError, match="already exists"):
        export_project(Home(home), "/srv/app", tmp_path / "b", None)
    with pytest.raises(NotFound, match="no session"):
        export_project(Home(home), "/nowhere", tmp_path / "out", None)

    assert [tmp_path / "b", tmp_path / "b" / "mine"] == sorted(tmp_path.rglob("*"))


def test_real_sessions_are_pages_too(log_homes: Path, tmp_path: Path) -> None:
    """What clients of several versions wrote: only elements of the list, and documents that can be read."""
    home = Home(*sorted((log_homes / "samples" / "claude-home").glob("*/.claude")))
    shown = 0
    # Of one version they are much alike: every fourth daily, all of them in a torture run.
    chosen = list(home.sessions())[:: 1 if os.environ.get("RECOLLECT_TORTURE") else 4]
    for session in chosen:
        with contextlib.suppress(NotFound):  # logs without a conversation
            page = Page(b"".join(session_page(session, Redactor(tmp_path / "data"))))
            assert [] == page.problems
            shown += len(page.messages) > 0

    assert shown > 5
