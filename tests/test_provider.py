"""The provider: a framework's messages through the clients' format and back."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from recollect.ask.library import Home
from recollect.errors import IdConflict, InvalidId, NotFound, UsageError
from recollect.model.lines.blocks import TextBlock, Tokens, ToolResultBlock, ToolUseBlock, Usage
from recollect.provider import ChatMessage, ClaudeStorageProvider
from recollect.store.store import Store

SONNET = "claude-sonnet-4-5-20250929"
SESSION = "3f2a9c1e-0000-4000-8000-000000000001"
OTHER = "3f2a9c1e-0000-4000-8000-000000000002"
PROJECT = "/srv/app"
START = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
Result = TypeVar("Result")


class Clock:
    """A clock that goes on by a minute each time it is asked."""

    def __init__(self) -> None:
        self.now = START - dt.timedelta(minutes=1)

    def __call__(self) -> dt.datetime:
        self.now += dt.timedelta(minutes=1)
        return self.now


@pytest.fixture
def provider(tmp_path: Path) -> ClaudeStorageProvider:
    """A provider over a directory of its own, which does not exist yet."""
    return ClaudeStorageProvider(tmp_path / "store", clock=Clock())


def run(awaited: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine returns."""
    return asyncio.run(awaited)


def user(text: str, **fields: Any) -> ChatMessage:
    """A prompt."""
    return ChatMessage(role="user", content=text, **fields)


def answer(text: str, output: int = 0, **fields: Any) -> ChatMessage:
    """An answer of Sonnet that used 100 tokens of input and ``output`` of output."""
    usage = Usage(input_tokens=100, output_tokens=output)
    return ChatMessage(role="assistant", content=text, model=SONNET, usage=usage, **fields)


def log(
    provider: ClaudeStorageProvider, *messages: ChatMessage, session: str = SESSION, agent: str | None = None
) -> list[str]:
    """Log messages one after another; their ids."""
    return [run(provider.log_message(PROJECT, message, session, agent)) for message in messages]


def texts(messages: list[ChatMessage]) -> list[str]:
    """What they say."""
    return [message.text for message in messages]


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log as plain values."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


# ---- the call shapes of a storage provider ----------------------------------------------------------------------------


def test_a_sub_agent_shares_the_session_and_has_its_own_log_and_todos(
    provider: ClaudeStorageProvider, tmp_path: Path
) -> None:
    """Same sessionId, marked as sidechain, a chain of its own; both todo files start as ``[]``."""
    log(provider, user("Look there"))
    log(provider, user("Look"), answer("Seen"), agent="a753668")
    project = tmp_path / "store" / "projects" / "-srv-app"
    written = lines(project / SESSION / "subagents" / "agent-a753668.jsonl")

    assert [(SESSION, "a753668", True)] * 2 == [
        (line["sessionId"], line["agentId"], line["isSidechain"]) for line in written
    ]
    assert [None, written[0]["uuid"]] == [line["parentUuid"] for line in written]
    todos = {path.name: path.read_bytes() for path in (tmp_path / "store" / "todos").iterdir()}
    assert {f"{SESSION}-agent-{SESSION}.json": b"[]", f"{SESSION}-agent-a753668.json": b"[]"} == todos
    assert ["Look there"] == texts(run(provider.get_session_messages(PROJECT, SESSION)))
    of_agent = run(provider.get_session_messages(PROJECT, SESSION, agent_id="a753668"))
    assert [("Look", "a753668"), ("Seen", "a753668")] == [(one.text, one.agent_id) for one in of_agent]
    assert [["a753668"]] == [session["agents"] for session in run(provider.get_sessions(PROJECT))]


# ---- messages in and out ------------------------------------------------------------------------------------


def test_a_message_of_many_blocks_comes_back_as_one(provider: ClaudeStorageProvider) -> None:
    """Blocks are laid out on lines of their own, as the client does, and read as one message again."""
    asked = ChatMessage(role="user", content=[{"type": "text", "text": "A"}, {"type": "text", "text": "B"}])
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "/x"}}
    said = ChatMessage(role="assistant", content=[{"type": "text", "text": "C"}, call], model=SONNET)
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "found"}
    ids = log(provider, asked, said, ChatMessage(role="user", content=[result]))
    messages = run(provider.get_session_messages(PROJECT, SESSION))

    assert ids == [message.uuid for message in messages]
    assert (TextBlock("A"), TextBlock("B")) == messages[0].content
    assert [TextBlock, ToolUseBlock] == [type(block) for block in messages[1].content]
    (block,) = messages[2].blocks
    assert isinstance(block, ToolResultBlock)
    assert ("t1", "found") == (block.tool_use_id, block.text())


