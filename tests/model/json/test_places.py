"""`model.lines.json_edit`: every value with its line, every refusal with its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.lines.json_edit import BadJson, located

TEXT = b'{\n  "a": [1,\n    "two"],\n  "b": {"c": null}\n}\n'


@pytest.mark.parametrize(
    ("path", "line", "text"),
    [(("a",), 2, b'[1,\n    "two"]'), (("a", 1), 3, b'"two"'), (("b", "c"), 4, b"null")],
)
def test_a_value_knows_where_it_stands(path: tuple[str | int, ...], line: int, text: bytes) -> None:
    """Line and span, also inside lists and objects."""
    place = located(TEXT).at(path)

    assert place is not None
    assert (line, text) == (place.line, TEXT[place.start : place.end])


def test_of_two_members_with_one_name_the_last_counts() -> None:
    """As in JSON.parse."""
    root = located(b'{"a": 1,\n"a": 2}')

    assert ({"a": 2}, 2) == (root.value, root.members["a"].line)


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        (b"", (1, 1), "the text ends before a value"),
        (b'{"a": 1,}', (1, 9), "a name in double quotes was expected"),
        (b"{\n// no\n}", (2, 1), "a name in double quotes was expected"),
        (b"[1,]", (1, 4), "a value was expected"),
        (b'{"a" 1}', (1, 6), "a colon was expected"),
        (b"[1 2]", (1, 4), "a comma or ] was expected"),
        (b"{} x", (1, 4), "there is text after the value"),
        (b'{\n"a": NaN}', (2, 6), "a value was expected"),
        (b'"\n"', (1, 2), "invalid control character"),
        (b"\n\n\xff", (3, 1), "a byte that is not UTF-8"),
        (b"[" * 100_000, (1, 65), "more than 64 levels"),
        (b"9" * 5000, (1, 1), "a value was expected"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(data: bytes, where: tuple[int, int], what: str) -> None:
    """Line and column from 1; no text exhausts the stack."""
    with pytest.raises(BadJson) as refused:
        located(data)

    assert (*where, what) == (refused.value.line, refused.value.column, refused.value.what)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_JSON, st.sampled_from([None, 0, 2, "\t"]), st.booleans())
def test_it_reads_what_json_reads(value: object, indent: int | str | None, ascii_only: bool) -> None:
    """The same value as the standard library's reader, for whatever that writes."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    assert located(
        text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    ).value == json.loads(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
