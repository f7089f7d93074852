"""The conversation format, section by section; docs/design/seeds.md has the table.

Schemas are checked by reading their examples, and by writing lines that have every field of them.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import tracemalloc
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

import recollect
from recollect.cli.main import main
from recollect.model.lines.damage import Line
from tests.small_home import ONE, TALK, call, lines, outcome, prompt, put, reply, said, uuid_of

BASE_FIELDS = {
    "uuid",
    "parentUuid",
    "isSidechain",
    "userType",
    "cwd",
    "sessionId",
    "version",
    "timestamp",
    "type",
}
Entries = list[dict[str, Any]]


@pytest.fixture
def root(own_home: Path) -> Path:
    """The Claude home of this test."""
    home = own_home / ".claude"
    home.mkdir()
    return home


def entry_of(line: dict[str, Any]) -> recollect.Entry:
    """The entry that a line is, which must come out byte for byte."""
    data = json.dumps(line).encode()
    found = recollect.decode(Line(data))
    assert isinstance(found, recollect.Entry)
    assert data + b"\n" == recollect.encode(found)
    return found


def session_of(root: Path, entries: Entries) -> recollect.Session:
    put(root, ONE, entries)
    return recollect.Home(root).session(ONE)


def user_of(line: dict[str, Any]) -> recollect.User:
    body = entry_of(line).body
    assert isinstance(body, recollect.User)
    return body


# ---- File Naming and Location ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cwd", "session", "place"),
    [
        (
            "/Users/onur/tc/backend-api",
            "2eaaab2d-11e9-45d5-8ecf-739ee8e6d532",
            "-Users-onur-tc-backend-api/2eaaab2d-11e9-45d5-8ecf-739ee8e6d532.jsonl",
        ),
        (
            "/Users/onur/projects/horse",
            "8134beed-e2bc-4df0-b3c0-124904046373",
            "-Users-onur-projects-horse/8134beed-e2bc-4df0-b3c0-124904046373.jsonl",
        ),
    ],
)
def test_file_naming_and_location(root: Path, cwd: str, session: str, place: str) -> None:
    """The example paths are where sessions are written and found."""
    written = recollect.ClaudeHome(root).session_log(recollect.project_key(cwd), recollect.SessionId(session))
    put(root, session, TALK, cwd)
    found = recollect.Home(root).session(session)

    assert root / "projects" / place == written == found.path
    assert (session, cwd) == (found.id, found.cwd)


# ---- File Format -----------------------------------------------------------------------------------------


def test_file_format_jsonl_structure(root: Path) -> None:
    """Each line is an object of its own: a summary, or a message."""
    summary = {"type": "summary", "summary": "T", "leafUuid": uuid_of(4)}
    entries = list(session_of(root, [summary, *TALK]).entries())

    assert ["summary", "user", "assistant", "user", "assistant"] == [
        one.kind for one in entries if isinstance(one, recollect.Entry)
    ]


def test_file_format_line_ordering(root: Path) -> None:
    """Summaries are read wherever they are, messages in the order in which they follow each other."""
    summary = {"type": "summary", "summary": "T", "leafUuid": uuid_of(4)}
    for entries in ([summary, *TALK], [*TALK, summary], [TALK[0], summary, *TALK[1:]]):
        session = session_of(root, entries)

        assert ["T"] == session.summaries()
        assert ["Q1", "A1", "Q2", "A2"] == [one.text for one in session.conversation().messages]


# ---- Summary Entries -------------------------------------------------------------------------------------


def test_summary_entries() -> None:
    """The example is a title and the message it belongs to."""
    body = entry_of(
        {
            "type": "summary",
            "summary": "Optimize Local Dev Servers for Instant Startup",
            "leafUuid": "32071078-645b-4835-b954-8f4c73e1e33b",
        }
    ).body

    assert isinstance(body, recollect.Summary)
    assert ("Optimize Local Dev Servers for Instant Startup", "32071078-645b-4835-b954-8f4c73e1e33b") == (
        body.summary,
        body.leaf_uuid,
    )


def test_summary_entries_multiple_summaries(root: Path) -> None:
    """Several are kept, each with the branch it names; the newest of one branch counts there."""
    branch = [prompt(5, 2, "Q3"), reply(6, 5, said("A3"))]
    titles: Entries = [
        {"type": "summary", "summary": "Early", "leafUuid": uuid_of(2)},
        {"type": "summary", "summary": "Main", "leafUuid": uuid_of(4)},
        {"type": "summary", "summary": "Other", "leafUuid": uuid_of(6)},
    ]
    session = session_of(root, [*titles, *TALK, *branch])

    assert ["Other", "Main", "Early"] == session.summaries()
    assert [("Other", uuid_of(6)), ("Main", uuid_of(4))] == [
        (one.summary, one.head) for one in session.active_branches()
    ]


# ---- Message Entries -------------------------------------------------------------------------------------


def test_message_entries(tmp_path: Path) -> None:
    """Every line that is written has all base fields, each with its type, and is read back with them."""
    with recollect.Store(tmp_path).create("/srv/app") as log:
        log.append_many([recollect.user("Q"), recollect.assistant("A", model="claude-opus-4-20250514")])
    written = [json.loads(line) for line in log.path.read_bytes().splitlines()]
    body = entry_of(written[1]).chain

    assert body is not None
    assert [True, True] == [one.keys() >= BASE_FIELDS for one in written]
    assert [("user", None), ("assistant", written[0]["uuid"])] == [
        (one["type"], one["parentUuid"]) for one in written
    ]
    assert ("external", False, "/srv/app", str(log.id)) == (
        body.user_type,
        body.is_sidechain,
        body.cwd,
        body.session_id,
    )
    assert all(uuid.UUID(one["uuid"]) and dt.datetime.fromisoformat(one["timestamp"]) for one in written)


# ---- User Messages ---------------------------------------------------------------------------------------


def test_user_messages() -> None:
    """Content is plain text, or blocks with results, themselves of text or of blocks."""
    plain = user_of(prompt(1, None, "Q"))
    nested = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    blocks = [
        {"tool_use_id": "toolu_1", "type": "tool_result", "content": "text", "is_error": True},
        {"tool_use_id": "toolu_2", "type": "tool_result", "content": nested},
    ]
    found = user_of({**prompt(1, None, ""), "message": {"role": "user", "content": blocks}}).message.blocks
    results = [block for block in found if isinstance(block, recollect.ToolResultBlock)]

    assert "Q" == plain.message.content
    assert [("toolu_1", True, "text"), ("toolu_2", None, "one\ntwo")] == [
        (one.tool_use_id, one.is_error, one.text()) for one in results
    ]


CAVEAT = "Caveat: The messages below are were generated by the user while running local commands."
COMMAND = "<command-name>login</command-name>\n<command-message>login</command-message>\n<command-args></command-args>"
OUTPUT = "<local-command-stdout>Login successful</local-command-stdout>"


def test_user_messages_special_types(root: Path) -> None:
    """Meta messages, commands and their output are kept and known for what they are: none becomes a title."""
    special = [prompt(1, None, CAVEAT, isMeta=True), prompt(2, 1, COMMAND), prompt(3, 2, OUTPUT)]
    session = session_of(root, [*special, prompt(4, 3, "What I asked"), reply(5, 4, said("A"))])
    texts = [entry.message.content for entry in session.conversation().entries() if entry.message]

    assert True is user_of(special[0]).is_meta
    assert [CAVEAT, COMMAND, OUTPUT, "What I asked"] == texts[:4]
    assert "What I asked" == session.title


TODO = {"content": "Task description", "status": "pending", "priority": "high", "id": "1"}
RESULTS: Entries = [
    {"type": "text", "file": {"filePath": "/path/to/file.py", "content": "file contents here"}},
    {"stdout": "command output", "stderr": "", "interrupted": False, "isImage": False, "sandbox": False},
    {"oldTodos": [], "newTodos": [TODO]},
]


@pytest.mark.parametrize("result", RESULTS, ids=["file", "command", "todos"])
def test_user_messages_tool_use_results(result: dict[str, Any]) -> None:
    """``toolUseResult`` is kept as it is, whatever tool it is of."""
    body = user_of({**outcome(3, 2, "toolu_1", "R"), "toolUseResult": result})

    assert isinstance(body.tool_use_result, msgspec.Raw)
    assert result == json.loads(bytes(body.tool_use_result))


# ---- Assistant Messages ----------------------------------------------------------------------------------


def test_assistant_messages() -> None:
    """The whole response of the API, with cost and duration where a client wrote them."""
    line = reply(2, 1, said("Hi"), call("toolu_1"), costUSD=0.0125, durationMs=4321)
    line["message"]["usage"]["service_tier"] = "standard"
    line["message"]["stop_reason"] = "tool_use"
    body = entry_of(line).body

    assert isinstance(body, recollect.Assistant)
    message, usage = body.message, body.message.usage
    assert usage is not None
    assert ("msg_2", "claude-sonnet-4-5-20250929", "tool_use", None) == (
        message.id,
        message.model,
        message.stop_reason,
        message.stop_sequence,
    )
    assert (10, 20, 0, 0, "standard") == (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_read_input_tokens,
        usage.service_tier,
    )
    assert (0.0125, 4321) == (body.cost_usd, body.duration_ms)


def test_assistant_messages_content_types() -> None:
    """Text, and calls with id, name and input."""
    body = entry_of(reply(2, 1, said("Hi"), call("toolu_1"))).body
    assert isinstance(body, recollect.Assistant)
    words, made = body.message.blocks

    assert isinstance(words, recollect.TextBlock)
    assert isinstance(made, recollect.ToolUseBlock)
    assert ("Hi", "toolu_1", "Read", {"file_path": "/a"}) == (
        words.text,
        made.id,
        made.name,
        json.loads(bytes(made.input)),
    )


def test_assistant_messages_cost_and_performance_tracking(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What clients recorded is what ``cost --mode display`` shows; durations give the speed."""
    put(root, ONE, [prompt(1, None, "Q"), reply(2, 1, said("A"), costUSD=0.0125, durationMs=4000)])

    assert 0 == main(["cost", "--mode", "display", "--performance", "--json"])
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert ("0.0125", 4000, 5.0) == (
        totals["cost_usd"],
        totals["duration_ms"],
        totals["tokens_per_second"],
    )


