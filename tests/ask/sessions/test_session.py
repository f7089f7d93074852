"""A session as a library user reads it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.ask.sessions.session import Session
from recollect.errors import Ambiguous, NotFound
from recollect.model.lines.blocks import TextBlock, ToolUseBlock
from recollect.sample import sample_home
from tests.talk import assistant, call, link, log_at, result, user

FIRST = "3f2a9c1e-0000-4000-8000-000000000001"
SECOND = "3f2b9c1e-0000-4000-8000-000000000002"
TALK = [
    user("u1", None, 0, "Q1"),
    assistant("a1", "u1", 1, [{"type": "thinking", "thinking": "hm", "signature": "s"}], "m1"),
    assistant("a2", "a1", 2, "A1", "m1"),
    assistant("a3", "a2", 3, [call("t1")], "m1"),
    user("r1", "a3", 4, [result("t1")]),
    assistant("a4", "r1", 5, "A2"),
]


def session_with(root: Path, lines: list[dict[str, Any]], name: str = FIRST) -> Session:
    """A session with these lines in a home of its own."""
    log_at(root / "projects" / "-srv-app" / f"{name}.jsonl", lines)
    return Home(root).session(name)


def test_lines_of_one_answer_are_one_message(tmp_path: Path) -> None:
    """Four messages of six lines; blocks in order, usage of the answer, ids of first and last line."""
    messages = session_with(tmp_path, TALK).conversation().messages

    assert [("user", 1), ("assistant", 3), ("user", 1), ("assistant", 1)] == [
        (message.role, len(message.blocks)) for message in messages
    ]
    answer = messages[1]
    assert ("a3", "u1", "msg", 1) == (
        answer.uuid,
        answer.parent_uuid,
        "msg",
        answer.usage.output_tokens if answer.usage else None,
    )
    assert isinstance(answer.blocks[1], TextBlock)
    assert isinstance(answer.blocks[2], ToolUseBlock)


def test_branches_are_listed_shown_and_compared(tmp_path: Path) -> None:
    """The abandoned branch can be read; the difference starts after the last common entry."""
    lines = [
        *TALK,
        user("u2", "a4", 6, "Q2"),
        assistant("a5", "u2", 7, "A3"),
        user("v1", "a4", 8, "Other"),
        assistant("w1", "v1", 9, "W"),
    ]
    session = session_with(tmp_path, lines)
    active, other = session.branches()

    assert ("w1", "a4", 2, True) == (active.leaf, active.forked_at, active.length, active.active)
    assert ("a5", "a4", 2, False) == (other.leaf, other.forked_at, other.length, other.active)
    assert "A3" == session.conversation("a5").messages[-1].text
    difference = session.difference("w1", "a5")
    assert (6, "a4") == (difference.common, difference.last_common)
    assert ["Other", "W"] == [message.text for message in difference.only_left]
    assert ["Q2", "A3"] == [message.text for message in difference.only_right]


def test_a_compaction_hides_and_can_be_undone_for_reading(tmp_path: Path) -> None:
    """The conversation starts at the summary; as before and whole show what was hidden."""
    lines = [
        *TALK,
        link(
            "b1",
            None,
            6,
            type="system",
            subtype="compact_boundary",
            content="Compacted",
            logicalParentUuid="a4",
            compactMetadata={"trigger": "auto", "preTokens": 190_000},
        ),
        user("s1", "b1", 7, "SUMMARY", isCompactSummary=True),
        assistant("a5", "s1", 8, "A3"),
    ]
    session = session_with(tmp_path, lines)
    conversation = session.conversation()
    [cut] = session.compactions()

    assert ["Compacted", "SUMMARY", "A3"] == [message.text for message in conversation.messages]
    assert [False, True, False] == [message.is_summary for message in conversation.messages]
    assert ("auto", 190_000, "a4") == (cut.trigger, cut.pre_tokens, cut.before)
    assert cut.before is not None
    assert 4 == len(session.conversation(cut.before).messages)


def test_titles_of_older_clients_are_found_in_other_logs(tmp_path: Path) -> None:
    """A summary names the leaf it stands for, in whatever file of the project it lies."""
    other = {"type": "summary", "summary": "Old title", "leafUuid": "a4"}
    log_at(
        tmp_path / "projects" / "-srv-app" / f"{SECOND}.jsonl", [other, {**other, "leafUuid": "elsewhere"}]
    )
    session = session_with(tmp_path, TALK)

    assert ["Old title"] == session.summaries()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "empty"),
        ([{"type": "tag", "tag": "x"}], "metadata"),
        ([user("s", None, 0, "S", isSidechain=True)], "sub-agent"),
        ([{**TALK[0], "timestamp": "?"}], "time"),
    ],
)
def test_a_session_the_client_would_not_find_says_why(
    tmp_path: Path, lines: list[dict[str, Any]], reason: str
) -> None:
    """NotFound with the reason, exit code 3."""
    session = session_with(tmp_path, lines)

    with pytest.raises(NotFound, match=reason) as refused:
        session.conversation()
    assert 3 == refused.value.exit_code


def test_sessions_are_found_by_what_people_remember(tmp_path: Path) -> None:
    """Id, start of an id, title, part of a title, path, @last; several hits are listed."""
    log_at(tmp_path / "projects" / "-srv-app" / f"{FIRST}.jsonl", TALK)
    title = {"type": "custom-title", "customTitle": "Fix the Bug", "sessionId": SECOND}
    path = log_at(tmp_path / "projects" / "-srv-app" / f"{SECOND}.jsonl", [*TALK, title])
    home = Home(tmp_path)

    for name in (SECOND, "3f2b", "fix the bug", "the Bug", str(path)):
        assert SECOND == home.session(name).id
    assert {"/srv/app"} == {session.cwd for session in home.sessions(project="app")}
    assert [] == list(home.sessions(project="/srv/ap"))
    with pytest.raises(Ambiguous) as several:
        home.session("3f2")
    assert 2 == len(several.value.matches)
    with pytest.raises(NotFound):
        home.session("nothing like it")


def test_spending_counts_each_response_once_with_its_agents() -> None:
    """The sample's review: 2 x Opus in the session, 2 x Haiku in the sub-agent, in nano-dollars by hand."""
    session = Home(sample_home()).session("Review the order")
    opus = (2_400 + 140) * 5_000 + (120 + 66) * 25_000 + (12_000 + 900) * 10_000 + 12_000 * 500
    haiku = (900 + 60) * 1_000 + (80 + 25) * 5_000 + 4_000 * 1_250 + 4_000 * 100

    assert (opus + haiku) * 1_000 == session.spending().pico_usd
    assert opus * 1_000 == session.spending(with_agents=False).pico_usd
    assert Decimal("0.159235") == session.spending().usd


