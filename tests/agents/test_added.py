"""Small homes of our own making: what is read of each agent that was added, without anybody's transcripts."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recollect.agents.homes import machine_homes
from recollect.agents.mirror import AgentMirror
from recollect.cli.main import main
from recollect.system.paths import agent_at
from tests.agents import added_stores
from tests.agents.samples import tree_state
from tests.agents.truth import counts

SESSION = "7b0e4c52-1111-4222-8333-444455556666"
CHILD = "8c0e4c52-1111-4222-8333-444455556666"
Record = dict[str, Any]
_NOW = "2026-11-16T09:00:0"


class Added(NamedTuple):
    """A home and what is read of it. ``tokens``: input, cache read, cache write, output; None where none are recorded."""

    agent: str
    home: str
    files: dict[str, list[Any] | Record]  # of a database the rows of each table
    counted: tuple[int, int, int]  # prompts, answers, calls
    tokens: tuple[int, int, int, int] | None
    title: str
    cwd: str | None = "/srv/app"
    edited: tuple[str, ...] = ("/srv/app/a.py",)
    resume: tuple[str, ...] = ()
    sessions: int = 1


def _pi(*more: Record, before: str = "") -> list[Record]:
    """The records of a session of Pi, each after the one before."""
    usage = {"input": 10, "output": 5, "cacheRead": 3, "cacheWrite": 2, "totalTokens": 20}
    edit = {"path": "/srv/app/a.py", "oldText": "one", "newText": "two"}
    call = {"type": "toolCall", "id": "c1", "name": "edit", "arguments": edit}
    said: list[Record] = [
        {"role": "user", "content": [{"type": "text", "text": f"{before}Paint the door"}]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "I will"}, call],
            "model": "m",
            "usage": usage,
        },
        {"role": "toolResult", "toolCallId": "c1", "toolName": "edit", "content": [], "isError": False},
        {"role": "assistant", "content": [{"type": "text", "text": "Done"}], "model": "m", "usage": usage},
    ]
    messages: list[Record] = [{"type": "message", "message": message} for message in said]
    records = [
        one | {"id": f"r{n}", "parentId": f"r{n - 1}" if n else None} for n, one in enumerate(messages)
    ]
    head: Record = {"type": "session", "version": 3, "id": SESSION, "cwd": "/srv/app"}
    return [one | {"timestamp": f"{_NOW}{n}.000Z"} for n, one in enumerate([head, *records, *more])]


_ENVELOPE = """System: [2026-11-16 08:00:00 MDT] The post is open.

Sender (untrusted metadata):
```json
{"id": "x"}
```

