"""Logs that mirror a session of another agent: what their own records say they lack."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.model.checks import RuleViolation
from recollect.model.entry import Entry, ForeignRecord
from recollect.model.json.text import loose_value

LOST_BEGINNING = "lost-beginning"


def goes_on_from(entry: Entry) -> str | None:
    """The session of Codex whose history a fork without a copy goes on from, as the fork's first record names it."""
    body = entry.body
    if not isinstance(body, ForeignRecord) or body.record_type != "session_meta" or body.original is None:
        return None
    line = loose_value(body.original.encode("utf-8", "replace"))
    meta = line.get("payload") if isinstance(line, dict) else None
    base = meta.get("history_base") if isinstance(meta, dict) else None
    if not isinstance(base, dict) or base.get("end_ordinal_exclusive") == 0:
        return None
    name = base.get("thread_id")
    return name if isinstance(name, str) and name else None


def beginning_fault(entry: Entry) -> Iterator[RuleViolation]:
    """A record before which no entry stands: a mirror copies the history there as long as it has it."""
    base = goes_on_from(entry)
    if base is not None:
        yield RuleViolation(LOST_BEGINNING, beginning_is_in(base), entry.offset)


def beginning_is_in(base: str) -> str:
    """What a finding says of a log whose beginning another session has."""
    return f"its beginning is in session {base[:60]!a}, and not in this log"
