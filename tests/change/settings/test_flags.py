"""`recollect.flags`: the newest cache, its age, and overrides before it."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from recollect.change.settings.settings import TTL, FeatureFlags, newest
from recollect.flags import FeatureManager
from recollect.store.client_settings import LAST_MODIFIED, PREFIX, flag_cache
from recollect.store.home import ClaudeHome
from tests.permission_home import Place, place

__all__ = ["place"]

NOW = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)


def cache(place: Place, user: str, hours_ago: float, *, use: str = "", **gates: Any) -> str:
    """A cached evaluation; the time is in the last-modified file."""
    evaluation = {
        "feature_gates": {name: {"value": value} for name, value in gates.items()},
        "dynamic_configs": {"limits": {"value": {"n": 3}}},
        "hash_used": use or "none",
    }
    name = PREFIX + user
    place.write(place.home.statsig_dir / name, {"source": "Network", "data": json.dumps(evaluation)})
    times = place.home.statsig_dir / LAST_MODIFIED
    known = json.loads(times.read_text()) if times.exists() else {}
    known[name] = int((NOW - dt.timedelta(hours=hours_ago)).timestamp() * 1000)
    place.write(times, known)
    return name


def flags(home: ClaudeHome, now: dt.datetime, ttl: dt.timedelta = TTL) -> FeatureFlags:
    """The newest cache of a home."""
    return newest([flag_cache(home)], now, ttl)


def manager(place: Place, **more: Any) -> FeatureManager:
    return FeatureManager(home=place.home.root, clock=lambda: NOW, **more)


def test_an_expired_cache_is_shown_and_said_to_be(place: Place) -> None:
    """After a day, or after the time that was asked for."""
    cache(place, "abc", 25, gate=True)
    found, kept = flags(place.home, NOW), flags(place.home, NOW, dt.timedelta(hours=26))

    assert (False, "expired: fetched 2026-11-14 11:00 UTC", {"gate": True}) == (
        found.valid,
        found.why,
        found.gates,
    )
    assert kept.valid


def test_a_broken_cache_is_said_and_another_one_counts(place: Place) -> None:
    """A torn file does not hide its neighbour."""
    cache(place, "good", 1, gate=True)
    (place.home.statsig_dir / f"{PREFIX}torn").write_text("{")

    assert flags(place.home, NOW).valid
    (place.home.statsig_dir / f"{PREFIX}good").unlink()
    assert "torn: it is not JSON" in flags(place.home, NOW).why


def test_a_cache_from_the_future_does_not_count(place: Place) -> None:
    """A clock was wrong; its age is never negative (S11)."""
    cache(place, "abc", -5, gate=True)
    found = flags(place.home, NOW)

    assert (False, 0.0) == (found.valid, found.age_seconds)


@pytest.mark.parametrize(
    ("name", "default", "expected", "reason"),
    [
        ("gate", False, True, "cache"),
        ("closed", True, False, "cache"),
        ("mine", False, True, "override"),
        ("unknown", True, True, "default: the cache does not know it"),
    ],
)
def test_a_gate_is_open_by_override_cache_or_default(
    place: Place, name: str, default: bool, expected: bool, reason: str
) -> None:
    """In that order, and it says which."""
    cache(place, "abc", 1, gate=True, closed=False)
    features = manager(place, overrides={"mine": True})

    assert expected is features.enabled(name, default)
    assert features.reason(name).startswith(reason)


def test_a_hashed_name_is_found(place: Place) -> None:
    """ "ab" is 3105 by djb2."""
    cache(place, "abc", 1, use="djb2", **{"3105": True})

    assert manager(place).enabled("ab")


def test_the_cache_is_read_once_until_it_is_asked_to_look_again(place: Place) -> None:
    """A program sees one state until it refreshes."""
    features = manager(place)
    assert not features.enabled("gate")
    cache(place, "abc", 1, gate=True)
    assert not features.enabled("gate")
    features.refresh()
    assert features.enabled("gate")
