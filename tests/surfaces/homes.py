"""The homes that go through every surface: real ones where they are at hand, and four of our own making.

Ours need nothing from elsewhere. Each holds the cases that one kind of fact is decided by: what a session is
called, what a response counts for, what a conversation is made of, where a line ends.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from recollect.sample import sample_home
from tests import made_corpora
from tests.agents import tiny_homes
from tests.needs import TRANSCRIPTS
from tests.small_home import call, link, outcome, prompt, reply, said, uuid_of
from tests.surfaces.case import Case

# Daily the large homes of strangers would take half of the time of all; their shapes are in the others too.
TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
_LARGE = 2_000_000
# One home of each other agent.
_OTHER_AGENTS = (
    "codex/0.166.0/agents_v2/.codex",
    "gemini-0.61.0/.gemini",
    "qwen-0.24.4/.qwen",
    "opencode-1.18.33/data/opencode",
)
Lines = list[dict[str, Any]]


class HomeCase(NamedTuple):
    """A home by its name; ``make`` gives its directory, below one that it may write to."""

    name: str
    make: Callable[[Path], Path]


def cases() -> Iterator[HomeCase]:
    """All of them, ours first."""
    yield HomeCase("titles", lambda place: _made(place, _titles()))
    yield HomeCase("usage", lambda place: _made(place, _usage()))
    yield HomeCase("conversations", lambda place: _made(place, _conversations()))
    yield HomeCase("endings", lambda place: _made(place, _endings()))
    yield HomeCase("sample", lambda _: sample_home())
    yield HomeCase("copied calls", lambda place: made_copied(place / "home"))
    for home in sorted((TRANSCRIPTS / "samples" / "claude-home").glob("*/.claude")):
        yield HomeCase(f"samples/{home.parent.name}", lambda _, home=home: home)  # type: ignore[misc]
    if (TRANSCRIPTS / "dialects" / "samples" / "codex").is_dir():
        yield HomeCase("agents/unrecorded", _partly_recorded)
    for name in _OTHER_AGENTS:
        if (TRANSCRIPTS / "dialects" / "samples" / name).is_dir():
            yield HomeCase(f"agents/{name}", lambda _, name=name: TRANSCRIPTS / "dialects" / "samples" / name)  # type: ignore[misc]
    for home in sorted((TRANSCRIPTS / "corpus").glob("*/projects")):
        if not TORTURE and _bytes_of(home) > _LARGE:
            continue
        yield HomeCase(f"corpus/{home.parent.name}", lambda _, home=home: home.parent)  # type: ignore[misc]
    for seed in made_corpora.SEEDS if TORTURE else made_corpora.SEEDS[:1]:
        yield HomeCase(
            f"generated/{seed}",
            lambda place, seed=seed: made_corpora.make(place / "claude", seed).home,  # type: ignore[misc]
        )


def _partly_recorded(place: Path) -> Path:
    """A home of Codex: 0.20 wrote down no usage, later versions did."""
    for name in ("0.20.0/tools", "0.36.0/tools"):
        sample = TRANSCRIPTS / "dialects" / "samples" / "codex" / name / ".codex" / "sessions"
        shutil.copytree(sample, place / "home" / "sessions", dirs_exist_ok=True)
    return place / "home"


def made_unrecorded(home: Path) -> Path:
    """A home of Codex in which no usage is recorded: one session with a call, of a day long ago."""
    tiny_homes.codex(home)
    for log in home.rglob("rollout-*.jsonl"):
        lines = [line for line in log.read_text().splitlines() if "usage" not in line]
        log.write_text("\n".join(lines).replace(tiny_homes.AT, "2026-01-05T09:00:00.000Z") + "\n")
    next(home.rglob(f"*{tiny_homes.UNTOUCHED}.jsonl")).unlink()
    return home


# Two forks that made no call of their own: one is copied without its calls, one has copies of them.
SILENT_FORKS = ("019c0000-0000-7000-8000-00000000000c", "019d0000-0000-7000-8000-00000000000d")


def made_copied(home: Path) -> Path:
    """A home of Codex with silent forks, the session they were made of, and one without any usage."""
    parent = made_unrecorded(home)
    rollout = next(parent.rglob(f"*{tiny_homes.CHANGED}.jsonl"))
    tiny_homes.codex(home / "other")
    origin = next((home / "other").rglob(f"*{tiny_homes.UNTOUCHED}.jsonl"))
    lines = [json.loads(line) for line in origin.read_text().splitlines()]
    told = next(number for number, line in enumerate(lines) if line["type"] == "token_usage_record")
    ask = json.loads(json.dumps(lines[3]).replace("ask", "never answered"))
    based = {"history_base": {"thread_id": tiny_homes.UNTOUCHED, "end_ordinal_exclusive": told + 1}}
    forks = (based, [ask]), ({"forked_from_id": tiny_homes.UNTOUCHED}, lines[1 : told + 1])
    for name, (kind, rest) in zip(SILENT_FORKS, forks, strict=True):
        head = lines[0] | {"payload": lines[0]["payload"] | kind | {"id": name}}
        fork = [line | {"timestamp": "2026-11-16T10:00:00.000Z"} for line in (head, *rest)]
        place = rollout.with_name(rollout.name.replace(tiny_homes.CHANGED, name))
        place.write_text("".join(json.dumps(line) + "\n" for line in fork))
    origin.rename(rollout.with_name(origin.name))
    shutil.rmtree(home / "other")
    return home


def _bytes_of(home: Path) -> int:
    return sum(log.stat().st_size for log in home.rglob("*.jsonl"))


class Log(NamedTuple):
    """One file below ``projects/``; lines are entries, or bytes as they stand."""

    path: str
    lines: list[dict[str, Any] | bytes]


def _made(place: Path, logs: Iterator[Log]) -> Path:
    """A home whose logs have grown: the index has read half of the lines of each, and goes on from there."""
    home, later = place / "claude", list[tuple[Path, bytes]]()
    for log in logs:
        path = home / "projects" / log.path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [_bytes(line) for line in log.lines]
        path.write_bytes(b"".join(lines[: len(lines) // 2]))
        later.append((path, b"".join(lines[len(lines) // 2 :])))
    Case(home, place).document("list")
    for path, data in later:
        with path.open("ab") as end:
            end.write(data)
    return home


def _bytes(line: dict[str, Any] | bytes) -> bytes:
    return line if isinstance(line, bytes) else json.dumps(line, separators=(",", ":")).encode() + b"\n"


def name_of(number: int) -> str:
    """The id of a session; the first eight characters differ."""
    return f"{number:08x}-0000-4000-8000-000000000000"


def _session(
    number: int, lines: list[dict[str, Any] | bytes], key: str = "-srv-app", cwd: str = "/srv/app"
) -> Log:
    """A session whose lines name it, with ids of lines, messages and requests that no other session has."""
    name = name_of(number)
    return Log(
        f"{key}/{name}.jsonl",
        [line if isinstance(line, bytes) else _own(line, number, name, cwd) for line in lines],
    )


def _own(line: dict[str, Any], number: int, name: str, cwd: str) -> dict[str, Any]:
    text = json.dumps(line).replace("00000000-0000-4000-8000-", f"{number:08x}-1111-4000-8000-")
    text = text.replace('"msg_', f'"msg_{number}_').replace('"req_', f'"req_{number}_')
    own: dict[str, Any] = {**json.loads(text), "sessionId": name}
    return {**own, "cwd": cwd} if "cwd" in own else own


# ---- what a session is called ----------------------------------------------------------------------------

_CLEAR = "<command-name>/clear</command-name>\n<command-message>clear</command-message>\n<command-args></command-args>"
_CAVEAT = (
    "Caveat: The messages below were generated by the user while running local commands. DO NOT respond."
)


def _talk(*prompts: str) -> Lines:
    lines: Lines = []
    for number, text in enumerate(prompts):
        at = 2 * number + 1
        lines += [prompt(at, at - 1 or None, text), reply(at + 1, at, said(f"Answer {number}"))]
    return lines


def _meta(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields, "sessionId": ""}


def _titles() -> Iterator[Log]:
    """Who names a session: its user, the model, its last prompt, its first prompt; never the client."""
    first = "Write the parser"
    yield _session(1, [*_talk(first, "Now write the tests")])
    yield _session(2, [*_talk(_CLEAR, "Now write the tests")])
    yield _session(
        3, [prompt(1, None, _CAVEAT, isMeta=True), prompt(2, 1, _CLEAR), *_after(2, _talk("Fix it"))]
    )
    yield _session(4, [*_talk(first), _meta("ai-title", aiTitle="The model's title")])
    yield _session(
        5,
        [
            *_talk(first),
            _meta("ai-title", aiTitle="The model's"),
            _meta("custom-title", customTitle="Mine: ü 漢字"),
        ],
    )
    yield _session(
        6, [_meta("custom-title", customTitle="Mine"), *_talk(first), _meta("custom-title", customTitle="")]
    )
    yield _session(
        7, [*_talk(first), _meta("last-prompt", lastPrompt="the last prompt", leafUuid=uuid_of(2))]
    )
    yield _session(
        8, [_meta("summary", summary="An old client's summary", leafUuid=uuid_of(2)), *_talk(first)]
    )
    yield _session(9, [*_talk(first), _meta("tag", tag="urgent"), _meta("tag", tag="later")])
    yield _session(10, [*_talk(first), _meta("tag", tag="urgent"), _meta("tag", tag="")])
    yield _session(11, [*_talk(f"{'A long prompt ' * 40}end")])
    yield _session(12, [*_talk("Two\n\nlines  and \x1b[31mred\x1b[0m")])
    ide = [said("<ide_opened_file>a.py</ide_opened_file>"), said("Look at the open file")]
    yield _session(
        13, [link(1, None, type="user", message={"role": "user", "content": ide}), *_after(1, _talk("Go on"))]
    )
    yield _session(
        14, [prompt(1, None, "Summary of before", isCompactSummary=True), *_after(1, _talk("After it"))]
    )
    yield _session(15, [_meta("ai-title", aiTitle="Only metadata"), _meta("tag", tag="empty")])
    windows = "D:\\work\\shop"
    yield _session(16, [*_talk("On Windows")], key="D--work-shop", cwd=windows)
    yield Log("-srv-app/notes.jsonl", list(_session(17, [*_talk("A name that no client gives")]).lines))
    far = [*_talk("Far down"), *[_filler(number) for number in range(3, 200)]]
    yield _session(18, [_meta("custom-title", customTitle="Named early"), *far])


def _after(number: int, lines: Lines) -> Lines:
    """Lines that follow entry ``number``."""
    moved = [
        line | {"uuid": uuid_of(number + place), "parentUuid": uuid_of(number + place - 1)}
        for place, line in enumerate(lines, 1)
    ]
    return [
        line | {"timestamp": f"2026-11-15T10:30:{place:02d}.000Z", **_fresh(line, number + place)}
        for place, line in enumerate(moved)
    ]


def _fresh(line: dict[str, Any], number: int) -> dict[str, Any]:
    """Another response for each answer."""
    if line["type"] != "assistant":
        return {}
    return {"message": line["message"] | {"id": f"msg_after_{number}"}, "requestId": f"req_after_{number}"}


def _filler(number: int) -> dict[str, Any]:
    return prompt(number, number - 1, "x" * 700, isMeta=True)


# ---- what a response counts for --------------------------------------------------------------------------


def _used(
    line: dict[str, Any], stop: str | None = "end_turn", model: str = "", **usage: Any
) -> dict[str, Any]:
    message = line["message"] | {"usage": line["message"]["usage"] | usage, "stop_reason": stop}
    return line | {"message": message | ({"model": model} if model else {})}


def _news(number: int, after: int, inner: dict[str, Any]) -> dict[str, Any]:
    """A line of a sub-agent, as its parent's log repeats it."""
    data = {"type": "agent_progress", "agentId": "a1b2c3d", "message": inner | {"isSidechain": True}}
    return link(number, after, type="progress", data=data, toolUseID="toolu_1", parentToolUseID="toolu_1")


