"""What goes wrong when a client resumes a log.

The stub takes everything, so what the API itself would refuse is judged here on the messages that really
arrived, by rules written down a second time.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Iterator
from typing import Any

from tests.oracle.client_runner import Client
from tests.oracle.what_is_sent import NEW_PROMPT


def trouble_with(client: Client, session: str, log: bytes, words: tuple[str, ...]) -> list[str]:
    """Words that do not reach the model, a failure of the client, and what the API would refuse."""
    client.stub.asked.clear()
    client.put(session, []).write_bytes(log)
    outcome = client.ask(NEW_PROMPT, "--resume", session)
    talks = client.stub.conversations()
    return list(_trouble(talks[0] if talks else None, outcome.returncode, words))


def _trouble(sent: list[dict[str, Any]] | None, code: int, words: tuple[str, ...]) -> Iterator[str]:
    if sent is None or code != 0:
        yield f"the client failed with {code}"
    if sent is None:
        return
    whole = json.dumps(sent)
    yield from (f"{word} was not sent" for word in words if word not in whole)
    open_calls: set[str] = set()
    for message in (one for one in sent if one["role"] != "system"):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if results != open_calls:
            yield f"calls {sorted(open_calls)} and results {sorted(results)}"
        open_calls = {
            block["id"] for block in blocks if block["type"] == "tool_use" and message["role"] != "user"
        }
        for block in blocks:
            yield from _refused(message["role"], block)


def _refused(role: str, block: dict[str, Any]) -> Iterator[str]:
    kind = block["type"]
    if kind == "text" and not block["text"].strip():
        yield "empty text"
    if kind == "thinking" and not (block.get("signature") and isinstance(block.get("thinking"), str)):
        yield "thinking without signature or field"
    if kind == "redacted_thinking" and not block.get("data"):
        yield "redacted thinking without data"
    if kind == "tool_use" and not re.fullmatch("[a-zA-Z0-9_-]+", block["id"]):
        yield "bad id"
    if kind in (("tool_use", "thinking") if role == "user" else ("tool_result", "image")):
        yield f"{kind} of the {role}"
    if kind == "image":
        data = block["source"]["data"]
        if not data or len(data) > 5 * 2**20 or _is_refused_image(data):
            yield "image"
    if kind == "tool_result" and isinstance(block.get("content"), list):
        # The API takes empty text inside a result.
        for part in block["content"]:
            yield from _refused("", part) if part["type"] == "image" else ()


def _is_refused_image(data: str) -> bool:
    """Whether it is not base64, or the width that a small one names is too large."""
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error:
        return True
    width: int = struct.unpack(">I", decoded[16:20])[0] if len(data) < 1000 else 0
    return width > 8000
