"""Text and lines without their secrets (K3): valid, the same shape, and the same again when done again."""

from __future__ import annotations

import functools
import json
import os
import random
from collections.abc import Callable

import pytest

from recollect.model.secrets.redaction import (
    fingerprint,
    mark,
    redacted,
    redacted_bytes,
    redacted_fragment,
    redacted_line,
)
from tests.model.secrets.samples import SAMPLES, Dice, private_key

# K3 asks for a hundred thousand cases: `make torture` runs them.
CASES = 100_000 if os.environ.get("RECOLLECT_TORTURE") else 300
TOKEN = SAMPLES["github-pat"].make(Dice("redaction"))


def digits(secret: str) -> str:
    """A fingerprint that tells secrets apart in a test."""
    return f"{sum(map(ord, secret)):08x}"[-8:]


def test_a_known_fingerprint() -> None:
    """HMAC-SHA-256, RFC 4231 test case 2: key "Jefe", "what do ya want for nothing?"."""
    assert "5bdcc146" == fingerprint("what do ya want for nothing?", b"Jefe")


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
    assert f"\ud800 {MARK} \udc00" == redacted(f"\ud800 {TOKEN} \udc00", digits).data


def test_a_line_with_half_a_surrogate_pair_stays_json() -> None:
    """It is no damaged line: a secret ends with its string, whatever letters it may have."""
    netrc = SAMPLES["netrc-password"]
    text = netrc.before + netrc.make(Dice("half")) + netrc.after
    data, found = redacted_line(b'{"a":"\\ud83d","b":"%s","c":1}' % text.encode(), digits)

    assert ["netrc-password"] == [one.kind for one in found]
    assert ["a", "b", "c"] == list(json.loads(data))


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

KINDS = sorted(SAMPLES)
JOINTS = ["\n", " ", "\\n", '"', "password=", ": ", "= '"]


@functools.cache
def secret(kind: str, seed: int) -> str:
    """A sample with what gives it away."""
    return SAMPLES[kind].before + SAMPLES[kind].make(Dice((kind, seed))) + SAMPLES[kind].after


def shape_of(value: object) -> object:
    """A value without its texts."""
    if isinstance(value, dict):
        return [shape_of(one) for one in value.values()]
    if isinstance(value, list):
        return [shape_of(one) for one in value]
    return "text" if isinstance(value, str) else value


def line_holds(value: object, is_ascii: bool) -> None:
    """A line stays valid and keeps its shape; done again nothing changes."""
    line = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    once, found = redacted_line(line, digits)
    again, more = redacted_line(once, digits)

    assert shape_of(value) == shape_of(json.loads(once.decode("utf-8", "surrogatepass")))
    assert (once, []) == (again, more)
    assert bool(found) == (once != line)


def text_holds(text: str) -> None:
    """Nothing is left that would be found, and no mark is taken for a secret."""
    once, _ = redacted(text, digits)

    assert (once, []) == redacted(once, digits)


def bytes_hold(data: bytes) -> None:
    """No exception, in a line, a text or a piece, and nothing left to find."""
    for function in (redacted_line, redacted_bytes, redacted_fragment):
        once, _ = function(data, digits)

        assert (once, []) == function(once, digits)


class Made:
    """Texts and values drawn from a seed, for a fraction of what Hypothesis takes to make a case.

    What fails is made again by its seed; it is not shrunk.
    """

    def __init__(self, seed: str) -> None:
        self.dice = random.Random(seed)

    def letters(self, most: int) -> str:
        """Letters of every plane, halves of surrogate pairs among them, and plain ones."""
        ranges = ((0, 0x20), (0x20, 0x7F), (0x20, 0x7F), (0x7F, 0x2100), (0xD800, 0xE000), (0, 0x110000))
        return "".join(
            chr(self.dice.randrange(*self.dice.choice(ranges))) for _ in range(self.dice.randint(0, most))
        )

    def text(self) -> str:
        """Pieces that somebody could have written in a row."""
        return "".join(self._piece() for _ in range(self.dice.randint(0, 6)))

    def _piece(self) -> str:
        kind = self.dice.randrange(3)
        if kind == 0:
            return self.letters(12)
        return (
            self.dice.choice(JOINTS)
            if kind == 1
            else secret(self.dice.choice(KINDS), self.dice.randint(0, 50))
        )

    def value(self, depth: int = 3) -> object:
        """A value of JSON."""
        kind = self.dice.randrange(6 if depth else 4)
        if kind == 4:
            return [self.value(depth - 1) for _ in range(self.dice.randint(0, 4))]
        if kind == 5:
            return {self._name(): self.value(depth - 1) for _ in range(self.dice.randint(0, 4))}
        return (None, self.dice.random() < 0.5, self.dice.randint(-(1 << 70), 1 << 70), self.text())[kind]

    def _name(self) -> str:
        return self.dice.choice(("password", "token")) if self.dice.random() < 0.3 else self.letters(8)


def _line_case(made: Made) -> None:
    line_holds(made.value(), made.dice.random() < 0.5)


def _text_case(made: Made) -> None:
    text_holds(made.text())


def _bytes_case(made: Made) -> None:
    before, behind = (
        made.dice.randbytes(made.dice.randint(0, 200)),
        made.dice.randbytes(made.dice.randint(0, 50)),
    )
    bytes_hold(before + made.text().encode("utf-8", "surrogatepass") + behind)


@pytest.mark.parametrize("case", [_line_case, _text_case, _bytes_case], ids=lambda case: case.__name__[1:])
def test_a_hundred_thousand_cases(case: Callable[[Made], None]) -> None:
    """K3: idempotent, still JSON, the same structure; a hundred thousand of each under torture."""
    for seed in range(CASES):
        try:
            case(Made(f"K3 {seed}"))
        except Exception as failed:
            raise AssertionError(f"with the seed {seed}") from failed