def test_calls_and_prompts_are_part_of_the_library(tmp_path: Path) -> None:
    """A session tells its tool calls, a home what was typed, newest first."""
    session = session_with(tmp_path, TALK)
    history = b'{"display":"first","timestamp":1,"project":"/a"}\n{"display":"second","timestamp":2,"project":"/a"}\n'
    (tmp_path / "history.jsonl").write_bytes(history)

    assert [("t1", "ok", "r1")] == [
        (one.id, str(one.status), one.result_uuid) for one in session.tool_calls()
    ]
    assert ["second", "first"] == [prompt.display for prompt in Home(tmp_path).prompts()]
    assert [] == session.influences()


def test_a_log_replaced_under_a_conversation_gives_nothing_instead_of_something_else(tmp_path: Path) -> None:
    """The nodes are the old log's; an entry of the new one is not passed off as theirs."""
    session = session_with(tmp_path, TALK)
    conversation = session.conversation()
    log_at(session.path, [user("other", None, 0, "Somebody else's words")])

    assert "" == conversation.messages[0].text


@pytest.mark.parametrize("name", ["", "  ", "~nobody-here/x", "x" * 5000 + ".jsonl", "a/\0"])
def test_impossible_names_are_not_found(tmp_path: Path, name: str) -> None:
    """A typed error, whatever a user types."""
    session_with(tmp_path, [user("u", None, 0, [])])

    with pytest.raises(NotFound):
        Home(tmp_path).session(name)


def test_one_unreadable_neighbour_hides_nothing(tmp_path: Path) -> None:
    """A directory and a dangling link named like logs stand in the project; titles are still found."""
    session = session_with(tmp_path, TALK)
    (session.path.parent / "x.jsonl").mkdir()
    (session.path.parent / f"{SECOND}.jsonl").symlink_to(tmp_path / "nowhere")

    assert [] == session.summaries()
    assert FIRST == Home(tmp_path).session("Q1").id
