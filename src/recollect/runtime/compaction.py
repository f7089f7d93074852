"""Compaction: the conversation so far becomes a summary, in the client's own lines.

The log gets a ``compact_boundary`` that follows nothing, and the summary as its child; what stands before
stays in the file and is not sent any more. Clients and this runtime resume behind the boundary. The
request for the summary and its answer are a log of their own beside the session (``agent-acompact-...``),
as the client keeps them, so that what it cost is counted.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Any

from recollect.model import draft
from recollect.model.cost.usage import Usage
from recollect.model.draft import Draft
from recollect.runtime.agent_log import AgentLog
from recollect.runtime.api_client import ModelResponse
from recollect.storage.store import marked

COMMAND = "/compact"
_REQUEST = (
    "CRITICAL: Respond with TEXT ONLY. Do not call tools.\n\n"
    "Your task is to create a detailed summary of the conversation so far. Another agent continues from it and "
    "sees nothing else. Name: what the user asked for, in their words where they matter; decisions and their "
    "reasons; every file that was read or changed, with the parts that matter; errors and how they were fixed; "
    "what is done, what is being done, and the next step. Write it between <summary> and </summary>."
)
_SUMMARY = re.compile(r"<summary>(.*?)</summary>", re.DOTALL)
_ANALYSIS = re.compile(r"<analysis>.*?</analysis>", re.DOTALL)


def request_text(instructions: str) -> str:
    """What the model is asked; ``instructions`` are the user's, after ``/compact``."""
    return f"{_REQUEST}\n\nAdditional instructions:\n{instructions}" if instructions else _REQUEST


def summary_of(answer: ModelResponse) -> str:
    """The summary in an answer; "" where there is none."""
    text = "\n".join(block["text"] for block in answer.content if block.get("type") == "text")
    found = _SUMMARY.search(text)
    return (found.group(1) if found else _ANALYSIS.sub("", text)).strip()


def continued(summary: str, log: AgentLog) -> str:
    """The message that stands for everything before, in the client's words."""
    return (
        "This session is being continued from a previous conversation that ran out of context. The summary below "
        f"covers the earlier portion of the conversation.\n\nSummary:\n{summary}\n\nIf you need specific details "
        "from before compaction (like exact code snippets, error messages, or content you generated), read the "
        f"full transcript at: {log.path}\nContinue the conversation from where it left off without asking the "
        "user any further questions. Resume directly \u2014 do not acknowledge the summary, do not recap what was "
        'happening, do not preface with "I\'ll continue" or similar. Pick up the last task as if the break never '
        "happened."
    )


def tokens_of(usage: Usage) -> int:
    """How much of the window a request and its answer filled."""
    counts = usage.tokens()
    return counts.input + counts.cache_write_5m + counts.cache_write_1h + counts.cache_read + counts.output


def write(log: AgentLog, text: str, *, trigger: str, tokens: int, seconds: float) -> None:
    """The boundary and the summary, with one write; from now on the log continues behind them."""
    before = log.tip
    boundary = marked(
        draft.system("Conversation compacted"),
        subtype="compact_boundary",
        logicalParentUuid=before,
        isMeta=False,
        compactMetadata={"trigger": trigger, "preTokens": tokens, "durationMs": round(seconds * 1000)},
    )
    summary = marked(draft.user(text), isVisibleInTranscriptOnly=True, isCompactSummary=True)
    log.start_over(boundary, summary)


def write_request(log: AgentLog, asked: str, answer: Sequence[Draft]) -> AgentLog:
    """The request and its answer in a log of their own; the caller closes it."""
    side = log.sub_agent(f"acompact-{secrets.token_hex(8)}")
    side.put(draft.user(asked), *answer)
    return side


def instructions_in(prompt: str) -> str | None:
    """The words after ``/compact``; None where the prompt is another one."""
    first, _, rest = prompt.strip().partition(" ")
    return rest.strip() if first == COMMAND else None


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}
