"""A Messages API on the loopback whose answers stand in the prompt: ``STUB:[step, step, ...]``.

It keeps nothing of a conversation: the newest prompt that has a script decides, and as many of its steps are done as
the request has answers after it. So the same history always gets the same answer, from a main loop, a sub-agent or a
session that was resumed. A step may have ``text``, ``thinking``, ``tools`` (name, input, id), ``usage``, ``delay`` in
seconds, ``cut`` (the stream breaks off) and ``error`` (status, type, message; with ``times`` only so often).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

from tests.oracle.client_runner import ApiStub, _Handler

MARK = "STUB:"
SUMMARY = "1. Primary Request: stub summary of the talk so far."
USAGE = {
    "input_tokens": 11,
    "cache_creation_input_tokens": 300,
    "cache_read_input_tokens": 2000,
    "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
    "output_tokens": 7,
    "service_tier": "standard",
}
Step = dict[str, Any]


class ScriptedApi(ApiStub):
    """``requests`` are all that were made, in their order, each with its ``body``."""

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = _ScriptHandler
        self.requests: list[dict[str, Any]] = []
        self.failures: Counter[str] = Counter()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def events(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """Of an answer that never stops only the beginning."""
        events = super().events(message)
        return events if message["stop_reason"] else events[:3]


class _ScriptHandler(_Handler):
    server: ScriptedApi
    number = 0

    def end_headers(self) -> None:
        self.send_header("request-id", f"req_stub{self.number:06d}")
        super().end_headers()

    def do_POST(self) -> None:  # noqa: N802 - the name is the base class's
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append({"body": body})
        self.number = len(self.server.requests)
        step = _step(body)
        time.sleep(step.get("delay", 0))
        if "error" in step:
            error, same = step["error"], json.dumps(body)
            self.server.failures[same] += 1
            if self.server.failures[same] <= error.get("times", self.number):
                told = {"type": error["type"], "message": error["message"]}
                return self._reply({"type": "error", "error": told}, status=error["status"])
            step = {"text": "stub: recovered after errors."}
        message = _message(step, body["model"], self.number)
        return self._stream(message) if body.get("stream") else self._reply(message)


def _step(body: dict[str, Any]) -> Step:
    messages = body["messages"]
    if "create a detailed summary" in " ".join(_texts(messages[-1])):
        return {"text": f"<analysis>looked at it</analysis>\n<summary>\n{SUMMARY}\n</summary>"}
    for at in range(len(messages) - 1, -1, -1):
        for text in reversed(_texts(messages[at]) if messages[at]["role"] == "user" else []):
            if MARK in text:
                steps = json.JSONDecoder().raw_decode(text.partition(MARK)[2])[0]
                done = sum(message["role"] == "assistant" for message in messages[at + 1 :])
                ended = {"text": f"stub: script finished after {len(steps)} step(s)."}
                return dict(steps[done]) if done < len(steps) else ended
    return {"text": "stub reply"}


def _texts(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block["type"] == "text"]


def _message(step: Step, model: str, number: int) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    if "thinking" in step:
        signature = "c3R1Yi1zaWduYXR1cmU="
        blocks.append({"type": "thinking", "thinking": step["thinking"], "signature": signature})
    if "text" in step:
        blocks.append({"type": "text", "text": step["text"]})
    for at, tool in enumerate(step.get("tools", [])):
        blocks.append({"type": "tool_use", "id": f"toolu_stub{number:06d}x{at}", **tool})
    stop = "tool_use" if step.get("tools") else "end_turn"
    return {
        "id": f"msg_stub{number:06d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": None if step.get("cut") else stop,
        "stop_sequence": None,
        "usage": USAGE | step.get("usage", {}),
    }
