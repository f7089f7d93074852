"""The Claude Agent SDK's own reader beside ours: where they agree, and where the client is on our side.

Both read the same files. The SDK is the vendor's, but it is not the client: the
differences below were checked against client 2.1.325 (tests/data, tests/oracle).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.ask.sessions.session import Session
from recollect.change import label
from recollect.errors import NotFound
from tests.made_corpora import make
from tests.talk import assistant, log_at, mark, user

SESSION = "3f2a9c1e-0000-4000-8000-000000000001"
# A compaction kept some lines in sight; the SDK does not look for those.
PRESERVED = {"1cafb46a-67c9-43ec-b93a-12e88f9cb95c", "a9e213c4", "cf32552c"}


def sdk() -> Any:
    """The SDK: imported where it is used, since it takes every process that collects these tests a second."""
    return pytest.importorskip("claude_agent_sdk", reason="the Claude Agent SDK is not installed (extra sdk)")


def sdk_ids(session: Session) -> list[str]:
    """The messages the SDK sees in a session."""
    return [message.uuid for message in sdk().get_session_messages(session.id)]


def our_ids(session: Session, *, with_meta: bool) -> list[str]:
    """The messages we see, with or without those the client made in the user's name."""
    try:
        nodes = [node for node in session.conversation().nodes if node.is_message]
    except NotFound:
        return []
    entries = [(node.uuid, session.load(node)) for node in nodes]
    return [uuid for uuid, entry in entries if with_meta or entry is None or not entry.fields().get("isMeta")]


def test_both_readers_see_the_same_messages_in_all_samples(
    transcripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for meta lines, which the SDK hides and the client sends, and lines a compaction preserved."""
    differing, seen = set(), 0
    for home in sorted((transcripts / "samples" / "claude-home").glob("*/.claude")):
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
        for session in Home(home).sessions():
            seen += 1
            if sdk_ids(session) != our_ids(session, with_meta=False):
                differing.add(session.id[:8])

    assert seen == 239
    assert {name[:8] for name in PRESERVED} == differing


def test_both_readers_see_the_same_messages_in_a_made_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forks, rewinds, compactions, sub-agents, damage."""
    home = make(tmp_path / "home", 1).home
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    sessions = list(Home(home).sessions())
    assert [sdk_ids(session) for session in sessions] == [
        our_ids(session, with_meta=False) for session in sessions
    ]


def test_the_sdk_does_not_know_which_branch_was_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ``last-prompt`` line names the first branch: the client and we take it, the SDK takes the latest."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    lines = [
        user("u", None, 0, "Q"),
        assistant("a", "u", 1, "First"),
        assistant("b", "u", 2, "Second"),
        mark("a"),
    ]
    log_at(tmp_path / "projects" / "-srv-app" / f"{SESSION}.jsonl", lines)
    session = Home(tmp_path).session(SESSION)

    assert (["u", "a"], ["u", "b"]) == (our_ids(session, with_meta=True), sdk_ids(session))


def test_the_sdk_lists_our_titles_and_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``rename`` and ``tag`` append is found by the SDK's list, which looks at the first bytes of a line."""
    home, data = tmp_path / "home", tmp_path / "data"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    lines = [user("u", None, 0, "Q", cwd=str(tmp_path)), assistant("a", "u", 1, "A", cwd=str(tmp_path))]
    log_at(home / "projects" / "-srv-app" / f"{SESSION}.jsonl", lines)
    session = Home(home).session(SESSION)
    label.apply(label.titled(session, "A better title"), data)
    label.apply(label.tagged(session, "urgent"), data)
    listed = sdk().get_session_info(SESSION)

    assert listed is not None
    assert ("A better title", "urgent") == (listed.custom_title, listed.tag)
