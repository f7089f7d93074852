"""Real clients and damaged sessions: what they lose or are refused for before a repair, and that all is there after it.

The stub stands in for the API. Where the real one would answer 400, ``refused`` says so of what
the client has sent; 2.0.76 sends much of what newer clients correct by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.change import repair
from recollect.change.repair import planned_repair, with_slimming
from recollect.model.checks.api_400 import api_faults
from tests.oracle.client_runner import Client
from tests.oracle.conftest import TORTURE
from tests.oracle.recorded import recorded
from tests.oracle.what_is_sent import NEW_PROMPT
from tests.small_home import ONE, call, link, outcome, prompt, reply, said

Entries = list[dict[str, Any]]
TIMES = [
    f"2026-11-15T10:{number:02d}:00.000Z" for number in range(60)
]  # a minute apart: nothing is joined by time

BASE: Entries = [
    prompt(1, None, "Q-one"),
    reply(2, 1, said("A-one")),
    prompt(3, 2, "Q-two"),
    reply(4, 3, call("toolu_1")),
    outcome(5, 4, "toolu_1", "R-one"),
    reply(6, 5, said("A-two")),
    prompt(7, 6, "Q-three"),
    reply(8, 7, said("A-three")),
]
WORDS = ["Q-one", "A-one", "Q-two", "R-one", "A-two", "Q-three", "A-three"]


def lines_of(entries: Entries) -> list[bytes]:
    return [json.dumps(entry, separators=(",", ":")).encode() for entry in entries]


def without(entries: Entries, number: int, then: int | None = None) -> Entries:
    """The talk without one line; the next one follows ``then``, or what is gone."""
    left = [dict(entry) for index, entry in enumerate(entries, 1) if index != number]
    if then is not None:
        left[number - 1]["parentUuid"] = entries[then - 1]["uuid"]
    return left


def glued(entries: Entries) -> bytes:
    lines = lines_of(entries)
    return b"\n".join([*lines[:2], lines[2] + lines[3], *lines[4:]]) + b"\n"


def torn(entries: Entries) -> bytes:
    lines = lines_of(entries)
    lines[2] = lines[2][:-60]
    return b"\n".join(lines) + b"\n"


def nul(entries: Entries) -> bytes:
    lines = lines_of(entries)
    lines[2] = bytes(300) + lines[2]
    return b"\n".join(lines) + b"\n"


def plain(change: Callable[[Entries], Entries]) -> Callable[[Entries], bytes]:
    return lambda entries: b"\n".join(lines_of(change(entries))) + b"\n"


def with_blocks(number: int, *blocks: dict[str, Any]) -> Callable[[Entries], bytes]:
    def changed(entries: Entries) -> Entries:
        copy: Entries = json.loads(json.dumps(entries))
        copy[number - 1]["message"]["content"] = list(blocks)
        return copy

    return plain(changed)


EMPTY_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}

# Family -> (the damage, what must be in the request after repair, what 2.1.325 loses or is refused for before).
FAMILIES: dict[str, tuple[Callable[[Entries], bytes], list[str], str]] = {
    "glued": (glued, WORDS, "loses"),
    "nul": (nul, WORDS, "loses"),
    "torn inside": (torn, [word for word in WORDS if word != "Q-two"], "loses"),
    "orphan": (
        plain(lambda entries: without(entries, 2)),
        [word for word in WORDS if word != "A-one"],
        "loses",
    ),
    "no time at the end": (
        plain(lambda entries: [*entries[:-1], {**entries[-1], "timestamp": "soon"}]),
        WORDS,
        "fails",
    ),
    "empty image": (with_blocks(3, said("Q-two"), EMPTY_IMAGE), WORDS, "refused"),
    "empty text": (
        with_blocks(2, said(" \n"), said("A-one"), {"type": "text", "text": "\t"}),
        WORDS,
        "refused",
    ),
    "unsigned thinking": (
        with_blocks(2, {"type": "thinking", "thinking": "hm"}, said("A-one")),
        WORDS,
        "refused",
    ),
}


def entries_for(client: Client, entries: Entries = BASE) -> Entries:
    return [
        {**entry, "timestamp": TIMES[number], "cwd": str(client.cwd), "sessionId": ONE}
        for number, entry in enumerate(entries)
    ]


def resumed(client: Client, session: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code, and what was sent; nothing where no request came."""
    client.stub.asked.clear()
    ran = client.ask(NEW_PROMPT, "--resume", session)
    sent = client.stub.conversations()
    return ran.returncode, sent[-1] if sent else []