# ---- Message Threading and Relationships -----------------------------------------------------------------

FLOW = [
    prompt(1, None, "Root"),
    reply(2, 1, said("1")),
    prompt(3, 2, "1a"),
    reply(4, 3, said("to 1a")),
    prompt(5, 2, "1b"),
    reply(6, 5, said("to 1b")),
    prompt(7, 1, "2"),
    reply(8, 7, said("to 2")),
]


def test_message_threading_and_relationships(root: Path) -> None:
    """A root has no parent, messages may share one, and each end is a conversation."""
    session = session_of(root, FLOW)

    assert [uuid_of(1)] == [node.uuid for node in session.graph.roots]
    assert [uuid_of(2), uuid_of(7)] == list(session.graph.children(uuid_of(1)))
    assert {"to 1a", "to 1b", "to 2"} == {
        session.conversation(branch.leaf).messages[-1].text for branch in session.branches()
    }


def test_message_threading_sidechain_support(root: Path) -> None:
    """A side chain is read, and never taken for the main conversation."""
    aside = [prompt(9, None, "Aside", isSidechain=True), reply(10, 9, said("Found"), isSidechain=True)]
    session = session_of(root, [*TALK, *aside])

    assert ["Q1", "A1", "Q2", "A2"] == [one.text for one in session.conversation().messages]
    assert "Aside" in [one.text for one in session.messages(agents=True)]


