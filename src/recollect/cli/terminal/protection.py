"""Whether sessions are protected, in one line: for the overview and for `recollect protect`."""

from __future__ import annotations

import datetime as dt

from recollect.cli.terminal import output
from recollect.cli.terminal.text import ago, visible
from recollect.services.archive.protection import Protection


def protection_line(found: Protection, now: dt.datetime) -> str:
    """ "last run 12 min ago, 611 of 611 sessions archived", or why they are not protected."""
    last = found.last_run
    parts = []
    if last is not None and found.state != "off":
        parts.append(f"last run {ago(last.at, now)}")
        if last.sessions:
            parts.append(f"{last.archived:,} of {last.sessions:,} sessions archived")
    if found.reason:
        parts.append(visible(output.typed(found.reason)))
    text = ", ".join(parts)
    if found.state == "protected":
        return text
    return output.styled("in part: " if found.state == "in part" else "no: ", "yellow") + text