def test_everything_said_about_an_answer_comes_back(provider: ClaudeStorageProvider) -> None:
    """Ids, time, model, usage and why it stopped."""
    at = dt.datetime(2026, 1, 31, 8, 0, 0, 123_000, dt.UTC)
    name = str(uuid.UUID(int=7))
    given = answer(
        "Hi", 5, uuid=name, at=at, message_id="msg_1", request_id="req_1", stop_reason="max_tokens"
    )
    log(provider, user("Hello", at=at - dt.timedelta(seconds=1)), given)
    message = run(provider.get_message(PROJECT, SESSION, name))

    assert ("Hi", at, SONNET, "msg_1", "req_1", "max_tokens", SESSION) == (
        message.content,
        message.at,
        message.model,
        message.message_id,
        message.request_id,
        message.stop_reason,
        message.session_id,
    )
    assert message.usage is not None
    assert Tokens(input=100, output=5) == message.usage.tokens()


def test_a_system_message_is_a_line_the_client_knows(provider: ClaudeStorageProvider, tmp_path: Path) -> None:
    """Type system, a note with its text in ``content``, linked like every other."""
    first, note, _ = log(
        provider, user("a"), ChatMessage(role="system", content="Now in plan mode"), answer("b")
    )
    written = lines(next((tmp_path / "store" / "projects").rglob("*.jsonl")))

    assert [None, first, note] == [line["parentUuid"] for line in written]
    assert ("system", "informational", "Now in plan mode") == tuple(
        written[1][name] for name in ("type", "subtype", "content")
    )
    messages = run(provider.get_session_messages(PROJECT, SESSION))
    assert [("user", "a"), ("system", "Now in plan mode"), ("assistant", "b")] == [
        (message.role, message.text) for message in messages
    ]


def test_a_repeat_under_the_same_uuid_is_stored_once(tmp_path: Path) -> None:
    """Also from another provider; other words under that uuid are a conflict."""
    name = str(uuid.UUID(int=1))
    for _ in range(2):
        assert [name] == log(ClaudeStorageProvider(tmp_path), user("a", uuid=name))
    with pytest.raises(IdConflict):
        log(ClaudeStorageProvider(tmp_path), user("b", uuid=name))

    assert 1 == len(lines(next((tmp_path / "projects").rglob("*.jsonl"))))


def test_messages_logged_together_are_chained_in_the_order_of_the_calls(
    provider: ClaudeStorageProvider,
) -> None:
    """Thirty calls, none awaited before the next."""

    async def story() -> list[ChatMessage]:
        await asyncio.gather(*(provider.log_message(PROJECT, user(str(n)), SESSION) for n in range(30)))
        return await provider.get_session_messages(PROJECT, SESSION)

    assert [str(n) for n in range(30)] == texts(run(story()))


@pytest.mark.parametrize(
    "message",
    [
        ChatMessage(role="tool", content="x"),
        ChatMessage(role="user", content=""),
        ChatMessage(role="user", content=[{"type": "tool_use", "id": "t", "name": "n", "input": {}}]),
        ChatMessage(role="user", content=[{"type": "text", "text": float("nan")}]),
    ],
)
def test_what_no_client_would_load_is_refused(provider: ClaudeStorageProvider, message: ChatMessage) -> None:
    """Before anything is written."""
    with pytest.raises(UsageError):
        log(provider, message)

    assert not provider.base_dir.exists()


@pytest.mark.parametrize(("session", "agent"), [("../x", None), ("no-uuid", None), (SESSION, "../../x")])
def test_no_id_leaves_the_directory(provider: ClaudeStorageProvider, session: str, agent: str | None) -> None:
    """Names are checked before a path is made of them."""
    with pytest.raises(InvalidId):
        log(provider, user("a"), session=session, agent=agent)


# ---- questions ----------------------------------------------------------------------------------------------


