"""Hypothesis strategies for lines of logs: from small pools, so that ids meet again in other files."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.index.world import SESSIONS, Fields

WORDS = ["alpha", "beta", "parseHttpHeader", "量子缓存", "Größe", "src/app.py"]
MODELS = ["claude-sonnet-4-5-20250929", "claude-opus-4-6", "<synthetic>", "claude-nightly-20261101"]

small = st.integers(0, 5)
texts = st.lists(st.sampled_from(WORDS), min_size=0, max_size=4).map(" ".join)
# Lines over 4 KiB, so that what lies between the hashed head and tail of a log can differ.
long_texts = st.one_of(texts, texts, texts.map(lambda text: (text or "x") + " filler" * 700))
uuids = st.one_of(
    st.integers(1, 12).map(lambda number: f"{number:08d}-aaaa-4000-8000-000000000000"),
    st.sampled_from(["odd id", "AAAAAAAA-AAAA-4000-8000-00000000000A"]),
)
moments = st.one_of(
    st.tuples(st.integers(0, 3), st.integers(0, 3)).map(
        lambda at: f"2026-01-0{at[0] + 1}T10:{at[1] * 14:02d}:00.000Z"
    ),
    st.sampled_from([None, "not a time", "2026-01-02T10:00:00+02:00"]),
)


def counts() -> st.SearchStrategy[Fields]:
    """The usage of a response: counts, cache writes split or not, the ways it may have been served."""
    return st.fixed_dictionaries(
        {"input_tokens": small, "output_tokens": st.integers(0, 3)},
        optional={
            "cache_creation_input_tokens": small,
            "cache_read_input_tokens": st.sampled_from([0, 7, 150_000]),
            "cache_creation": st.fixed_dictionaries(
                {"ephemeral_5m_input_tokens": small, "ephemeral_1h_input_tokens": small}
            ),
            "server_tool_use": st.fixed_dictionaries({"web_search_requests": small}),
            "speed": st.sampled_from(["standard", "fast"]),
            "inference_geo": st.just("us"),
            "service_tier": st.sampled_from(["standard", "batch"]),
            "iterations": st.lists(iterations(), max_size=2),
        },
    )


def iterations() -> st.SearchStrategy[Fields]:
    """The parts of a response: its own, or the answer of an advisor that it asked."""
    return st.fixed_dictionaries(
        {
            "type": st.sampled_from(["message", "advisor_message"]),
            "model": st.sampled_from([*MODELS[:2], None]),
            "input_tokens": small,
            "output_tokens": st.integers(0, 3),
        },
        optional={"cache_creation_input_tokens": small},
    )


@st.composite
def links(draw: st.DrawFn, *, sidechain: bool) -> Fields:
    """What every line of the chain carries."""
    line: Fields = {
        "uuid": draw(uuids),
        "parentUuid": draw(st.one_of(st.none(), uuids)),
        "timestamp": draw(moments),
        "sessionId": draw(st.sampled_from(SESSIONS)),
        "version": draw(st.sampled_from(["1.0.24", "2.1.30", "2.1.325"])),
        "cwd": draw(st.sampled_from(["/srv/app", "/srv/shop"])),
        "gitBranch": draw(st.sampled_from(["", "main", "fix"])),
        "isSidechain": sidechain,
    }
    if draw(st.booleans()):
        line["isMeta"] = draw(st.booleans())
    if draw(st.integers(0, 5)) == 0:
        line["forkedFrom"] = {"sessionId": SESSIONS[0], "messageUuid": line["uuid"]}
    return line


blocks = st.one_of(
    long_texts.map(lambda text: {"type": "text", "text": text}),
    texts.map(lambda text: {"type": "thinking", "thinking": text, "signature": "c2lnbmF0dXJl"}),
    st.tuples(st.sampled_from(["Bash", "Read"]), texts).map(
        lambda call: {"type": "tool_use", "id": "t", "name": call[0], "input": {"command": call[1]}}
    ),
)
results = texts.map(lambda text: {"type": "tool_result", "tool_use_id": "t", "content": text})


@st.composite
def responses(draw: st.DrawFn, *, sidechain: bool) -> list[Fields]:
    """One response over one to three lines, some with the counts of the stream's start, perhaps without ids."""
    # Enough of them that most answers stand alone until somebody copies them.
    message = draw(st.one_of(st.integers(1, 30).map(lambda number: f"m{number}"), st.none()))
    request = draw(st.sampled_from(["r1", "r2", None]))
    model = draw(st.sampled_from(MODELS))
    lines: list[Fields] = []
    for _ in range(draw(st.integers(1, 3))):
        line = draw(links(sidechain=sidechain))
        said: Fields = {
            "role": "assistant",
            "model": model,
            "content": [draw(blocks)],
            "usage": draw(counts()),
        }
        said["stop_reason"] = draw(st.sampled_from([None, "end_turn"]))
        is_as_good = draw(st.booleans())
        if lines and is_as_good:
            # As good as the line before: then only their order decides.
            line["timestamp"] = lines[-1]["timestamp"]
            said["stop_reason"] = lines[-1]["message"]["stop_reason"]
            said["usage"]["output_tokens"] = lines[-1]["message"]["usage"]["output_tokens"]
        if message is not None:
            said["id"] = message
        if request is not None:
            line["requestId"] = request
        if draw(st.integers(0, 4)) == 0:
            line["costUSD"] = draw(st.sampled_from([0, 0.25, 1e-7]))
            line["durationMs"] = draw(st.sampled_from([1500, 12.5]))
        lines.append({**line, "type": "assistant", "message": said})
    return lines


