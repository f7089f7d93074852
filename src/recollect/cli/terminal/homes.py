"""The homes a command reads: those named with ``--home``, else this machine's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from recollect.errors import NotFound
from recollect.system.locations import HomeRoot, claude_homes, home_at

if TYPE_CHECKING:
    from recollect.services.homes import Home

SAMPLE = ":sample"


def chosen_homes(named: Sequence[str]) -> list[HomeRoot]:
    """The homes to read. One named on the command line must exist."""
    homes = [sample() if directory == SAMPLE else home_at(directory) for directory in named]
    for home in homes:
        if not home.exists:
            raise NotFound(
                f"home {home.path}: no such directory", hint="name a directory that holds projects/"
            )
    distinct = {home.path.resolve(): home for home in reversed(homes)}
    return list(reversed(distinct.values())) or claude_homes()


def settings_home(named: Sequence[str]) -> HomeRoot:
    """The home whose settings apply here: the first one, even if it does not exist, since a project has its own settings."""
    homes = chosen_homes(named)
    return homes[0] if homes else home_at("~/.claude")


def sample() -> HomeRoot:
    """The home that ships with the package. Read only."""
    from recollect.sample import sample_home

    return structs.replace(home_at(sample_home()), origin="built-in sample")


def open_home(named: Sequence[str], data: str | None = None) -> Home:
    """All chosen homes as one ``Home``; ``data`` is the value of ``--data``."""
    from recollect.services.homes import (
        Home,
    )  # commands that only need the directories do not load this

    return Home(*[home.path for home in chosen_homes(named)], data=data)
