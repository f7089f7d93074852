"""The narrow looks at a line agree with the codec and never build text."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from recollect.model.codec import decode
from recollect.model.cost.usage import Tokens
from recollect.model.damage import Line
from recollect.model.entry import Assistant, Entry
from recollect.model.line_views.scan import envelope_of, usage_of
from tests.transcripts import lines_of, session_logs

ANSWER = (
    b'{"type":"assistant","uuid":"a","parentUuid":"u","requestId":"req_1","sessionId":"s","isSidechain":true,'
    b'"agentId":"a12","version":"2.1.30","timestamp":"2026-11-15T10:00:01.000Z","message":{"id":"msg_1",'
    b'"model":"claude-opus-4-6","content":[{"type":"text","text":"%b"}],"stop_reason":"end_turn","usage":'
    b'{"input_tokens":3,"output_tokens":5,"cache_creation_input_tokens":7,"cache_read_input_tokens":11}}}'
)


def test_usage_is_read_with_what_makes_it_unique() -> None:
    """Counts, model, ids, time and where it came from."""
    record = usage_of(ANSWER % b"hi")

    assert record is not None
    assert ("msg_1", "req_1", "claude-opus-4-6", "end_turn", "s", "a12", True, "2.1.30") == (
        record.message_id,
        record.request_id,
        record.model,
        record.stop_reason,
        record.session_id,
        record.agent_id,
        record.is_sidechain,
        record.version,
    )
    assert Tokens(3, 5, 7, 0, 11) == record.usage.tokens()


def test_a_scan_for_usage_never_builds_text() -> None:
    """Reading the usage of a line with 8 MB of text takes a thousandth of that in memory."""
    line = ANSWER % (b"x" * 8_000_000)
    usage_of(ANSWER % b"warm up")
    tracemalloc.start()
    record = usage_of(line)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert record is not None
    assert peak < 8_000


def test_an_envelope_leaves_the_message_alone() -> None:
    """Ids and links are read; an 8 MB message is not copied."""
    line = ANSWER % (b"x" * 8_000_000)
    envelope_of(ANSWER % b"warm up")
    tracemalloc.start()
    envelope = envelope_of(line)
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


def test_lines_without_usage_of_their_own_have_none() -> None:
    """A user line that quotes the word, a broken line and a blank line."""
    assert usage_of(b'{"type":"user","message":{"content":"\\"usage\\""},"usage":{"input_tokens":1}}') is None
    assert usage_of(b'{"type":"assistant","message":{"usage":{"input_to') is None
    assert usage_of(b"") is None


def test_odd_lines_are_read_by_the_codec_instead() -> None:
    """Flat usage, a byte order mark, bad UTF-8 and an odd field all keep their counts."""
    flat = (
        b'{"type":"assistant","content":"x","model":"m","usage":'
        b'{"input_tokens":1,"output_tokens":2,"cache_creation_tokens":3,"cache_read_tokens":4}}'
    )
    expected = Tokens(1, 2, 3, 0, 4)
    flat_record = usage_of(flat)
    assert flat_record is not None
    assert expected == flat_record.usage.tokens()

    for odd in (
        b"\xef\xbb\xbf" + ANSWER % b"hi",
        ANSWER % b"\xff",
        (ANSWER % b"hi").replace(b'"version":"2.1.30"', b'"version":21'),
        ANSWER % rb"\ud800",
    ):
        record = usage_of(odd)
        assert record is not None
        assert Tokens(3, 5, 7, 0, 11) == record.usage.tokens()


def test_scans_agree_with_the_codec_on_every_real_line(shared: Path) -> None:
    """The fast answers are the codec's answers, on all real transcripts."""
    seen = 0
    for line in lines_of(session_logs(shared)):
        entry = decode(Line(line))
        if not isinstance(entry, Entry):
            continue
        body = entry.body
        expected = body.message.usage if isinstance(body, Assistant) else None
        record = usage_of(line)
        assert (expected and expected.tokens()) == (record and record.usage.tokens())
        envelope = envelope_of(line)
        assert envelope is not None
        if entry.chain is not None:
            assert (entry.uuid, entry.parent_uuid) == (envelope.uuid, envelope.parent_uuid)
        seen += record is not None
    assert seen > 5_000
