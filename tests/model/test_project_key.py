"""Project keys: the client's, the flat layout's, and which of them are accepted when reading.

Hashes were computed outside this project: those of over-long names by node with the arithmetic of
docs/design/format.md (project keys), those of the flat layout by openssl.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.project_key import (
    flat_project_hash,
    project_key,
    same_long_prefix,
)

DECOMPOSED = "e\u0301"  # an e and an accent of its own
ANY_PATH = st.text(st.characters(exclude_categories=())).map("/{}".format)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/", "-"),
        ("/tmp/a.b c_d", "-tmp-a-b-c-d"),
        ("/tmp/ABC", "-tmp-ABC"),
        ("/tmp/a-b", "-tmp-a-b"),
        ("/tmp/é", "-tmp--"),
        ("/tmp/😀", "-tmp---"),
        (f"/tmp/{DECOMPOSED}", "-tmp-e-"),
        ("/Users/x/研究", "-Users-x---"),
        ("/tmp/٣", "-tmp--"),
        ("/srv/\udcff", "-srv--"),
        ("D:\\DeskTop\\x", "D--DeskTop-x"),
    ],
)
def test_each_utf16_unit_outside_ascii_letters_and_digits_is_one_hyphen(path: str, key: str) -> None:
    """Case stays, an emoji is two hyphens, nothing is normalised, other scripts' digits are no digits."""
    assert key == project_key(path)


@pytest.mark.parametrize(
    ("path", "suffix"),
    [
        ("/" + "a" * 200, "-b6ymvl"),
        ("/" + "b" * 300, "-km8bov"),
        ("/tmp/" + "é" * 250, "-wtvgxz"),
        ("/tmp/" + "😀" * 120, "-z7abkf"),
        ("/tmp/" + DECOMPOSED * 120, "-qs3395"),
        ("/srv/" + "\udc80" * 200, "-p03rnr"),
    ],
)
def test_a_name_over_200_characters_is_cut_and_gets_a_hash(path: str, suffix: str) -> None:
    """200 characters, a hyphen, base 36 of the 32-bit hash over UTF-16 units."""
    key = project_key(path)

    assert (200 + len(suffix), suffix) == (len(key), key[200:])


def test_a_long_key_is_related_to_the_same_prefix_with_another_suffix() -> None:
    """Earlier builds hashed differently; the first 200 characters and a hyphen decide."""
    key = project_key("/" + "a" * 200)
    names = [key[:200] + "-zzz", key[:200] + "-", key[:200], key[:199] + "x-b6ymvl", key[:200] + "b"]

    assert [True, True, False, False, False] == [same_long_prefix(name, key) for name in names]


@given(ANY_PATH)
def test_every_absolute_path_has_its_keys(path: str) -> None:
    """Lone surrogates, controls, any length: safe names, none longer than 207 characters."""
    keys = (project_key(path), flat_project_hash(path))

    assert all(1 <= len(key) <= 207 for key in keys)
