"""The session that a command names, and what is said about it beside the answer.

Apart from ``homes``, because a command that answers from the index loads none of it.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Sequence

from recollect.ask.homes import Homes
from recollect.ask.sessions.originals import lost_beginning, unknown_records
from recollect.ask.sessions.session import Session
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.numbers import NumberedHit, numbered
from recollect.cli.terminal.options import CHOSEN, own_cache
from recollect.cli.terminal.text import visible
from recollect.model.lines.ids import command_name
from recollect.store.home_walk import scan_logs
from recollect.system.locations import is_known_id
from recollect.system.paths import AGENTS


def open_home(named: Sequence[str], *, with_notes: bool = True) -> Homes:
    """All chosen homes as one ``Home``; without notes for a command whose answer has what could not be read."""
    return Homes(*[home.path for home in chosen_homes(named, with_notes=with_notes)], data=CHOSEN.data)


def note_unreadable(home: Homes) -> None:
    """Say what could not be read: an answer without it must not look like all there is."""
    problems: list[tuple[str, str]] = []
    for one in home.homes:
        scan_logs(one.root, problems)
    for path, reason in problems:
        output.note(visible(f"could not be read: {path}: {reason}"))


def named_session(options: Namespace, name: str) -> Session:
    """The session that a command names, to be read; a number is one of the last search in this terminal."""
    return named_hit(options, name)[1]


def named_hit(options: Namespace, name: str) -> tuple[Homes, Session, NumberedHit | None]:
    """The same with its homes, and the message that a number stands for."""
    known = numbered(own_cache(options), name)
    if known is None:
        home = open_home(options.homes)
        return home, home.session(name), None
    last, hit = known
    home = open_home(options.homes or last.homes)
    return home, home.session(hit.session), hit


def tell_unknown(session: Session) -> None:
    """How many there are, and what names them."""
    unknown = unknown_records(session)
    if unknown:
        are = "record is" if unknown == 1 else "records are"
        output.note(
            f"recollect: {unknown:,} {are} not known and not shown;"
            f" `recollect doctor {visible(shlex.quote(command_name(session.id, session.path)))}` names them"
        )


def tell_lost_beginning(session: Session) -> None:
    """A fork that holds no copy of what it goes on from has its own turns only."""
    if session.agent not in AGENTS:
        return

    lost = lost_beginning(session)
    if lost is not None:
        name = visible(lost.session)
        where = "which is gone; this is what came after"
        if lost.is_here:
            is_known = is_known_id(session.agent, lost.session)
            where = f"`recollect show {name}` has it" if is_known else "which `recollect list` shows"
        output.note(f"recollect: the beginning of this conversation is in session {name}, {where}")
