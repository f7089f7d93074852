"""One line of bytes, one entry; nothing raises, nothing is lost."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.lines.blocks import TextBlock, ToolResultBlock, ToolUseBlock, UnknownBlock
from recollect.model.lines.codec import changed, decode, encode
from recollect.model.lines.damage import Damage, DamageCode, Limits, Line, Notice
from recollect.model.lines.entry import (
    Assistant,
    Dialect,
    Entry,
    FileHistoryNote,
    Kind,
    Summary,
    System,
    UnknownBody,
    UnknownShapeBody,
    User,
)
from recollect.model.views.facts import facts_of
from tests.transcripts import lines_of, session_logs

USER = (
    b'{"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"/srv/app","sessionId":"s-1",'
    b'"version":"2.1.325","gitBranch":"main","type":"user","message":{"role":"user","content":"Hello"},'
    b'"uuid":"u-1","timestamp":"2026-11-15T10:00:00.000Z","future":{"keep":[1, 2]}}'
)


def entry_of(data: bytes) -> Entry:
    """The entry a line decodes to; anything else fails the test."""
    result = decode(Line(data))
    assert isinstance(result, Entry), result
    return result


def damage_of(data: bytes, limits: Limits | None = None) -> Damage:
    """The damage a line decodes to; anything else fails the test."""
    result = decode(Line(data, 7), limits or Limits())
    assert isinstance(result, Damage), result
    return result


def test_a_user_line_tells_all_its_parts() -> None:
    """Ids, links, place, time and text of a prompt are read from their fields."""
    entry = entry_of(USER)

    body = entry.body
    assert isinstance(body, User)
    assert (Kind.USER, Dialect.CLAUDE) == (entry.kind, entry.dialect)
    assert ("u-1", None, "s-1", "/srv/app", "main") == (
        entry.uuid,
        entry.parent_uuid,
        entry.session_id,
        body.cwd,
        body.git_branch,
    )
    assert body.message.blocks == [TextBlock("Hello")]
    assert entry.at is not None
    assert entry.at.isoformat() == "2026-11-15T10:00:00+00:00"


def test_unknown_fields_are_kept_and_reachable() -> None:
    """A field nobody knew when this was written is still there, as value and as bytes."""
    entry = entry_of(USER)

    assert entry.fields()["future"] == {"keep": [1, 2]}
    assert encode(entry) == USER + b"\n"


def test_a_change_touches_only_the_named_field() -> None:
    """Every other field keeps its exact JSON, odd spacing and order included."""
    moved = changed(entry_of(USER), {"sessionId": "s-2"})

    assert moved.raw == USER.replace(b'"s-1"', b'"s-2"')


def test_an_assistant_line_has_usage_and_blocks() -> None:
    """Every usage field of the newest client is typed; the input of a call stays JSON."""
    line = (
        b'{"type":"assistant","uuid":"a","parentUuid":"u","requestId":"req_1","timestamp":"2026-11-15T10:00:01.000Z",'
        b'"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-6","content":'
        b'[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"},"caller":{}}],"stop_reason":"tool_use",'
        b'"usage":{"input_tokens":3,"output_tokens":5,"cache_creation_input_tokens":300,"cache_read_input_tokens":2000,'
        b'"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},'
        b'"server_tool_use":{"web_search_requests":2,"web_fetch_requests":1},"service_tier":"standard","speed":"fast",'
        b'"inference_geo":"us","iterations":[{"x":1}],"output_tokens_details":{"thinking_tokens":4},"fallback_credit":null}}}'
    )
    body = entry_of(line).body

    assert isinstance(body, Assistant)
    assert isinstance(body.message.blocks[0], ToolUseBlock)
    assert bytes(body.message.blocks[0].input) == b'{"command":"ls"}'
    usage = body.message.usage
    assert usage is not None
    assert (3, 5, 100, 200, 2000, 2) == usage.tokens().counts
    assert usage.output_tokens_details is not None
    assert (usage.speed, usage.inference_geo, usage.output_tokens_details.thinking_tokens) == (
        "fast",
        "us",
        4,
    )


def test_an_unknown_block_does_not_hide_the_others() -> None:
    """A block type from the future is kept as JSON; its neighbours are read as usual."""
    line = (
        b'{"type":"assistant","message":{"content":[{"type":"hologram","x":[1]},{"type":"text","text":"ok"},'
        b'{"type":"tool_use","id":5}]}}'
    )
    message = entry_of(line).message

    assert message is not None
    assert message.blocks == [
        UnknownBlock("hologram", b'{"type":"hologram","x":[1]}'),
        TextBlock("ok"),
        UnknownBlock("tool_use", b'{"type":"tool_use","id":5}'),
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'"plain"', "plain"),
        (b'[{"type":"text","text":"a"},{"type":"image"}]', "a"),
        (b"null", ""),
        (b"7", ""),
    ],
)
def test_a_tool_result_is_text_or_blocks(content: bytes, expected: str) -> None:
    """A result's text is found in both of its forms, and odd ones have none."""
    line = (
        b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":%b}]}}'
        % content
    )
    message = entry_of(line).message

    assert message is not None
    block = message.blocks[0]
    assert isinstance(block, ToolResultBlock)
    assert block.text() == expected


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"user","uuid":"u","parentUuid":"p","message":"not an object"}',
        b'{"type":"user","uuid":"u","parentUuid":"p"}',
        b'{"type":"user","uuid":"u","parentUuid":"p","message":{"content":null}}',
        b'{"type":"user","uuid":"u","parentUuid":"p","message":{"content":9}}',
    ],
)
def test_a_known_type_in_another_shape_keeps_its_links(line: bytes) -> None:
    """It becomes an unknown shape that still tells its id and parent, since a chain may run through it."""
    entry = entry_of(line)

    assert isinstance(entry.body, UnknownShapeBody)
    assert (Kind.UNKNOWN_SHAPE, "user", "u", "p") == (
        entry.kind,
        entry.body.type_name,
        entry.uuid,
        entry.parent_uuid,
    )


