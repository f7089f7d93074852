"""Lines of every kind and dialect, mostly right, now and then with anything in the place of a field."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

_MISSING = object()
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2**63, 10**25, 1.5, 1e300]),
    st.text('ab"\\\u2028\u00e9\U0001f600\ud800', max_size=4),
)
ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


def mostly(value: Any) -> st.SearchStrategy[Any]:
    """A right value nearly always, else anything."""
    right = value if isinstance(value, st.SearchStrategy) else st.just(value)
    return st.one_of(*[right] * 14, ANYTHING)


def fields(**given: Any) -> st.SearchStrategy[dict[str, Any]]:
    """An object in any order whose fields are mostly right, now and then wrong or missing."""
    choices = {name: st.one_of(*[mostly(value)] * 6, st.just(_MISSING)) for name, value in given.items()}
    found = st.fixed_dictionaries(choices).map(
        lambda named: {name: value for name, value in named.items() if value is not _MISSING}
    )
    return found.flatmap(lambda named: st.permutations(list(named.items()))).map(dict)


_USAGE = fields(
    input_tokens=st.sampled_from([0, 3, 10**9, 10**19]),
    output_tokens=st.sampled_from([0, 5, -1, 10**15]),
    cache_creation_input_tokens=7,
    cache_creation=fields(ephemeral_5m_input_tokens=3, ephemeral_1h_input_tokens=4),
    server_tool_use=fields(web_search_requests=2),
    speed=st.sampled_from(["fast", None]),
    iterations=[{"type": "message"}],
)
_BLOCKS = st.lists(
    st.one_of(
        fields(type="text", text="Yes.", citations=[]),
        fields(type="thinking", thinking="Hm.", signature="x"),
        fields(type="tool_use", id="t1", name=st.sampled_from(["Bash", "Read"]), input={"command": "ls"}),
        fields(type="server_tool_use", id="t2", name="web_search", input={}),
        fields(
            type="tool_result",
            tool_use_id="t1",
            is_error=st.booleans(),
            content=st.sampled_from(["no", [], None]),
        ),
        fields(type="tool_result", tool_use_id="t1", content=st.just([{"type": "text", "text": "out"}])),
        fields(type="image", source={"type": "base64", "data": "AAAA"}),
        fields(type="news", text="of tomorrow"),
    ),
    max_size=3,
)
_MESSAGE = fields(
    id=st.sampled_from(["m1", "m2"]),
    role=st.sampled_from(["user", "assistant"]),
    model=st.sampled_from(["claude-opus-4-6", "<synthetic>"]),
    stop_reason=st.sampled_from([None, "end_turn"]),
    usage=_USAGE,
    content=st.one_of(_BLOCKS, st.just("Yes.")),
)
_PLACE = {
    "uuid": "5c62b5ca-8f80-411d-a924-536af0155240",
    "parentUuid": st.sampled_from(["fea5edbf-cfe5-4bc3-a8cf-7f5577e737ce", None]),
    "timestamp": st.sampled_from(["2026-11-15T10:00:00.000Z", "2026-11-15T11:00:00+01:00", "late"]),
    "isSidechain": st.booleans(),
    "sessionId": "s1",
    "cwd": "/srv/shop",
}
_MORE = {
    "agentId": "a12",
    "isMeta": st.booleans(),
    "gitBranch": st.sampled_from(["main", ""]),
    "version": st.sampled_from(["2.1.30", "x"]),
    "forkedFrom": {"sessionId": "s", "messageUuid": "u"},
    "unheardOf": [1],
}
_CHAIN = {**_PLACE, **_MORE}
ENTRIES = st.one_of(
    fields(type="assistant", message=_MESSAGE, requestId="r1", costUSD=0.25, durationMs=1200, **_CHAIN),
    fields(type="assistant", message=_MESSAGE, requestId="r1", **_PLACE),
    fields(
        type="user",
        message=_MESSAGE,
        isCompactSummary=st.booleans(),
        origin={"kind": "task-notification"},
        toolUseResult={"usage": {"input_tokens": 1}},
        **_CHAIN,
    ),
    fields(type="user", message=_MESSAGE, **_PLACE),
    fields(
        type="system",
        subtype=st.sampled_from(["compact_boundary", "info"]),
        content=st.one_of(st.just("Conversation compacted"), _BLOCKS),
        compactMetadata={"trigger": "auto", "preservedSegment": {"headUuid": "a"}},
        **_CHAIN,
    ),
    fields(type="system", message=_MESSAGE, **_PLACE),
    fields(type="attachment", attachment={"type": "queued_command", "prompt": "p"}, **_CHAIN),
    fields(
        type="progress",
        data=fields(
            type="agent_progress", message=fields(type="assistant", requestId="r1", message=_MESSAGE)
        ),
        **_PLACE,
    ),
    fields(
        type=st.sampled_from(["custom-title", "ai-title", "last-prompt", "tag", "agent-name", "summary"]),
        customTitle=st.sampled_from(["Mine", ""]),
        aiTitle="Its",
        lastPrompt="typed",
        tag="t",
        agentName="n",
        summary="S",
        leafUuid="l",
        explicit=st.booleans(),
        **_PLACE,
    ),
    fields(type="worktree-state", worktreeSession={"originalCwd": "/srv/shop"}, sessionId="s1"),
    fields(type="cost-state", modelUsage={"m": {"costUSD": 0.5}}, totalCostUSD=0.5, sessionId="s1"),
    fields(
        type=st.sampled_from(["mode", "file-history-snapshot", "frobnicate"]), mode="x", snapshot={}, **_PLACE
    ),
    # The flat dialect, alone and with links of the client's.
    fields(
        type=st.sampled_from(["user", "assistant"]),
        content="Yes.",
        model="m",
        usage={"input_tokens": 1},
        uuid="u1",
    ),
    fields(type="assistant", content="Yes.", usage={"input_tokens": 1}, **_CHAIN),
    fields(
        type=st.sampled_from(["tool_call", "tool_result"]),
        tool="Bash",
        toolCallId="t1",
        arguments={},
        result="r",
    ),
    # The events dialect.
    fields(
        type=st.sampled_from(["user", "assistant", "system"]), message=_MESSAGE, session_id="s2", uuid="u2"
    ),
    fields(
        type=st.sampled_from(["tool_use", "tool_result"]),
        session_id="s2",
        tool_use_id="t1",
        name="Bash",
        input={"command": "ls"},
        content="out",
        **_PLACE,
    ),
)


def _twice(pair: tuple[dict[str, Any], dict[str, Any]]) -> bytes:
    """Two objects as one: keys that both have stand there twice."""
    one, other = (json.dumps(part).encode() for part in pair)
    return one if one == b"{}" or other == b"{}" else one[:-1] + b"," + other[1:]


def _deep(pair: tuple[dict[str, Any], int]) -> bytes:
    text = json.dumps(pair[0]).encode()
    return text[:-1] + b',"deep":' + b"[" * pair[1] + b"]" * pair[1] + b"}" if text != b"{}" else text


_COMPACT = ENTRIES.map(lambda entry: json.dumps(entry, separators=(",", ":")).encode())
LINES = st.one_of(
    ENTRIES.map(lambda entry: json.dumps(entry).encode()),
    _COMPACT,
    ENTRIES.map(lambda entry: json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace")),
    ENTRIES.map(lambda entry: json.dumps(entry, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    st.tuples(ENTRIES, ENTRIES).map(_twice),
    st.tuples(ENTRIES, st.sampled_from([10, 60, 70, 3000])).map(_deep),
    _COMPACT.map(lambda line: b"\xef\xbb\xbf" + line + b"\r"),
    _COMPACT.map(lambda line: b" \t" + line + b" "),
    _COMPACT.map(lambda line: b"\0\0\0" + line),
    _COMPACT.map(lambda line: line.replace(b"Yes.", b"Y\xffs.").replace(b"s1", b"s\xff")),
    st.tuples(_COMPACT, st.integers(1, 80)).map(lambda pair: pair[0][: -pair[1]]),
    st.tuples(_COMPACT, _COMPACT).map(b"".join),
    st.sampled_from([b"", b" ", b"{}", b"[]", b"null", b'"usage"', b"{" * 3000]),
)