def conversation(provider: ClaudeStorageProvider) -> list[str]:
    """Six messages, a minute apart: prompt, call, result, note, meta, answer."""
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
    return log(
        provider,
        user("prompt"),
        ChatMessage(role="assistant", content=[{"type": "text", "text": "wait"}, call], model=SONNET),
        ChatMessage(role="user", content=[{"type": "tool_result", "tool_use_id": "t1", "content": "r"}]),
        ChatMessage(role="system", content="note"),
        user("meta", is_meta=True),
        answer("done", 10),
    )


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["prompt", "wait", "", "note", "meta", "done"]),
        ({"limit": 2}, ["meta", "done"]),
        ({"types": ["assistant"]}, ["wait", "done"]),
        ({"types": ["assistant"], "limit": 1}, ["done"]),
        ({"skip_tools": True}, ["prompt", "wait", "note", "meta", "done"]),
        ({"skip_system": True}, ["prompt", "wait", "", "done"]),
        ({"since": START + dt.timedelta(minutes=4)}, ["meta", "done"]),
        ({"until": START + dt.timedelta(minutes=1)}, ["prompt"]),
        ({"since": dt.datetime(2026, 11, 1, 12, 1), "until": dt.datetime(2026, 11, 1, 12, 2)}, ["wait"]),  # noqa: DTZ001 - a time without a zone is the case
    ],
)
def test_messages_are_filtered_before_they_are_counted(
    provider: ClaudeStorageProvider, filters: dict[str, Any], expected: list[str]
) -> None:
    """By role, time (from, to before), without tools, without system; ``limit`` counts what is left."""
    conversation(provider)

    assert expected == texts(run(provider.get_session_messages(PROJECT, SESSION, **filters)))


def test_a_branch_is_started_by_naming_a_parent(provider: ClaudeStorageProvider) -> None:
    """The newest branch is the conversation; the other is still found by its messages."""
    first, second = log(provider, user("a"), answer("b"))
    other = log(provider, answer("c", parent_uuid=first))[0]

    assert ["a", "c"] == texts(run(provider.get_session_messages(PROJECT, SESSION)))
    assert ["a", "b"] == texts(run(provider.get_ancestry(PROJECT, SESSION, second)))
    assert ["a", "c"] == texts(run(provider.get_ancestry(PROJECT, SESSION, other)))
    assert "b" == run(provider.get_message(PROJECT, SESSION, second)).text
    with pytest.raises(NotFound):
        log(provider, user("d", parent_uuid=str(uuid.UUID(int=9))))


def test_what_is_not_there_is_not_found(provider: ClaudeStorageProvider) -> None:
    """An unknown session, message and agent each say so; an unknown project has no sessions."""
    log(provider, user("a"))
    for asked in (
        provider.get_session_messages(PROJECT, OTHER),
        provider.get_session_messages(PROJECT, SESSION, agent_id="a1"),
        provider.get_message(PROJECT, SESSION, str(uuid.UUID(int=9))),
        provider.get_statistics(PROJECT, OTHER),
        provider.fork_session(PROJECT, SESSION, str(uuid.UUID(int=9))),
    ):
        with pytest.raises(NotFound):
            run(asked)

    assert [] == run(provider.get_sessions("/srv/elsewhere"))


def test_sessions_are_listed_newest_first_with_what_a_list_needs(provider: ClaudeStorageProvider) -> None:
    """Title from the first prompt, times from the first and last entry."""
    log(provider, user("old"))
    log(provider, user("new"), answer("ok"), session=OTHER)
    sessions = run(provider.get_sessions(PROJECT))

    minutes = [dt.timedelta(minutes=n) for n in range(3)]
    assert [
        (OTHER, PROJECT, "new", START + minutes[1], START + minutes[2]),
        (SESSION, PROJECT, "old", START, START),
    ] == [
        (one["sessionId"], one["projectPath"], one["title"], one["createdAt"], one["updatedAt"])
        for one in sessions
    ]


def test_projects_that_share_a_directory_are_kept_apart(provider: ClaudeStorageProvider) -> None:
    """/srv/app and /srv-app have one key; a listing and a reset take only their own."""
    run(provider.log_message("/srv/app", user("a"), SESSION))
    run(provider.log_message("/srv-app", user("b"), OTHER))
    assert [[SESSION], [OTHER]] == [
        [one["sessionId"] for one in run(provider.get_sessions(project))]
        for project in ("/srv/app", "/srv-app")
    ]
    run(provider.reset("/srv-app"))

    assert [SESSION] == [session.id for session in Store(provider.base_dir).sessions()]


# ---- fork, statistics, reset --------------------------------------------------------------------------------


def test_a_fork_is_a_session_of_its_own_and_leaves_the_original_alone(
    provider: ClaudeStorageProvider, tmp_path: Path
) -> None:
    """Up to the message named, with the same ids, saying where it came from; it goes on by itself."""
    ids = log(provider, user("a"), answer("b"), user("c"))
    original = next((tmp_path / "store" / "projects").rglob(f"{SESSION}.jsonl"))
    before = original.read_bytes()
    fork = run(provider.fork_session(PROJECT, SESSION, ids[1], title="Try"))
    log(provider, user("d"), session=fork)

    assert before == original.read_bytes()
    copied = [line for line in lines(original.with_name(f"{fork}.jsonl")) if "forkedFrom" in line]
    assert [(fork, {"sessionId": SESSION, "messageUuid": name}) for name in ids[:2]] == [
        (line["sessionId"], line["forkedFrom"]) for line in copied
    ]
    assert ["a", "b", "d"] == texts(run(provider.get_session_messages(PROJECT, fork)))
    assert ["a", "b", "c"] == texts(run(provider.get_session_messages(PROJECT, SESSION)))
    assert "Try" == Home(provider.base_dir).session(fork).title


