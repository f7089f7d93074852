"""The title of a session: the one rule for every surface.

A session is called by the strongest part that is there: the title its user gave it, the one the model made, its last
prompt, its first prompt. Of the first three the last entry in the log counts, and an empty one takes the part away
again. A prompt is what the user typed, never what the client or a tool says in the user's name. In a session's log
a side chain is a sub-agent's and not the user's; a log that begins with one is a sub-agent's from end to end.

It is what the client's own list would show. Texts are as they stand in the log, only shortened: whatever
shows them makes them safe. Imports nothing before a line has to be read: a list of sessions loads no more than
it needs.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from recollect.model.damage import Line
    from recollect.model.line_views.facts import LineFacts

LONGEST_TITLE = 200
FIRST_PROMPT = "first_prompt"
# Strongest first.
TITLE_PARTS = ("custom_title", "ai_title", "last_prompt", FIRST_PROMPT)
# What metadata entries say of a session, by their type. The last one wins.
STATED_BY = {
    "custom-title": "custom_title",
    "ai-title": "ai_title",
    "last-prompt": "last_prompt",
    "tag": "tag",
}


def title_of(
    custom_title: str | None, ai_title: str | None, last_prompt: str | None, first_prompt: str | None
) -> str:
    """The custom title, else the generated one, else the last prompt, else the first; "" where there is none."""
    return custom_title or ai_title or last_prompt or first_prompt or ""


def said_of_session(
    facts: LineFacts, line: Line, *, begins_aside: bool, has_prompt: bool
) -> tuple[str, str] | None:
    """The part of a title, or the tag, that a line gives its session, and the text; None for nearly all lines.

    ``begins_aside``: the log begins with a side chain. ``has_prompt``: the first prompt is known, so that none is
    looked for.
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
