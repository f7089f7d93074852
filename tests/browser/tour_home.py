"""A home to be shown around in: sessions of today, of this week and of weeks ago, each with something of its own."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

from tests.browser.home import (
    AGENT,
    BROKEN,
    EDITED,
    FOUND,
    LONG,
    RICH,
    SENT,
    broken,
    edits,
    long,
    own,
    result,
    rich,
    sent,
    timed,
    tool,
    with_words,
)
from tests.small_home import lines, link, prompt, put, reply, said, uuid_of

STORY = "aaaa0000-0000-4000-8000-0000000000b1"
LONG_MESSAGES = 240


def made_tour_home(home: Path) -> None:
    """Hours before now, by session: the newest are of today, others of last week and the month before."""
    talks: dict[str, tuple[str, int, list[dict[str, Any]]]] = {
        STORY: ("garden", 1, story()),
        RICH: ("shop", 2, rich()),
        SENT: ("sent", 26, sent()),
        FOUND: ("found", 50, timed(with_words())),
        EDITED: ("edits", 8 * 24, edits()),
        BROKEN: ("broken", 12 * 24, broken()),
        LONG: ("long", 26 * 24, long()[:LONG_MESSAGES]),
    }
    now = dt.datetime.now(dt.UTC)
    for session, (name, hours, entries) in talks.items():
        begun = now - dt.timedelta(hours=hours)
        moved = [since(begun, own(entry, name), entries[0]) for entry in entries]
        log = put(home, session, moved, cwd=f"/srv/{name}")
        os.utime(log, (begun.timestamp(), begun.timestamp()))
    with_agent(home, now - dt.timedelta(hours=26))


def since(begun: dt.datetime, entry: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    """As if its session had begun then."""
    if "timestamp" not in entry:
        return entry
    after = dt.datetime.fromisoformat(entry["timestamp"]) - dt.datetime.fromisoformat(first["timestamp"])
    return {**entry, "timestamp": f"{begun + after:%Y-%m-%dT%H:%M:%S}.000Z"}


def with_agent(home: Path, begun: dt.datetime) -> None:
    """What the sub-agent of ``SENT`` did."""
    (log,) = home.glob(f"projects/*/{SENT}.jsonl")
    beside = log.with_suffix("") / "subagents"
    beside.mkdir(parents=True)
    meta = {"agentType": "Explore", "description": "Look around", "toolUseId": "toolu_s"}
    (beside / f"agent-{AGENT}.meta.json").write_text(json.dumps(meta))
    found = [prompt(101, None, "Look around the garden"), reply(102, 101, said("Saw a tree"))]
    marks = {"isSidechain": True, "agentId": AGENT, "sessionId": SENT, "cwd": "/srv/sent"}
    moved = [since(begun, own(entry, "sub"), found[0]) | marks for entry in found]
    (beside / f"agent-{AGENT}.jsonl").write_bytes(lines(moved))


def story() -> list[dict[str, Any]]:
    """Two chapters; and everything that a client writes in the user's name."""
    boundary = link(
        9,
        None,
        type="system",
        subtype="compact_boundary",
        content="Conversation compacted",
        logicalParentUuid=uuid_of(8),
        compactMetadata={"trigger": "manual", "preTokens": 155_000},
    )
    asked = [said("Plant a hedge"), said("<system-reminder>Keep answers short.</system-reminder>")]
    before = [
        link(1, None, type="user", message={"role": "user", "content": asked}),
        reply(2, 1, said("Which kind of hedge?")),
        prompt(3, 2, "<command-name>/model</command-name>\n<command-args>sonnet</command-args>"),
        prompt(4, 3, "<local-command-stdout>Set the model to sonnet</local-command-stdout>"),
        prompt(5, 4, "Hornbeam, please"),
        reply(6, 5, tool("s1", "Bash", command="dig --along path", description="Dig a ditch")),
        result(7, 6, "s1", "[Request interrupted by user for tool use]", is_error=True),
        prompt(8, 7, "[Request interrupted by user for tool use]"),
    ]
    reads = [tool(f"s{number}", "Read", file_path=f"/srv/garden/bed{number}.md") for number in range(2, 7)]
    results = [result(14 + number, 13 + number, f"s{2 + number}", f"bed {number}") for number in range(5)]
    after = [
        prompt(10, 9, "The hedge is planned.", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        prompt(12, 10, "And water it"),
        reply(13, 12, *reads),
        *results,
        reply(19, 18, tool("s8", "Bash", command="water --all", description="Water every bed")),
        result(20, 19, "s8", "5 beds watered"),
        reply(21, 20, said("Every bed is watered.")),
    ]
    return [*before, boundary, *after]
