"""Strings of JSON with their places and paths."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.secrets.documents import json_strings

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def strings_of(value: object) -> list[str]:
    """All strings of a value, keys too, in the order they are written."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for one in value for text in strings_of(one)]
    if isinstance(value, dict):
        return [text for key, one in value.items() for text in (key, *strings_of(one))]
    return []


@given(ANYTHING, st.sampled_from([None, 2]))
def test_every_string_is_found_where_it_stands(value: object, indent: int | None) -> None:
    """Compared with a walk over the parsed value."""
    data = json.dumps(value, indent=indent).encode()
    rows = json_strings(data)

    assert rows is not None
    found = [json.loads(b'"' + data[one.start : one.end] + b'"') for row in rows for one in row]
    assert sorted(strings_of(value)) == sorted(found)


def test_paths_are_those_people_write() -> None:
    """Keys with dots between them, places in lists in brackets; a key's path ends in itself."""
    data = b'{"message":{"content":[{"type":"text","text":"hi"},["a","b"]]},"n":1,"s":"x"}'
    rows = json_strings(data)

    assert rows is not None
    assert [
        ("message", "message"),
        ("content", "message.content"),
        ("type", "message.content[0].type"),
        ("text", "message.content[0].type"),
        ("text", "message.content[0].text"),
        ("hi", "message.content[0].text"),
        ("a", "message.content[1][0]"),
        ("b", "message.content[1][1]"),
        ("n", "n"),
        ("s", "s"),
        ("x", "s"),
    ] == [(data[one.start : one.end].decode(), one.field) for row in rows for one in row]


def test_neighbours_in_a_list_come_together() -> None:
    """They are the lines of one text; a number between them parts them."""
    rows = json_strings(b'["a","b",1,"c",["d"],"e","f"]')

    assert rows is not None
    assert sorted([2, 1, 1, 2]) == sorted(len(row) for row in rows)


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":}', b"text", b'{"a":"b"}{"c":"d"}', b"[" * 100_000])
def test_what_is_not_json_has_no_strings(data: bytes) -> None:
    """None: it is looked at as text."""
    assert json_strings(data) is None
