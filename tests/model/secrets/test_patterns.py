"""Every kind of secret: a sample that is found, a near miss that is not, and none of them stored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recollect.model.secrets.documents import hits_in_text
from recollect.model.secrets.finder import find
from recollect.model.secrets.patterns import NAMED, SHAPES, TOKENS, TokenPattern
from recollect.model.secrets.private_keys import PRIVATE_KEY, PUTTY_KEY
from tests.model.secrets.samples import COMMON, SAMPLES, Dice

KINDS = [
    *(token.kind for token in TOKENS),
    *(named.kind for named in NAMED),
    *(shape.kind for shape in SHAPES),
]
ROOT = Path(__file__).resolve().parents[3]


def test_every_kind_has_a_sample() -> None:
    """One row, one recipe; private keys have tests of their own."""
    assert sorted(KINDS) == sorted(SAMPLES)
    assert len(set(KINDS)) == len(KINDS)


def test_there_are_enough_kinds() -> None:
    """At least sixty formats of providers were asked for, and thirty of them count as common."""
    assert len(TOKENS) + len(NAMED) >= 60
    assert 30 == len(COMMON & set(KINDS))


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_a_sample_is_found_at_its_place(kind: str) -> None:
    """In a sentence, with the name it needs before it: kind, place and value are right, whatever the letters."""
    sample = SAMPLES[kind]
    for seed in range(5):
        secret = sample.make(Dice(f"{kind} {seed}"))
        text = f"Look: {sample.before}{secret}{sample.after} and so on"
        start = len("Look: ") + len(sample.before)

        assert [(kind, start, start + len(secret), secret)] == [
            (one.kind, one.start, one.end, one.secret) for one in find(text)
        ]


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_a_near_miss_is_not_of_that_kind(kind: str) -> None:
    """Too short, or without what makes it one."""
    sample = SAMPLES[kind]
    for seed in range(5):
        near = sample.miss(Dice(f"{kind} miss {seed}"))

        assert kind not in {one.kind for one in find(f"Look: {sample.before}{near}{sample.after} and so on")}


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.kind)
def test_a_token_does_not_begin_inside_a_word(token: TokenPattern) -> None:
    """``task-`` is not ``sk-``: letters before it make it something else."""
    kind = token.kind
    secret = SAMPLES[kind].make(Dice(kind))

    assert kind not in {one.kind for one in find(f"see abc{secret} there")}


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.kind)
def test_letters_of_documentation_are_no_token(token: TokenPattern) -> None:
    """The same letter over and over is a placeholder."""
    kind = token.kind
    real = SAMPLES[kind].make(Dice(kind))
    start = next((one for one in token.starts if real.startswith(one)), "")
    invented = start + re.sub("[0-9A-Za-z]", "x", real[len(start) :])

    assert [] == [one.kind for one in find(f"set {invented} here") if one.kind == kind]


def test_kinds_can_stand_in_a_mark() -> None:
    """Lower case, digits and dashes only."""
    assert [] == [
        kind for kind in (*KINDS, PRIVATE_KEY, PUTTY_KEY) if not re.fullmatch("[0-9a-z-]{1,60}", kind)
    ]


def test_no_secret_is_stored_in_this_repository() -> None:
    """Neither in the patterns nor in their tests: samples are made at run time."""
    places = [ROOT / "src/recollect/model/secrets", ROOT / "tests/model/secrets"]
    files = [path for place in places for path in place.glob("*.py")]

    assert len(files) > 10
    assert [] == [(path.name, hit.kind) for path in files for hit in hits_in_text(path.read_bytes())]
