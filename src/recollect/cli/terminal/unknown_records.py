"""A word about records of another agent that are kept and not shown."""

from __future__ import annotations

from recollect.cli.terminal import output
from recollect.cli.terminal.text import visible
from recollect.services.foreign.unknown_records import unknown_records
from recollect.services.session import Session


def tell_unknown(session: Session) -> None:
    """How many there are, and what names them."""
    unknown = unknown_records(session)
    if unknown:
        are = "record is" if unknown == 1 else "records are"
        output.note(
            f"recollect: {unknown:,} {are} not known and not shown;"
            f" `recollect check {visible(session.id)}` names them"
        )