# ---- Conversation State Management -----------------------------------------------------------------------


def test_conversation_state_management(tmp_path: Path) -> None:
    """One session id for all messages, one id for each, and times that grow from line to line."""
    moment = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    store = recollect.Store(tmp_path, clock=lambda: moment)
    with store.create("/srv/app") as log:
        log.append_many([recollect.user(str(number)) for number in range(5)])
    written = [json.loads(line) for line in log.path.read_bytes().splitlines()]
    times = [one["timestamp"] for one in written]

    assert {str(log.id)} == {one["sessionId"] for one in written}
    assert 5 == len({one["uuid"] for one in written})
    assert sorted(set(times)) == times


def test_conversation_state_management_working_directory(root: Path) -> None:
    """Each message says where it was written; the session is listed where it last worked on the whole."""
    moved = [*TALK[:2], {**TALK[2], "cwd": "/srv/app/web"}, {**TALK[3], "cwd": "/srv/app/web"}]
    log = put(root, ONE, [])
    log.write_bytes(lines([{**one, "sessionId": ONE} for one in moved]))
    chains = [entry.chain for entry in recollect.LogReader(log) if isinstance(entry, recollect.Entry)]

    assert ["/srv/app", "/srv/app", "/srv/app/web", "/srv/app/web"] == [one and one.cwd for one in chains]
    assert [ONE] == [one.id for one in recollect.Home(root).sessions("/srv/app")]


