"""The title of a session: one rule for every surface.

The strongest available part is used: the user's title, the generated one, the last prompt, the first prompt.
Of the first three the last entry in the log counts, and an empty one clears the part. A prompt is what the
user typed, never text of the client or a tool in the user's name. In a session's log a side chain belongs to
a sub-agent; a log that begins with one is entirely a sub-agent's. A first prompt that says nothing of this session,
because the client wrote it for a session that goes on or many sessions begin with it, gives way to the second.

Else the result is what the client's own list would show. Texts are unchanged except for their length: the output
code makes them safe. Nothing is imported before a line has to be read, so that listing sessions loads little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from recollect.model.lines.blocks import ImageBlock, TextBlock, ToolResultBlock
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.entry import (
    AiTitle,
    Attachment,
    CustomTitle,
    Entry,
    Kind,
    Summary,
    Tag,
    User,
)
from recollect.model.lines.ids import short_id
from recollect.model.lines.json_text import loose_object
from recollect.model.views.fact_line import text_of
from recollect.model.views.facts import PROSE, LineFacts

# How the title of a repaired copy ends.
REPAIRED = "(repaired)"

LONGEST_TITLE = 200
FIRST_PROMPT, NEXT_PROMPT = "first_prompt", "next_prompt"
# How the client begins a session with a summary of an earlier one.
GOES_ON = "This session is being continued from a previous conversation"
# Strongest first.
TITLE_PARTS = ("custom_title", "ai_title", "last_prompt", FIRST_PROMPT, NEXT_PROMPT)
# Metadata entries about a session, by their type. The last one wins.
STATED_BY = {
    "custom-title": "custom_title",
    "ai-title": "ai_title",
    "last-prompt": "last_prompt",
    "tag": "tag",
    "continued-in": "continued_in",
}


_NAMED_IN = {
    Kind.LAST_PROMPT: "lastPrompt",
    Kind.CONTINUED_IN: "continuedInSessionId",
    Kind.BRIDGE_SESSION: "bridgeSessionId",
}


def title_of(
    custom_title: str | None, ai_title: str | None, last_prompt: str | None, opening: str | None
) -> str:
    """The custom title, else the generated one, else the last prompt, else ``opening_prompt``; "" if there is none."""
    last = None if (last_prompt or "").startswith(GOES_ON) else last_prompt
    return custom_title or ai_title or last or opening or last_prompt or ""


def opening_prompt(first: str | None, following: str | None, is_shared: bool | int) -> str | None:
    """The first prompt, or the one that follows it where the first says nothing: many sessions share it, or the client wrote it."""
    says_nothing = is_shared or (first or "").startswith(GOES_ON)
    return following or first if says_nothing else first


def title_in(columns: Sequence[Any]) -> str:
    """The title by six values: three of ``title_of``, three of ``opening_prompt``."""
    custom, generated, last, *prompts = columns
    return title_of(custom, generated, last, opening_prompt(*prompts))


def said_of_session(
    facts: LineFacts, line: Line, *, begins_aside: bool, prompts: int
) -> tuple[str, str] | None:
    """What a line says of its session, such as a part of its title, and the text; None for nearly all lines.

    ``begins_aside``: the log begins with a side chain. ``prompts``: how many of the first
    two prompts are known.
    """
    if facts.type in STATED_BY:
        entry = read_entry(line)
        text = None if entry is None else metadata_text(entry)
        is_stated = entry is not None and entry.kind.value in STATED_BY
        return None if text is None or not is_stated else (STATED_BY[facts.type], text)
    is_own = facts.type == "user" and facts.is_sidechain == begins_aside
    if prompts > 1 or not is_own or facts.is_meta or facts.texts is None:
        return None
    if prompts and not facts.texts[PROSE]:  # results of tools, which may be large
        return None

    entry = read_entry(line)
    prompt = None if entry is None else typed_prompt(entry)
    return None if prompt is None else (NEXT_PROMPT if prompts else FIRST_PROMPT, prompt)


def directory_name(cwd: str) -> str:
    """The last part of a path; empty where it has none. Backslashes count where there are no slashes."""
    separator = "\\" if "\\" in cwd and "/" not in cwd else "/"
    parts = [part for part in cwd.split(separator) if part not in ("", ".")]
    is_drive = separator == "\\" and len(parts) == 1 and parts[0].endswith(":")
    return parts[-1] if parts and not is_drive else ""


def project_name(cwd: str, log_directory: str) -> str:
    """What a project is called: by the directory worked in, else by the directory of its logs."""
    return directory_name(cwd) or cwd or log_directory


def copy_note(title: str, origin: str | None) -> str:
    """``fork of 6ada00ba`` or ``repaired copy of 6ada00ba``; "" for a session of its own."""
    if origin is None:
        return ""

    return f"{'repaired copy' if title.endswith(REPAIRED) else 'fork'} of {short_id(origin)}"


# Texts that the client writes in the user's name, by their beginning.
_NOT_TYPED = (
    "<command-",
    "<local-command-",
    "<bash-",
    "<task-notification>",
    "<system-reminder>",
    "<session-start-hook>",
    "<user-prompt-submit-hook>",
    "<ide_",
    "[Request interrupted by user",
    "Caveat: The messages below were generated by the user while running local commands",
)
# What Codex writes around a picture, each tag a text of its own: `<image name=[Image #1] path="/w/dot.png">`.
_PICTURE_TAG = re.compile(r"<image(?: [^\n]*)?>|</image>")
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
# The beginning of a text as a line holds it: cheap to look for before a line is read.
_MAY_BE_CLIENT = re.compile(
    rb'"(?:content|text)"[ \t]*:[ \t]*"(?:\\n|[ \t])*(?:'
    + "|".join(map(re.escape, _NOT_TYPED)).encode()
    + rb")"
)


def client_written(line: Line) -> Literal["command", "note"] | None:
    """Whether the client wrote a user line in the user's name: a slash command, or a note; None: not, or not known."""
    if _MAY_BE_CLIENT.search(line.data) is None:
        return None
    entry = read_entry(line)
    if entry is None or not isinstance(entry.body, User) or typed_prompt(entry) is not None:
        return None
    texts = [block.text for block in entry.body.message.blocks if isinstance(block, TextBlock)]
    return "command" if any(_COMMAND.search(text) for text in texts) else "note"


