"""Every narrow view of a line says what the codec says of it, whatever stands in the line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from msgspec import Raw, UnsetType

from recollect.model.lines.blocks import Tokens
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.json_text import deeper_than, loose_value
from recollect.model.views.damage import damage_of
from recollect.model.views.fact_line import (
    FactLine,
    client_line,
    fact_line,
    graph_line,
    line_of,
    narrow_line,
    readable_entry,
)
from recollect.model.views.facts import RecordedTotal, facts_by_codec, facts_of
from tests.model.views.any_lines import LINES
from tests.transcripts import lines_of, session_logs

VIEWS: dict[str, tuple[Callable[[bytes], Any], Callable[[bytes], Any]]] = {
    "links": (lambda data: as_links(fact_line(data)), lambda data: as_links(by_codec(data))),
    "graph": (lambda data: as_graph(graph_line(data)), lambda data: as_graph(client_line(data))),
    "facts": (facts_of, facts_by_codec),
    "calls": (lambda data: as_calls(fact_line(data)), lambda data: as_calls(by_codec(data))),
}


def by_codec(data: bytes) -> FactLine | None:
    entry = readable_entry(data)
    return None if entry is None else line_of(entry)


def as_links(line: FactLine | None) -> Any:
    """What a line is, its place in the chain, and where it was written."""
    return None if line is None else [getattr(line, name) for name in FactLine.__struct_fields__[:9]]


def as_calls(line: FactLine | None) -> Any:
    """What tools were asked and gave back."""
    if line is None:
        return None
    return [plain(one) for one in (*line.calls, *line.results)], plain(line.tool_use_result)


def as_graph(line: FactLine | None) -> Any:
    """What the graph and the list of messages read of a line."""
    if line is None:
        return None
    links = ("type", "uuid", "parent_uuid", "timestamp", "is_sidechain", "is_meta", "subtype")
    marks = ("is_compact_summary", "compact_metadata", "leaf_uuid", "explicit", "origin_kind")
    values = [plain(getattr(line, name)) for name in (*links, *marks)]
    return values, line.message and (line.message.id, plain(line.message.content))


def plain(value: Any) -> Any:
    """A view as plain values: JSON that was left undecoded counts by what it says."""
    if isinstance(value, msgspec.Struct):
        # ``decoded`` is the line itself, kept so that the graph need not decode it again; see the test below.
        fields = (name for name in value.__struct_fields__ if name != "decoded")
        return {name: plain(getattr(value, name)) for name in fields}
    if isinstance(value, Raw):
        return ["json", loose_value(value)]
    return None if isinstance(value, UnsetType) else value


@pytest.mark.parametrize("name", VIEWS)
@given(data=LINES)
def test_a_view_says_what_the_codec_says(name: str, data: bytes) -> None:
    """Wrong types, nulls, huge numbers, keys that stand twice, half surrogates, other dialects, damage."""
    view, by_codec = VIEWS[name]
    if not deeper_than(data, 64):
        assert plain(by_codec(data)) == plain(view(data))


USAGE = b'"message":{"id":"m1","model":"claude-opus-4-6","content":"Yes.","usage":{"output_tokens":5}}'
# Each was once read in two ways.
READ_IN_TWO_WAYS = {
    "a session by another name": b'{"type":"user","uuid":"u","session_id":"s2","message":{"content":"x"}}',
    "a session by both names": b'{"type":"tool_use","session_id":"s2","sessionId":"s1","tool_use_id":"t","name":"B"}',
    "a flat prompt with its source": b'{"type":"user","content":"x","metadata":{"sessionId":"s2","source":"cli"}}',
    "a flat answer with links": b'{"type":"assistant","content":"x","uuid":"u","parentUuid":"p","cwd":"/srv"}',
    "a title with an id": b'{"type":"custom-title","customTitle":"T","uuid":"u","parentUuid":"p","cwd":"/srv"}',
    "no type": b'{"uuid":"u","message":{"content":"x"}}',
    "an id of a message without content": b'{"type":"assistant","uuid":"u","message":{"id":"m1"}}',
    "usage without content": b'{"type":"assistant","uuid":"u",'
    + USAGE.replace(b'"content":"Yes.",', b"")
    + b"}",
    "news of an agent": b'{"type":"progress","cwd":"/srv","data":{"message":{"type":"assistant",'
    + USAGE
    + b"}}}",
    "a running total": b'{"type":"cost-state","totalCostUSD":0.5,"modelUsage":{"m":{"costUSD":0.5}}}',
    "an attachment": b'{"type":"attachment","attachment":{"prompt":"p"},"agentId":"a","forkedFrom":{"sessionId":"s"}}',
    "no attachment": b'{"type":"attachment","agentId":"a","forkedFrom":{"sessionId":"s"}}',
    "a system line of blocks": b'{"type":"system","content":[{"type":"news","say":"x"},"y"]}',
    "a switch of odd shape": b'{"type":"mode","mode":[],"sessionId":"s1"}',
    "a fork of odd shape": b'{"type":"user","forkedFrom":["s"],"message":{"content":"x"}}',
    "a boundary": b'{"type":"system","uuid":"u","subtype":"compact_boundary","compactMetadata":{"trigger":"auto"}}',
    "a refusal": b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","is_error":true}]}}',
}
ODD_FIELDS = (
    b"",
    b'"version":7,',
    b'"timestamp":[],',
    b'"parentUuid":1,',
    b'"sessionId":{},',
    b'"gitBranch":"\\ud800",',
)


@pytest.mark.parametrize("data", READ_IN_TWO_WAYS.values(), ids=READ_IN_TWO_WAYS)
def test_what_was_read_in_two_ways_is_read_in_one(data: bytes) -> None:
    """As it stands and with one more field of the wrong type, by all views."""
    lines = [b"{" + odd + data[1:] for odd in ODD_FIELDS]
    found = {
        (name, line): (plain(view(line)), plain(by_codec(line)))
        for line in lines
        for name, (view, by_codec) in VIEWS.items()
    }

    assert {} == {what: pair for what, pair in found.items() if pair[0] != pair[1]}


def test_an_odd_field_hides_no_usage() -> None:
    """Of an answer, of an agent's news, of the client's running total."""
    for name in ("usage without content", "news of an agent"):
        facts = facts_of(b'{"version":7,' + READ_IN_TWO_WAYS[name][1:])
        assert facts is not None
        assert facts.response is not None
        assert 5 == facts.response.usage.output_tokens
    total = facts_of(b'{"version":7,' + READ_IN_TWO_WAYS["a running total"][1:])

    assert (None if total is None else total.recorded) == RecordedTotal({"m": ("0.5", Tokens())}, "0.5")


@given(LINES)
def test_damage_is_what_the_codec_calls_damage(data: bytes) -> None:
    """Without building the entries of sound lines."""
    item = decode(Line(data))

    assert (item if isinstance(item, Damage) else None) == damage_of(Line(data))


def test_views_say_what_the_codec_says_of_real_lines(log_homes: Path) -> None:
    """Of every fiftieth line, all views."""
    lines = list(lines_of(session_logs(log_homes)))[::50]
    wrong = [
        (name, data)
        for data in lines
        for name, (view, by_codec) in VIEWS.items()
        if plain(view(data)) != plain(by_codec(data))
    ]

    assert [] == wrong
    assert len(lines) > 20


def test_what_is_damaged_has_a_view_but_is_not_sound() -> None:
    """Bad UTF-8 in a field that is read; the codec saves the rest."""
    data = b'{"type":"user","uuid":"u1","timestamp":"\xff","message":{"content":"x"}}'
    seen = fact_line(data)

    assert ("u1", None, None) == (seen and seen.uuid, fact_line(data, with_damage=False), narrow_line(data))


def test_a_sound_line_of_odd_shape_is_sound() -> None:
    """A time that is a number is left out, and the id is known."""
    data = b'{"type":"user","uuid":"u1","timestamp":7,"message":{"content":"x"}}'
    seen = fact_line(data, with_damage=False)

    assert (("u1", None), None) == (seen and (seen.uuid, seen.timestamp), narrow_line(data))
