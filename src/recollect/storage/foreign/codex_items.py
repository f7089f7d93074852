"""Items of the service's protocol, as Codex stores them: their content, calls and results in blocks of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.model.json.text import loose_value
from recollect.storage.foreign import lines as made
from recollect.storage.foreign.edits import in_patch
from recollect.storage.foreign.lines import LineFields
from recollect.storage.foreign.loose import Fields

_EXIT = re.compile(r"(?:Process exited with code|Exit code:) (\d+)|\"exit_code\": ?(\d+)")
INJECTED = (
    "<environment_context>",
    "# AGENTS.md instructions",
    "<user_instructions>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<user_action>",
    "<skill>",
)


def parts_of(item: Fields) -> Iterator[Fields]:
    """The parts of a message; one that is only a text is one part."""
    content = item.get("content")
    if isinstance(content, str):
        yield {"type": "input_text", "text": content}
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            yield part


def block_of(part: Fields) -> LineFields | None:
    """A text or a picture; None for an empty text, and for what is not known its type."""
    text, url = part.get("text"), part.get("image_url")
    if isinstance(text, str):
        return {"type": "text", "text": text} if text else None
    if isinstance(url, str):
        return _image(url)
    return {"type": "text", "text": f"[{part.get('type')}]"}


def _image(url: str) -> LineFields:
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        media = head.removeprefix("data:").removesuffix(";base64")
        return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}
    return {"type": "image", "source": {"type": "url", "url": url}}


def result_blocks(output: object) -> object:
    """What a tool returned, where it is more than a text."""
    if isinstance(output, list):
        blocks = [block_of(part) for part in output if isinstance(part, dict)]
        return [block for block in blocks if block is not None]
    return "" if output is None else made.encode(output).decode()


def edits_of(given: object) -> list[LineFields]:
    """The files of a patch: a tool of its own, an argument of one, or a text that a shell passes on."""
    said: Fields = given if isinstance(given, dict) else {}
    words = next((said[name] for name in ("input", "patch", "command", "cmd") if name in said), "")
    texts = [str(word) for word in words] if isinstance(words, list) else [str(words)]
    place = said.get("workdir")
    return in_patch("\n".join(texts), place if isinstance(place, str) else "")


def was_refused(output: object) -> bool:
    """Whether a patch did not fit: that is said in words."""
    return isinstance(output, str) and ("verification failed" in output or output in ("aborted", "rejected"))


def input_of(item: Fields) -> object:
    """What a call was given: an object, or its text by the name of the field."""
    for name in ("arguments", "input", "action"):
        given = item.get(name)
        if isinstance(given, str):
            value = loose_value(given.encode()) if name == "arguments" else None
            return value if isinstance(value, dict) else {name: given}
        if isinstance(given, dict):
            return given
    return {}


def agent_in(output: object) -> object:
    """The thread that a call began, as its result names it."""
    value = loose_value(output.encode()) if isinstance(output, str) else None
    return value.get("agent_id") if isinstance(value, dict) else None


def has_failed(output: object) -> bool:
    """Whether a command ended with another status than 0: that is said in words, too."""
    head = output[:2000] if isinstance(output, str) else ""
    found = _EXIT.search(head) if "xit" in head else None  # a plain search is many times as fast
    return found is not None and (found[1] or found[2]) != "0"


def is_injected(item: Fields) -> bool:
    """Whether a message in the user's name is context that the client put there."""
    return any(str(part.get("text") or "").lstrip().startswith(INJECTED) for part in parts_of(item))
