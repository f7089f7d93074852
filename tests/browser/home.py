"""A home to look at in a browser: one rich session, one with branches, one of thousands of messages, one hostile."""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

from tests.browser.payloads import PAYLOADS
from tests.small_home import lines, link, prompt, put, reply, said, uuid_of

RICH = "aaaa0000-0000-4000-8000-000000000001"
BRANCHED = "aaaa0000-0000-4000-8000-000000000002"
LONG = "aaaa0000-0000-4000-8000-000000000003"
HOSTILE = "aaaa0000-0000-4000-8000-000000000004"
LIVE = "aaaa0000-0000-4000-8000-000000000005"
SENT = "aaaa0000-0000-4000-8000-000000000006"
FOUND = "aaaa0000-0000-4000-8000-000000000007"
EDITED = "aaaa0000-0000-4000-8000-000000000008"
BROKEN = "aaaa0000-0000-4000-8000-000000000009"
WINDOWS = "aaaa0000-0000-4000-8000-00000000000a"
EMPTY = "aaaa0000-0000-4000-8000-00000000000b"
SNAPSHOT = "aaaa0000-0000-4000-8000-00000000000c"
AGENT = "a1b2c3d4e5f6a7b8c"
# Many times what stands on a screen or is loaded at once; in a torture run as many as the longest sessions have.
LONG_MESSAGES = 20_000 if os.environ.get("RECOLLECT_TORTURE") else 4_000
FIRST_WORD = 500_001
NEEDLE = "heliotrope"


def made_home(home: Path) -> None:
    """All of them."""
    put(home, FOUND, [own(entry, "found") for entry in with_words()], cwd="/srv/found")
    begun = [prompt(1, None, "Begin"), reply(2, 1, said("Begun"))]
    talks = {"shop": (RICH, rich()), "ways": (BRANCHED, branched()), "long": (LONG, long())}
    talks |= {"edits": (EDITED, edits()), "broken": (BROKEN, broken())}
    talks |= {"evil": (HOSTILE, hostile()), "live": (LIVE, begun)}
    for name, (session, entries) in talks.items():
        put(home, session, [own(entry, name) for entry in entries], cwd=f"/srv/{name}")
    put(home, WINDOWS, timed([own(entry, "win") for entry in windows()]), cwd="C:\\Users\\sam\\shop\\till")
    # What a client leaves behind that started and did nothing: files of today without a word.
    put(home, EMPTY, [])
    log = put(home, SNAPSHOT, [{"type": "file-history-snapshot", "messageId": uuid_of(1), "snapshot": {}}])
    log.write_bytes(log.read_bytes() + b'{"type": "us\n')
    aged(home, BRANCHED, 25)
    aged(home, BROKEN, 40)
    log = put(home, SENT, [own(entry, "sent") for entry in sent()], cwd="/srv/sent")
    beside = log.with_suffix("") / "subagents"
    beside.mkdir(parents=True)
    meta = {"agentType": "Explore", "description": "Look around", "toolUseId": "toolu_s"}
    (beside / f"agent-{AGENT}.meta.json").write_text(json.dumps(meta))
    found = [prompt(101, None, "Look around"), reply(102, 101, said("Saw a tree"))]
    marks = {"isSidechain": True, "agentId": AGENT, "sessionId": SENT, "cwd": "/srv/sent"}
    (beside / f"agent-{AGENT}.jsonl").write_bytes(lines([own(entry, "sub") | marks for entry in found]))


def aged(home: Path, session: str, days: int) -> None:
    """As if its client had written it last so many days ago."""
    (log,) = home.glob(f"projects/*/{session}.jsonl")
    then = log.stat().st_mtime - days * 86_400
    os.utime(log, (then, then))


def windows() -> list[dict[str, Any]]:
    """As dear as several others; its newest line repeats a word of ``WORDS`` where no conversation shows it."""
    snapshot = {"type": "prompt_snapshot", "content": f"Before: {next(iter(WORDS))}"}
    return [
        prompt(1, None, "From Windows"),
        *(reply(number, number - 1, said(f"Seen {number}")) for number in range(2, 6)),
        link(6, 5, type="attachment", attachment=snapshot),
    ]