def test_one_odd_optional_field_costs_only_itself() -> None:
    """The client does not check such fields, so the line is still part of the conversation."""
    entry = entry_of(USER.replace(b'"cwd":"/srv/app"', b'"cwd":42'))

    assert isinstance(entry.body, User)
    assert (None, "u-1", (Notice.FIELD_SHAPE,)) == (entry.body.cwd, entry.uuid, entry.notices)


def test_shapes_that_only_other_writers_use_become_the_same_kinds() -> None:
    """A summary with a content object, a system line with a message, file-history, costUSD and durationMs."""
    summary = entry_of(
        b'{"type":"summary","sessionId":"s","content":{"summary":"Short","messageCount":10,"summarizedUntil":"m"}}'
    ).body
    system = entry_of(b'{"type":"system","sessionId":"s","message":{"role":"system","content":"Note"}}').body
    history = entry_of(b'{"type":"file-history","path":"/a","operation":"edit","snippet":"+x"}').body
    answer = entry_of(b'{"type":"assistant","message":{"content":[]},"costUSD":0.01,"durationMs":1500}').body

    assert isinstance(summary, Summary)
    assert (summary.summary, summary.message_count, summary.leaf_uuid) == ("Short", 10, "m")
    assert isinstance(system, System)
    assert system.text == "Note"
    assert isinstance(history, FileHistoryNote)
    assert (history.path, history.operation, history.snippet) == ("/a", "edit", "+x")
    assert isinstance(answer, Assistant)
    assert (answer.cost_usd, answer.duration_ms) == (0.01, 1500)


def test_a_call_without_a_name_is_not_one() -> None:
    """A line of a flat type in another shape is kept as unknown, never dropped."""
    entry = entry_of(b'{"type":"tool_call","arguments":{}}')

    assert (Dialect.CLAUDE, UnknownBody) == (entry.dialect, type(entry.body))


def test_a_foreign_session_id_beside_our_own_changes_nothing() -> None:
    """A line with both ``sessionId`` and ``session_id`` is the client's: it never leaves its own out."""
    entry = entry_of(b'{"type":"user","message":{"content":"x"},"sessionId":"ours","session_id":"theirs"}')

    assert (Dialect.CLAUDE, "ours") == (entry.dialect, entry.session_id)


def test_words_about_a_session_id_do_not_make_an_event() -> None:
    """The field name inside a text is no field."""
    entry = entry_of(
        b'{"type":"user","message":{"content":"\\"session_id\\"?"},"sessionId":"ours","uuid":"u"}'
    )

    assert Dialect.CLAUDE == entry.dialect


def test_a_model_beside_the_message_is_the_answers_model() -> None:
    """Seed 004 writes ``model`` on the line: it is read by the codec and priced by every view."""
    line = (
        b'{"type":"assistant","sessionId":"s","uuid":"u","parentUuid":"p","timestamp":"2026-01-01T00:00:00Z",'
        b'"message":{"role":"assistant","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":7}},'
        b'"requestId":"req_1","model":"claude-sonnet-4-5-20250929"}'
    )
    entry, facts = entry_of(line), facts_of(line)
    assert isinstance(entry.body, Assistant)
    assert facts is not None
    assert facts.response is not None
    models = {entry.body.message.model, facts.response.model}
    assert {"claude-sonnet-4-5-20250929"} == models


