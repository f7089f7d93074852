"""Texts that client 2.1.325 generates when it resumes, and which models get them.

These are facts about its wire format, measured at the API. They exist so that ``to_api()`` returns what is
really sent; nothing else uses them.
"""

from __future__ import annotations

import enum
import json
import pkgutil
from collections.abc import Callable, Mapping

import msgspec

from recollect.model.lines.json_text import Json

Note = Mapping[str, object]

NO_CONTENT = "(no content)"
COMMAND_CAVEAT = "<local-command-caveat>"
FILLER = "No response requested."
MISSING_RESULT = "[Tool result missing due to internal error]"
REMOVED_CALL = "[Tool use interrupted]"
REMOVED_RESULT = "[Orphaned tool result removed due to conversation resume]"
TOOL_LOADED = "Tool loaded."
NO_TOOL_LEFT = "[Tool references removed - tools no longer available]"
INTERRUPTED = "[Request interrupted by user"
_TABLE = msgspec.toml.decode(pkgutil.get_data(__name__, "client_words.toml") or b"")
_TEXTS: dict[str, str] = _TABLE["texts"]
INTERRUPTED_RESULT = _TEXTS["interrupted_result"]
# How a block begins that stands for words of the client which are not repeated here.
STAND_IN = "[in the client's own words: "
REMINDER = ("<system-reminder>\n", "\n</system-reminder>")
DEFAULT_MODEL = "claude-opus-5-5"


class NotePlace(enum.Enum):
    """How notes of the role "system" reach a model."""

    INSIDE = "in the user's message"
    BESIDE = "in a message of their own"
    BESIDE_TAGGED = "in a message of their own, with tags"


_OFFERED = {model: NotePlace[place.upper()] for model, place in _TABLE["offered"].items()}
TOOLS = frozenset(_TABLE["names"]["tools"])


def resumed_model(model: str) -> tuple[str, NotePlace]:
    """The model it continues with: the session's own, or the default where that is no longer offered."""
    place = next((place for name, place in _OFFERED.items() if name in model), None)
    return (model, place) if place is not None else (DEFAULT_MODEL, NotePlace.BESIDE)


def notification(text: str) -> str:
    """How the client words news of a background task."""
    return f"{REMINDER[0]}{_TEXTS['not_the_user']}{text}{REMINDER[1]}"


# A note whose words are not in the log: its parts, as whom they are sent, and whether only to models that get notes in the
# user's message.
WordedNote = tuple[list[str | list[Json]], str, bool]


def worded_note(note: Note) -> WordedNote | None:
    """What client 2.1.325 makes of a note that was stored without words; None where it sends nothing.

    What people and tools put into it is kept. Where the rest is a long text of the client's own, a block that
    starts with ``STAND_IN`` names the kind and its data instead.
    """
    kind = note.get("type")
    if not isinstance(kind, str):
        return None
    if kind in _STAND_INS:
        return _stand_in(kind, note)
    make = _WORDED.get(kind)
    made = make(note) if make is not None else None
    return ([_reminder(made)], "system", False) if isinstance(made, str) and made else made or None


def is_sent(note: Note) -> bool:
    """Whether a note that was stored with its words is sent: not if a part is missing that the client reads."""
    kind = note.get("type")
    return (
        isinstance(kind, str) and kind != "prompt_snapshot" and (kind not in _NEEDED or _NEEDED[kind] in note)
    )


def _reminder(text: str) -> str:
    return f"{REMINDER[0]}{text}{REMINDER[1]}"


def _stand_in(kind: str, note: Note) -> WordedNote:
    data = {name: value for name, value in note.items() if name != "type"}
    content = note.get("content")
    if kind == "file" and isinstance(content, Mapping) and content.get("type") == "image":
        name = _reminder(f"{STAND_IN}{kind}] {note.get('filename')}")
        return [name, [_image(content.get("file"))]], "user", False
    words = f"{STAND_IN}{kind}] {json.dumps(data, ensure_ascii=False)}"
    named = [_reminder(f"{STAND_IN}{kind}]")] if kind in _IN_TWO_PARTS else []
    is_early = kind == "task_reminder"
    return [*named, _reminder(words)], "user" if is_early else "system", is_early


