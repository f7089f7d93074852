"""The title of a session: one rule for every surface.

The strongest available part is used: the user's title, the generated one, the last prompt, the first prompt.
Of the first three the last entry in the log counts, and an empty one clears the part. A prompt is what the
user typed, never text of the client or a tool in the user's name. In a session's log a side chain belongs to
a sub-agent; a log that begins with one is entirely a sub-agent's.

The result is what the client's own list would show. Texts are unchanged except for their length: the output
code makes them safe. Nothing is imported before a line has to be read, so that listing sessions loads little.
"""

from __future__ import annotations

# How the title of a repaired copy ends.
REPAIRED = "(repaired)"

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from recollect.model.damage import Line
    from recollect.model.line_views.facts import LineFacts

LONGEST_TITLE = 200
FIRST_PROMPT = "first_prompt"
# Strongest first.
TITLE_PARTS = ("custom_title", "ai_title", "last_prompt", FIRST_PROMPT)
# Metadata entries about a session, by their type. The last one wins.
STATED_BY = {
    "custom-title": "custom_title",
    "ai-title": "ai_title",
    "last-prompt": "last_prompt",
    "tag": "tag",
    "continued-in": "continued_in",
}


def title_of(
    custom_title: str | None, ai_title: str | None, last_prompt: str | None, first_prompt: str | None
) -> str:
    """The custom title, else the generated one, else the last prompt, else the first; "" if there is none."""
    return custom_title or ai_title or last_prompt or first_prompt or ""


def said_of_session(
    facts: LineFacts, line: Line, *, begins_aside: bool, has_prompt: bool
) -> tuple[str, str] | None:
    """What a line says of its session, such as a part of its title, and the text; None for nearly all lines.

    ``begins_aside``: the log begins with a side chain. ``has_prompt``: the first prompt is known and not
    searched.
    """
    if facts.type in STATED_BY:
        from recollect.model.prompts import metadata_text, read_entry

        entry = read_entry(line)
        text = None if entry is None else metadata_text(entry)
        is_stated = entry is not None and entry.kind.value in STATED_BY
        return None if text is None or not is_stated else (STATED_BY[facts.type], text)
    is_own = facts.type == "user" and facts.is_sidechain == begins_aside
    if has_prompt or not is_own or facts.is_meta or facts.texts is None:
        return None
    from recollect.model.prompts import read_entry, typed_prompt

    entry = read_entry(line)
    prompt = None if entry is None else typed_prompt(entry)
    return None if prompt is None else (FIRST_PROMPT, prompt)


def copy_note(title: str, origin: str | None) -> str:
    """``fork of 6ada00ba`` or ``repaired copy of 6ada00ba``; "" for a session of its own."""
    if origin is None:
        return ""
    from recollect.model.ids import short_id

    return f"{'repaired copy' if title.endswith(REPAIRED) else 'fork'} of {short_id(origin)}"