def sent() -> list[dict[str, Any]]:
    """Compacted once; then it sends a sub-agent."""
    boundary = link(
        3,
        None,
        type="system",
        subtype="compact_boundary",
        content="Conversation compacted",
        logicalParentUuid=uuid_of(2),
        compactMetadata={"trigger": "auto", "preTokens": 190_000},
    )
    return [
        prompt(1, None, "Long ago"),
        reply(2, 1, said("Far away")),
        boundary,
        prompt(4, 3, "What came before", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        prompt(5, 4, "Send somebody"),
        reply(
            6, 5, tool("toolu_s", "Task", subagent_type="Explore", description="Look", prompt="Look around")
        ),
        result(
            7, 6, "toolu_s", [said("A tree")], toolUseResult={"agentId": AGENT, "totalDurationMs": 61_000}
        ),
        reply(8, 7, said("There is a tree")),
    ]


FILL = "Some words that fill a line or two without being looked for. "
# A word for each place that a match can be in: what the reader searches for, and where it is.
WORDS = {
    "amaranth": "a prompt of the chapter before the compaction",
    "bergamot": "an answer",
    "calendula": "the end of a very long answer",
    "dandelion": "a cell of a table",
    "edelweiss": "a line of code far down",
    "fennelseed": "the arguments of a slash command",
    "gardenia": "a summary",
    "hyacinth": "a short thought",
    "iceplant": "the end of a long thought",
    "jonquil": "a thought in the middle of the work",
    "kniphofia": "a command",
    "lobelia": "the last line of a long command",
    "marigold": "what an edit took out",
    "narcissus": "a line of a written file far down",
    "oleander": "a part of an input that has no look of its own",
    "peony": "a pattern",
    "quince": "an input within an input",
    "ranunculus": "the prompt of a sub-agent's call",
    "snapdragon": "a short result",
    "tuberose": "a line of a result far down",
    "umbrella": "a result that is cut because it is so long",
    "verbena": "the result of an edit that went well",
    "wisteria": "an error",
    "xeranthemum": "one of several calls in a row",
    "yarrow": "the end of a command that is one long line",
}


def with_words() -> list[dict[str, Any]]:
    """Every word of ``WORDS`` in its place, in a session that was compacted once and worked long."""
    word = dict(zip("abcdefghijklmnopqrstuvwxy", WORDS, strict=True))
    far = "\n".join(f"value = compute({number})" for number in range(150))
    parts: list[tuple[str, Any]] = [
        ("p", f"Before: {word['a']}"),
        ("a", [said(f"Yes, the {word['b']} is there.")]),
        ("p", "At length, please"),
        ("a", [said((FILL * 6 + "\n\n") * 60 + f"At last the {word['c']}.")]),
        ("b", None),
        ("s", f"What came before was about {word['g']}."),
        ("p", "Show a table and code"),
        ("a", [said(f"| a | b |\n|---|---|\n| 1 | {word['d']} |\n\n```python\n{far}\n# {word['e']}\n```\n")]),
        ("p", f"<command-name>/plant</command-name>\n<command-args>{word['f']} now</command-args>"),
        ("a", [{"type": "thinking", "thinking": f"A {word['h']}.", "signature": "s"}, said("Planted.")]),
        ("p", "Do the work"),
        ("a", [{"type": "thinking", "thinking": FILL * 400 + word["i"], "signature": "s"}]),
    ]
    long_command = "\n".join([*(f"echo {number}" for number in range(40)), f"echo {word['l']}"])
    calls: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
        (tool("f1", "Bash", command=f"grep {word['k']} x"), "nothing", {}),
        (tool("f2", "Bash", command=long_command), "done", {}),
        (tool("f3", "Edit", file_path="/srv/f.py", old_string=word["m"], new_string="x"), "updated", {}),
        (tool("f4", "Write", file_path="/srv/g.py", content=f"{far}\n# {word['n']}\n"), "created", {}),
        (
            tool("f5", "TodoWrite", todos=[{"content": "Dig", "status": "pending", "activeForm": word["o"]}]),
            "ok",
            {},
        ),
        (tool("f6", "Grep", pattern=word["p"], path="/srv"), "no files", {}),
        (tool("f7", "mcp__garden__plant", where={"bed": [{"name": word["q"]}]}), "planted", {}),
        (
            tool("f8", "Task", subagent_type="Explore", description="Look", prompt=f"Find {word['r']}"),
            "none",
            {},
        ),
        (tool("f9", "Bash", command="cat a"), f"a {word['s']} grew", {}),
        (tool("f10", "Bash", command="cat b"), f"{far}\n{word['t']}\n", {}),
        (tool("f11", "Bash", command="cat c"), (FILL + "\n") * 2_600 + word["u"], {}),
        (
            tool("f12", "Edit", file_path="/srv/f.py", old_string="x", new_string="y"),
            f"updated {word['v']}",
            {},
        ),
        (tool("f13", "Bash", command="cat d"), f"no such {word['w']}", {"is_error": True}),
        (tool("f14", "Bash", command="echo " + "value " * 60 + word["y"]), "none", {}),
    ]
    for place, (call, answer, more) in enumerate(calls):
        thought = (
            [{"type": "thinking", "thinking": f"{FILL} {word['j']}", "signature": "s"}] if place == 6 else []
        )
        parts += [("a", [*thought, call]), ("r", (call["id"], answer, more))]
    reads = [tool(f"g{number}", "Read", file_path=f"/srv/{number}.py") for number in range(4)]
    parts.append(("a", reads))
    parts += [("r", (f"g{number}", word["x"] if number == 2 else "text", {})) for number in range(4)]
    parts.append(("a", [said("Done.")]))
    # Ids of its own: a message that stands in two logs is found once.
    return timed([_part(part, FIRST_WORD + place) for place, part in enumerate(parts)])


