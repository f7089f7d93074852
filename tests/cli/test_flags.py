"""`recollect rules flags`: gates, configs and whether they still count."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from recollect.cli.main import main
from recollect.store.client_settings import LAST_MODIFIED, PREFIX
from tests.permission_home import Place, place

__all__ = ["place"]


def cache(place: Place, hours_ago: float) -> None:
    data = {
        "feature_gates": {"3105": {"value": True}, "b": {"name": "od\x1bd", "value": False}},
        "dynamic_configs": {"limits": {"value": {"n": 3}}},
        "hash_used": "djb2",
    }
    place.write(place.home.statsig_dir / f"{PREFIX}abc", {"data": json.dumps(data)})
    at = dt.datetime.now(dt.UTC) - dt.timedelta(hours=hours_ago)
    (place.home.statsig_dir / LAST_MODIFIED).write_text(str(int(at.timestamp() * 1000)))


def test_all_flags_as_one_document(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """gates, configs, age_seconds, valid."""
    cache(place, 2)
    assert 0 == main([*place.options, "rules", "flags", "--json"])
    found = json.loads(capsys.readouterr().out)

    assert ({"3105": True, "od\x1bd": False}, {"limits": {"n": 3}}, True) == (
        found["gates"],
        found["configs"],
        found["valid"],
    )
    assert 7200 <= found["age_seconds"] < 7800


def test_one_flag_by_its_name(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Kept under its hash: "ab" is 3105."""
    cache(place, 2)
    assert 0 == main([*place.options, "rules", "flags", "ab"])

    assert capsys.readouterr().out.startswith("gate    ab = on\n1 gate, 0 configs, 2.0 h old: valid")


def test_an_expired_or_missing_cache_ends_with_1(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said which."""
    assert 1 == main([*place.options, "rules", "flags"])
    assert "missing: no cached evaluations" in capsys.readouterr().out
    cache(place, 30)
    assert 1 == main([*place.options, "rules", "flags"])
    shown = capsys.readouterr().out

    assert ("expired: fetched" in shown, "\x1b" in shown) == (True, False)


def test_a_name_that_nobody_knows_ends_with_3(place: Place) -> None:
    """Neither a gate nor a config."""
    cache(place, 2)

    assert 3 == main([*place.options, "rules", "flags", "nobody"])