def command_line(text: str) -> str:
    """A slash command as it was typed, from the tags the client wrote for it; other texts as they are."""
    named, given = _COMMAND.search(text), _ARGUMENTS.search(text)
    return text if named is None else f"{named[1].strip()} {given[1].strip() if given else ''}".strip()


def read_entry(line: Line) -> Entry | None:
    """A line as an entry, or its readable part; None where there is none."""
    item = decode(line)
    return item.readable if isinstance(item, Damage) else item


def typed_prompt(entry: Entry) -> str | None:
    """What the user typed, shortened; None for text of the client or a tool in the user's name."""
    text = typed_text(entry)
    return None if text is None else text[:LONGEST_TITLE]


def typed_text(entry: Entry) -> str | None:
    """The same as long as it is."""
    body = entry.body
    if not isinstance(body, User) or body.is_meta or body.is_compact_summary:
        return None
    blocks = body.message.blocks
    if any(isinstance(block, ToolResultBlock) for block in blocks):
        return None
    has_picture = any(isinstance(block, ImageBlock) for block in blocks)
    for block in blocks:
        # Editors insert a block of their own before the typed one.
        text = block.text.strip() if isinstance(block, TextBlock) else ""
        is_tag = has_picture and _PICTURE_TAG.fullmatch(text) is not None
        if text and not is_tag and not text.startswith(_NOT_TYPED):
            return text
    return None


def asked_text(entry: Entry) -> str | None:
    """What asked the model to work: a typed prompt, one typed while it worked, or a command with its arguments."""
    body = entry.body
    if isinstance(body, Attachment):
        return _queued_text(loose_object(body.attachment))
    typed = typed_text(entry)
    if typed is not None or not isinstance(body, User) or body.is_meta:
        return typed
    for block in body.message.blocks:
        text = block.text if isinstance(block, TextBlock) else ""
        if _COMMAND.search(text) is not None:
            return command_line(text)
    return None


def _queued_text(note: Mapping[str, object]) -> str | None:
    origin = note.get("origin")
    source = origin.get("kind") if isinstance(origin, dict) else None
    if note.get("type") != "queued_command" or note.get("isMeta") is True or source not in (None, "human"):
        return None
    prompt = note.get("prompt")
    if isinstance(prompt, list):
        prompt = "\n".join(str(one.get("text", "")) for one in prompt if isinstance(one, dict))
    is_typed = note.get("commandMode") in (None, "prompt") and isinstance(prompt, str)
    return str(prompt).strip() or None if is_typed else None


def metadata_text(entry: Entry) -> str | None:
    """The value of a metadata entry; "" clears an earlier one."""
    match entry.body:
        case CustomTitle(custom_title=text) | AiTitle(ai_title=text) | Tag(tag=text) | Summary(summary=text):
            return text[:LONGEST_TITLE]
    value = text_of(entry.fields(), _NAMED_IN.get(entry.kind, ""))
    return None if value is None else value.strip()[:LONGEST_TITLE]


def typed_texts(entry: Entry) -> Iterator[str]:
    body = entry.body
    if not isinstance(body, User) or body.is_meta or body.is_compact_summary or body.is_sidechain:
        return
    blocks = body.message.blocks
    if not any(isinstance(block, ToolResultBlock) for block in blocks):
        yield from (block.text for block in blocks if isinstance(block, TextBlock))