def test_a_message_of_several_lines_is_named_by_its_first(provider: ClaudeStorageProvider) -> None:
    """A fork there takes all of it and the result of its call; its ancestry ends with all of it."""
    ids = conversation(provider)
    fork = run(provider.fork_session(PROJECT, SESSION, ids[1]))
    forked = run(provider.get_session_messages(PROJECT, fork))
    ancestry = run(provider.get_ancestry(PROJECT, SESSION, ids[1]))

    assert ids[:3] == [message.uuid for message in forked]
    assert ids[:2] == [message.uuid for message in ancestry]
    for message in (forked[1], ancestry[1]):
        assert [TextBlock, ToolUseBlock] == [type(block) for block in message.blocks]


def test_statistics_count_messages_tokens_and_cost(provider: ClaudeStorageProvider) -> None:
    """Six messages and two of an agent; 10 + 20 output tokens at 15,000 nano-dollars, 200 input at 3,000."""
    conversation(provider)
    log(provider, user("x"), answer("y", 20), agent="a1")
    stats = run(provider.get_statistics(PROJECT, SESSION))

    assert (1, 1, 8, 2, 3, 1, 1, 1) == (
        stats.sessions,
        stats.agents,
        stats.messages,
        stats.user_messages,
        stats.assistant_messages,
        stats.system_messages,
        stats.tool_calls,
        stats.tool_results,
    )
    assert Tokens(input=200, output=30) == stats.spending.tokens
    assert 200 * 3_000_000 + 30 * 15_000_000 == stats.spending.pico_usd
    assert (START, START + dt.timedelta(minutes=7)) == (stats.first_at, stats.last_at)


def test_a_reset_goes_to_the_trash_and_back(provider: ClaudeStorageProvider, tmp_path: Path) -> None:
    """Every byte of logs, sub-agents and todos; what is logged in between starts a new chain."""
    log(provider, user("a"), answer("b"))
    log(provider, user("x"), agent="a1")

    def content() -> dict[str, bytes]:
        kept = (path for path in (tmp_path / "store").rglob("*.json*") if path.suffix != ".lock")
        return {str(path.relative_to(tmp_path)): path.read_bytes() for path in kept}

    before = content()
    (trashed,) = run(provider.reset(PROJECT))
    assert [] == run(provider.get_sessions(PROJECT))
    assert all("trash" in name for name in content())
    log(provider, user("c"))
    assert [None] == [line["parentUuid"] for line in lines(Store(provider.base_dir).find(SESSION).path)]
    run(provider.reset(PROJECT))

    run(provider.restore(trashed.batch))
    assert before == {name: data for name, data in content().items() if "trash" not in name}


# ---- where it writes ----------------------------------------------------------------------------------------


def test_the_default_place_is_ours_and_not_a_claude_home(own_home: Path) -> None:
    """Below $XDG_DATA_HOME; making a provider creates nothing."""
    assert own_home / "xdg-data" / "recollect" / "store" == ClaudeStorageProvider().base_dir
    assert [] == list(own_home.iterdir())


def test_a_claude_home_is_added_to_but_never_reset(own_home: Path) -> None:
    """Law 5: named by the caller it is written to, but not emptied."""
    provider = ClaudeStorageProvider(base_dir="~/.claude")
    log(provider, user("a"))
    with pytest.raises(UsageError, match="Claude home"):
        run(provider.reset(PROJECT))

    assert [SESSION] == [session["sessionId"] for session in run(provider.get_sessions(PROJECT))]
    assert own_home / ".claude" == provider.base_dir


def test_a_session_that_a_client_has_open_is_not_written_to(own_home: Path) -> None:
    """Two writers would fork the conversation; this very process stands for the client."""
    live = own_home / ".claude" / "sessions"
    live.mkdir(parents=True)
    marker = {"pid": os.getpid(), "sessionId": SESSION, "cwd": PROJECT}
    (live / f"{os.getpid()}.json").write_text(json.dumps(marker))
    provider = ClaudeStorageProvider(own_home / ".claude")

    with pytest.raises(UsageError, match="running client"):
        log(provider, user("a"))
    assert [OTHER] == [log(provider, user("b"), session=OTHER) and OTHER]
