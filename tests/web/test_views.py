"""Other ways to see a conversation: behind a compaction, on another branch, and where a line is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.small_home import ONE, link, outcome, prompt, put, reply, said, uuid_of
from tests.web.pages import Browser, served


def _boundary(number: int, before: int) -> dict[str, Any]:
    return link(
        number,
        None,
        type="system",
        subtype="compact_boundary",
        content="Conversation compacted",
        logicalParentUuid=uuid_of(before),
        compactMetadata={"trigger": "auto", "preTokens": 155_000},
    )


def _summary(number: int, after: int) -> dict[str, Any]:
    return prompt(number, after, "This session is being continued", isCompactSummary=True)


@pytest.fixture
def compacted(home: Path, data: Path) -> Any:
    """Four messages, a compaction with its summary, two messages; and a branch that was given up at the second."""
    talk = [
        prompt(1, None, "Q1"),
        reply(2, 1, said("A1"), answer="a"),
        prompt(3, 2, "Given up"),
        prompt(4, 2, "Q2"),
        reply(5, 4, said("A2"), answer="b"),
        _boundary(6, 5),
        _summary(7, 6),
        prompt(8, 7, "Q3"),
        reply(9, 8, said("A3"), answer="c"),
    ]
    put(home, ONE, talk)
    with Browser(served(home, data)) as one:
        yield one


def test_a_compaction_can_be_looked_behind(compacted: Browser) -> None:
    """As loaded: boundary, summary, two messages. Whole: all that led there. Before the first: the four of then."""
    head = compacted.get(f"/api/sessions/{ONE}")
    (cut,) = head["compactions"]
    assert (cut["number"], cut["trigger"], cut["pre_tokens"]) == (1, "auto", 155_000)
    assert (head["messages"], head["hidden"]) == (4, 4)
    path = f"/api/sessions/{ONE}/messages"
    loaded = compacted.get(path)["messages"]
    assert ["boundary", "summary", "prompt", "answer"] == [one["kind"] for one in loaded]
    assert loaded[0]["compaction"] == 1
    assert compacted.get(f"/api/sessions/{ONE}/map?whole=true")["kinds"] == "papabspa"
    before = compacted.get(f"{path}?before=1")["messages"]
    assert [uuid_of(number) for number in (1, 2, 4, 5)] == [one["uuid"] for one in before]


@pytest.mark.parametrize(
    ("number", "index", "view"),
    [
        (8, 2, {}),
        (4, 2, {"whole": True}),
        (3, 2, {"whole": True, "branch": uuid_of(3)}),
    ],
    ids=["in what is loaded", "behind the compaction", "on another branch"],
)
def test_a_line_is_found_in_the_view_that_shows_it(
    compacted: Browser, number: int, index: int, view: dict[str, object]
) -> None:
    """By its id or its place in the log, and that view has it at that position."""
    nothing = {"branch": None, "before": None, "agent": None, "whole": False}
    found = compacted.get(f"/api/sessions/{ONE}/position?uuid={uuid_of(number)}")
    assert found == {"index": index, "uuid": uuid_of(number), "view": {**nothing, **view}}
    query = "&".join(f"{name}={str(value).lower()}" for name, value in view.items())
    (message,) = compacted.get(f"/api/sessions/{ONE}/messages?from={index}&count=1&{query}")["messages"]
    assert message["uuid"] == uuid_of(number)
    place = compacted.get(f"/api/sessions/{ONE}/position?offset={message['lines'][0]['offset']}")
    assert place["uuid"] == uuid_of(number)


def test_turns_begin_where_somebody_typed(compacted: Browser) -> None:
    """Three prompts are three turns over the whole, each costs 0.00033 dollars; a compaction starts one that costs nothing."""
    costs = compacted.get(f"/api/sessions/{ONE}/costs?whole=true")
    assert [(0, 2), (2, 4), (4, 6), (6, 8)] == [(one["from"], one["to"]) for one in costs["turns"]]
    assert ["0.00033", "0.00033", "0", "0.00033"] == [one["cost_usd"] for one in costs["turns"]]
    assert (costs["cost_usd"], costs["session"]["cost_usd"]) == ("0.00099", "0.00099")


def test_what_has_no_price_is_not_free(home: Path, data: Path) -> None:
    """No amount, and the model by name: in the list, in the head, at the message, in its turn."""
    answer = reply(2, 1, said("A"), answer="x")
    answer["message"]["model"] = "someone-elses-model"
    put(home, ONE, [prompt(1, None, "Q"), answer])
    with Browser(served(home, data)) as browser:
        row = browser.get("/api/sessions?model=someone")["sessions"][0]
        message = browser.get(f"/api/sessions/{ONE}/messages")["messages"][1]
        (turn,) = browser.get(f"/api/sessions/{ONE}/costs")["turns"]
        for one in (row, browser.get(f"/api/sessions/{ONE}"), message["cost"], turn):
            assert (one["cost_usd"], one["unpriced"]) == (None, ["someone-elses-model"])


def test_what_the_client_typed_itself_begins_no_turn(home: Path, data: Path) -> None:
    """A line marked as meta is another kind of message."""
    put(home, ONE, [prompt(1, None, "Q"), prompt(2, 1, "Caveat", isMeta=True), reply(3, 2, said("A"))])
    with Browser(served(home, data)) as browser:
        messages = browser.get(f"/api/sessions/{ONE}/messages")["messages"]
        assert [("prompt", 0), ("other", 0), ("answer", 0)] == [
            (one["kind"], one["turn"]) for one in messages
        ]
        assert browser.get(f"/api/sessions/{ONE}/map")["prompts"] == [
            {"index": 0, "text": "Q", "uuid": uuid_of(1)}
        ]


def test_slash_commands_and_notes_are_no_prompts(home: Path, data: Path) -> None:
    """What the client writes in the user's name starts a turn only where the model answered it, and reads as typed."""
    slash = "<command-name>/review</command-name>\n<command-args>the diff</command-args>"
    talk = [
        prompt(1, None, "<command-name>/clear</command-name>"),
        prompt(2, 1, "<local-command-stdout>cleared</local-command-stdout>"),
        prompt(3, 2, "Typed"),
        prompt(4, 3, "[Request interrupted by user]"),
        prompt(5, 4, slash),
        prompt(6, 5, "Review it", isMeta=True),
        reply(7, 6, said("Reviewed")),
    ]
    put(home, ONE, talk)
    with Browser(served(home, data)) as browser:
        seen = browser.get(f"/api/sessions/{ONE}/map")
        assert seen["kinds"] == "copocoa"
        assert seen["turns"] == [2, 4]
        assert [one["text"] for one in seen["prompts"]] == ["Typed", "/review the diff"]


