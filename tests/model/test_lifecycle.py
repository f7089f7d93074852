"""The life of a session, step by step."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest

from recollect.errors import IllegalTransition
from recollect.model.lifecycle import SessionState, has_expired, moved

NOW = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
LEGAL = {
    ("created", "active"),
    ("created", "deleted"),
    ("active", "active"),
    ("active", "resumed"),
    ("active", "expired"),
    ("active", "deleted"),
    ("resumed", "active"),
    ("resumed", "resumed"),
    ("resumed", "expired"),
    ("resumed", "deleted"),
    ("expired", "active"),
    ("expired", "resumed"),
    ("expired", "deleted"),
    ("deleted", "resumed"),
    ("deleted", "expired"),
}


@pytest.mark.parametrize(("current", "wanted"), list(itertools.product(SessionState, SessionState)))
def test_only_the_drawn_steps_exist(current: SessionState, wanted: SessionState) -> None:
    """Every pair of states is either a step of the drawing or a typed error that lists the way out."""
    if (current, wanted) in LEGAL:
        assert wanted == moved(current, wanted, "s")
        return
    with pytest.raises(IllegalTransition) as refused:
        moved(current, wanted, "s")
    assert {after for before, after in LEGAL if before == current} == set(refused.value.allowed)


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (NOW - dt.timedelta(days=30), False),
        (NOW - dt.timedelta(days=30, microseconds=1), True),
        (NOW + dt.timedelta(days=365), False),
        (None, False),
    ],
)
def test_thirty_days_of_silence_expire_a_session(last: dt.datetime | None, expected: bool) -> None:
    """Counted from the last entry's own time; a clock in the future or a missing time expires nothing."""
    assert expected == has_expired(last, NOW)
