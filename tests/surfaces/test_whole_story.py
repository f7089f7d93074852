"""Every typed prompt stands in the whole story, or on a branch that leaves it, on every surface that shows a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect import Home, NotFound
from recollect.ask.conversation.content import PageSession
from recollect.ask.conversation.conversation import ConversationView, talk_of
from recollect.ask.sessions.messages import whole_story
from recollect.web.messages import branches_document
from tests.small_home import ONE, link, prompt, put, reply, said, uuid_of
from tests.surfaces.case import Case
from tests.web.pages import Browser, served

GONE = 900  # no line has this id
BEGUN = [prompt(1, None, "Ask one"), reply(2, 1, said("Answer one"))]
GOES_ON = [
    reply(30, 20, said("Answer two")),
    prompt(31, 30, "Ask three"),
    reply(32, 31, said("Answer three")),
]


def summary(number: int, after: int | None) -> dict[str, Any]:
    return prompt(number, after, "What was said before", isCompactSummary=True)


def cut(number: int, before: int) -> dict[str, Any]:
    facts = {"trigger": "auto", "preTokens": 9}
    return link(
        number,
        None,
        type="system",
        subtype="compact_boundary",
        content="Compacted",
        logicalParentUuid=uuid_of(before),
        compactMetadata=facts,
    )


# The lines after ``BEGUN``, and why the tree that begins with the first of them stands where it does.
ROOTS = {
    "a summary without a boundary": ([summary(18, None), prompt(20, 18, "Ask two"), *GOES_ON], "summary"),
    "a boundary that names no line": (
        [cut(17, GONE), summary(18, 17), prompt(20, 18, "Ask two"), *GOES_ON],
        "gap",
    ),
    "a parent that is not there": ([prompt(20, GONE, "Ask two"), *GOES_ON], "gap"),
    "a new root": ([prompt(20, None, "Ask two"), *GOES_ON], "start"),
    "a new root behind a line of another kind": (
        [link(19, None, type="progress", data={}), prompt(20, 19, "Ask two"), *GOES_ON],
        "start",
    ),
}
WORDS = {
    "summary": "continued from a summary",
    "gap": "the log has a gap here",
    "start": "the log starts over here",
}
LOADED = "what a resume would load begins here"
ASKED = ["Ask one", "Ask two", "Ask three"]


@pytest.fixture(params=list(ROOTS.values()), ids=list(ROOTS))
def torn(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Case, str]:
    """A session whose client would load its second half only, and why that begins where it does."""
    lines, why = request.param
    put(tmp_path / "home", ONE, [*BEGUN, *lines])
    return Case(tmp_path / "home", tmp_path), why


def typed(messages: list[dict[str, Any]]) -> list[str]:
    """The prompts among the messages of a document."""
    texts = ["".join(block.get("text", "") for block in one["blocks"]) for one in messages]
    return [text for text in texts if text.startswith("Ask")]


def test_show_and_exports_hold_all_of_it_and_say_where_it_is_torn(torn: tuple[Case, str]) -> None:
    """`show`, Markdown, HTML: prompts in order, between them why the log begins again and what a resume would load."""
    case, why = torn
    for words in (["show", ONE], *(["export", ONE, "--format", name] for name in ("md", "html"))):
        text = case.said(*words).rpartition("<main>")[2]
        assert "Ask one" in text
        places = [text.find(one) for one in ("Answer one", WORDS[why], LOADED, "Ask two", "Ask three")]
        assert -1 not in places
        assert places == sorted(places)


def test_documents_name_the_seams(torn: tuple[Case, str]) -> None:
    """`show --json` and the JSON export: the same messages, why one begins a chapter, and that all are counted."""
    case, why = torn
    for document in (
        case.document("show", ONE),
        json.loads(case.said("export", ONE, "--format", "json")),
    ):
        seams = [one["seams"] for one in document["messages"] if "seams" in one]
        assert (typed(document["messages"]), seams) == (ASKED, [[why, "loaded"]])
        assert (document["total"], document["is_whole"]) == (len(document["messages"]), True)


def test_what_a_resume_loads_stays_what_it_was(torn: tuple[Case, str]) -> None:
    """The library's conversation, `show --api` and --no-whole: the last tree only, and nothing about seams."""
    case, _ = torn
    session = Home(case.home).session(ONE)
    loaded = case.document("show", ONE, "--no-whole")
    api = json.dumps(case.document("show", ONE, "--api")["messages"])
    assert len(session.conversation().messages) == loaded["total"]
    assert typed(loaded["messages"]) == ASKED[1:]
    assert loaded["is_whole"] is False
    assert not any("seams" in one for one in loaded["messages"])
    assert "Ask two" in api
    assert "Ask one" not in api


