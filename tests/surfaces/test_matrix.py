"""Every surface says the same of every session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces import commands, library, pages, team
from tests.surfaces.case import Case
from tests.surfaces.homes import TORTURE, HomeCase, cases
from tests.surfaces.record import FIELDS, Records, Surface, differences

_NEWEST = 5
# Sessions of a home that are opened one by one on every surface: homes of a hundred sessions hold few shapes. In lists,
# costs and the library all of them are compared; in a torture run all are opened, too.
_OPENED = 10
_LISTS = {"list", "list --no-index", "list --json --no-index", "page: list"}


def _surfaces(case: Case, known: Records) -> Iterator[Surface]:
    names = list(known)
    opened = names if TORTURE else names[:: max(1, len(names) // _OPENED)]
    yield from library.surfaces(case)
    yield from commands.surfaces(case, names)
    yield from commands.surfaces(case, names, "--no-index")
    yield from commands.readers(case, names, opened)
    yield from pages.surfaces(case, names, opened)
    yield pages.exported(case, opened)
    # A log without a line is not sent: there is nothing to say of it.
    sent = [name for name in names if known[name]["lines"]]
    yield from team.surfaces(case, sent, [name for name in sent if name in opened])


@pytest.mark.parametrize("home", list(cases()), ids=lambda one: one.name)
def test_every_surface_says_what_the_library_says(home: HomeCase, tmp_path: Path) -> None:
    """Title, place, times, counts, tokens, cost, agents, tag and damage of every session are the same everywhere."""
    case = Case(home.make(tmp_path), tmp_path)
    known = library.library(case)
    assert known
    asked = list(_surfaces(case, known))
    found = [line for surface in asked for line in differences(known, surface)]

    assert not found, "\n".join(found)
    order = list(commands.listed(case))
    assert order[:_NEWEST] == commands.newest(case)
    for surface in asked:
        if surface.name in _LISTS:
            assert list(surface.records) == [name for name in order if name in surface.records], surface.name
        if (
            surface.name == "team page: list"
        ):  # a push does not carry the times of files, which decide between equals
            shown, told = ([known[name]["last_at"] for name in names] for names in (surface.records, order))
            assert shown == [at for name, at in zip(order, told, strict=True) if name in surface.records]
    # A fact that fewer surfaces show than before would no longer be compared.
    assert all(sum(field in surface.fields for surface in asked) >= 5 for field in FIELDS)