# ---- Tool Integration Patterns ---------------------------------------------------------------------------


def test_tool_integration_patterns(root: Path) -> None:
    """From the call to the answer that uses its result: one flow, one call."""
    session = session_of(
        root,
        [
            prompt(1, None, "Q"),
            reply(2, 1, call("toolu_1")),
            {**outcome(3, 2, "toolu_1", "command output"), "toolUseResult": RESULTS[1]},
            reply(4, 3, said("Done")),
        ],
    )
    (made,) = session.tool_calls()

    assert ("ok", uuid_of(2), uuid_of(3), 1000.0) == (
        made.status,
        made.uuid,
        made.result_uuid,
        made.elapsed_ms,
    )
    roles = [message["role"] for message in session.conversation().to_api()]
    assert ["user", "assistant", "user", "assistant"] == roles


# ---- Error Handling and Edge Cases -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "rich", "status"),
    [
        ({"content": "Error message", "is_error": True}, "Error: Error message", "error"),
        (
            {"content": "partial output"},
            {"interrupted": True, "stdout": "partial output", "stderr": ""},
            "interrupted",
        ),
    ],
    ids=["error", "interrupted"],
)
def test_error_handling_and_edge_cases(root: Path, block: dict[str, Any], rich: object, status: str) -> None:
    """A failed and an interrupted call are told apart, and the output so far is kept."""
    content = [{"tool_use_id": "toolu_123", "type": "tool_result", **block}]
    result = {
        **outcome(3, 2, "toolu_123", ""),
        "message": {"role": "user", "content": content},
        "toolUseResult": rich,
    }
    session = session_of(root, [prompt(1, None, "Q"), reply(2, 1, call("toolu_123")), result])
    (made,) = session.tool_calls()

    assert (status, block["content"]) == (made.status, made.text)


# ---- Version Compatibility -------------------------------------------------------------------------------


def test_version_compatibility(tmp_path: Path) -> None:
    """Versions of any time are read; an unknown field or type is kept, byte for byte."""
    old = entry_of({**prompt(1, None, "Q"), "version": "1.0.3"})
    later = entry_of({**prompt(1, None, "Q"), "version": "9.0.0", "tomorrow": {"a": [1, None]}})
    unknown = entry_of({"type": "from-the-future", "value": 1})

    assert ("1.0.3", "9.0.0") == (old.chain and old.chain.version, later.chain and later.chain.version)
    assert isinstance(unknown.body, recollect.UnknownBody)


# ---- Performance Considerations --------------------------------------------------------------------------


def test_performance_file_size_management(tmp_path: Path) -> None:
    """A log that grows too large goes on in further files, and is still one session: read, priced, resumed, removed."""
    usage = recollect.Usage(input_tokens=10, output_tokens=20)
    answer = recollect.assistant("A", model="claude-sonnet-4-5-20250929", usage=usage)
    whole, split = (
        recollect.Store(tmp_path / name, part_bytes=size) for name, size in (("a", None), ("b", 2_000))
    )
    name = str(uuid.uuid4())
    for store in (whole, split):
        with store.create("/srv/app", session=name) as log:
            for number in range(20):
                log.append_many([recollect.user(f"Prompt {number}"), answer])
    with split.open(name) as log:  # another process resumes it
        asked = log.append(recollect.user("And now?"), entry_id=str(uuid.uuid4()))
        assert asked == log.append(recollect.user("And now?"), entry_id=asked)
    files = sorted(log.path.parent.glob("*.jsonl"))

    assert (True, True) == (len(files) > 3, all(path.stat().st_size < 4_000 for path in files))
    (stored,) = split.sessions()
    assert (name, sum(path.stat().st_size for path in files)) == (str(stored.id), stored.size)
    assert 41 == len(list(log.entries()))
    texts = [message.text for message in log.conversation().messages]
    with whole.open(name) as one:
        assert (one.spending, [message.text for message in one.conversation().messages]) == (
            log.spending,
            texts[:-1],
        )
    assert "And now?" == texts[-1]
    before = {path.name: path.read_bytes() for path in files}
    batch = split.delete(name).batch
    assert [] == list(log.path.parent.glob("*.jsonl"))
    split.restore(batch)
    assert before == {path.name: path.read_bytes() for path in sorted(log.path.parent.glob("*.jsonl"))}