[Mon 2026-11-16 09:00 MDT] """


def _openclaw() -> list[Record]:
    """What its gateway sent, what another session sent, and a call that failed."""
    sent = {
        "role": "assistant",
        "provider": "openclaw",
        "model": "delivery-mirror",
        "content": [{"type": "text", "text": "By post"}],
    }
    other = {"role": "user", "content": "From the cellar", "provenance": {"kind": "inter_session"}}
    failed: Record = {"customType": "openclaw:prompt-error", "data": {"error": "no answer"}}
    return _pi(
        {"type": "message", "id": "s1", "parentId": "r2", "message": sent},
        {"type": "message", "id": "s2", "parentId": "r3", "message": other},
        {"type": "custom", "id": "s3", "parentId": "s2", **failed},
    )


def _cursor() -> list[Record]:
    """A prompt behind what the client puts before it, and an edit of which no result is written."""
    given = {"path": "/srv/app/a.py", "old_string": "one", "new_string": "two"}
    call = {"type": "tool_use", "name": "StrReplace", "input": given}
    listed = {"type": "tool_use", "name": "Glob", "input": {"target_directory": "/srv/app/!"}}
    typed = "<git_diff>+two</git_diff>\n<user_query>\nPaint the door\n</user_query>"
    said = [
        ("user", [{"type": "text", "text": typed}]),
        ("assistant", [{"type": "text", "text": "I will"}, listed, call]),
    ]
    records: list[Record] = [{"role": role, "message": {"content": content}} for role, content in said]
    return [*records, {"type": "turn_ended", "status": "aborted"}]


def _droid() -> list[Record]:
    """A reminder before the prompt, an edit, its result."""
    given = {"file_path": "/srv/app/a.py", "old_str": "one", "new_str": "two"}
    said = [
        (
            "user",
            [
                {"type": "text", "text": "<system-reminder>Be kind</system-reminder>"},
                {"type": "text", "text": "Paint"},
            ],
        ),
        (
            "assistant",
            [
                {"type": "text", "text": "I will"},
                {"type": "tool_use", "id": "c1", "name": "Edit", "input": given},
            ],
        ),
        ("user", [{"type": "tool_result", "tool_use_id": "c1", "content": "edited"}]),
    ]
    head: Record = {"type": "session_start", "id": SESSION, "sessionTitle": "Doors", "cwd": "/srv/app"}
    messages = [
        {
            "type": "message",
            "id": f"m{n}",
            "timestamp": f"{_NOW}{n}.000Z",
            "message": {"role": role, "content": content},
        }
        for n, (role, content) in enumerate(said)
    ]
    return [head, *messages]


def _kimi() -> list[Record]:
    """A call in two parts with a result of another between them, and a sub-agent."""
    arguments = json.dumps({"path": "/srv/app/a.py", "edit": {"old": "one", "new": "two"}})
    used = {"input_other": 10, "output": 5, "input_cache_read": 3, "input_cache_creation": 2}
    diff = {"type": "diff", "path": "/srv/app/a.py", "old_text": "one", "new_text": "two"}
    done = {"is_error": False, "output": "ok", "display": [diff]}
    child: list[tuple[str, Record]] = [
        ("TurnBegin", {"user_input": "Find the brush"}),
        ("ContentPart", {"type": "text", "text": "Found"}),
        ("StatusUpdate", {"token_usage": used, "message_id": "m2"}),
    ]
    events: list[tuple[str, Record]] = [
        ("TurnBegin", {"user_input": [{"type": "text", "text": "Paint the door"}]}),
        ("StepBegin", {"n": 1}),
        ("ContentPart", {"type": "text", "text": "I will"}),
        ("ToolCall", {"id": "c0", "function": {"name": "Task", "arguments": "{}"}}),
        ("ToolCall", {"id": "c1", "function": {"name": "StrReplaceFile", "arguments": arguments[:9]}}),
        *(
            ("SubagentEvent", {"task_tool_call_id": "c0", "event": {"type": kind, "payload": payload}})
            for kind, payload in child
        ),
        ("ToolResult", {"tool_call_id": "c0", "return_value": {"output": "Found"}}),
        ("ToolCallPart", {"arguments_part": arguments[9:]}),
        ("StatusUpdate", {"token_usage": used, "message_id": "m1"}),
        ("ToolResult", {"tool_call_id": "c1", "return_value": done}),
        ("TurnEnd", {}),
    ]
    times = (
        {"timestamp": 1_794_819_600.5 + n, "message": {"type": kind, "payload": payload}}
        for n, (kind, payload) in enumerate(events)
    )
    return [{"type": "metadata", "protocol_version": "1.3"}, *times]


def _iflow() -> list[Record]:
    """A call that is written three times, once with the text of the next step; an answer of the client itself."""
    given = {"file_path": "/srv/app/a.py", "old_string": "one", "new_string": "two"}
    call = {"type": "tool_use", "id": "c1", "name": "replace", "input": given}
    text = {"type": "text", "text": "<think>\nWhich door?\n</think>\nI will"}
    parts = {"functionResponse": {"id": "c1", "name": "replace", "response": {"output": "ok"}}}
    result = {"callId": "c1", "responseParts": parts, "resultDisplay": "ok"}
    none = {"input_tokens": 0, "output_tokens": 0}
    said: list[tuple[str, Record]] = [
        ("user", {"content": "Paint the door"}),
        ("assistant", {"id": "r1-tool-c1", "model": "m", "content": [text, call], "usage": none}),
        ("assistant", {"id": "r1", "model": "m", "content": [call], "usage": none}),
        ("user", {"content": [{"type": "tool_result", "tool_use_id": "c1", "content": result}]}),
        (
            "assistant",
            {"id": "r2", "model": "m", "content": [call, {"type": "text", "text": "Done"}], "usage": none},
        ),
        ("assistant", {"id": "s1", "model": "slash-command", "content": [{"type": "text", "text": "{}"}]}),
    ]
    about = {"cwd": "/srv/app", "sessionId": f"session-{SESSION}"}
    return [
        {"type": kind, "timestamp": f"{_NOW}{n}.000Z", "message": message} | (about if kind == "user" else {})
        for n, (kind, message) in enumerate(said)
    ]


def _continue() -> Record:
    """A context beside the prompt, a thought, an edit with its result, and the total of all calls."""
    arguments = {"filepath": "a.py", "old_string": "one", "new_string": "two"}
    call = {"id": "c1", "function": {"name": "single_find_and_replace", "arguments": json.dumps(arguments)}}
    done = {
        "toolCallId": "c1",
        "toolCall": call,
        "status": "done",
        "output": [{"name": "Edit", "content": "ok"}],
    }
    used = {"promptTokens": 15, "completionTokens": 5}
    history: list[Record] = [
        {
            "message": {"role": "user", "content": "Paint the door"},
            "contextItems": [{"name": "a.py", "content": "one"}],
        },
        {
            "message": {
                "role": "assistant",
                "content": "",
                "toolCalls": [call],
                "usage": {"promptTokens": 9},
            },
            "reasoning": {"text": "Which door?"},
            "toolCallStates": [done],
        },
        {"message": {"role": "tool", "toolCallId": "c1", "content": "ok"}},
        {
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Done"}]},
            "promptLogs": [{"modelTitle": "M"}],
        },
    ]
    details = {"promptTokensDetails": {"cachedTokens": 3, "cacheWriteTokens": 2}}
    about = {"sessionId": SESSION, "title": "Doors", "workspaceDirectory": "file:///srv/app"}
    return {**about, "history": history, "usage": used | details}


def _amp() -> Record:
    """An edit with its result, and a call in the ledger that made a title."""
    given = {"path": "/srv/app/a.py", "old_str": "one", "new_str": "two"}
    used = {
        "model": "m",
        "inputTokens": 8,
        "outputTokens": 4,
        "cacheReadInputTokens": 3,
        "cacheCreationInputTokens": 2,
    }
    call = {"type": "tool_use", "id": "c1", "name": "edit_file", "input": given}
    done = {"type": "tool_result", "toolUseID": "c1", "run": {"status": "done", "result": {"diff": ""}}}
    said: list[Record] = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Paint the door"}],
            "meta": {"sentAt": 1_794_819_601_000},
        },
        {"role": "assistant", "content": [{"type": "text", "text": "I will"}, call], "usage": used},
        {"role": "user", "content": [done]},
    ]
    title = {
        "id": "e2",
        "operationType": "title-generation",
        "model": "m",
        "tokens": {"input": 2, "output": 1},
    }
    answer = {"id": "e1", "operationType": "inference", "toMessageId": 1, "timestamp": f"{_NOW}5.000Z"}
    return {
        "id": f"T-{SESSION}",
        "title": "Doors",
        "created": 1_794_819_600_000,
        "env": {"initial": {"trees": [{"uri": "file:///srv/app"}]}},
        "messages": [one | {"messageId": n} for n, one in enumerate(said)],
        "usageLedger": {"events": [answer, title]},
    }


_OF_APP = hashlib.md5(b"/srv/app", usedforsecurity=False).hexdigest()


def _cline() -> dict[str, list[Record] | Record]:
    """A task with a call in the text, a request that was cut, and a later prompt; the documents are one line each."""
    edit = "<path>a.py</path>\n<diff>\n------- SEARCH\none\n=======\ntwo\n+++++++ REPLACE\n</diff>"
    about = "<environment_details>\n# Current Working Directory (/srv/app) Files\n</environment_details>"
    used = {"tokensIn": 10, "tokensOut": 5, "cacheReads": 3, "cacheWrites": 2}
    seen = [
        ("text", "Paint the door"),
        ("api_req_started", json.dumps(used)),
        ("text", "I will"),
        ("tool", "{}"),
        ("user_feedback", "And the wall"),
        ("api_req_started", json.dumps({"cancelReason": "user_cancelled"})),
        ("completion_result", "Done"),
    ]
    sent = [
        {"role": "user", "content": [{"type": "text", "text": about}]},
        {"role": "assistant", "content": f"<replace_in_file>\n{edit}\n</replace_in_file>"},
        {"role": "user", "content": [{"type": "text", "text": "saved"}, {"type": "text", "text": about}]},
    ]
    messages = [
        {"ts": 1_794_000_000_000 + n, "type": "say", "say": say, "text": text}
        for n, (say, text) in enumerate(seen)
    ]
    place = "tasks/1794000000000"
    return {f"{place}/ui_messages.json": {"": messages}, f"{place}/api_conversation_history.json": {"": sent}}


def _grok() -> list[Record]:
    """Answers in pieces, an edit, and what the prompt used."""
    text = {"content": {"type": "text", "text": "I "}}
    edit = {"file_path": "a.py", "old_string": "one", "new_string": "two"}
    diff = {"type": "diff", "path": "/srv/app/a.py", "oldText": "one", "newText": "two"}
    counts = {"inputTokens": 15, "cachedReadTokens": 3, "cacheCreationTokens": 2, "outputTokens": 5}
    updates: list[Record] = [
        {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "Paint the door"}},
        {"sessionUpdate": "agent_message_chunk", **text},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "will"}},
        {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "search_replace", "rawInput": edit},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "content": [diff]},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Done"}},
        {
            "sessionUpdate": "turn_completed",
            "prompt_id": "p0",
            "usage": {**counts, "modelUsage": {"m": counts}},
        },
    ]
    return [
        {"timestamp": 1_794_000_000 + n, "method": "session/update", "params": {"update": update}}
        for n, update in enumerate(updates)
    ]


def _antigravity() -> list[Record]:
    """An edit whose result has no id, and what the client adds to a prompt."""
    edit = {
        "TargetFile": "/srv/app/a.py",
        "TargetContent": "one",
        "ReplacementContent": "two",
        "StartLine": 1,
    }
    typed = "<USER_REQUEST>\nPaint the door\n</USER_REQUEST>\n<ADDITIONAL_METADATA>x</ADDITIONAL_METADATA>"
    calls = [
        {"name": "run_command", "args": {"CommandLine": "ls", "Cwd": "/srv/app", "WaitMsBeforeAsync": 1}},
        {"name": "replace_file_content", "args": edit},
    ]
    steps: list[Record] = [
        {"source": "USER_EXPLICIT", "type": "USER_INPUT", "content": typed},
        {"source": "SYSTEM", "type": "CONVERSATION_HISTORY"},
        {"source": "MODEL", "type": "PLANNER_RESPONSE", "content": "I will", "tool_calls": calls},
        {"source": "MODEL", "type": "RUN_COMMAND", "content": "a.py"},
        {"source": "MODEL", "type": "CODE_ACTION", "content": "saved"},
        {"source": "MODEL", "type": "PLANNER_RESPONSE", "content": "Done", "thinking": "It dries"},
    ]
    return [
        {"step_index": n, "status": "DONE", "created_at": f"{_NOW}{n}Z", **step}
        for n, step in enumerate(steps)
    ]


ADDED = [
    Added(
        "cline",
        ".config/VSCodium/User/globalStorage/saoudrizwan.claude-dev",
        _cline(),
        (2, 2, 1),
        (10, 3, 2, 5),
        "Paint the door",
    ),
    Added(
        "roo",
        ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline",
        _cline(),
        (2, 2, 1),
        (10, 3, 2, 5),
        "Paint the door",
    ),
    Added(
        "grok",
        ".grok",
        {
            f"sessions/%2Fsrv%2Fapp/{SESSION}/updates.jsonl": _grok(),
            f"sessions/%2Fsrv%2Fapp/{SESSION}/summary.json": {
                "info": {"id": SESSION, "cwd": "/srv/app"},
                "generated_title": "Doors",
            },
        },
        (1, 2, 1),
        (10, 3, 2, 5),
        "Doors",
        resume=("grok", "--resume", SESSION),
    ),
    Added(
        "antigravity",
        ".gemini/antigravity-ide",
        {
            f"brain/{SESSION}/.system_generated/logs/transcript_full.jsonl": _antigravity(),
            f"brain/{SESSION}/.system_generated/logs/transcript.jsonl": _antigravity()[:2],
        },
        (1, 2, 2),
        None,
        "Paint the door",
        resume=("agy", "--conversation", SESSION),
    ),
    Added(
        "hermes",
        ".hermes",
        {"state.db": added_stores.hermes()},
        (2, 2, 1),
        (10, 3, 2, 5),
        "Doors",
        resume=("hermes", "--resume", "20261116_090000_abcdef"),
    ),
    Added(
        "zed",
        "xdg-data/zed",
        {"threads/threads.db": added_stores.zed()},
        (1, 2, 1),
        (10, 3, 2, 5),
        "Doors",
    ),
    Added(
        "kiro",
        "xdg-data/kiro-cli",
        {"data.sqlite3": added_stores.kiro()},
        (2, 3, 2),
        None,
        "Paint the door",
        resume=("kiro-cli", "chat", "--resume-id", SESSION),
    ),
    Added(
        "crush",
        "project/.crush",
        {"crush.db": added_stores.crush()},
        (1, 2, 2),
        None,
        "Doors",
        cwd="{home}/project",
        resume=("crush", "--session", SESSION),
    ),
    Added(
        "goose",
        "xdg-data/goose",
        {"sessions/sessions.db": added_stores.goose()},
        (1, 2, 1),
        (10, 3, 2, 5),
        "Doors",
        resume=("goose", "session", "--resume", "--session-id", "20261116_1"),
    ),
    Added(
        "omp",
        ".omp",
        {
            f"agent/sessions/--srv-app--/2026_{SESSION}.jsonl": _pi(
                {"type": "session_info", "id": "x", "name": "Doors"}
            )
        },
        (1, 2, 1),
        (20, 6, 4, 10),
        "Doors",
        resume=("omp", "--resume", SESSION),
    ),
    Added(
        "openclaw",
        ".openclaw",
        {
            f"agents/main/sessions/{SESSION}.jsonl": _openclaw(),
            f"agents/main/sessions/{SESSION}.checkpoint.1.jsonl": _openclaw(),
            f"agents/main/sessions/{CHILD}.jsonl.reset.2026-11-16T10-00-00.000Z": _pi(before=_ENVELOPE),
            "agents/main/sessions/sessions.json": {
                "agent:main:main": {"sessionId": SESSION, "label": "Doors"}
            },
        },
        (1, 3, 1),
        (20, 6, 4, 10),
        "Doors",
        sessions=2,
    ),
    Added(
        "cursor-agent",
        ".cursor",
        {
            f"projects/srv-app/agent-transcripts/{SESSION}/{SESSION}.jsonl": _cursor(),
            f"projects/srv-app/agent-transcripts/{SESSION}/subagents/{CHILD}.jsonl": [
                {"role": "user", "message": {"content": "Find the brush"}}
            ],
        },
        (1, 1, 2),
        None,
        "Paint the door",
        resume=("cursor-agent", "--resume", SESSION),
    ),
    Added(
        "droid",
        ".factory",
        {
            f"sessions/-srv-app/{SESSION}.jsonl": _droid(),
            f"sessions/-srv-app/{SESSION}.settings.json": {
                "model": "m",
                "tokenUsage": {
                    "inputTokens": 10,
                    "outputTokens": 5,
                    "cacheReadTokens": 3,
                    "cacheCreationTokens": 2,
                },
            },
            f"sessions/-srv-app/{CHILD}.jsonl": [
                {"type": "session_start", "id": CHILD, "callingSessionId": SESSION, "callingToolUseId": "c1"},
                {"type": "message", "id": "m9", "message": {"role": "user", "content": "Find the brush"}},
            ],
        },
        (1, 1, 1),
        (10, 3, 2, 5),
        "Doors",
        resume=("droid", "--resume", SESSION),
    ),
    Added(
        "kimi",
        ".kimi",
        {
            "kimi.json": {"work_dirs": [{"path": "/srv"}, {"path": "/srv/app"}]},
            f"sessions/{_OF_APP}/{SESSION}/wire.jsonl": _kimi(),
            f"sessions/{_OF_APP}/{SESSION}/state.json": {"title": "Doors"},
            f"sessions/{_OF_APP}/{SESSION}/subagents/{CHILD}/wire.jsonl": _kimi(),
        },
        (1, 2, 2),
        (20, 6, 4, 10),
        "Doors",
        resume=("kimi", "--session", SESSION),
    ),
    Added(
        "continue",
        ".continue",
        {
            "sessions/sessions.json": [[{"sessionId": SESSION, "dateCreated": "1794819600000"}]],
            f"sessions/{SESSION}.json": _continue(),
        },
        (1, 1, 1),
        (10, 3, 2, 5),
        "Doors",
    ),
    Added(
        "amp",
        "xdg-data/amp",
        {f"threads/T-{SESSION}.json": _amp()},
        (1, 1, 1),
        (10, 3, 2, 5),
        "Doors",
        resume=("amp", "threads", "continue", f"T-{SESSION}"),
    ),
    Added(
        "iflow",
        ".iflow",
        {f"projects/-srv-app/session-{SESSION}.jsonl": _iflow()},
        (1, 2, 1),
        None,
        "Paint the door",
        resume=("iflow", "--resume", f"session-{SESSION}"),
    ),
]


def _fill(path: Path, tables: dict[str, list[Record]]) -> None:
    """A database whose tables have the columns of their first rows."""
    with contextlib.closing(sqlite3.connect(path)) as store, store:
        for table, rows in tables.items():
            store.execute(f"CREATE TABLE {table} ({', '.join(rows[0])})")
            for row in rows:
                values = [json.dumps(one) if isinstance(one, list | dict) else one for one in row.values()]
                store.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", values)


@pytest.fixture(params=ADDED, ids=[added.agent for added in ADDED])
def added(request: pytest.FixtureRequest, own_home: Path) -> Added:
    """A home where its client would keep it."""
    (own_home / ".claude" / "projects").mkdir(parents=True)
    given: Added = request.param
    if given.agent == "crush":
        registry = own_home / "xdg-data/crush/projects.json"
        registry.parent.mkdir(parents=True)
        project = {"path": str(own_home / "project"), "data_dir": str(own_home / given.home)}
        registry.write_text(json.dumps({"projects": [project]}))
    for name, said in given.files.items():
        path = own_home / given.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in (".db", ".sqlite3"):
            assert isinstance(said, dict)
            _fill(path, said)
            continue
        lines = said if isinstance(said, list) else [said.get("", said)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return given


def _asked(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_session_is_listed_as_its_client_has_it(
    added: Added, own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Title, directory and tokens in the list; prompts, answers, calls and edits in the mirror; the home as it was."""
    home = own_home / added.home
    before = tree_state(home)
    sessions = _asked(capsys, "list", "--agent", added.agent)["sessions"]
    assert len(sessions) == added.sessions
    (listed,) = [one for one in sessions if one["title"] == added.title]
    assert (listed["agent"], listed.get("cwd")) == (
        added.agent,
        added.cwd and added.cwd.replace("{home}", str(own_home)),
    )
    names = ("input_tokens", "cache_read_tokens", "cache_write_5m_tokens", "output_tokens")
    if added.tokens is None:
        assert listed.get("known_cost_usd") is None
    else:
        assert tuple(listed[name] for name in names) == added.tokens
    if added.resume:
        assert _asked(capsys, "resume", listed["id"], "--print")["argv"] == list(added.resume)
    else:
        assert main(["resume", listed["id"], "--print"]) == 2
    mirror = AgentMirror(added.agent, home, tmp_path)
    mirror.refresh()
    assert mirror.problems == []
    (log,) = [one for one in mirror.root.rglob("*.jsonl") if one.stem == listed["id"]]
    logs = (log, *log.with_suffix("").rglob("*.jsonl"))
    every = [json.loads(line) for one in logs for line in one.read_text().splitlines()]
    changed = [one for line in every for one in (line.get("toolUseResult") or {}).get("changedFiles", ())]
    assert tuple(one["filePath"] for one in changed) == added.edited
    sources = {line["source"] for line in every if line["type"] == "foreign-source"}
    counted = [facts for source, facts in counts(mirror).items() if source.partition("#")[0] in sources]
    assert (
        tuple(sum(facts[what] for facts in counted) for what in ("prompts", "answers", "tool_calls"))
        == added.counted
    )
    assert not any(facts["unknown"] for facts in counted)
    assert tree_state(home) == before
    assert agent_at(str(home)) == added.agent
    assert added.agent in [root.agent for root in machine_homes()]


