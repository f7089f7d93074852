"""What became of every tool call."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recollect.model.conversation.tool_calls import ToolCall, ToolCallStatus, tool_calls
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Line
from recollect.model.lines.entry import Entry
from tests.talk import assistant, call, encoded, result, user
from tests.transcripts import lines_of, session_logs


def calls_in(lines: list[dict[str, Any]]) -> list[ToolCall]:
    """The calls of a log with these lines."""
    return calls_of(encoded(lines).split(b"\n"))


def calls_of(lines: list[bytes]) -> list[ToolCall]:
    """The calls of raw lines."""
    return tool_calls(item for line in lines if isinstance(item := decode(Line(line)), Entry))


ASKED = [user("u1", None, 0, "Q"), assistant("a1", "u1", 1, [call("t1"), call("t2", "Read", file_path="/x")])]


@pytest.mark.parametrize(
    ("block", "line", "status"),
    [
        (result("t1"), {}, ToolCallStatus.OK),
        (result("t1", is_error=True), {}, ToolCallStatus.ERROR),
        (result("t1", "nope", is_error=True), {"toolDenialKind": "user-rejected"}, ToolCallStatus.DENIED),
        (result("t1", "x"), {"permissionDecision": {"decision": "reject"}}, ToolCallStatus.DENIED),
        (
            result("t1", "Permission to use Bash with command rm has been denied.", is_error=True),
            {},
            ToolCallStatus.DENIED,
        ),
        (result("t1", "part"), {"toolUseResult": {"interrupted": True}}, ToolCallStatus.INTERRUPTED),
        (
            result("t1", "[Request interrupted by user for tool use]", is_error=True),
            {},
            ToolCallStatus.INTERRUPTED,
        ),
        (result("t1", "started"), {"toolUseResult": {"backgroundTaskId": "b1"}}, ToolCallStatus.RUNNING),
    ],
)
def test_a_result_tells_how_the_call_ended(
    block: dict[str, Any], line: dict[str, Any], status: ToolCallStatus
) -> None:
    """Error, denial, interruption and background are told apart; the other call has no result."""
    first, second = calls_in([*ASKED, user("r", "a1", 3, [block], **line)])

    assert (status, "r", 2000.0) == (first.status, first.result_uuid, first.elapsed_ms)
    assert (ToolCallStatus.MISSING, None, b'{"file_path":"/x"}') == (
        second.status,
        second.elapsed_ms,
        second.input,
    )


def test_a_recorded_duration_is_believed_and_a_clock_that_went_back_is_not() -> None:
    """The client's own figure wins; without one, time never runs backwards."""
    recorded = calls_in([*ASKED, user("r", "a1", 9, [result("t1")], toolUseResult={"durationMs": 40})])
    backwards = calls_in([*ASKED, user("r", "a1", 0, [result("t1")])])

    assert (40, 0.0) == (recorded[0].elapsed_ms, backwards[0].elapsed_ms)


def test_a_background_call_ends_with_its_notification() -> None:
    """The later message says how it went and what came out."""
    note = (
        "<task-notification><task-id>b</task-id><tool-use-id>t1</tool-use-id><status>completed</status>"
        "<result>all\ngood</result></task-notification>"
    )
    started = user("r", "a1", 2, [result("t1", "started")], toolUseResult={"isAsync": True, "agentId": "a9"})
    first = calls_in([*ASKED, started, user("n", "r", 61, note)])[0]

    assert (ToolCallStatus.OK, "n", "all\ngood", "a9", True) == (
        first.status,
        first.result_uuid,
        first.text,
        first.agent_id,
        first.in_background,
    )
    assert 60_000 == first.elapsed_ms


def test_the_first_of_two_results_counts() -> None:
    """As for the client."""
    lines = [*ASKED, user("r", "a1", 2, [result("t1", "one")]), user("s", "r", 3, [result("t1", "two")])]

    assert "one" == calls_in(lines)[0].text


def test_calls_on_lines_of_their_own() -> None:
    """The flat dialect's calls, results and errors are the same thing."""
    found = calls_of(
        [
            b'{"type":"tool_call","tool":"Read","arguments":{"p":1},"toolCallId":"c1","timestamp":"2026-01-01T00:00:00Z"}',
            b'{"type":"tool_call","tool":"Read","arguments":{},"toolCallId":"c2"}',
            b'{"type":"tool_result","tool":"Read","result":"text","duration_ms":543,"toolCallId":"c1"}',
            b'{"type":"tool_result","tool":"Read","error":"not found","toolCallId":"c2"}',
        ]
    )

    assert [(ToolCallStatus.OK, "text", 543), (ToolCallStatus.ERROR, "not found", None)] == [
        (one.status, one.text, one.elapsed_ms) for one in found
    ]


def test_real_sessions_leave_few_calls_unanswered(transcripts: Path) -> None:
    """Every call of the samples gets a status; the great majority ended well."""
    states: Counter[ToolCallStatus] = Counter()
    for log in session_logs(transcripts):
        if "claude-home" in log.parts and log.name != "history.jsonl":
            states.update(one.status for one in calls_of(list(lines_of([log]))))

    assert states[ToolCallStatus.OK] > 200
    assert states[ToolCallStatus.DENIED] >= 20
    assert states[ToolCallStatus.MISSING] < 10