def test_the_tree_says_where_the_story_goes_on(torn: tuple[Case, str]) -> None:
    """The end of the first tree is no leaf that was left."""
    case, _ = torn
    text = case.said("show", ONE, "--tree")
    assert "branches 1," in text
    assert "goes on in another tree" in text or "compacted" in text


def test_a_walk_over_messages_holds_all_of_it(torn: tuple[Case, str]) -> None:
    """``Session.messages`` has what compactions hide, and what other trees of the log do."""
    case, _ = torn
    messages = Home(case.home).session(ONE).messages()
    assert [one.text for one in messages if one.text.startswith("Ask")] == ASKED


def test_the_page_shows_chapters_and_counts_both(torn: tuple[Case, str]) -> None:
    """Whole: all prompts, a chapter where the second tree begins. The head: what is loaded, and how much more there is."""
    case, why = torn
    with Browser(served(case.home, case.data)) as browser:
        path = f"/api/sessions/{ONE}"
        messages = browser.get(f"{path}/messages?whole=true")["messages"]
        overview = browser.get(f"{path}/map?whole=true")
        head = browser.get(path)
        place = browser.get(f"{path}/position?uuid={uuid_of(1)}&whole=true")
        branches = browser.get(f"{path}/branches")["branches"]
    assert typed(messages) == [one["text"] for one in overview["prompts"]] == ASKED
    assert overview["chapters"] == [{"index": 0, "seams": []}, {"index": 2, "seams": [why, "loaded"]}]
    assert (head["messages"], head["hidden"]) == (len(messages) - 2, 2)
    assert (place["index"], place["view"]["branch"]) == (0, None)
    assert ([one["leaf"] for one in branches], len(head["branches"])) == ([uuid_of(32)], 1)


def test_find_knows_the_place_of_what_the_client_would_not_load(torn: tuple[Case, str]) -> None:
    """A hit in the first tree is one of the whole story, not one elsewhere."""
    case, _ = torn
    with Browser(served(case.home, case.data)) as browser:
        hits = browser.get(f"/api/sessions/{ONE}/hits?whole=true&q=Answer")
    assert (min(one["index"] for one in hits["hits"]), hits["elsewhere"]) == (1, 0)


def test_a_compaction_that_names_its_last_line_is_no_gap(tmp_path: Path) -> None:
    """It is a chapter as ever; the line before it says that a resume would load it."""
    put(tmp_path / "home", ONE, [*BEGUN, cut(17, 2), summary(18, 17), prompt(20, 18, "Ask two"), *GOES_ON])
    document = Case(tmp_path / "home", tmp_path).document("show", ONE)
    seams = {one["uuid"]: one["seams"] for one in document["messages"] if "seams" in one}
    assert (typed(document["messages"]), seams) == (ASKED, {uuid_of(17): ["loaded"]})


def test_a_parent_that_the_client_finds_again_is_no_gap(tmp_path: Path) -> None:
    """Where the client itself joins a line to one a few seconds older, a resume loads all, and no line is needed."""
    put(tmp_path / "home", ONE, [*BEGUN, prompt(5, GONE, "Ask two"), reply(6, 5, said("Answer two"))])
    case = Case(tmp_path / "home", tmp_path)
    whole, loaded = case.document("show", ONE), case.document("show", ONE, "--no-whole")
    assert whole["messages"] == loaded["messages"]
    assert typed(whole["messages"]) == ASKED[:2]