@st.composite
def prompts(draw: st.DrawFn, *, sidechain: bool) -> list[Fields]:
    content: Any = draw(st.one_of(long_texts, st.lists(results, max_size=2)))
    return [
        {**draw(links(sidechain=sidechain)), "type": "user", "message": {"role": "user", "content": content}}
    ]


@st.composite
def news(draw: st.DrawFn) -> list[Fields]:
    """An agent's answer, repeated in its parent's log as progress."""
    (inner, *_) = draw(responses(sidechain=True))
    return [
        {
            **draw(links(sidechain=False)),
            "type": "progress",
            "data": {"type": "agent_progress", "message": inner},
        }
    ]


def _metadata() -> st.SearchStrategy[Fields]:
    session = {"sessionId": st.sampled_from(SESSIONS)}
    cost = st.sampled_from([0, 0.125, 3, 0.1])
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("custom-title"), "customTitle": texts, **session}),
        st.fixed_dictionaries({"type": st.just("ai-title"), "aiTitle": texts, **session}),
        st.fixed_dictionaries({"type": st.just("last-prompt"), "lastPrompt": texts, "leafUuid": uuids}),
        st.fixed_dictionaries({"type": st.just("summary"), "summary": texts, "leafUuid": uuids}),
        st.fixed_dictionaries({"type": st.just("tag"), "tag": texts, **session}),
        st.fixed_dictionaries(
            {
                "type": st.just("cost-state"),
                "totalCostUSD": cost,
                "modelUsage": st.dictionaries(
                    st.sampled_from(MODELS), st.fixed_dictionaries({"costUSD": cost}), max_size=2
                ),
                **session,
            },
            optional={"timestamp": moments},
        ),
        st.fixed_dictionaries(
            {"type": st.just("queue-operation"), "operation": st.just("enqueue"), "content": texts}
        ),
        st.fixed_dictionaries({"type": st.just("brand-new"), "note": texts, "uuid": uuids}),
    )


@st.composite
def notes(draw: st.DrawFn, *, sidechain: bool) -> list[Fields]:
    """System lines and attachments."""
    line = draw(links(sidechain=sidechain))
    text = draw(texts)
    if draw(st.booleans()):
        return [{**line, "type": "system", "subtype": "informational", "content": text}]
    return [{**line, "type": "attachment", "attachment": {"type": "file", "content": text}}]


odd_lines = st.sampled_from(
    [b"", b"  ", b"not json", b"[1,2]", b'{"type":"user"', b"\xff\xfe", b"\0\0\0", b'{"a":1}{"b":2}']
)
other_dialects = st.one_of(
    texts.map(
        lambda text: {"type": "user", "content": text, "timestamp": "2026-01-02T10:00:00Z", "uuid": "flat-1"}
    ),
    st.tuples(texts, small, small).map(
        lambda said: {
            "type": "assistant",
            "content": said[0],
            "model": MODELS[0],
            "usage": {
                "input_tokens": said[1],
                "output_tokens": 1,
                "cache_creation_tokens": 2,
                "cache_read_tokens": said[2],
            },
            "timestamp": "2026-01-02T11:00:00Z",
        }
    ),
    texts.map(
        lambda text: {
            "type": "tool_use",
            "name": "Bash",
            "tool_use_id": "t",
            "input": {"command": text},
            "session_id": SESSIONS[0],
            "timestamp": "2026-01-03T10:00:00Z",
        }
    ),
)


@st.composite
def turns(draw: st.DrawFn, *, sidechain: bool = False) -> list[Fields | bytes]:
    """A few lines as one program writes them in a row."""
    some = draw(
        st.lists(
            st.one_of(
                responses(sidechain=sidechain),
                responses(sidechain=sidechain),
                prompts(sidechain=sidechain),
                notes(sidechain=sidechain),
                news(),
                _metadata().map(lambda line: [line]),
                odd_lines.map(lambda line: [line]),
                other_dialects.map(lambda line: [line]),
            ),
            min_size=1,
            max_size=3,
        )
    )
    return [line for lines in some for line in lines]
