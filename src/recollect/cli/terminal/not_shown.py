"""What of a session of another agent is not shown: records that are not known, a beginning that is elsewhere."""

from __future__ import annotations

from recollect.cli.terminal import output
from recollect.cli.terminal.text import visible
from recollect.services.foreign.unknown_records import unknown_records
from recollect.services.session import Session
from recollect.system.paths import AGENTS


def tell_unknown(session: Session) -> None:
    """How many there are, and what names them."""
    unknown = unknown_records(session)
    if unknown:
        are = "record is" if unknown == 1 else "records are"
        output.note(
            f"recollect: {unknown:,} {are} not known and not shown;"
            f" `recollect check {visible(session.id)}` names them"
        )


def tell_lost_beginning(session: Session) -> None:
    """A fork that holds no copy of what it goes on from has its own turns only."""
    if session.agent not in AGENTS:
        return
    from recollect.services.foreign.lost_beginnings import lost_beginning

    lost = lost_beginning(session)
    if lost is not None:
        name = visible(lost.session)
        where = (
            f"`recollect show {name}` has it" if lost.is_here else "which is gone; this is what came after"
        )
        output.note(f"recollect: the beginning of this conversation is in session {name}, {where}")
