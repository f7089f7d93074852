"""Compaction by the agent: the summary replaces the conversation, in time, and the log keeps everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import UsageError
from recollect.guard.agent import resumed_session
from recollect.guard.agent.model import ModelResponse
from tests.guard.agent.workshop import Script, Workshop, call, plain

SUMMARY = "<analysis>thought</analysis>\n<summary>\nWe fixed the basket.\n</summary>"


def todo(number: int) -> list[dict[str, Any]]:
    return [call("TodoWrite", {"todos": []}, f"t{number}")]


class _Filling(Script):
    """Every answer but a summary fills a window of 100 tokens a little more."""

    def answer(self, content: list[dict[str, Any]], stop: str) -> ModelResponse:
        from dataclasses import replace

        from recollect.model.lines.blocks import Usage

        return replace(
            super().answer(content, stop), usage=Usage(input_tokens=40 * len(self.asked), output_tokens=5)
        )


def test_the_agent_compacts_before_the_window_ends(tmp_path: Path) -> None:
    """After an answer that fills it, the summary is asked for, and the next request holds nothing else."""
    workshop = Workshop(tmp_path)
    script = _Filling(todo(1), todo(2), SUMMARY, "Done.")

    result = workshop.agent(script, compact_at=80).run("Fix the basket")

    asked, after = script.asked[2], script.asked[3]
    boundary, summary = [line for line in workshop.lines() if line["type"] in ("system", "user")][-2:]
    assert ("success", {"type": "none"}) == (result.ending, asked["tool_choice"])
    assert "create a detailed summary" in asked["messages"][-1]["content"][-1]["text"]
    assert 1 == len(after["messages"])
    assert "Summary:\nWe fixed the basket.\n" in after["messages"][0]["content"][0]["text"]
    assert ("compact_boundary", None, "auto", 85) == (
        boundary["subtype"],
        boundary["parentUuid"],
        boundary["compactMetadata"]["trigger"],
        boundary["compactMetadata"]["preTokens"],
    )
    assert (True, True, boundary["uuid"]) == (
        summary["isCompactSummary"],
        summary["isVisibleInTranscriptOnly"],
        summary["parentUuid"],
    )


def test_the_log_says_what_was_sent(tmp_path: Path) -> None:
    """Whoever resumes it gets the summary and what followed; the lines before are still in the file."""
    workshop = Workshop(tmp_path)
    script = _Filling(todo(1), SUMMARY, "Done.")
    workshop.agent(script, compact_at=40).run("Fix the basket")

    sent = plain(script.asked[-1]["messages"])

    assert [*sent, {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}] == plain(
        workshop.read_back().conversation().to_api()
    )
    assert b"Fix the basket" in workshop.session.log.path.read_bytes()


def test_a_person_can_ask_for_it(tmp_path: Path) -> None:
    """``/compact`` with instructions: no turn of the model, and the summary is the result."""
    workshop = Workshop(tmp_path)
    script = Script("First.", SUMMARY, "Second.")
    agent = workshop.agent(script)
    agent.run("Hi")

    result = agent.run("/compact keep the numbers")
    agent.run("And?")

    assert ("success", "We fixed the basket.", 0) == (result.ending, result.text, result.turns)
    assert script.asked[1]["messages"][-1]["content"][-1]["text"].endswith("\nkeep the numbers")
    assert ["user", "user"] == [message["role"] for message in script.asked[2]["messages"]]
    assert (
        "manual"
        == json.loads(
            next(
                line
                for line in workshop.session.log.path.read_text().splitlines()
                if "compact_boundary" in line
            )
        )["compactMetadata"]["trigger"]
    )


def test_what_the_summary_cost_is_counted(tmp_path: Path) -> None:
    """The request is a log of its own beside the session, so reports find it too."""
    workshop = Workshop(tmp_path)
    agent = workshop.agent(Script("First.", SUMMARY))
    agent.run("Hi")

    result = agent.run("/compact")

    (side,) = workshop.session.log.path.with_suffix("").glob("subagents/agent-acompact-*.jsonl")
    assert (10, 5) == (result.spending.tokens.input, result.spending.tokens.output)
    assert ["user", "assistant"] == [json.loads(line)["type"] for line in side.read_text().splitlines()]


def test_a_resumed_session_knows_how_full_it_is(tmp_path: Path) -> None:
    """The last answer's counts; nothing right after a compaction."""
    workshop = Workshop(tmp_path)
    workshop.agent(Script("First.")).run("Hi")
    workshop.session.log.close()
    name = str(workshop.session.log.id)

    full = workshop.session = resumed_session(workshop.home, name, workshop.project, data=workshop.data)
    workshop.agent(Script(SUMMARY)).run("/compact")
    full.log.close()
    empty = resumed_session(workshop.home, name, workshop.project, data=workshop.data)
    empty.log.close()

    assert (15, 0) == (full.tokens, empty.tokens)


def test_nothing_to_compact_is_an_error(tmp_path: Path) -> None:
    """A new session has no conversation."""
    with pytest.raises(UsageError, match="no conversation yet"):
        Workshop(tmp_path).agent(Script()).run("/compact")