def _part(part: tuple[str, Any], number: int) -> dict[str, Any]:
    kind, what = part
    before = number - 1 if number > FIRST_WORD else None
    if kind == "p":
        return prompt(number, before, what)
    if kind == "a":
        return reply(number, number - 1, *what)
    if kind == "s":
        return prompt(number, before, what, isCompactSummary=True, isVisibleInTranscriptOnly=True)
    if kind == "b":
        cut: dict[str, Any] = {
            "type": "system",
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
        }
        meta: dict[str, Any] = {"compactMetadata": {"trigger": "auto", "preTokens": 190_000}}
        return link(number, None, **cut, logicalParentUuid=uuid_of(number - 1), **meta)
    name, answer, more = what
    return result(number, number - 1, name, answer, **more)


def own(entry: dict[str, Any], name: str) -> dict[str, Any]:
    """A response of this session and no other: one that stands in two logs would count once."""
    message = entry.get("message", {})
    if "id" not in message:
        return entry
    ids = {"id": f"{name}_{message['id']}"}
    return {**entry, "message": message | ids, "requestId": f"{name}_{entry['requestId']}"}


def tool(name: str, tool_name: str, **given: Any) -> dict[str, Any]:
    """A call."""
    return {"type": "tool_use", "id": name, "name": tool_name, "input": given}


def result(
    number: int, after: int, name: str, content: Any, *, is_error: bool = False, **fields: Any
) -> dict[str, Any]:
    """Its result."""
    block = {"type": "tool_result", "tool_use_id": name, "content": content, "is_error": is_error}
    return link(number, after, type="user", message={"role": "user", "content": [block]}, **fields)


def picture() -> dict[str, Any]:
    """A red dot."""
    rows = zlib.compress(b"\0\xff\0\0")

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png).decode()}
    return {"type": "image", "source": source}