def test_a_turn_tells_its_work(home: Path, data: Path) -> None:
    """Calls, failures, edits and their lines are counted once, by turn; a call has the same lines."""
    calls = [
        {
            "type": "tool_use",
            "id": "a",
            "name": "Edit",
            "input": {"old_string": "x\ny", "new_string": "x\nz\nw"},
        },
        {"type": "tool_use", "id": "b", "name": "Read", "input": {"file_path": "/a"}},
    ]
    failed = outcome(4, 3, "b", "no such file")
    failed["message"]["content"][0]["is_error"] = True
    talk = [
        prompt(1, None, "Q"),
        reply(2, 1, *calls),
        outcome(3, 2, "a", "ok"),
        failed,
        reply(5, 4, said("A")),
    ]
    put(home, ONE, [*talk, prompt(6, 5, "R"), reply(7, 6, said("B"))])
    with Browser(served(home, data)) as browser:
        turns = browser.get(f"/api/sessions/{ONE}/costs")["turns"]
        names = ("calls", "failed", "edits", "added", "removed")
        assert [[turn[name] for name in names] for turn in turns] == [[2, 1, 1, 2, 1], [0, 0, 0, 0, 0]]
        made = browser.get(f"/api/sessions/{ONE}/messages?from=1&count=1")["messages"][0]["calls"]
        assert (made["a"]["added"], made["a"]["removed"], made["b"]["added"]) == (2, 1, None)