def _agent(number: int, agent: str, lines: Lines) -> Log:
    own = _session(number, [line | {"isSidechain": True, "agentId": agent} for line in lines])
    return Log(f"-srv-app/{name_of(number)}/subagents/agent-{agent}.jsonl", own.lines)


def _usage() -> Iterator[Log]:
    """Copies of a response in one log, in forks, in agents and in their news; models with and without a price."""
    ask = prompt(1, None, "Count me")
    yield _session(1, [ask, _used(reply(2, 1, said("a"), answer="msg_a"), stop=None, output_tokens=3),
                       _used(reply(3, 2, said("b"), answer="msg_a"), output_tokens=30)])  # fmt: skip
    # A sub-agent that speaks in the news of its parent only: its own log was not kept.
    agents = [
        _used(reply(50, 1, said("found it"), answer="msg_agent"), input_tokens=1_000, output_tokens=1_000)
    ]
    yield _session(2, [ask, reply(2, 1, call("toolu_1"), answer="msg_b"), *[_news(3, 2, one) for one in agents],
                       outcome(4, 3, "toolu_1", "found it"), reply(5, 4, said("done"), answer="msg_c")])  # fmt: skip
    # The same news beside the agent's own log: counted once.
    yield _session(3, [ask, reply(2, 1, call("toolu_1"), answer="msg_b"), *[_news(3, 2, one) for one in agents],
                       outcome(4, 3, "toolu_1", "found it"), reply(5, 4, said("done"), answer="msg_c")])  # fmt: skip
    yield _agent(3, "a1b2c3d", [prompt(49, None, "Find it"), *agents])
    # A fork: the copied answers belong to the session they were made in.
    origin = _session(4, [ask, reply(2, 1, said("a")), prompt(3, 2, "more"), reply(4, 3, said("b"))])
    yield origin
    copied = [
        {
            **line,
            "sessionId": name_of(5),
            "forkedFrom": {"sessionId": name_of(4), "messageUuid": line["uuid"]},
        }
        for line in origin.lines
        if isinstance(line, dict)
    ]
    added = _session(5, [prompt(5, 4, "another way"), reply(6, 5, said("c"))]).lines
    yield Log(f"-srv-app/{name_of(5)}.jsonl", [*copied, *added])
    # A side question replays its parent's answer under another request; a compaction's agent knows the final count.
    cut = _used(reply(2, 1, said("cut"), answer="msg_d"), stop=None, output_tokens=2)
    whole = _used(reply(2, 1, said("cut"), answer="msg_d"), output_tokens=900)
    yield _session(6, [ask, cut])
    yield _agent(
        6, "acompact1", [prompt(60, None, "Summarise"), whole, _used(whole | {"requestId": "req_other"})]
    )
    yield _session(
        7, [ask, _used(reply(2, 1, said("a")), model="claude-from-nowhere-9"), reply(3, 2, said("b"))]
    )
    yield _session(8, [ask, _used(reply(2, 1, said("x")), model="<synthetic>"),
                       _used(reply(3, 2, said("y")), cache_creation_input_tokens=500,
                             cache_creation={"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 500}),
                       _used(reply(4, 3, said("z")), server_tool_use={"web_search_requests": 3})])  # fmt: skip
    yield _session(9, [ask, _used(reply(2, 1, said("a")), input_tokens=-5, output_tokens=1 << 60),
                       reply(3, 2, said("b")) | {"message": reply(3, 2, said("b"))["message"] | {"id": None}},
                       reply(4, 3, said("c"), costUSD=0.25, durationMs=1200)])  # fmt: skip
    # The client counts a split of nothing beside a sum as five-minute writes.
    yield _session(10, [ask, _used(reply(2, 1, said("a")), cache_creation_input_tokens=400,
                                   cache_creation={"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0})])  # fmt: skip
    # An advisor that an answer asked has a model of its own.
    advisor = {"type": "advisor_message", "model": "claude-opus-4-8", "input_tokens": 50, "output_tokens": 5}
    yield _session(
        12, [ask, _used(reply(2, 1, said("a")), iterations=[{**advisor, "type": "message"}, advisor])]
    )
    flat = {"type": "assistant", "timestamp": "2026-11-15T10:00:02.000Z", "sessionId": "f", "uuid": uuid_of(2),
            "content": "flat answer", "model": "claude-sonnet-4-5-20250929", "stopReason": "end_turn",
            "usage": {"input_tokens": 7, "output_tokens": 9}}  # fmt: skip
    yield _session(11, [{"type": "user", "timestamp": "2026-11-15T10:00:01.000Z", "uuid": uuid_of(1),
                         "sessionId": "f", "content": "flat question"}, flat])  # fmt: skip


# ---- what a conversation is made of ----------------------------------------------------------------------


def _conversations() -> Iterator[Log]:
    """Branches, compactions, agents in every layout, damage, lines out of order, logs without a conversation."""
    yield _session(
        1, [*_talk("One", "Two"), prompt(9, 2, "Back to the first answer"), reply(10, 9, said("Again"))]
    )
    boundary = link(5, None, type="system", subtype="compact_boundary", content="compacted",
                    logicalParentUuid=uuid_of(4), compactMetadata={"trigger": "manual", "preTokens": 9})  # fmt: skip
    summary = prompt(6, 5, "Summary", isCompactSummary=True)
    yield _session(2, [*_talk("One", "Two"), boundary, summary, *_after(6, _talk("Three"))])
    aside = [prompt(20, None, "Look around", isSidechain=True), reply(21, 20, said("Seen"), isSidechain=True)]
    yield _session(3, [*_talk("One"), *aside, prompt(30, 2, "Go on"), reply(31, 30, said("Going"))])
    yield _session(4, [*_talk("Flat agents")])
    flat = [line | {"isSidechain": True, "agentId": "af3f3d4"} for line in _talk("Look it up")]
    yield Log("-srv-app/agent-af3f3d4.jsonl", [_own(line, 40, name_of(4), "/srv/app") for line in flat])
    warm = [line | {"isSidechain": True, "agentId": "a675404"} for line in _talk("Warmup")]
    yield Log("-srv-app/agent-a675404.jsonl", [_own(line, 41, name_of(4), "/srv/app") for line in warm])
    yield _session(5, [*_talk("Nested agents")])
    yield _agent(5, "a1", [_own(line, 50, name_of(5), "/srv/app") for line in _talk("Look it up")])
    yield _agent(5, "a2", [_own(line, 51, name_of(5), "/srv/app") for line in _talk("And this")])
    whole = _bytes(_talk("Whole")[0])
    damaged: list[dict[str, Any] | bytes] = [
        *_talk("Damaged"), b'{"type":"user","uuid":"cut\n', b"\n", b"\0\0\0\0\n", b"no JSON at all\n",
        whole[:-1] + whole, b"\xff\xfe{}\n", b"   \n",
    ]  # fmt: skip
    yield _session(6, damaged)
    yield _session(7, [*_talk("Pending"), b'{"type":"user","uuid":"half'])
    yield _session(20, [*_talk("A tail of zeros"), b"\0\0\0\0"])
    yield _session(21, [*_talk("A whole tail"), whole[:-1]])
    yield Log(f"-srv-app/{name_of(8)}.jsonl", [])
    yield _session(9, [_meta("mode", mode="plan"), _meta("tag", tag="only")])
    late = _talk("Out of order", "Second")
    late[1], late[2] = late[2], late[1]
    late[0]["timestamp"], late[3]["timestamp"] = "2026-11-15T11:00:00.000Z", "2026-11-15T09:00:00.000Z"
    yield _session(10, [*late])
    timeless = [
        {name: value for name, value in line.items() if name != "timestamp"} for line in _talk("No time")
    ]
    yield _session(11, [*timeless])
    yield _session(
        12, [prompt(1, None, "Side", isSidechain=True), reply(2, 1, said("only"), isSidechain=True)]
    )
    parallel = [prompt(1, None, "Both"), reply(2, 1, call("toolu_1"), answer="msg_p"),
                reply(3, 2, call("toolu_2"), answer="msg_p"), outcome(4, 2, "toolu_1", "one"),
                outcome(5, 3, "toolu_2", "two"), reply(6, 5, said("Done"), answer="msg_q")]  # fmt: skip
    yield _session(13, [*parallel])
    two_places = [
        *_talk("Begin here"),
        *_after(2, [one | {"cwd": "/srv/app/below"} for one in _talk("Go down")]),
    ]
    yield _session(14, [*two_places])


# ---- where a line ends -----------------------------------------------------------------------------------


def _endings() -> Iterator[Log]:
    """Last lines without a newline, values over several lines, objects with something before or after them."""
    for number, after in enumerate((b"", b"garbage", b'{"type":"us', b"\0\0", b"\r", b" "), 1):
        yield _ending(number, *_talk("Not ended", "Paid all the same"), after=after)
    yield _ending(10, *_talk("Torn"), after=b'{"type":"assistant","message":{"usage"')
    yield _ending(11, *_talk("A title at the end"), _meta("custom-title", customTitle="Last"))
    yield _ending(12, *_talk("A tag at the end"), _meta("tag", tag="last"))
    yield _ending(13, *_talk("Sent away"), _meta("continued-in", continuedInSessionId=name_of(1)))
    yield _agent(1, "a9", [_own(line, 19, name_of(1), "/srv/app") for line in _talk("An agent")])
    first, second = (_own(line, 20, name_of(20), "/srv/app") for line in _talk("Odd"))
    pairs = (
        (_bytes(second)[:-1], b"garbage\n"), (_bytes(second)[:-1], b"}\n"), (_bytes(second)[:-1], b"\0\0\n"),
        (b"garbage", _bytes(second)), (b"\0", _bytes(second)), (b"\xef\xbb\xbf", _bytes(second)), (b"[\n", _bytes(second)),
        (json.dumps(second, indent=1).encode(), b"\n"), (_bytes(second)[:40], b"\n"), (b'{"a":[\n', _bytes(second)),
    )  # fmt: skip
    for number, parts in enumerate(pairs, 20):
        own = b"".join(parts).replace(name_of(20).encode(), name_of(number).encode())
        own = own.replace(b"msg_20_", b"msg_%d_" % number).replace(b"req_20_", b"req_%d_" % number)
        more = [_own(line, 20, name_of(number), "/srv/app") for line in _after(2, _talk("Go on"))]
        head = {**first, "sessionId": name_of(number)}
        texts = [_bytes(line).replace(b"_20_", b"_%d_" % number) for line in (head, *more)]
        yield Log(f"-srv-app/{name_of(number)}.jsonl", [texts[0], own, *texts[1:]])
    last = json.dumps(_own(_talk("x")[1], 30, name_of(30), "/srv/app"), indent=1).encode()
    yield _session(30, [*_talk("Over several lines at the end")[:1], last])
    beside = [
        line | {"model": "claude-sonnet-4-5-20250929"} for line in _talk("The model beside the message")
    ]
    beside[1]["message"] = {key: value for key, value in beside[1]["message"].items() if key != "model"}
    yield _session(40, [*beside])


def _ending(number: int, *lines: dict[str, Any], after: bytes = b"") -> Log:
    """A session whose last line has no newline."""
    log = _session(number, list(lines))
    texts: list[dict[str, Any] | bytes] = [_bytes(line) for line in log.lines]
    last = _bytes(log.lines[-1])[:-1]
    return Log(log.path, [*texts[:-1], last + after])