def rich() -> list[dict[str, Any]]:
    """Markdown, a picture, thinking, an edit, an error, a written file."""
    text = f"# Plan\n\nThe *total* of the **basket** in `basket.py`, see [the docs](https://example.org/a).\n\n```python\ndef total(lines):\n    return sum(lines)  # {NEEDLE}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] read\n- [ ] write\n"
    edit = tool("toolu_1", "Edit", file_path="/srv/shop/basket.py", old_string="a\nb", new_string="a\nc")
    patch = [{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": [" a", "-b", "+c"]}]
    patched = {"filePath": "/srv/shop/basket.py", "originalFile": "a\nb", "structuredPatch": patch}
    patched |= {"oldString": "a\nb", "newString": "a\nc"}
    made = {"type": "create", "filePath": "/srv/shop/new.py", "content": "print('new')\n"}
    return [
        prompt(1, None, "Total the basket", gitBranch="main"),
        reply(2, 1, {"type": "thinking", "thinking": "Let me think.", "signature": "s"}, said(text), edit),
        result(3, 2, "toolu_1", "updated", toolUseResult=patched),
        reply(4, 3, tool("toolu_2", "Bash", command="pytest -q", description="Run the tests")),
        result(5, 4, "toolu_2", "1 failed", is_error=True),
        reply(6, 5, tool("toolu_3", "Write", file_path="/srv/shop/new.py", content="print('new')\n")),
        result(7, 6, "toolu_3", "File created", toolUseResult=made),
        reply(8, 7, said("Done.")),
        link(9, 8, type="user", message={"role": "user", "content": [said("Like this:"), picture()]}),
        reply(10, 9, said("I see a dot.")),
    ]


def broken() -> list[dict[str, Any]]:
    """A call that has no result: a finding."""
    call = tool("lost", "Bash", command="sleep 1")
    return [
        prompt(1, None, "Wait a second"),
        reply(2, 1, call),
        prompt(3, 2, "And now?"),
        reply(4, 3, said("Now.")),
    ]


BASKET = [
    "import json\n\n\ndef total(lines):\n    # the sum of all lines\n    return sum(one.price for one in lines)\n",
    "import json\n\n\ndef total(lines):\n    # the sum of all lines, rounded once\n    return round(sum(one.price for one in lines), 2)\n",
    "import json\nfrom decimal import Decimal\n\n\ndef total(lines):\n    # the sum of all lines, rounded once\n    exact = sum(Decimal(one.price) for one in lines)\n    return round(exact, 2)\n",
]


def edits() -> list[dict[str, Any]]:
    """A file in three versions, one that was read, one in another directory."""
    entries = [prompt(1, None, "Round the totals once")]
    place = "/srv/edits/src/shop/basket.py"
    seen = {
        "filePath": "/srv/edits/README.md",
        "content": "# Shop\n",
        "startLine": 1,
        "numLines": 1,
        "totalLines": 1,
    }
    entries += [
        reply(2, 1, tool("e1", "Read", file_path="/srv/edits/README.md")),
        result(3, 2, "e1", "# Shop", toolUseResult={"type": "text", "file": seen}),
        reply(4, 3, tool("e2", "Write", file_path=place, content=BASKET[0])),
        result(
            5,
            4,
            "e2",
            "File created",
            toolUseResult={"type": "create", "filePath": place, "content": BASKET[0], "structuredPatch": []},
        ),
    ]
    for number, (old, new) in enumerate(itertools.pairwise(BASKET)):
        name, at = f"e{3 + number}", 6 + 2 * number
        changed = {
            "type": "update",
            "filePath": place,
            "content": new,
            "originalFile": old,
            "structuredPatch": [],
        }
        entries += [
            reply(at, at - 1, tool(name, "Write", file_path=place, content=new)),
            result(at + 1, at, name, "updated", toolUseResult=changed),
        ]
    test = "/srv/edits/tests/test_basket.py"
    text = "def test_total():\n    assert total([]) == 0\n"
    entries += [
        reply(10, 9, tool("e9", "Write", file_path=test, content=text)),
        result(
            11,
            10,
            "e9",
            "File created",
            toolUseResult={"type": "create", "filePath": test, "content": text, "structuredPatch": []},
        ),
        reply(12, 11, said("Rounded once.")),
    ]
    return entries


def branched() -> list[dict[str, Any]]:
    """Two answers to one prompt; the later one is the one that counts."""
    return [
        prompt(1, None, "Which way"),
        reply(2, 1, said("Choose")),
        prompt(3, 2, "Go left"),
        reply(4, 3, said("Went left")),
        prompt(5, 2, "Go right"),
        reply(6, 5, said("Went right")),
    ]


def long() -> list[dict[str, Any]]:
    """Prompts and answers by turns, some of them long."""
    entries = []
    for number in range(1, LONG_MESSAGES + 1):
        before = number - 1 or None
        words = f"Message {number}. " + "Some words that fill a line or two. " * (1 + number % 7)
        if number % 2:
            entries.append(prompt(number, before, words))
        else:
            code = "\n\n```python\n" + "value = compute(1)\n" * (number % 11) + "```\n"
            entries.append(reply(number, number - 1, said(words + code)))
    return timed(entries)


def timed(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A second between one and the next, also beyond the hour."""
    start = dt.datetime(2026, 11, 15, tzinfo=dt.UTC)
    for number, entry in enumerate(entries):
        at = start + dt.timedelta(seconds=number)
        entry["timestamp"] = at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return entries


def hostile() -> list[dict[str, Any]]:
    """Every payload in every place that text can come from."""
    entries = []
    number = 0
    for payload in PAYLOADS:
        name = f"toolu_h{number}"
        entries.append(prompt(number + 1, number or None, payload, gitBranch=payload[:80]))
        blocks = [
            {"type": "thinking", "thinking": payload, "signature": "s"},
            said(f"before\n\n{payload}\n\nafter `{payload}` [{payload}]({payload}) ![{payload}]({payload})"),
            tool(name, payload[:60], file_path=payload, command=payload, todos=[{"content": payload}]),
            tool(f"{name}w", "Write", file_path=f"/srv/evil/{payload}", content=payload),
            {"type": payload, "text": payload},
            {"type": "image", "source": {"type": "blob", "media_type": "image/png", "url": payload}},
        ]
        entries.append(reply(number + 2, number + 1, *blocks))
        entries.append(result(number + 3, number + 2, name, payload, is_error=True))
        made = {"type": "create", "filePath": f"/srv/evil/{payload}", "content": payload}
        entries.append(result(number + 4, number + 3, f"{name}w", payload, toolUseResult=made))
        number += 4
    timed(entries)
    entries.append({"type": "custom-title", "customTitle": PAYLOADS[0], "sessionId": HOSTILE})
    entries.append({"type": "tag", "tag": PAYLOADS[1], "sessionId": HOSTILE})
    return entries


def appended(home: Path, session: str, *entries: dict[str, Any]) -> None:
    """As a client that goes on would write."""
    (log,) = home.glob(f"projects/*/{session}.jsonl")
    with log.open("ab") as file:
        for entry in entries:
            line = {**entry, "sessionId": session, "cwd": "/srv/live"}
            file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


LAST_LONG = uuid_of(LONG_MESSAGES)