def refused(sent: list[dict[str, Any]]) -> list[str]:
    """The rules of the API that these messages break."""
    return [one.code for one in api_faults(sent, [])]


def missing(sent: list[dict[str, Any]], words: list[str]) -> list[str]:
    text = json.dumps(sent)
    return [word for word in words if word not in text]


def before_repair(client: Client, words: list[str]) -> str:
    """What becomes of the damaged session in the client."""
    code, sent = resumed(client, ONE)
    lost = missing(sent, words)
    return "fails" if code else "loses" if lost else "refused" if refused(sent) else "sound"


@pytest.mark.parametrize("client", ["2.1.325"], indirect=True)
# Daily one or two of each kind of damage: bytes, links, times, what the API refuses.
@pytest.mark.parametrize(
    "family", FAMILIES if TORTURE else ["glued", "orphan", "no time at the end", "empty image"]
)
def test_a_damaged_session_is_whole_after_repair(client: Client, tmp_path: Path, family: str) -> None:
    """Before: the client fails, loses history, or sends what the API refuses. After: all of it, and by the rules."""
    damage, words, verdict = FAMILIES[family]
    log = client.put(ONE, [])
    log.write_bytes(damage(entries_for(client)))
    with planned_repair(Home(client.config).session(ONE)) as plan:
        new = repair.apply_as_copy(plan, tmp_path / "data").new or ""

    # Paths say where the client works, and are as long as those are.
    given = log.read_bytes().replace(str(client.cwd).encode(), b"$CWD").decode("latin-1")
    before = recorded(f"repair: {family}", given, lambda: before_repair(client, words))
    code, sent = resumed(client, new)

    assert (verdict, 0, [], []) == (before, code, missing(sent, words), refused(sent))


@pytest.mark.parametrize("client", ["2.0.76"], indirect=True)
@pytest.mark.parametrize("family", ["glued", "orphan", "torn inside"] if TORTURE else ["orphan"])
def test_an_old_client_resumes_the_repaired_session_too(client: Client, tmp_path: Path, family: str) -> None:
    """2.0.76 joins no orphans by itself."""
    damage, words, _ = FAMILIES[family]
    log = client.put(ONE, [])
    log.write_bytes(damage(entries_for(client)))
    with planned_repair(Home(client.config).session(ONE)) as plan:
        new = repair.apply_as_copy(plan, tmp_path / "data").new or ""
    code, sent = resumed(client, new)

    assert (0, [], []) == (code, missing(sent, words), refused(sent))


@pytest.mark.parametrize("client", ["2.1.325"], indirect=True)
def test_a_slimmed_session_sends_the_same(client: Client, tmp_path: Path) -> None:
    """Progress lines were links, the result has a large copy: what is sent does not change by a byte."""
    entries = json.loads(json.dumps(BASE))
    entries[4]["toolUseResult"] = {"type": "text", "file": {"filePath": "/a", "content": "x" * 9000}}
    note = link(90, 4, type="progress", data={"type": "agent_progress", "text": "y" * 9000})
    entries[4]["parentUuid"] = note["uuid"]
    entries.insert(4, note)
    log = client.put(ONE, lines_of(entries_for(client, entries)))
    original = log.read_bytes()
    _, before = resumed(client, ONE)
    log.write_bytes(original)

    with planned_repair(Home(client.config).session(ONE)) as plan:
        repair.apply_in_place(with_slimming(plan), tmp_path / "data")
    light = log.stat().st_size
    code, after = resumed(client, ONE)

    assert (0, [], True) == (code, missing(after, WORDS), light < len(original) - 17_000)
    assert [talk(one) for one in before] == [talk(one) for one in after]


def talk(message: dict[str, Any]) -> tuple[str, list[Any]]:
    """Role and content, without cache marks and what depends on the hour."""
    content = message["content"]
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    plain_blocks = [
        {name: value for name, value in block.items() if name != "cache_control"} for block in blocks
    ]
    return message["role"], [block for block in plain_blocks if "system-reminder" not in json.dumps(block)]
