"""Real clients load what we write: they send exactly our messages, and go on where we stopped.

Each test stores a session, lets a client resume it with one more prompt, and
looks at what reached the API and what became of the file. Texts the client adds
on its own account (reminders, cache marks) are taken off first.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recollect.model.convert import to_claude
from recollect.model.lines import draft
from recollect.model.lines.blocks import Block, Usage
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Line
from recollect.model.lines.draft import Draft, MetadataDraft, Stamp
from recollect.model.lines.entry import Entry
from recollect.model.lines.ids import derived_uuid
from tests.oracle.client_runner import ANSWER, Client
from tests.oracle.conftest import TORTURE, old_and_new

SESSION = "6a0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c11"
MODEL = "claude-sonnet-4-5-20250929"
PROMPT = "Go on."
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

Message = tuple[str, list[dict[str, Any]]]


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def use(call_id: str, name: str, **arguments: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: object, **more: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def answer(*blocks: Block) -> Draft:
    return draft.assistant(blocks, model=MODEL, usage=Usage(10, 20, 30, 40))


PICTURE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PIXEL).decode()},
}
UNICODE = 'Ünïcödé 🙂 \u2028 日本語 "quoted" \\ \t tab, عربى, e\u0301'

# What is drafted, and what the API must get to see of it.
TALKS: dict[str, tuple[list[Draft], list[Message]]] = {
    "plain talk": (
        [draft.user("Q1"), answer(draft.text("A1")), draft.user("Q2"), answer(draft.text("A2"))],
        [
            ("user", [said("Q1")]),
            ("assistant", [said("A1")]),
            ("user", [said("Q2")]),
            ("assistant", [said("A2")]),
        ],
    ),
    "parallel calls": (
        [
            draft.user("Q"),
            answer(
                draft.text("Looking"),
                draft.tool_use("toolu_1", "Read", {"file_path": "/a"}),
                draft.tool_use("toolu_2", "Bash", {"command": "ls"}),
                draft.tool_use("toolu_3", "Glob", {"pattern": "*"}),
            ),
            draft.tool_result("toolu_1", "one", tool_use_result={"type": "text"}),
            draft.tool_result("toolu_2", ""),
            draft.tool_result("toolu_3", [draft.text("three")]),
            answer(draft.text("Done")),
        ],
        [
            ("user", [said("Q")]),
            (
                "assistant",
                [
                    said("Looking"),
                    use("toolu_1", "Read", file_path="/a"),
                    use("toolu_2", "Bash", command="ls"),
                    use("toolu_3", "Glob", pattern="*"),
                ],
            ),
            ("user", [result("toolu_1", "one"), result("toolu_2", ""), result("toolu_3", [said("three")])]),
            ("assistant", [said("Done")]),
        ],
    ),
    "thinking": (
        [draft.user("Q"), answer(draft.thinking("hm", "c2ln"), draft.text("A"))],
        [
            ("user", [said("Q")]),
            ("assistant", [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, said("A")]),
        ],
    ),
    "error result": (
        [
            draft.user("Q"),
            answer(draft.tool_use("toolu_4", "Bash", {"command": "false"})),
            draft.tool_result("toolu_4", "Exit code 1", True, "Error: Exit code 1"),
            answer(draft.text("It failed")),
        ],
        [
            ("user", [said("Q")]),
            ("assistant", [use("toolu_4", "Bash", command="false")]),
            ("user", [result("toolu_4", "Exit code 1", is_error=True)]),
            ("assistant", [said("It failed")]),
        ],
    ),
    "images": (
        [
            draft.user([draft.text("See"), draft.image(PIXEL, "image/png")]),
            answer(draft.tool_use("toolu_5", "Read", {"file_path": "/p.png"})),
            draft.tool_result("toolu_5", [draft.image(PIXEL, "image/png")]),
            answer(draft.text("A dot")),
        ],
        [
            ("user", [said("See"), PICTURE]),
            ("assistant", [use("toolu_5", "Read", file_path="/p.png")]),
            ("user", [result("toolu_5", [PICTURE])]),
            ("assistant", [said("A dot")]),
        ],
    ),
    "unicode": (
        [draft.user(UNICODE), answer(draft.text(UNICODE[::-1]))],
        [("user", [said(UNICODE)]), ("assistant", [said(UNICODE[::-1])])],
    ),
    "metadata between": (
        [
            draft.user("Q"),
            draft.custom_title("A title"),
            draft.tag("urgent"),
            draft.metadata("recollect-note", note="ours"),
            answer(draft.text("A")),
            draft.tag(""),
        ],
        [("user", [said("Q")]), ("assistant", [said("A")])],
    ),
}


class Outcome(NamedTuple):
    """What one resumed run did."""

    exit_code: int
    sent: list[Message]
    only_grew: bool
    follows_our_leaf: bool


def loaded(messages: list[Message]) -> Outcome:
    """The outcome we promise: all sent, in order, with the new prompt last; the file goes on from our leaf."""
    return Outcome(0, [*messages, ("user", [said(PROMPT)])], only_grew=True, follows_our_leaf=True)


# All of them are asked of the client in one log, below; alone, daily, the first and the last.
@pytest.mark.parametrize("talk", TALKS if TORTURE else [next(iter(TALKS)), list(TALKS)[-1]])
def test_a_session_of_ours_is_resumed(client: Client, talk: str) -> None:
    """The client sends exactly what we wrote, leaves our bytes alone and goes on from our last line."""
    drafts, messages = TALKS[talk]
    path = client.put(SESSION, written(client, drafts))

    assert loaded(messages) == resumed(client, path, SESSION)


@old_and_new
def test_all_talks_in_one_session_are_resumed(client: Client) -> None:
    """One after the other in one log: each client sends all of them."""
    drafts = [one for said_there, _ in TALKS.values() for one in said_there]
    path = client.put(SESSION, written(client, drafts))

    assert loaded([one for _, messages in TALKS.values() for one in messages]) == resumed(
        client, path, SESSION
    )


def test_a_converted_flat_log_is_resumed(client: Client) -> None:
    """Calls without ids, results out of order, equal and missing times: the session loads all the same."""
    lines: list[dict[str, Any]] = [
        {"type": "user", "content": "Q1", "timestamp": "2025-11-16T10:30:00.000Z"},
        {"type": "assistant", "content": "Look", "timestamp": "2025-11-16T10:30:00.000Z", "model": MODEL},
        {"type": "tool_call", "tool": "Read", "arguments": {"n": 1}, "timestamp": "2025-11-16T10:30:01.000Z"},
        {"type": "tool_call", "tool": "Bash", "arguments": {"n": 2}},
        {"type": "tool_result", "tool": "Bash", "error": "boom", "timestamp": "2025-11-16T10:29:00.000Z"},
        {
            "type": "tool_result",
            "tool": "Read",
            "result": {"rows": 3},
            "timestamp": "2025-11-16T10:30:02.000Z",
        },
        {"type": "tool_call", "tool": "Read", "arguments": {"n": 3}, "toolCallId": "call_1"},
        {"type": "tool_result", "tool": "Read", "result": "body", "toolCallId": "call_1"},
        {"type": "assistant", "content": "Done", "timestamp": "2025-11-16T10:00:00.000Z", "model": MODEL},
    ]
    path = client.put(SESSION, converted(client, lines))

    outcome = resumed(client, path, SESSION)

    ids = [block["id"] for _, blocks in outcome.sent for block in blocks if block["type"] == "tool_use"]
    assert 3 == len(set(ids))
    read_1, bash, read_2 = ids
    assert outcome == loaded(
        [
            ("user", [said("Q1")]),
            ("assistant", [said("Look"), use(read_1, "Read", n=1), use(bash, "Bash", n=2)]),
            ("user", [result(bash, "boom", is_error=True), result(read_1, '{"rows": 3}')]),
            ("assistant", [use(read_2, "Read", n=3)]),
            ("user", [result(read_2, "body")]),
            ("assistant", [said("Done")]),
        ]
    )


def test_a_converted_events_log_is_resumed(client: Client) -> None:
    """Events become a session: prompt, call, result and answer arrive in order."""
    message = {"role": "assistant", "model": MODEL, "content": [said("One file")]}
    lines: list[dict[str, Any]] = [
        {"type": "user", "session_id": "s", "message": {"role": "user", "content": "List"}},
        {
            "type": "tool_use",
            "session_id": "s",
            "tool_use_id": "toolu_9",
            "name": "LS",
            "input": {"path": "src"},
        },
        {"type": "tool_result", "session_id": "s", "tool_use_id": "toolu_9", "content": "index.ts"},
        {"type": "assistant", "session_id": "s", "message": message, "timestamp": "2025-12-01T08:00:00Z"},
    ]
    path = client.put(SESSION, converted(client, lines))

    assert resumed(client, path, SESSION) == loaded(
        [
            ("user", [said("List")]),
            ("assistant", [use("toolu_9", "LS", path="src")]),
            ("user", [result("toolu_9", "index.ts")]),
            ("assistant", [said("One file")]),
        ]
    )


def test_a_session_is_found_by_the_title_we_gave_it(client: Client) -> None:
    """``--resume <title>`` finds a session by our title line, whatever the case of its letters."""
    if client.version == "2.0.76":
        pytest.skip("2.0.76 resumes by id only")
    drafts, messages = TALKS["plain talk"]
    path = client.put(
        SESSION, written(client, [*drafts, draft.custom_title("Old"), draft.custom_title("Späte Fehler")])
    )

    assert loaded(messages) == resumed(client, path, "späte fehler")


@old_and_new
def test_we_and_the_client_take_turns(client: Client) -> None:
    """After the client went on we go on, and after us the client again: one conversation, nothing lost."""
    drafts, messages = TALKS["plain talk"]
    path = client.put(SESSION, written(client, drafts))
    resumed(client, path, SESSION)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
    more = written(client, [draft.user("Q3"), answer(draft.text("A3"))], after=leaf_of(path), start=later)
    path.write_bytes(path.read_bytes() + b"".join(line + b"\n" for line in more))

    assert resumed(client, path, SESSION) == loaded(
        [
            *messages,
            ("user", [said(PROMPT)]),
            ("assistant", [said(ANSWER)]),
            ("user", [said("Q3")]),
            ("assistant", [said("A3")]),
        ]
    )


@old_and_new
def test_two_blocks_on_one_line_are_loaded_but_repeated_by_2_0_76(client: Client) -> None:
    """Why ``claude_lines`` writes one block a line: 2.0.76 writes such a line again, apart, with other ids."""
    stamp = stamp_of(client, 0, None, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    pair = draft.user([draft.text("See"), draft.image(PIXEL, "image/png")])
    lines = [draft.claude_line(pair, stamp)]
    lines += written(client, [answer(draft.text("A"))], after=stamp.uuid)
    path = client.put(SESSION, lines)

    outcome = resumed(client, path, SESSION)

    expected = loaded([("user", [said("See"), PICTURE]), ("assistant", [said("A")])])
    assert expected._replace(follows_our_leaf=client.version != "2.0.76") == outcome


# ---- a session of ours -----------------------------------------------------------------------------------


def stamp_of(client: Client, number: int, parent: str | None, time: dt.datetime) -> Stamp:
    return Stamp(
        uuid=derived_uuid(f"{SESSION} {time}", number),
        parent_uuid=parent,
        session_id=SESSION,
        timestamp=time,
        cwd=str(client.cwd),
        version="2.0.76",
    )


def written(
    client: Client,
    drafts: Sequence[Draft],
    after: str | None = None,
    start: dt.datetime = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC),
) -> list[bytes]:
    """The drafts as lines, a second apart, each after the one before."""
    lines: list[bytes] = []
    for number, what in enumerate(drafts):
        stamp = stamp_of(client, number, after, start + dt.timedelta(seconds=number))
        lines += draft.claude_lines(what, stamp)
        if not isinstance(what, MetadataDraft):
            after = json.loads(lines[-1])["uuid"]
    return lines


def converted(client: Client, lines: Sequence[dict[str, Any]]) -> list[bytes]:
    entries = [entry for line in lines if isinstance(entry := decode(Line(json.dumps(line).encode())), Entry)]
    assert len(lines) == len(entries)
    return to_claude(entries, session_id=SESSION, cwd=str(client.cwd)).lines


# ---- what the client did ---------------------------------------------------------------------------------


def resumed(client: Client, path: Path, name: str) -> Outcome:
    """Let the client resume the session called ``name`` and say one thing more."""
    before, leaf = path.read_bytes(), leaf_of(path)
    run = client.ask(PROMPT, "--resume", name)
    after = path.read_bytes()
    conversations = client.stub.conversations()
    return Outcome(
        exit_code=run.returncode,
        sent=without_additions(conversations[-1]) if conversations else [("stderr", [said(run.stderr)])],
        only_grew=after.startswith(before) and after.endswith(b"\n"),
        follows_our_leaf=next(iter(parents_in(after[len(before) :])), None) == leaf,
    )


def without_additions(messages: list[dict[str, Any]]) -> list[Message]:
    """Messages as blocks, without cache marks and without what the client says about itself."""
    plain: list[Message] = []
    for message in messages:
        content = message["content"]
        blocks = [said(content)] if isinstance(content, str) else content
        kept = [
            {name: value for name, value in block.items() if name != "cache_control"}
            for block in blocks
            if not block.get("text", "").startswith("<system-reminder>")
        ]
        plain.append((message["role"], kept))
    return plain


def chain_in(data: bytes) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in data.splitlines()]
    return [entry for entry in entries if "uuid" in entry]


def parents_in(data: bytes) -> list[str | None]:
    return [entry["parentUuid"] for entry in chain_in(data)]


def leaf_of(path: Path) -> str:
    leaf: str = chain_in(path.read_bytes())[-1]["uuid"]
    return leaf
