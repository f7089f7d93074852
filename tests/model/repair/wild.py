"""Wilder logs: many kinds of trouble at once, also such as no repair knows."""

from __future__ import annotations

import json
import random

from tests.model.repair.damaged import BYTE_DAMAGE, FIELD_DAMAGE, Lines, damage_lines, talk
from tests.talk import Fields, assistant, call, link, result, user


def _chain(lines: Lines) -> Lines:
    return [line for line in lines if "uuid" in line]


def _messages(lines: Lines) -> Lines:
    return [line for line in lines if isinstance(line.get("message"), dict) and "content" in line["message"]]


def lose_an_id(lines: Lines, rng: random.Random) -> None:
    rng.choice(_messages(lines) or [{}]).pop("uuid", None)


def odd_ids(lines: Lines, rng: random.Random) -> None:
    """Call ids that the API refuses, used by call and result alike."""
    lines[:] = json.loads(json.dumps(lines).replace("toolu_1_", rng.choice(["tool 1!", "ü1", "a/b"])))


def answer_without_parent(lines: Lines, rng: random.Random) -> None:
    answers = [line for line in _chain(lines) if line.get("type") == "assistant"]
    if answers:
        rng.choice(answers)["parentUuid"] = None


def several_circles(lines: Lines, rng: random.Random) -> None:
    for _ in range(3):
        chain = _chain(lines)
        place = rng.randrange(len(chain))
        chain[place]["parentUuid"] = chain[min(place + rng.choice([0, 1, 3]), len(chain) - 1)]["uuid"]


def orphan_behind_progress(lines: Lines, rng: random.Random) -> None:
    """A line that is no link stands between an entry and a parent that is not in the log."""
    entry = rng.choice(_chain(lines))
    place = lines.index(entry)
    lines.insert(place, link("progress-x", "gone", 3, type="progress", data={}))
    entry["parentUuid"] = "progress-x"


def compact(lines: Lines, rng: random.Random) -> None:
    """A boundary, now and then one that preserves lines, in the middle of the talk."""
    chain = _chain(lines)
    place = lines.index(rng.choice(chain))
    before = lines[place].get("uuid")
    kept = [line["uuid"] for line in chain[-3:]]
    metadata: Fields = {"trigger": "auto", "preTokens": 1}
    if rng.random() < 0.5:
        metadata["preservedMessages"] = {"anchorUuid": "summary-x", "uuids": kept}
    boundary = link(
        "boundary-x",
        None,
        70,
        type="system",
        subtype="compact_boundary",
        content="Conversation compacted",
        logicalParentUuid=before,
        compactMetadata=metadata,
    )
    summary = user("summary-x", "boundary-x", 70, "Summary", isCompactSummary=True)
    lines[place + 1 : place + 1] = [boundary, summary]
    for line in chain:
        if line.get("parentUuid") == before and line["uuid"] != "boundary-x":
            line["parentUuid"] = "summary-x"


def sidechain(lines: Lines, rng: random.Random) -> None:
    for line in rng.choices(_chain(lines), k=rng.choice([1, 4])):
        line["isSidechain"] = True


def wrong_side(lines: Lines, rng: random.Random) -> None:
    """Thinking of the user, results of the model."""
    line = rng.choice(_messages(lines) or [user("x", None, 0, "x")])
    blocks: list[Fields] = [
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        result("toolu_1_0", "R"),
        call("toolu_9"),
        {"type": "redacted_thinking", "data": ""},
    ]
    content = line["message"]["content"]
    old = content if isinstance(content, list) else [{"type": "text", "text": content}]
    line["message"]["content"] = [*old, rng.choice(blocks)]


def other_model(lines: Lines, rng: random.Random) -> None:
    for line in _messages(lines):
        if line["type"] == "assistant" and rng.random() < 0.3:
            line["message"]["model"] = "claude-opus-4-1-20250805"


def second_result(lines: Lines, rng: random.Random) -> None:
    results = [line for line in _chain(lines) if '"tool_result"' in json.dumps(line)]
    if results:
        again = {**rng.choice(results), "uuid": "again-x"}
        lines.insert(rng.randrange(len(lines)), again)


def late_result(lines: Lines, rng: random.Random) -> None:
    """A result behind the next answer."""
    results = [line for line in _chain(lines) if '"tool_result"' in json.dumps(line)]
    if results:
        late = rng.choice(results)
        place = lines.index(late)
        followers = [line for line in lines if line.get("parentUuid") == late["uuid"]]
        if followers and "uuid" in followers[0]:
            follower = followers[0]
            follower["parentUuid"], late["parentUuid"] = late["parentUuid"], follower["uuid"]
            after = [line for line in lines[place + 2 :] if line.get("parentUuid") == follower["uuid"]]
            for line in after:
                line["parentUuid"] = late["uuid"]


def branch(lines: Lines, rng: random.Random) -> None:
    parent = rng.choice(_chain(lines))["uuid"]
    at = rng.choice([1, 100, 1000])
    more = [
        user("branch-q", rng.choice([parent, None, "gone"]), at, "Other question"),
        assistant("branch-a", "branch-q", at + 1, [call("toolu_b")], "msg_b"),
        user("branch-r", "branch-a", at + 2, [result("toolu_b", "out")]),
    ]
    place = rng.randrange(len(lines) + 1)
    lines[place:place] = more[: rng.choice([1, 2, 3])]


def no_content(lines: Lines, rng: random.Random) -> None:
    rng.choice(_messages(lines) or [{}])["message"] = rng.choice([None, "text", {}, {"role": "user"}])


def foreign_line(lines: Lines, rng: random.Random) -> None:
    lines.insert(
        rng.randrange(len(lines) + 1),
        rng.choice(
            [
                {"type": "from-the-future", "a": 1},
                {"a": {"b": []}},
                {"type": "user", "message": {"role": "user", "content": "x"}},
            ]
        ),
    )


WILD_DAMAGE = [
    lose_an_id,
    odd_ids,
    answer_without_parent,
    several_circles,
    orphan_behind_progress,
    compact,
    sidechain,
    wrong_side,
    other_model,
    second_result,
    late_result,
    branch,
    no_content,
    foreign_line,
]


def wild_log(seed: int) -> bytes:
    """The bytes of a log with two to seven kinds of trouble; the same for the same seed."""
    rng = random.Random(f"wild {seed}")
    lines = talk(rng, rng.choice([2, 4, 8]))
    damage_lines(lines, rng, rng.sample([*FIELD_DAMAGE, *WILD_DAMAGE], rng.choice([1, 2, 3, 5])))
    data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
    for spoil in rng.sample(BYTE_DAMAGE, rng.choice([0, 0, 1, 2])):
        data = spoil(data, rng)
    return data