def _image(file: object) -> Json:
    held = file if isinstance(file, Mapping) else {}
    return {
        "type": "image",
        "source": {"type": "base64", "data": held.get("base64"), "media_type": held.get("type")},
    }


def _queued(note: Note) -> WordedNote:
    """What the user typed while the model worked, and news that came in meanwhile."""
    prompt = note.get("prompt")
    blocks = [block for block in prompt if isinstance(block, dict)] if isinstance(prompt, list) else []
    texts = [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
    text = "\n".join(texts) if isinstance(prompt, list) else str(prompt)
    origin = note.get("origin")
    source = origin.get("kind") if isinstance(origin, Mapping) else None
    if "task-notification" in (note.get("commandMode"), source):
        words = notification(text)
    elif source not in (None, "human"):
        words = _reminder(f"{STAND_IN}queued_command from {source}] {text}")
    elif note.get("isMeta") is True:
        words = _reminder(f"[MESSAGE FROM NON-USER SOURCE - NOT USER INPUT]\n{text}")
    else:
        words = _reminder(_TEXTS["sent_meanwhile"].format(text))
    images = [block for block in blocks if block.get("type") == "image"]
    if not images:
        return [words], "system", False
    return [[{"type": "text", "text": words}, *images]], "user", False


def _agents(note: Note) -> str | None:
    lines = _texts(note.get("addedLines"))
    hint = f"\n\n{_TEXTS['several_agents']}" if note.get("showConcurrencyNote") is True else ""
    return "\n".join([_TEXTS["agents"], *lines]) + hint if lines else None


def _skills(note: Note) -> str | None:
    content = note.get("content")
    return f"{_TEXTS['skills']}\n\n{content}" if isinstance(content, str) and content else None


def _hook_context(note: Note) -> str | None:
    words = "\n".join(_texts(note.get("content")))
    return f"{note.get('hookName')} hook additional context: {words}" if words else None


def _hook_success(note: Note) -> str | None:
    content = note.get("content")
    is_sent = note.get("hookEvent") in ("SessionStart", "UserPromptSubmit")
    is_said = is_sent and isinstance(content, str) and content
    return f"{note.get('hookName')} hook success: {content}" if is_said else None


def _hook_error(note: Note) -> str | None:
    error = note.get("blockingError")
    if not isinstance(error, Mapping):
        return None
    return (
        f"{note.get('hookName')} hook blocking error from command: "
        f'"{error.get("command")}": {error.get("blockingError")}'
    )


def _memory(note: Note) -> str | None:
    held = note.get("content")
    return f"Contents of {held.get('path')}:\n\n{held.get('content')}" if isinstance(held, Mapping) else None


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _template(text: str) -> Callable[[Note], str | None]:
    def words(note: Note) -> str | None:
        try:
            return text.format_map(note)
        except KeyError:
            return None

    return words


_WORDED: dict[str, Callable[[Note], WordedNote | str | None]] = {
    "agent_listing_delta": _agents,
    "skill_listing": _skills,
    "hook_success": _hook_success,
    "hook_additional_context": _hook_context,
    "hook_blocking_error": _hook_error,
    "queued_command": _queued,
    "nested_memory": _memory,
    **{kind: _template(text) for kind, text in _TABLE["templates"].items()},
}
_STAND_INS = frozenset(_TABLE["names"]["long_kinds"])
_IN_TWO_PARTS = frozenset(["async_hook_response", "directory", "file"])
_NEEDED = {
    "file": "content",
    "hook_additional_context": "content",
    "invoked_skills": "skills",
    "task_reminder": "content",
}
