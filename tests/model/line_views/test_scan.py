"""The narrow looks at a line agree with the codec and never build text."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from recollect.model.codec import decode
from recollect.model.cost.usage import Tokens
from recollect.model.damage import Line
from recollect.model.entry import Assistant, Entry, Kind
from recollect.model.line_views.facts import usage_facts
from recollect.model.line_views.links import line_links
from tests.transcripts import lines_of, session_logs

ANSWER = (
    b'{"type":"assistant","uuid":"a","parentUuid":"u","requestId":"req_1","sessionId":"s","isSidechain":true,'
    b'"agentId":"a12","version":"2.1.30","timestamp":"2026-11-15T10:00:01.000Z","message":{"id":"msg_1",'
    b'"model":"claude-opus-4-6","content":[{"type":"text","text":"%b"}],"stop_reason":"end_turn","usage":'
    b'{"input_tokens":3,"output_tokens":5,"cache_creation_input_tokens":7,"cache_read_input_tokens":11}}}'
)


def test_an_envelope_leaves_the_message_alone() -> None:
    """Ids and links are read; an 8 MB message is not copied."""
    line = ANSWER % (b"x" * 8_000_000)
    line_links(ANSWER % b"warm up")
    tracemalloc.start()
    envelope = line_links(line)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert envelope is not None
    assert ("assistant", "a", "u", True) == (
        envelope.type,
        envelope.uuid,
        envelope.parent_uuid,
        envelope.is_sidechain,
    )
    assert peak < 8_000


def test_usage_of_odd_lines_is_read_by_the_codec_instead() -> None:
    """Flat usage, a byte order mark, bad UTF-8 and an odd field all keep their counts."""
    flat = (
        b'{"type":"assistant","content":"x","model":"m","usage":'
        b'{"input_tokens":1,"output_tokens":2,"cache_creation_tokens":3,"cache_read_tokens":4}}'
    )
    cases = [(flat, Tokens(1, 2, 3, 0, 4))]
    cases += [
        (odd, Tokens(3, 5, 7, 0, 11))
        for odd in (
            b"\xef\xbb\xbf" + ANSWER % b"hi",
            ANSWER % b"\xff",
            (ANSWER % b"hi").replace(b'"version":"2.1.30"', b'"version":21'),
            ANSWER % rb"\ud800",
        )
    ]

    for line, tokens in cases:
        facts = usage_facts(line)
        assert facts is not None
        assert facts.response is not None
        assert tokens == facts.response.usage.tokens()


def test_scans_agree_with_the_codec_on_every_real_line(shared: Path) -> None:
    """The fast answers are the codec's answers, on all real transcripts."""
    seen = 0
    for line in lines_of(session_logs(shared)):
        entry = decode(Line(line))
        if not isinstance(entry, Entry):
            continue
        body = entry.body
        is_billed = isinstance(body, Assistant) and body.message.model != "<synthetic>"
        expected = body.message.usage if isinstance(body, Assistant) and is_billed else None
        facts = usage_facts(line) if entry.kind is not Kind.PROGRESS else None
        said = facts.response if facts is not None else None
        assert (expected and expected.tokens()) == (said and said.usage.tokens())
        envelope = line_links(line)
        assert envelope is not None
        if entry.chain is not None:
            assert (entry.uuid, entry.parent_uuid) == (envelope.uuid, envelope.parent_uuid)
        seen += said is not None
    assert seen > 5_000
