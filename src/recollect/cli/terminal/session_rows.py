"""Sessions as rows of a list, the same in ``list`` and the overview.

On a terminal, title and directory share the room; the size is left out where there is little.
A pipe gets whole directories.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.terminal import output
from recollect.cli.terminal.layout import plain_width, shares
from recollect.cli.terminal.text import (
    ago,
    counted,
    padded,
    session_names,
    shortened,
    shortened_path,
    size,
    visible,
    width,
)
from recollect.model.ids import short_id
from recollect.model.titles import copy_note
from recollect.storage.logs.fork_origin import fork_origin
from recollect.system.paths import CLAUDE

if TYPE_CHECKING:
    from recollect.services.list import ListedSession

_AGE, _SIZE, _TITLE = 13, 8, 44
_WITH_SIZE = 76  # columns from which on there is room for it
_LEAST_PLACE = 12


def session_rows(sessions: Sequence[ListedSession], now: dt.datetime, *, indent: str = "") -> Iterator[str]:
    """One row for each."""
    titles = [visible(one.title) or "(no title)" for one in sessions]
    ages = [ago(one.shown_at, now) for one in sessions]
    room = output.columns()
    age = _AGE if room is None else max(map(len, ages), default=0)
    with_size = room is None or room >= _WITH_SIZE
    names = session_names(one.id for one in sessions)
    columns = width(names[0]) if names else 0
    left = None if room is None else room - len(indent) - columns - age - 6 - (_SIZE + 2) * with_size
    title = _TITLE if left is None else _title_columns(left, titles, sessions)
    for one, session, name, when in zip(sessions, names, titles, ages, strict=True):
        cells = [output.styled(session, "cyan"), f"{when:>{age}}"]
        cells += [f"{size(one.bytes):>{_SIZE}}"] if with_size else []
        cells += [padded(shortened(name, title), title), _place_and_marks(one, left and left - title)]
        yield indent + "  ".join(cells)


def _title_columns(left: int, titles: Sequence[str], sessions: Sequence[ListedSession]) -> int:
    """The title gets most of the room; what it does not need is for the directory."""
    wanted = min(max(map(width, titles), default=0), max(_TITLE, left // 2))
    tails = max((plain_width(_place_and_marks(one, None)) for one in sessions), default=0)
    return shares(left, [wanted, tails], [min(wanted, left * 3 // 5), _LEAST_PLACE])[0]


def _place_and_marks(one: ListedSession, columns: int | None) -> str:
    """A row ends with the directory and what is special about the session; both together fit."""
    place, marks = _place(one), _marks(one)
    if columns is not None:
        while marks and plain_width("  ".join(marks)) > columns - _LEAST_PLACE // 2:
            marks.pop()
        place = shortened_path(place, columns - (plain_width("  ".join(marks)) + 2 if marks else 0))
    return "  ".join([place, *marks])


def _place(one: ListedSession) -> str:
    return visible(one.cwd) or visible(Path(one.path).parent.name)


def _marks(one: ListedSession) -> list[str]:
    """The most important first."""
    marks = [output.styled(one.agent, "yellow")] if one.agent != CLAUDE else []
    marks += [output.styled("live", "green")] if one.is_live else []
    marks += [output.styled("beginning lost", "yellow")] if one.lost_beginning else []
    marks += [output.styled("archived", "dim")] if one.is_archived else []
    marks += [visible(copied)] if (copied := copy_note(one.title, fork_origin(Path(one.path)))) else []
    marks += [counted(one.agents, "agent")] if one.agents else []
    marks += [f"#{shortened(visible(one.tag), 16)}"] if one.tag else []
    marks += [f"continued in {visible(short_id(one.continued_in))}"] if one.continued_in else []
    return marks
