"""What a client sends when it resumes, without what it adds for the new prompt.

Taken off: the new prompt itself with the reminders beside it, cache marks, the
empty system messages that only carry settings, and the filler answer that the
client puts behind an unanswered prompt. A text and a single text block are one
and the same to the API, so both are given as blocks.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

Messages = list[dict[str, Any]]

NEW_PROMPT = "THE NEW PROMPT"
FILLER = "No response requested."
_OWN_NOTE = re.compile(r"(?:\n\n)?<system-reminder>\n(?:# Environment|Attribution for git)")


def before_the_prompt(sent: Messages) -> Messages:
    """The messages of a request, up to the new prompt."""
    return possible(sent)[0]


def possible(sent: Messages) -> list[Messages]:
    """Every list that a request allows, the one without doubtful parts first.

    The last message holds what waited for an answer, then the client's reminders and the prompt: a reminder
    before it may come from the log. A filler at the end may come from the log too.
    """
    messages = [one for one in map(_plain, sent) if one["content"]]
    while messages[-1]["role"] == "system":
        messages.pop()
    last = messages.pop()
    assert NEW_PROMPT in json.dumps(last), "the last message of the user is not the new prompt"
    blocks = [_without_environment(block) for block in last["content"]]
    waiting = [block for block in blocks if not _is_new(block)]
    # The client's own reminders come after what is from the log.
    reminders = [block for block in blocks if _is_new(block) and NEW_PROMPT not in block["text"]]
    found = [_ending_with(messages, waiting)]
    found += [
        _ending_with(messages, _first_of(blocks, reminders[: count + 1])) for count in range(len(reminders))
    ]
    filler = {"role": "assistant", "content": [{"type": "text", "text": FILLER}]}
    return [one[:-1] if one and one[-1] == filler else one for one in found] + found


def _first_of(blocks: list[dict[str, Any]], reminders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for block in blocks if not _is_new(block) or any(block is one for one in reminders)]


def _ending_with(messages: Messages, waiting: list[dict[str, Any]]) -> Messages:
    """An unanswered message of the user is merged with the prompt, joined by a newline."""
    if not waiting:
        return messages
    if waiting[-1].get("type") == "text":
        waiting = [*waiting[:-1], {**waiting[-1], "text": waiting[-1]["text"].removesuffix("\n")}]
    return [*messages, {"role": "user", "content": waiting}]


def _without_environment(block: dict[str, Any]) -> dict[str, Any]:
    """A result that the new prompt follows without the client's notes for that prompt."""
    content = block.get("content")
    if block.get("type") != "tool_result" or not isinstance(content, str | list):
        return block
    if isinstance(content, str):
        return {**block, "content": _OWN_NOTE.split(content, maxsplit=1)[0]}
    kept = [
        part for part in content if not (isinstance(part, dict) and _OWN_NOTE.match(part.get("text", "")))
    ]
    return {**block, "content": kept}


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
