"""The headless loop: ask the model, make its calls, send the results, until it is done.

Each step is logged before the next: the prompt before the request, the response before its calls, each
result as it arrives. So the log is complete however the loop ends (Ctrl-C, a failing API, a full disk,
kill -9), and the client or this loop can continue it. API failures are retried within limits, and each
is logged as the client logs it.

Before the window of the model is full the conversation is compacted: the log gets a ``compact_boundary`` that follows
nothing, and the summary as its child; the request for it is a log of its own beside the session, so that what it cost
is counted. News of commands and agents in the background reach the model with the next request.
"""

from __future__ import annotations

import datetime as dt
import random
import re
import secrets
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import structs

from recollect.errors import UsageError
from recollect.guard.agent.calls import words
from recollect.guard.agent.model import ApiClient, ApiFailed, Cancelled, ModelResponse, system_prompt
from recollect.guard.agent.runner import ToolRunner
from recollect.guard.agent.sessions import MARK, AgentSession
from recollect.index.glimpse import window_of
from recollect.model.conversation.client_words import notification
from recollect.model.cost.money import Spending
from recollect.model.cost.prices import SYNTHETIC_MODEL
from recollect.model.lines import draft
from recollect.model.lines.draft import Draft
from recollect.store.store import marked

COMMAND = "/compact"
_SUMMARY = re.compile(r"<summary>(.*?)</summary>", re.DOTALL)
_ANALYSIS = re.compile(r"<analysis>.*?</analysis>", re.DOTALL)


Ending = Literal["success", "error_max_turns", "error_api", "refusal", "interrupted"]

_RETRIES = 6
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_MOST_CONTINUED = 3
_FULL = 0.8


@dataclass(frozen=True, slots=True)
class AgentResult:
    """How a run ended. ``text`` is the model's last text."""

    ending: Ending
    text: str
    session_id: str
    turns: int
    seconds: float
    spending: Spending
    """Of this run alone."""
    denials: tuple[dict[str, Any], ...] = ()
    stop_reason: str | None = None

    @property
    def is_error(self) -> bool:
        return self.ending != "success"

    @property
    def usage(self) -> dict[str, int]:
        """Tokens by kind, with the names of the API."""
        tokens = self.spending.tokens
        return {
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
            "cache_creation_input_tokens": tokens.cache_write_5m + tokens.cache_write_1h,
            "cache_read_input_tokens": tokens.cache_read,
        }