def test_a_total_that_grows_is_counted_by_what_it_grew(own_home: Path, tmp_path: Path) -> None:
    """Droid writes one total for a session, again and again; also where the state of the passes is lost."""
    home = own_home / ".factory"
    talk = home / f"sessions/-srv-app/{SESSION}.jsonl"
    talk.parent.mkdir(parents=True)
    talk.write_text("".join(json.dumps(line) + "\n" for line in _droid()))
    for total in (10, 25, 25, 4):
        used = {"inputTokens": total, "outputTokens": total}
        talk.with_suffix(".settings.json").write_text(
            json.dumps({"model": "m", "tokenUsage": used}) + " " * total
        )
        mirror = AgentMirror("droid", home, tmp_path)
        mirror.refresh()
    logs = [json.loads(line) for log in mirror.root.rglob("*.jsonl") for line in log.read_text().splitlines()]
    calls = [line["message"]["usage"]["input_tokens"] for line in logs if line["type"] == "foreign-usage"]
    assert calls == [10, 15, 4]


def test_a_document_that_is_rewritten_counts_its_last_total_once(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Continue: the session began when its list says so; a prompt that was edited begins a branch."""
    (own_home / ".claude" / "projects").mkdir(parents=True)
    path = own_home / f".continue/sessions/{SESSION}.json"
    path.parent.mkdir(parents=True)
    rows = [{"sessionId": SESSION, "dateCreated": "1794819600000"}]
    path.with_name("sessions.json").write_text(json.dumps(rows))
    document = _continue()
    for prompt, total in (("Paint the door", 5), ("Paint the door", 50), ("Paint the wall", 70)):
        document["history"][0]["message"]["content"] = prompt
        document["usage"]["completionTokens"] = total
        path.write_text(json.dumps(document))
        (listed,) = _asked(capsys, "list", "--agent", "continue")["sessions"]
        assert listed["output_tokens"] == total
        assert listed["first_at"].startswith("2026-11-16T09:00:00")
    assert main(["show", SESSION]) == 0
    conversation = capsys.readouterr().out
    assert "Paint the wall" in conversation
    assert "Paint the door" not in conversation


def _links(mirror: AgentMirror) -> dict[str, object]:
    """What a mirror says, by the ids of its entries and calls."""
    logs = (line for log in mirror.root.rglob("*.jsonl") for line in log.read_text().splitlines())
    lines = [line for line in map(json.loads, logs) if "message" in line]
    return {line.get("uuid") or line["message"]["id"]: line["message"] for line in lines}


def test_a_home_that_grows_line_by_line_says_the_same(added: Added, own_home: Path, tmp_path: Path) -> None:
    """Whatever comes first: a file that says what was used stands there before anything was said."""
    growing = {name: said for name, said in added.files.items() if isinstance(said, list)}
    whole = AgentMirror(added.agent, own_home / added.home, tmp_path / "whole")
    whole.refresh()
    for name in growing:
        (own_home / added.home / name).write_text("")
    mirror = AgentMirror(added.agent, own_home / added.home, tmp_path / "grown")
    mirror.refresh()
    for name, said in growing.items():
        for line in said:
            with (own_home / added.home / name).open("a") as file:
                file.write(json.dumps(line) + "\n")
            mirror.refresh()
    assert _links(mirror) == _links(whole) != {}
    assert mirror.problems == []


def test_what_a_gateway_puts_before_a_prompt_is_not_typed(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """OpenClaw: title and first prompt are what a person wrote; the rest is there."""
    (own_home / ".claude" / "projects").mkdir(parents=True)
    path = own_home / f".openclaw/agents/main/sessions/{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in _pi(before=_ENVELOPE)))
    (listed,) = _asked(capsys, "list", "--agent", "openclaw")["sessions"]
    assert (listed["title"], listed["first_prompt"]) == ("Paint the door", "Paint the door")
    assert _asked(capsys, "search", "The post is open")["sessions"]


_ODD: tuple[object, ...] = ([], 7, "x", [{}], None, {"a": []})


def _places(value: object, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a record or a document, each from its top."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield (*above, name)
        yield from _places(one, (*above, name))


def test_a_field_of_another_type_never_hides_a_session(added: Added, own_home: Path, tmp_path: Path) -> None:
    """Every place in turn is something that no client writes there: each pass goes on, and no file is called unreadable."""
    home, number = own_home / added.home, 0
    for name, said in added.files.items():
        path = home / name
        if path.suffix in (".db", ".sqlite3"):
            continue
        before = path.read_text()
        for place in _places(said):
            number += 1
            record = copy.deepcopy(said)
            inner: Any = record
            for step in place[:-1]:
                inner = inner[step]
            inner[place[-1]] = _ODD[number % len(_ODD)]
            lines = record if isinstance(record, list) else [record]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            mirror = AgentMirror(added.agent, home, tmp_path / str(number))
            mirror.refresh()
            assert [one for one in mirror.problems if "no session" not in one.reason] == [], place
        path.write_text(before)