def test_a_line_about_the_session_keeps_its_kind_and_all_its_fields() -> None:
    """Whatever they hold: nothing here reads them, so nothing of them can be wrong."""
    entry = entry_of(b'{"type":"agent-color","sessionId":"s","agentColor":["red"]}')

    assert (Kind.AGENT_COLOR, "s", ["red"], ()) == (
        entry.kind,
        entry.session_id,
        entry.fields()["agentColor"],
        entry.notices,
    )


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"type":"user"', DamageCode.INVALID_JSON),
        (b"not json", DamageCode.INVALID_JSON),
        (b'{"a":NaN}', DamageCode.INVALID_JSON),
        (b'{"a":"x\x01y"}', DamageCode.INVALID_JSON),
        (b'{"a":1}{"b":2}', DamageCode.GLUED),
        (b'{"a":1} {"b":2} {"c":3}', DamageCode.GLUED),
        (b'{"a":1} x', DamageCode.INVALID_JSON),
        (b"\0\0\0\0", DamageCode.NUL_RUN),
        (b'{"a":"\0"}', DamageCode.NUL_RUN),
        (b"null", DamageCode.NOT_AN_OBJECT),
        (b"42", DamageCode.NOT_AN_OBJECT),
        (b"[]", DamageCode.NOT_AN_OBJECT),
        (b'"text"', DamageCode.NOT_AN_OBJECT),
        (b'{"type":"user","message":{"content":"\xff"}}', DamageCode.INVALID_UTF8),
        (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", DamageCode.TOO_DEEP),
        (b"[" * 100_000, DamageCode.TOO_DEEP),
        (b'{"a":' * 100_000, DamageCode.TOO_DEEP),
    ],
)
def test_damage_has_a_code_a_place_and_its_bytes(data: bytes, code: DamageCode) -> None:
    """Each cause has its own code; the bytes are kept, with the offset they were found at."""
    damage = damage_of(data)

    assert (code, 7, len(data) + 1, data) == (damage.code, damage.offset, damage.length, damage.data)


def test_the_readable_rest_of_a_line_with_bad_bytes_is_kept() -> None:
    """Bytes that are not UTF-8 become replacement characters; the rest can be read, as the client does."""
    readable = damage_of(b'{"type":"user","uuid":"u","message":{"content":"a\xff\xfeb"}}').readable

    assert readable is not None
    assert readable.message is not None
    assert (readable.uuid, readable.message.content) == ("u", "a\ufffd\ufffdb")


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        (b"\0\0", DamageCode.NUL_RUN),
        (b'{"type":"mode"}', DamageCode.GLUED),
        (b' {"type":"mode"} x', DamageCode.GLUED),
        (b'{"type', DamageCode.INVALID_JSON),
        (b"garbage", DamageCode.INVALID_JSON),
        (b"}", DamageCode.INVALID_JSON),
        (b",", DamageCode.INVALID_JSON),
        (b"\xff", DamageCode.INVALID_JSON),
        (b"[" * 200, DamageCode.INVALID_JSON),
    ],
)
def test_the_object_a_line_begins_with_is_read_and_the_rest_is_damage(rest: bytes, code: DamageCode) -> None:
    """As the client reads it; the entry ends before what is ignored."""
    tag = b'{"type":"tag","tag":"caf\xc3\xa9"}'
    damage = damage_of(b" " + tag + rest)
    readable = damage.readable

    assert (code, b" " + tag + rest) == (damage.code, damage.data)
    assert readable is not None
    assert (Kind.TAG, b" " + tag, 7 + len(tag) + 1) == (readable.kind, readable.raw, readable.end)
    assert "café" == readable.fields()["tag"]


@pytest.mark.parametrize("before", [b"\0\0", b"garbage", b"42 ", b'"x"', b"[", b"\x0b", b"\xc2\xa0"])
def test_what_stands_before_an_object_hides_it(before: bytes) -> None:
    """The client reads one value from where it stands, and then goes on at the next line."""
    assert damage_of(before + b'{"type":"tag","tag":"x"}').readable is None


def test_an_oversize_line_is_not_kept_in_memory() -> None:
    """Its size is told, its bytes are not held."""
    damage = damage_of(b'{"a":"' + b"x" * 100 + b'"}', Limits(line_bytes=50))

    assert (DamageCode.OVERSIZE, 109, b"") == (damage.code, damage.length, damage.data)