def test_what_was_taken_back_stays_a_branch_of_its_chapter(tmp_path: Path) -> None:
    """A rewind before the tear, and a prompt without an answer after it: branches that leave the whole story."""
    talk = [
        *BEGUN,
        prompt(3, 2, "Ask in vain"),
        reply(4, 3, said("Answer in vain")),
        prompt(5, 2, "Ask again"),
        reply(6, 5, said("Answer again")),
        prompt(20, None, "Ask two"),
        prompt(29, 20, "Ask too soon"),
        *GOES_ON,
    ]
    put(tmp_path / "home", ONE, talk)
    case = Case(tmp_path / "home", tmp_path)
    assert typed(case.document("show", ONE)["messages"]) == ["Ask one", "Ask again", "Ask two", "Ask three"]
    with Browser(served(case.home, case.data)) as browser:
        branches = browser.get(f"/api/sessions/{ONE}/branches")["branches"]
    told = {one["text"]: (one["from_text"], one["from_index"], one["length"]) for one in branches[1:]}
    assert told == {"Ask in vain": ("Answer one", 1, 2), "Ask too soon": ("Ask two", 4, 1)}
    every = case.said("show", ONE, "--all-branches")
    assert all(one in every for one in ("Ask in vain", "Ask too soon", "Ask again", "Ask three"))


def test_children_before_their_parents_make_no_circle(tmp_path: Path) -> None:
    """Trees whose lines are mixed up, and a circle, are told to their end, each line once."""
    talk = [
        reply(50, 40, said("Answer four")),
        *BEGUN,
        prompt(40, 50, "Ask in a circle"),
        prompt(21, 20, "Ask below"),
        prompt(20, None, "Ask two"),
        *GOES_ON,
    ]
    put(tmp_path / "home", ONE, talk)
    case = Case(tmp_path / "home", tmp_path)
    document = case.document("show", ONE, "--all-branches")
    shown = [one["uuid"] for one in document["messages"]]
    assert sorted(shown) == sorted(one["uuid"] for one in talk)


def test_a_log_of_many_trees_takes_no_longer_than_its_length(tmp_path: Path) -> None:
    """Twenty thousand roots, whose children stand before them, are put in order in one pass."""
    roots = 20_000
    talk = [
        line
        for number in range(1, 2 * roots, 2)
        for line in (reply(number + 1, number, said("A")), prompt(number, None, "Ask"))
    ]
    for line in talk:
        line["timestamp"] = "2026-11-15T10:00:00.000Z"
    put(tmp_path / "home", ONE, talk)
    assert len(whole_story(Home(tmp_path / "home").session(ONE)).nodes) >= roots


def typed_lines(log: Path) -> Iterator[str]:
    """The ids of what a person typed, as the lines themselves say: no results, notes, summaries, commands."""
    for line in log.read_bytes().split(b"\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        message = entry.get("message") if isinstance(entry, dict) else None
        if (
            not isinstance(message, dict)
            or entry.get("type") != "user"
            or not isinstance(entry.get("uuid"), str)
        ):
            continue
        content = message.get("content")
        texts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
        first = texts[0] if texts else None
        text = first.get("text", "") if isinstance(first, dict) else first
        is_other = any(isinstance(one, dict) and one.get("type") == "tool_result" for one in texts)
        is_other |= any(entry.get(mark) for mark in ("isMeta", "isSidechain", "isCompactSummary"))
        if isinstance(text, str) and text[:1] not in ("", "<") and not is_other:
            yield entry["uuid"]


def test_no_prompt_of_a_real_session_is_missing(transcripts: Path, tmp_path: Path) -> None:
    """Each stands in the whole story or on a branch that leaves it, in documents and on the page."""
    home, case = Home(tmp_path), Case(tmp_path, tmp_path)
    sessions, prompts, missing = 0, 0, []
    for folder in ("samples", "corpus", "dialects"):
        for log in sorted((transcripts / folder).rglob("*.jsonl")):
            if log.name.startswith("agent-") or "subagents" in log.parts:
                continue
            session = PageSession(home.session(str(log)))
            try:
                session.conversation()
            except NotFound:
                continue
            asked = set(typed_lines(log))
            sessions, prompts = sessions + 1, prompts + len(asked)
            on_page = set(talk_of(session, ConversationView(whole=True)).places)
            for branch in branches_document(session).branches[1:]:
                assert branch.from_uuid is not None, log
                on_page |= talk_of(session, ConversationView(branch=branch.leaf, whole=True)).places.keys()
            shown = (
                case.said("show", str(log), "--all-branches", "--json")
                if asked - on_page or len(asked) > 1
                else ""
            )
            listed = {one["uuid"] for one in json.loads(shown)["messages"]} if shown else on_page
            missing += [(str(log), uuid) for uuid in asked if uuid not in on_page or uuid not in listed]
    assert not missing
    assert sessions > 100
    assert prompts > 300
