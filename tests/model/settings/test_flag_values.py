"""`model.settings.config_merge`: cached evaluations in the shapes that were seen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recollect.model.settings.config_merge import Evaluation, evaluation_of, hashed, last_modified, looked_up

DATA: dict[str, Any] = {
    "feature_gates": {"123": {"name": "new_diff", "value": True}, "77": {"value": False}},
    "dynamic_configs": {"9": {"name": "limits", "value": {"n": 3}}, "10": {"name": "odd", "value": 4}},
}


@pytest.mark.parametrize("inner", [DATA, json.dumps(DATA)], ids=["object", "text"])
def test_data_may_be_an_object_or_json_in_a_text(inner: object) -> None:
    """Gates by name, by key where there is none; a config that is no object is left out."""
    found = evaluation_of(
        json.dumps({"source": "Network", "data": inner, "receivedAt": 1_700_000_000_000}).encode()
    )

    assert Evaluation({"new_diff": True, "77": False}, {"limits": {"n": 3}}, 1_700_000_000_000) == found


@pytest.mark.parametrize(
    ("name", "how", "key"),
    [
        # By hand: "ab" is 97 * 31 + 98.
        ("ab", "djb2", "3105"),
        ("", "djb2", "0"),
        ("ab", "sha256", "+44g/C5MPySMYMOb1lLzwTRymLuXe4tNWQO4UFViBgM="),
        ("ab", "none", "ab"),
    ],
)
def test_names_are_hashed_as_the_file_says(name: str, how: str, key: str) -> None:
    """djb2 with 31 in 32 bits, sha256 in base64, or not at all."""
    assert key == hashed(name, how)


def test_a_name_is_found_as_it_is_or_by_its_hash() -> None:
    """The name itself first."""
    assert [1, 2, None] == [
        looked_up({"ab": 1, "3105": 2, "x": 3}, name, "djb2") for name in ("ab", "3105", "zz")
    ]
    assert 2 == looked_up({"3105": 2}, "ab", "djb2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000000", 1_700_000_000_000),
        ('{"f": 1700000000000}', 1_700_000_000_000),
        ('{"g": 5}', None),
        ("x", None),
        ("", None),
        ('{"f": -4}', None),
        ('{"f": true}', None),
    ],
)
def test_when_it_was_fetched(text: str, expected: int | None) -> None:
    """One number for all, or one for each file."""
    assert expected == last_modified(text.encode(), "f")
