"""Which homes a command looks at: those named with ``--home``, else this machine's."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.errors import NotFound
from recollect.services.homes import Home
from recollect.storage.places import HomeRoot, claude_homes, home_at


def chosen_homes(named: Sequence[str]) -> list[HomeRoot]:
    """The homes to look at. One that was named on the command line must be there."""
    homes = [home_at(directory) for directory in named]
    for home in homes:
        if not home.exists:
            raise NotFound(
                f"home {home.path}: no such directory", hint="name a directory that holds projects/"
            )
    return homes or claude_homes()


def open_home(named: Sequence[str]) -> Home:
    """The homes to look at, as one."""
    return Home(*[home.path for home in chosen_homes(named)])