def test_hits_have_places_in_the_view(compacted: Browser) -> None:
    """Each match is where the view shows it; what it does not show is counted; the matched text is there to be marked."""
    found = compacted.get(f"/api/sessions/{ONE}/hits?q=Q2&whole=true")
    assert [(one["index"], one["uuid"]) for one in found["hits"]] == [(2, uuid_of(4))]
    assert found["texts"] == [{"text": "q2", "is_word": True}]
    loaded = compacted.get(f"/api/sessions/{ONE}/hits?q=Q2")
    assert (loaded["hits"], loaded["elsewhere"]) == ([], 1)


def test_a_search_stays_within_branch_model_and_repository(home: Path, data: Path, tmp_path: Path) -> None:
    """Only sessions that fit are searched, also where two directories are one repository."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    for number, (name, branch) in enumerate((("repo/a", "main"), ("repo/b", "topic"), ("other", "main"))):
        session = f"{number}{ONE[1:]}"
        talk = [prompt(1 + number * 10, None, f"Needle {number}", gitBranch=branch)]
        put(
            home,
            session,
            [*talk, reply(2 + number * 10, 1 + number * 10, said("A"))],
            cwd=str(tmp_path / name),
        )
    with Browser(served(home, data)) as browser:

        def sessions(query: str) -> set[str]:
            found = browser.get(f"/api/search?q=needle{query}")
            return {group["hits"][0]["snippet"]["text"][-1] for group in found["groups"]}

        assert sessions("") == {"0", "1", "2"}
        assert sessions("&branch=main") == {"0", "2"}
        assert sessions(f"&repository={tmp_path / 'repo'}") == {"0", "1"}
        assert sessions("&model=sonnet&branch=topic") == {"1"}
        assert sessions("&model=opus") == set()


LIST_FILTERS = ("starred=true", "starred=false", "tag=keep", "tag=*", "min_cost=0.01", "max_cost=0.01")
MORE_FILTERS = (
    "damaged=true",
    "expiring=false",
    "live=false",
    "archived=false",
    "project=other",
    "branch=main",
)


def test_every_filter_of_the_list_selects_the_same_sessions_in_a_search(
    home: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    for number, name in enumerate(("repo/a", "repo/b", "other")):
        session, at = f"{number}{ONE[1:]}", 1 + number * 10
        answer = reply(at + 1, at, said("A needle"), answer=session, gitBranch="main")
        answer["message"]["usage"]["input_tokens"] = 100_000 * number  # dollars tell them apart
        tag = [{"type": "tag", "tag": "keep", "sessionId": session}] if number == 1 else []
        put(home, session, [prompt(at, None, "Needle"), answer, *tag], cwd=str(tmp_path / name))
    with Browser(served(home, data)) as browser:
        browser.post(f"/api/sessions/2{ONE[1:]}/star", on=True)
        sizes: dict[int, str] = {}
        for one in (*LIST_FILTERS, *MORE_FILTERS, f"repository={tmp_path / 'repo'}"):
            listed = {row["id"] for row in browser.get(f"/api/sessions?text=needle&{one}")["sessions"]}
            groups = browser.get(f"/api/search?q=needle&{one}")["groups"]
            assert {group["session"] for group in groups} == listed, one
            sizes.setdefault(len(listed), one)
        assert sizes.keys() == {0, 1, 2, 3}
        assert len(browser.get("/api/search?q=needle&min_cost=0.4")["groups"]) == 1


def test_prompts_that_the_map_leaves_out_are_paged(compacted: Browser) -> None:
    path = f"/api/sessions/{ONE}"
    every = compacted.get(f"{path}/map?whole=true")["prompts"]
    pages = [compacted.get(f"{path}/prompts?whole=true&from={start}&count=2") for start in (0, 2)]
    assert [one for page in pages for one in page["prompts"]] == every
    assert [page["total"] for page in pages] == [len(every)] * 2
    assert len(every) == 3