@pytest.mark.parametrize(
    ("data", "notices"),
    [
        (USER + b"\r", (Notice.CRLF,)),
        (b"\xef\xbb\xbf" + USER, (Notice.BOM,)),
        (b"\xef\xbb\xbf" + USER + b"\r", (Notice.BOM, Notice.CRLF)),
        (USER.replace(b"Hello", rb"\ud800"), (Notice.LONE_SURROGATE,)),
        (USER.replace(b"Hello", rb"\\ud800"), ()),
        (USER.replace(b"Hello", rb"\ud83d\ude00"), ()),
    ],
)
def test_what_is_odd_but_readable_is_reported_and_kept(data: bytes, notices: tuple[Notice, ...]) -> None:
    """Byte order marks, CRLF and lone surrogates are accepted, named, and written back as they were."""
    entry = entry_of(data)

    assert (notices, "u-1", data + b"\n") == (entry.notices, entry.uuid, encode(entry))


@pytest.mark.parametrize(
    "value", [b"9" * 5000, b"-" + b"9" * 5000, b"1e999", b"123456789012345678901234567890", b'"\\ud800"']
)
def test_values_beyond_every_range_do_not_raise(value: bytes) -> None:
    """They are kept in unknown fields and refused, without harm, in typed ones."""
    unknown = entry_of(b'{"type":"user","message":{"content":"x"},"z":%b}' % value)
    typed = entry_of(b'{"type":"assistant","message":{"content":"x","usage":{"input_tokens":%b}}}' % value)

    assert "z" in unknown.fields()
    assert typed.message is not None
    assert typed.message.content == "x"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        "type",
        "uuid",
        "parentUuid",
        "message",
        "content",
        "timestamp",
        "sessionId",
        "session_id",
        "tool",
        "usage",
        "tool_use_id",
        "summary",
        "customTitle",
        "snapshot",
        "isSidechain",
        "costUSD",
        "model",
        "attachment",
    ]
)
LINES = st.dictionaries(FIELDS | st.text(), JSON | st.sampled_from([*Kind]), max_size=8).map(
    lambda fields: json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")
)


@given(LINES)
def test_any_object_is_an_entry_and_comes_back_byte_for_byte(line: bytes) -> None:
    """Whatever an object holds, it decodes to an entry (or to damage with its bytes), and is written unchanged."""
    result = decode(Line(line, 3))

    if isinstance(result, Damage):
        assert result.code == DamageCode.INVALID_UTF8
        assert result.data == line
    else:
        assert isinstance(result, Entry)
        assert encode(result) == line + b"\n"
        assert set(result.fields()) == set(json.loads(line))


@given(
    st.binary(max_size=400) | LINES.flatmap(lambda line: st.integers(0, len(line)).map(lambda n: line[:n]))
)
def test_any_bytes_are_an_answer_not_an_exception(data: bytes) -> None:
    """Byte soup and cut lines give an entry, damage with all its bytes, or nothing."""
    result = decode(Line(data))

    if isinstance(result, Entry):
        assert result.raw == data
    elif isinstance(result, Damage):
        assert (result.data, result.length) == (data, len(data) + 1)
    else:
        assert result is None
        assert data.replace(b"\xef\xbb\xbf", b"").strip(b" \t\r\n") == b""


@pytest.mark.parametrize("piece", [b'{"y":[0]},', b'"[{",', rb'"\\\"",', b"[[[]]],"])
def test_decoding_takes_bounded_memory(piece: bytes) -> None:
    """A 4 MB line of hostile structure costs less than four times its size."""
    line = b'{"type":"hyper","x":[' + piece * (4_000_000 // len(piece)) + b"0]}"
    tracemalloc.start()
    result = decode(Line(line))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert isinstance(result, Entry)
    assert peak < 4 * len(line)


def _damage_of(line: bytes) -> DamageCode:
    try:
        json.loads(line)
    except ValueError:
        return DamageCode.INVALID_JSON
    return DamageCode.NOT_AN_OBJECT


def test_every_real_line_comes_back_byte_for_byte(log_homes: Path) -> None:
    """All lines of real clients and of other tools decode, and are written back exactly."""
    count = 0
    for line in lines_of(session_logs(log_homes)):
        result = decode(Line(line))
        count += 1
        if isinstance(result, Entry):
            assert encode(result) == line + b"\n"
        elif isinstance(result, Damage):
            assert (result.code, result.data) == (_damage_of(line), line)
    assert count > 2_000


def test_real_clients_write_no_shape_we_do_not_know(log_homes: Path) -> None:
    """Every sample line of seven client versions has a known kind in its known shape."""
    logs = [
        log for log in session_logs(log_homes) if "claude-home" in log.parts and log.name != "history.jsonl"
    ]
    odd = [
        (entry.kind, line[:200])
        for line in lines_of(logs)
        if isinstance(entry := decode(Line(line)), Entry)
        and (entry.kind in (Kind.UNKNOWN, Kind.UNKNOWN_SHAPE) or entry.notices)
    ]

    assert odd == []
