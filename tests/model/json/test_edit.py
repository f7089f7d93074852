"""`model.lines.json_edit`: one value changes, every other character stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.lines.json_edit import with_item, with_value, without_item

FOUR = b"""{
    "unknown":   [1,2],
    "permissions": {
        "allow": ["Read"],
        "deny": [
            "Bash(rm *)"
        ]
    }
}
"""


def test_a_new_key_goes_to_the_end_with_the_neighbours_indent() -> None:
    """Four spaces here."""
    assert FOUR.replace(b"\n    }\n}", b'\n    },\n    "model": "opus"\n}') == with_value(
        FOUR, ("model",), "opus"
    )


def test_an_item_is_added_to_a_list_as_it_is_written() -> None:
    """On a line of its own where the others are, behind a comma where they share a line."""
    deny = with_item(FOUR, ("permissions", "deny"), "WebFetch")
    allow = with_item(FOUR, ("permissions", "allow"), "WebFetch")

    assert FOUR.replace(b'*)"\n', b'*)",\n            "WebFetch"\n') == deny
    assert FOUR.replace(b'["Read"]', b'["Read", "WebFetch"]') == allow


@pytest.mark.parametrize(
    ("item", "left"), [("a", b'["b", "a2"]'), ("b", b'["a", "a2", "a"]'), ("zz", b'["a", "b", "a2", "a"]')]
)
def test_every_copy_of_an_item_goes_with_its_comma(item: str, left: bytes) -> None:
    """First, last, in the middle, or not there at all."""
    data = b'{"l": ["a", "b", "a2", "a"]}'

    assert b'{"l": ' + left + b"}" == without_item(data, ("l",), item)


def test_line_ends_and_the_byte_order_mark_stay() -> None:
    """A file from Windows stays one."""
    data = b'\xef\xbb\xbf{\r\n  "a": 1\r\n}\r\n'

    assert b'\xef\xbb\xbf{\r\n  "a": 1,\r\n  "b": 2\r\n}\r\n' == with_value(data, ("b",), 2)


@pytest.mark.parametrize(
    ("data", "path"), [(b"[1]", ("a",)), (b'{"a": 1}', ("a", "b")), (b'{"a": 1, "a": {}}x', ("b",))]
)
def test_what_cannot_be_changed_in_place_is_refused(data: bytes, path: tuple[str, ...]) -> None:
    """A list, a number on the way, a text that is no JSON."""
    with pytest.raises((ValueError, TypeError)):
        with_value(data, path, 1)


_KEYS = st.text('ab"\\é', min_size=1, max_size=3)
_VALUES = st.none() | st.integers(0, 9) | st.text(max_size=5) | st.lists(st.integers(0, 3), max_size=3)


@given(st.dictionaries(_KEYS, _VALUES, max_size=5), _KEYS, _VALUES, st.sampled_from([None, 2, 4, "\t"]))
def test_the_result_is_the_old_document_with_one_change(
    document: dict[str, object], key: str, value: object, indent: int | str | None
) -> None:
    """For any document, key and indent."""
    changed = with_value(json.dumps(document, indent=indent).encode(), (key,), value)

    assert {**document, key: value} == json.loads(changed)
