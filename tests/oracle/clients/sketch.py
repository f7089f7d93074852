"""What was said, called and answered, in the words of no protocol: requests of different services become comparable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# What clients add in their own words, before the prompt or around it: no part of the conversation.
ADDED = (
    "<session_context>",
    "<system-reminder>",
    "<environment_context>",
    "<permissions",
    "# AGENTS.md",
    "<apps_instructions>",
    "<skills_instructions>",
    "<plugins_instructions>",
    "<user_instructions>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<skill>",
)
Said = tuple[str, str]


def sketch(request: dict[str, Any]) -> list[Said]:
    """Texts by who said them, calls and results by their ids; a result that is sent twice once. Thinking is left out."""
    found: list[Said] = []
    for message in request.get("input") or request.get("contents") or request["messages"]:
        role = {"model": "assistant"}.get(message.get("role"), message.get("role"))
        if message.get("type", "message") == "message" and role not in ("system", "developer", "tool"):
            content = message.get("parts") or message.get("content") or []
            blocks = [{"text": content}] if isinstance(content, str) else content
        else:
            blocks = [message]
        for block in (*blocks, *(message.get("tool_calls") or ())):
            found += [one for one in _said(block, role) if one[0] != "result" or one not in found]
    return found


def before(prompt: str, said: list[Said]) -> list[Said]:
    """What stands before the first prompt that begins so."""
    return said[
        : next(place for place, one in enumerate(said) if one[0] == "user" and one[1].startswith(prompt))
    ]


def _said(block: dict[str, Any], role: str | None) -> Iterator[Said]:
    kind = str(block.get("type"))
    is_call = kind in ("tool_use", "function") or kind.endswith("_call")
    call = block.get("functionCall") or (block if is_call else None)
    is_answer = kind == "tool_result" or kind.endswith("_output") or block.get("role") == "tool"
    answer = block.get("functionResponse") or (block if is_answer else None)
    if call is not None:
        yield "call", str(call.get("call_id") or call.get("id"))
    elif answer is not None:
        names = ("call_id", "tool_use_id", "tool_call_id", "id")
        yield "result", next((str(answer[name]) for name in names if answer.get(name)), "")
    elif kind in ("reasoning", "compaction", "agent_message"):
        yield kind, ""
    elif isinstance(block.get("text"), str) and not block["text"].lstrip().startswith(ADDED) and role:
        yield role, block["text"]