class Agent:
    """One session, one model, one set of tools. ``run`` may be called again with the next prompt.

    ``compact_at``: the conversation is compacted once a request and its answer fill so many tokens;
    without it, at four fifths of the model's window. ``role`` comes before the system prompt.
    """

    def __init__(
        self,
        session: AgentSession,
        runner: ToolRunner,
        api: ApiClient,
        *,
        model: str,
        tools: Sequence[dict[str, Any]],
        max_turns: int | None = None,
        max_tokens: int = 16_000,
        retries: int = _RETRIES,
        first_wait: float = _FIRST_WAIT,
        compact_at: int | None = None,
        role: str = "",
    ) -> None:
        self._log, self._runner, self._api = session.log, runner, api
        self._messages = list(session.messages)
        self._model, self._tools = model, list(tools)
        self._max_turns, self._max_tokens = max_turns, max_tokens
        self._retries, self._first_wait, self._role = retries, first_wait, role
        self._compact_at = compact_at or round(window_of(model, 0) * _FULL)
        self._tokens = session.tokens
        self._cancelled: threading.Event = runner.cancelled

    def run(self, prompt: str) -> AgentResult:
        """Work on a prompt until the model is done or something ends the run.

        ``/compact [INSTRUCTIONS]`` is no prompt: the conversation is compacted.
        """
        began, before = time.monotonic(), self._log.spending + self._runner.side_spending
        self._turns = self._continued = 0
        self._denials: list[dict[str, Any]] = []
        self._text = ""
        self._stop_reason: str | None = None
        first, _, instructions = prompt.strip().partition(" ")
        try:
            if first == COMMAND:
                ending = self._compacted(instructions.strip())
            else:
                (prompt_id,) = self._log.put(marked(draft.user(prompt), **{MARK: str(self._log.id)}))
                self._messages.append({"role": "user", "content": prompt})
                if not self._runner.is_sub_agent:
                    # Files can be rewound to their state at this moment.
                    self._runner.history.at_prompt(prompt_id)
                ending = self._worked()
        except Cancelled:
            ending = self._interrupted()
        finally:
            for text in self._runner.background.close():
                self._tell(text)
        after = self._log.spending + self._runner.side_spending
        return AgentResult(
            ending=ending,
            text=self._text,
            session_id=str(self._log.id),
            turns=self._turns,
            seconds=time.monotonic() - began,
            spending=_difference(after, before),
            denials=tuple(self._denials),
            stop_reason=self._stop_reason,
        )

    def _worked(self) -> Ending:
        background = self._runner.background
        while True:
            if self._max_turns is not None and self._turns >= self._max_turns:
                return "error_max_turns"
            for text in background.news():
                self._tell(text)
            try:
                if self._tokens >= self._compact_at and len(self._messages) > 1:
                    self._compact("", "auto")
                answer = self._answer(self._messages)
            except ApiFailed as failure:
                self._text = self._api_error(failure)
                return "error_api"
            self._turns += 1
            self._tokens = answer.usage.tokens().total
            ending = self._taken(answer)
            if ending == "success" and background.pending:
                for text in background.wait(self._cancelled):
                    self._tell(text)
                ending = self._interrupted() if self._cancelled.is_set() else None
            if ending is not None:
                return ending

    def _tell(self, text: str) -> None:
        """News of a task: a message of its own in the log, which the client words as not the user's."""
        self._log.put(marked(draft.user(text), origin={"kind": "task-notification"}))
        self._messages.append({"role": "user", "content": notification(text)})

    # ---- compaction --------------------------------------------------------------------------------------

    def _compacted(self, instructions: str) -> Ending:
        if not self._messages:
            raise UsageError(
                "/compact: there is no conversation yet", hint="continue a session with --resume SESSION"
            )
        try:
            self._text = self._compact(instructions, "manual")
        except ApiFailed as failure:
            self._text = self._api_error(failure)
            return "error_api"
        return "success"

    def _compact(self, instructions: str, trigger: str) -> str:
        """Replace the conversation by a summary of it; returns the summary."""
        began = time.monotonic()
        asked = words("summary_request")
        asked += f"\n\nAdditional instructions:\n{instructions}" if instructions else ""
        answer = self._answer([*self._messages, {"role": "user", "content": asked}], calls=False)
        with self._log.sub_agent(f"acompact-{secrets.token_hex(8)}") as side:
            side.put(draft.user(asked), *_drafts(answer))
            self._runner.add_spending(side.spending)
        found = _SUMMARY.search(answer.text)
        summary = (found.group(1) if found else _ANALYSIS.sub("", answer.text)).strip()
        if not summary:
            raise ApiFailed("The answer holds no summary of the conversation", again=False)
        text = words("continued", summary=summary, log=self._log.path)
        milliseconds = round((time.monotonic() - began) * 1000)
        boundary = marked(
            draft.system("Conversation compacted"),
            subtype="compact_boundary",
            logicalParentUuid=self._log.tip,
            isMeta=False,
            compactMetadata={"trigger": trigger, "preTokens": self._tokens, "durationMs": milliseconds},
        )
        first = marked(draft.user(text), isVisibleInTranscriptOnly=True, isCompactSummary=True)
        self._log.start_over(boundary, first)
        self._messages[:] = [{"role": "user", "content": text}]
        self._tokens = 0
        return summary

    def _taken(self, answer: ModelResponse) -> Ending | None:
        """Log a response and make its calls; returns the ending, if nothing is left to do."""
        self._stop_reason = answer.stop_reason
        ids = self._log.put(*_drafts(answer))
        if answer.content:
            self._messages.append({"role": "assistant", "content": answer.content})
        self._text = answer.text or self._text
        calls = [
            (block, entry_id)
            for block, entry_id in zip(answer.content, ids, strict=True)
            if block.get("type") == "tool_use"
        ]
        if calls:
            return self._called(calls, is_cut=answer.stop_reason == "max_tokens")
        if answer.stop_reason == "max_tokens" and self._continued < _MOST_CONTINUED:
            self._continued += 1
            self._log.put(draft.user(words("cut_answer"), is_meta=True))
            self._messages.append({"role": "user", "content": words("cut_answer")})
            return None
        if answer.stop_reason == "pause_turn":
            return None
        return "refusal" if answer.stop_reason == "refusal" else "success"

    def _called(self, calls: list[tuple[dict[str, Any], str]], *, is_cut: bool) -> Ending | None:
        results: list[dict[str, Any]] = []
        for number, (block, entry_id) in enumerate(calls):
            if self._cancelled.is_set():
                ran = self._runner.reject(block, asked_by=entry_id)
            elif is_cut and number == len(calls) - 1:
                ran = self._runner.fail(block, words("cut_call"), asked_by=entry_id)
            else:
                ran = self._runner.run(block, asked_by=entry_id)
            results.append(ran.block)
            if ran.outcome.denied and not self._cancelled.is_set():
                self._denials.append(
                    {"tool_name": block["name"], "tool_use_id": block["id"], "tool_input": block["input"]}
                )
        self._messages.append({"role": "user", "content": results})
        return self._interrupted("interrupted_in_tool") if self._cancelled.is_set() else None

    def _interrupted(self, sentence: str = "interrupted") -> Ending:
        block = {"type": "text", "text": words(sentence)}
        self._log.put(draft.user([block]))
        last = self._messages[-1]
        if last["role"] == "user" and isinstance(last["content"], list):
            last["content"].append(block)
        else:
            self._messages.append({"role": "user", "content": [block]})
        return "interrupted"

    # ---- the API -----------------------------------------------------------------------------------------

    def _answer(self, messages: list[dict[str, Any]], *, calls: bool = True) -> ModelResponse:
        request = self._request(messages)
        if self._tools and not calls:
            request["tool_choice"] = {"type": "none"}
        for attempt in range(1, self._retries + 2):
            if self._cancelled.is_set():
                raise Cancelled
            try:
                return self._api.ask(request, self._cancelled)
            except ApiFailed as failure:
                if not failure.again or attempt > self._retries:
                    raise
                self._wait(failure, attempt)
        raise AssertionError("the last attempt returns or raises")

    def _request(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        today = dt.datetime.now(dt.UTC).date().isoformat()
        system = system_prompt(self._runner.gate.root, today, self._role)
        request: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._max_tokens,
            "system": [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
            "messages": _with_cache_mark(messages),
        }
        return request | ({"tools": self._tools} if self._tools else {})

    def _wait(self, failure: ApiFailed, attempt: int) -> None:
        wait = failure.wait
        if wait is None:
            wait = self._first_wait * 2 ** (attempt - 1) * random.uniform(0.75, 1.0)
        wait = min(wait, _LONGEST_WAIT)
        error = {
            "message": failure.message,
            "status": failure.status,
            "requestId": failure.request_id,
            "formatted": failure.message,
        }
        note = marked(
            draft.system(failure.message, level="error"),
            subtype="api_error",
            error={name: value for name, value in error.items() if value is not None},
            retryInMs=round(wait * 1000),
            retryAttempt=attempt,
            maxRetries=self._retries,
            source="request_retry" if failure.status else "connection_retry",
        )
        self._log.put(note)
        if self._cancelled.wait(wait):
            raise Cancelled

    def _api_error(self, failure: ApiFailed) -> str:
        """The line that clients show and do not send again."""
        text = f"API Error: {failure.message}"
        answer = draft.assistant(
            text,
            model=SYNTHETIC_MODEL,
            message_id=str(uuid.uuid4()),
            request_id=failure.request_id,
            stop_reason="stop_sequence",
        )
        self._log.put(
            marked(
                answer,
                error="unknown",
                isApiErrorMessage=True,
                apiErrorStatus=failure.status,
                apiErrorType=failure.kind,
            )
        )
        return text


def _drafts(answer: ModelResponse) -> list[Draft]:
    """One line per block, as clients store a response."""
    return [
        draft.assistant(
            [block],
            model=answer.model,
            usage=answer.usage,
            message_id=answer.id,
            request_id=answer.request_id,
            stop_reason=answer.stop_reason,
        )
        for block in answer.content
    ]


def _with_cache_mark(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same messages, the last marked so that the next request finds this one in the cache."""
    *before, last = messages
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    if not blocks:
        return messages
    blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral"}}
    return [*before, {**last, "content": blocks}]


def _difference(after: Spending, before: Spending) -> Spending:
    counts = {
        name: getattr(after.tokens, name) - getattr(before.tokens, name)
        for name in after.tokens.__struct_fields__
    }
    tokens = structs.replace(after.tokens, **counts)
    return Spending(tokens, after.pico_usd - before.pico_usd, after.unpriced)
