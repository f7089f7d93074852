"""Generated sessions with generated damage: every family that repair knows, several at once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

from tests.talk import Fields, assistant, call, link, mark, result, user

SIGNED = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
Lines = list[Fields]


def talk(rng: random.Random, turns: int = 6) -> Lines:
    """A sound conversation: prompts, thinking, calls alone and in parallel, results, notes, progress, metadata."""
    lines: Lines = [{"type": "queue-operation", "operation": "enqueue", "sessionId": "s", "timestamp": "x"}]
    parent: str | None = None
    seconds = 0.0

    def add(
        make: Callable[..., Fields], content: object, message: str | None = None, **fields: object
    ) -> None:
        nonlocal parent, seconds
        seconds += rng.choice([0.5, 2, 9, 60])
        uuid = f"u{len(lines):04d}"
        extra = (message,) if make is assistant else ()
        lines.append(make(uuid, parent, seconds, content, *extra, **fields))
        parent = uuid

    for turn in range(turns):
        add(user, f"Question {turn} with wörds")
        answer = f"msg_{turn}"
        if rng.random() < 0.4:
            add(assistant, [SIGNED], answer)
        if rng.random() < 0.7:
            names = [f"toolu_{turn}_{number}" for number in range(rng.choice([1, 1, 2, 3]))]
            for name in names:
                add(assistant, [call(name)], answer)
            if rng.random() < 0.3:
                uuid = f"u{len(lines):04d}"
                lines.append(link(uuid, parent, seconds, type="progress", data={"type": "hook_progress"}))
                parent = uuid
            for name in names:
                add(user, [result(name, f"out of {name}")], toolUseResult={"stdout": "x" * 50})
        add(assistant, f"Answer {turn}", f"{answer}_end")
        if rng.random() < 0.2:
            lines.append({"type": "custom-title", "customTitle": "T", "sessionId": "s"})
    if rng.random() < 0.5:
        lines.append(mark(parent or ""))
    return lines


# ---- damage to fields ------------------------------------------------------------------------------------


def _chain(lines: Lines) -> Lines:
    return [line for line in lines if "uuid" in line]


def lose_a_line(lines: Lines, rng: random.Random) -> None:
    del lines[rng.randrange(len(lines))]


def lose_a_parent(lines: Lines, rng: random.Random) -> None:
    rng.choice(_chain(lines))["parentUuid"] = "gone"


def make_a_circle(lines: Lines, rng: random.Random) -> None:
    chain = _chain(lines)
    rng.choice(chain)["parentUuid"] = rng.choice(chain)["uuid"]


def lose_times(lines: Lines, rng: random.Random) -> None:
    chain = _chain(lines)
    for line in rng.choice([chain, chain[-1:], chain[-3:]]):
        line["timestamp"] = rng.choice([None, "yesterday", ""])


def lose_a_result(lines: Lines, rng: random.Random) -> None:
    results = [line for line in _chain(lines) if '"tool_result"' in json.dumps(line)]
    if results:
        lines.remove(rng.choice(results))


def lose_a_call(lines: Lines, rng: random.Random) -> None:
    calls = [line for line in _chain(lines) if '"tool_use"' in json.dumps(line)]
    if calls:
        lines.remove(rng.choice(calls))


def repeat_tool_ids(lines: Lines, rng: random.Random) -> None:
    text = json.dumps(lines).replace("toolu_2_", "toolu_1_").replace("toolu_3_", "toolu_1_")
    lines[:] = json.loads(text)


def spoil_content(lines: Lines, rng: random.Random) -> None:
    line = rng.choice([one for one in _chain(lines) if isinstance(one.get("message"), dict)])
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    content: list[Fields] = [
        {"type": "text", "text": ""},
        {"type": "text", "text": "  \n"},
        {"type": "thinking", "thinking": "unsigned"},
        image,
        result("toolu_nobody", [{"type": "text", "text": ""}, image]),
    ]
    old = line["message"].get("content", "")
    blocks = old if isinstance(old, list) else [{"type": "text", "text": old}]
    line["message"]["content"] = rng.choice([[*blocks, rng.choice(content)], [rng.choice(content)], "", []])


def repeat_an_id(lines: Lines, rng: random.Random) -> None:
    chain = _chain(lines)
    lines.insert(rng.randrange(len(lines)), {**rng.choice(chain), "note": "again"})


def shuffle_some(lines: Lines, rng: random.Random) -> None:
    start = rng.randrange(len(lines))
    some = lines[start : start + 5]
    rng.shuffle(some)
    lines[start : start + 5] = some


FIELD_DAMAGE = [
    lose_a_line,
    lose_a_parent,
    make_a_circle,
    lose_times,
    lose_a_result,
    lose_a_call,
    repeat_tool_ids,
    spoil_content,
    repeat_an_id,
    shuffle_some,
]


# ---- damage to bytes -------------------------------------------------------------------------------------


def _place(data: bytes, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def tear(data: bytes, rng: random.Random) -> bytes:
    return data[: max(len(data) - rng.choice([1, 2, 30, 200]), 0)]


def glue(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    where = rng.randrange(max(len(lines) - 2, 1))
    return b"\n".join([*lines[:where], b"".join(lines[where : where + 2]), *lines[where + 2 :]])


def zero(data: bytes, rng: random.Random) -> bytes:
    where = rng.choice([_place(data, rng), len(data), data.find(b"\n") + 1])
    return data[:where] + bytes(rng.choice([1, 512])) + data[where + rng.choice([0, 100]) :]


def overwrite(data: bytes, rng: random.Random) -> bytes:
    where = _place(data, rng)
    return data[:where] + rng.randbytes(rng.choice([1, 3])) + data[where + 3 :]


def cut_inside(data: bytes, rng: random.Random) -> bytes:
    where = _place(data, rng)
    return data[:where] + data[where + rng.choice([1, 50, 400]) :]


def odd_lines(data: bytes, rng: random.Random) -> bytes:
    odd = rng.choice(
        [b"null\n", b"42\n", b"[]\n", b"{}\n", b"\n", b"\xef\xbb\xbf\n", b"\xff\xfe\n", b'{"a":\n']
    )
    lines = data.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines) + 1), odd)
    return b"".join(lines)


def crlf(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"\n", b"\r\n")


BYTE_DAMAGE = [tear, glue, zero, overwrite, cut_inside, odd_lines, crlf]


def damage_lines(
    lines: Lines, rng: random.Random, kinds: Sequence[Callable[[Lines, random.Random], None]]
) -> None:
    """Do these kinds of damage, as long as anything is left to be damaged."""
    for harm in kinds:
        if len(_chain(lines)) > 1 and any(isinstance(one.get("message"), dict) for one in _chain(lines)):
            harm(lines, rng)


def damaged_log(seed: int) -> bytes:
    """The bytes of a log with one to four kinds of damage; the same for the same seed."""
    rng = random.Random(seed)
    lines = talk(rng, rng.choice([1, 3, 6]))
    damage_lines(lines, rng, rng.sample(FIELD_DAMAGE, rng.choice([0, 1, 1, 2])))
    data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
    for spoil in rng.sample(BYTE_DAMAGE, rng.choice([0, 1, 1, 2])):
        data = spoil(data, rng)
    return data