def test_performance_file_size_management_by_compression(root: Path) -> None:
    """An archived session is compressed in frames, and is read from there without being unpacked."""
    entries = [prompt(1, None, "Q")]
    entries += [prompt(number, number - 1, f"Prompt {number} " + "word " * 200) for number in range(2, 200)]
    log = put(root, ONE, entries)
    raw = log.stat().st_size
    home = recollect.Home(root)
    (copy,) = home.archive(ONE).archived
    log.unlink()
    found = recollect.Home(root).session(ONE)

    assert (True, True) == (copy.manifest.stored_bytes * 4 < raw, found.is_archived)
    assert 199 == len(found.conversation().messages)


def test_performance_memory_efficiency(tmp_path: Path) -> None:
    """Messages are streamed: the memory of a log of 8 MB is that of a few lines; a cached one is not read again."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(lines([prompt(number, None, "x" * 80_000)]) for number in range(1, 101)))
    loader = recollect.ConversationLoader(lambda _: log)
    tracemalloc.start()
    try:
        seen = sum(1 for _ in loader.stream_messages(recollect.SessionId(ONE)))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert (100, True) == (seen, most < 2_000_000)
    cache = recollect.ConversationCache()
    assert cache.get(log) is cache.get(log)
    assert (1, 1) == (cache.statistics.hits, cache.statistics.misses)


def test_performance_concurrent_access(tmp_path: Path) -> None:
    """Four writers of one log: every line is whole, none is lost, none is there twice."""
    store = recollect.Store(tmp_path)
    name = str(uuid.uuid4())
    with store.create("/srv/app", session=name) as first:
        first.append(recollect.user("Begin"))

    def write(writer: int) -> None:
        with store.open(name) as log:
            for number in range(25):
                log.append(recollect.user(f"{writer} {number}"))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [json.loads(line)["message"]["content"] for line in first.path.read_bytes().splitlines()]

    assert sorted(["Begin", *(f"{one} {number}" for one in range(4) for number in range(25))]) == sorted(
        found
    )


# ---- Data Integrity --------------------------------------------------------------------------------------


ORPHAN = "missing-parent history-cut"  # a warning, or an error where history is lost by it


def codes(root: Path, entries: Entries) -> set[str]:
    """What ``check`` finds in a session of these entries."""
    put(root, ONE, entries)
    report = recollect.Home(root).check(ONE, with_secrets=False)
    return {finding.code for finding in report.findings}


def test_data_integrity(root: Path) -> None:
    """The four validation rules, each broken once: ids, parents, times, ids of calls."""
    twice = [
        prompt(1, None, "Q"),
        reply(2, 1, call("toolu_1")),
        outcome(3, 2, "toolu_1", "R"),
        reply(4, 3, call("toolu_1")),
        outcome(5, 4, "toolu_1", "R2"),
        reply(6, 5, said("A")),
    ]
    broken = {
        "invalid-id": [*TALK, {**prompt(5, 4, "Q3"), "uuid": "x"}],
        ORPHAN: [*TALK, prompt(9, 77, "Q3"), reply(10, 9, said("A3"))],
        "bad-timestamp": [TALK[0], {**TALK[1], "timestamp": "yesterday"}, *TALK[2:]],
        "duplicate-call-id": twice,
    }

    assert set() == codes(root, TALK)
    assert [] == [code for code, entries in broken.items() if not codes(root, entries) & set(code.split())]


def test_data_integrity_consistency_checks(root: Path) -> None:
    """Orphans, repeated ids and calls without result are found."""
    unanswered = [
        prompt(1, None, "Q"),
        reply(2, 1, call("toolu_1")),
        prompt(3, 2, "Q2"),
        reply(4, 3, said("A")),
    ]
    broken = {
        ORPHAN: [*TALK, prompt(9, 77, "Q3"), reply(10, 9, said("A3"))],
        "duplicate-id": [*TALK, {**prompt(3, 2, "Another"), "uuid": uuid_of(3)}],
        "call-without-result": unanswered,
    }

    assert [] == [code for code, entries in broken.items() if not codes(root, entries) & set(code.split())]
