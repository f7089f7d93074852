"""Random logs with up to six kinds of trouble: our list of messages is the client's."""

from __future__ import annotations

import os

import pytest

from tests.oracle.wild_answers import KNOWN_DIFFERENCES, answers, asked, is_same
from tests.oracle.wild_logs import TROUBLES, wild_log

ALL = bool(os.environ.get("RECOLLECT_TORTURE"))


def test_wild_logs_are_loaded_as_the_client_loads_them() -> None:
    """99 of 100 of the recorded logs agree with what the client sent; the others are named with the reason.

    Every third of them daily, all of them in a torture run.
    """
    rows = answers()
    tried = {number: row for number, row in rows.items() if ALL or number % 3 == 0}
    differing = {number for number, row in tried.items() if not is_same(number, row)}

    assert {number for number in KNOWN_DIFFERENCES if number in tried} == differing
    assert len(rows) >= 1900
    assert len(KNOWN_DIFFERENCES) <= len(rows) / 100


def test_every_kind_of_trouble_is_in_the_record() -> None:
    """Sixty kinds, alone and up to six at a time."""
    names = [wild_log(number)[0] for number in answers()]

    assert TROUBLES.keys() == {name for several in names for name in several}
    assert {1, 2, 3, 4, 5, 6} == {len(several) for several in names}
    assert len(TROUBLES) >= 50


@pytest.mark.torture
@pytest.mark.parametrize("number", range(0, 700, 50))
def test_the_client_still_does_what_is_recorded(number: int) -> None:
    """One log in fifty is asked again."""
    assert answers()[number] == asked(number)
