"""Text and lines without their secrets (K3): valid, the same shape, and the same again when done again."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.model.secrets.redaction import (
    mark,
    redacted,
    redacted_bytes,
    redacted_fragment,
    redacted_line,
)
from tests.model.secrets.samples import SAMPLES, Dice, private_key

# K3 asks for a hundred thousand cases: `make torture` runs them.
CASES = 100_000 if os.environ.get("RECOLLECT_TORTURE") else 150
MANY = settings(
    max_examples=CASES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TOKEN = SAMPLES["github-pat"].make(Dice("redaction"))


def digits(secret: str) -> str:
    """A fingerprint that tells secrets apart in a test."""
    return f"{sum(map(ord, secret)):08x}"[-8:]


MARK = mark("github-pat", digits(TOKEN))


def test_a_text() -> None:
    """Each place is replaced; all else stays."""
    text, found = redacted(f"first {TOKEN}, then\n{TOKEN}\nend", digits)

    assert f"first {MARK}, then\n{MARK}\nend" == text
    assert [("github-pat", digits(TOKEN))] * 2 == [(one.kind, one.fingerprint) for one in found]


def test_a_text_without_secrets_is_the_same_text() -> None:
    """And no fingerprint is asked for, so no key is needed."""

    def never(secret: str) -> str:
        raise AssertionError("asked for a fingerprint")

    assert ("nothing here", []) == redacted("nothing here", never)


def test_what_is_on_the_allow_list_stays() -> None:
    """By kind and fingerprint; other secrets go."""
    other = SAMPLES["npm-token"].make(Dice(1))
    text, found = redacted(f"{TOKEN} {other}", digits, {f"github-pat:{digits(TOKEN)}"})

    assert f"{TOKEN} {mark('npm-token', digits(other))}" == text
    assert ["npm-token"] == [one.kind for one in found]


def test_a_line_keeps_every_other_byte() -> None:
    """Spaces, order, numbers, escapes and unknown fields as they were written."""
    line = rb'{ "b" : 1.50,"a":"x \u00e9 \/ TOKEN\ty","TOKEN":{"n":[1e3,"TOKEN"]}, "z":null }'
    data, found = redacted_line(line.replace(b"TOKEN", TOKEN.encode()), digits)

    assert line.replace(b"TOKEN", MARK.encode()) == data
    assert ["a", "[github-pat]", "[github-pat].n[1]"] == [one.field for one in found]


def test_a_path_does_not_tell_a_secret() -> None:
    """A key that is a secret is not in the path of what stands below it."""
    _, found = redacted_line(json.dumps({TOKEN: {"password": "Zk39dkPq"}}).encode(), digits)

    assert [] == [one.field for one in found if TOKEN in one.field]


def test_a_private_key_in_the_lines_of_a_patch() -> None:
    """Strings of a list are the lines of one text; the list keeps its length."""
    pem = private_key(Dice(4)).splitlines()
    lines = [" before", *("+" + line for line in pem), " behind"]
    data, found = redacted_line(json.dumps({"structuredPatch": [{"lines": lines}]}).encode(), digits)
    after = json.loads(data)["structuredPatch"][0]["lines"]

    assert (["private-key"], len(lines)) == ([one.kind for one in found], len(after))
    assert (" before", " behind") == (after[0], after[-1])
    assert [] == [
        line
        for line in after[1:-1]
        if not line.startswith(("+[redacted:private-key:", "[redacted:private-key:"))
    ]
    assert "structuredPatch[0].lines[1]" == found[0].field


@pytest.mark.parametrize(
    "damage", [b"{torn ", b"\xff\xfe not utf-8 ", b"\x00\x00", b'{"a":"b"}{"c":', b'"open ']
)
def test_a_damaged_line_is_text(damage: bytes) -> None:
    """Its other bytes stay as they are, whatever they are."""
    data, found = redacted_line(damage + TOKEN.encode() + b" end", digits)

    assert damage + MARK.encode() + b" end" == data
    assert [""] == [one.field for one in found]


def test_no_character_is_cut_in_two() -> None:
    """A password of any letters; the text is still text."""
    text, found = redacted(f"password='7k{'äöü€🙂' * 60}' end", digits)

    assert ["password"] == [one.kind for one in found]
    assert text.startswith("password='[redacted:password:")


def test_half_a_surrogate_pair_comes_out_as_it_went_in() -> None:
    """Transcripts hold such text."""
    assert f"\ud800 {MARK} \udc00" == redacted(f"\ud800 {TOKEN} \udc00", digits).text


def test_pieces_of_a_document() -> None:
    """Only strings change, so the pieces still make a document."""
    pieces = [
        b'{"a": [',
        json.dumps({"t": TOKEN}).encode(),
        b",\n" + json.dumps([TOKEN]).encode(),
        b'], "b": 1}',
    ]
    done = b"".join(redacted_fragment(piece, digits).data for piece in pieces)

    assert {"a": [{"t": MARK}, [MARK]], "b": 1} == json.loads(done)


def test_equal_secrets_have_equal_marks_in_every_form() -> None:
    """Plain, escaped, broken over lines: it is the same secret."""
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in TOKEN)
    forms = [TOKEN, f"{TOKEN[:9]}\n{TOKEN[9:]}", json.dumps({"x": f"\n{TOKEN}"}), escaped]

    assert {MARK} == {
        mark(one.kind, one.fingerprint) for form in forms for one in redacted(form, digits).found
    }


# ---- K3 -------------------------------------------------------------------------------------------------

SECRETS = st.sampled_from(sorted(SAMPLES)).flatmap(
    lambda kind: st.integers(0, 50).map(
        lambda seed: SAMPLES[kind].before + SAMPLES[kind].make(Dice((kind, seed))) + SAMPLES[kind].after
    )
)
TEXTS = st.lists(
    st.text(max_size=12) | SECRETS | st.sampled_from(["\n", " ", "\\n", '"', "password=", ": ", "= '"]),
    max_size=6,
).map("".join)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8) | st.sampled_from(["password", "token"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def shape_of(value: object) -> object:
    """A value without its texts."""
    if isinstance(value, dict):
        return [shape_of(one) for one in value.values()]
    if isinstance(value, list):
        return [shape_of(one) for one in value]
    return "text" if isinstance(value, str) else value


@MANY
@given(VALUES, st.booleans())
def test_a_line_stays_valid_and_keeps_its_shape(value: object, is_ascii: bool) -> None:
    """Whatever stands in it; done again nothing changes."""
    line = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    once, found = redacted_line(line, digits)
    again, more = redacted_line(once, digits)

    assert shape_of(value) == shape_of(json.loads(once.decode("utf-8", "surrogatepass")))
    assert (once, []) == (again, more)
    assert bool(found) == (once != line)


@MANY
@given(TEXTS)
def test_a_text_done_again_is_the_same(text: str) -> None:
    """Nothing is left that would be found, and no mark is taken for a secret."""
    once, _ = redacted(text, digits)

    assert (once, []) == redacted(once, digits)


@MANY
@given(st.binary(max_size=200), TEXTS, st.binary(max_size=50))
def test_any_bytes_have_an_answer(before: bytes, text: str, behind: bytes) -> None:
    """No exception, in a line, a text or a piece, and nothing left to find."""
    data = before + text.encode("utf-8", "surrogatepass") + behind
    for function in (redacted_line, redacted_bytes, redacted_fragment):
        once, _ = function(data, digits)

        assert (once, []) == function(once, digits)
