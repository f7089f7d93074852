"""What a client sends when it resumes, without what it adds for the new prompt.

Taken off: the new prompt itself with the reminders beside it, cache marks, the
empty system messages that only carry settings, and the filler answer that the
client puts behind an unanswered prompt. A text and a single text block are one
and the same to the API, so both are given as blocks.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

Messages = list[dict[str, Any]]

NEW_PROMPT = "THE NEW PROMPT"
FILLER = "No response requested."


def before_the_prompt(sent: Messages) -> Messages:
    """The messages of a request, up to the new prompt."""
    messages = [one for one in map(_plain, sent) if one["content"]]
    while messages[-1]["role"] == "system":
        messages.pop()
    last = messages.pop()
    assert NEW_PROMPT in json.dumps(last), "the last message of the user is not the new prompt"
    waiting = [block for block in last["content"] if not _is_new(block)]
    if waiting:
        # An unanswered message of the user is merged with the prompt, joined by a newline.
        if waiting[-1].get("type") == "text":
            waiting[-1] = {**waiting[-1], "text": waiting[-1]["text"].removesuffix("\n")}
        messages.append({"role": "user", "content": waiting})
    if messages and messages[-1] == {"role": "assistant", "content": [{"type": "text", "text": FILLER}]}:
        messages.pop()
    return messages


def as_blocks(messages: Messages) -> Messages:
    """Our own list in the same form."""
    return [_plain(one) for one in messages]


def digests(messages: Messages) -> list[str]:
    """Role and a hash of the content of each message: what was sent, without keeping a copy of it."""
    return [f"{one['role']} {_digest(one['content'])}" for one in as_blocks(messages)]


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    blocks = [{name: value for name, value in block.items() if name != "cache_control"} for block in content]
    return {"role": message["role"], "content": blocks}


def _is_new(block: dict[str, Any]) -> bool:
    text = block.get("text", "") if block.get("type") == "text" else ""
    return NEW_PROMPT in text or text.startswith("<system-reminder>")
