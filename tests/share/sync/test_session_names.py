"""Sessions of a remote by the beginning of their id."""

from __future__ import annotations

import pytest

from recollect.errors import Ambiguous, NotFound, UsageError
from recollect.share.sync.sync import session_named
from recollect.share.sync.wire import START, SessionDescription
from tests.share.sync.memory_remote import MemoryRemote
from tests.small_home import ONE, TALK, lines


@pytest.fixture
def remote() -> MemoryRemote:
    made = MemoryRemote()
    for session in (ONE, "2026-01-31", "2026-01-31-a", "2026-01-31-b"):
        made.append(session, "", START, lines(TALK), SessionDescription())
    return made


@pytest.mark.parametrize(
    ("name", "found"),
    [(ONE[:4], ONE), (ONE[:-1], ONE), ("2026-01-31", "2026-01-31"), ("2026-01-31-b", "2026-01-31-b")],
)
def test_one_that_fits_is_meant(remote: MemoryRemote, name: str, found: str) -> None:
    """A name that is an id is that session, also where others begin with it."""
    assert session_named(remote, name) == found


def test_a_whole_id_is_not_looked_up(remote: MemoryRemote) -> None:
    """An administrator may name a session that no list shows."""
    hidden = ONE[:-1] + "9"
    assert session_named(remote, hidden) == hidden


@pytest.mark.parametrize(
    ("name", "problem"), [("2026-01", Ambiguous), ("ffff", NotFound), (ONE[:3], UsageError)]
)
def test_what_fits_none_or_several_is_refused(
    remote: MemoryRemote, name: str, problem: type[Exception]
) -> None:
    with pytest.raises(problem, match=name):
        session_named(remote, name)
