"""Every kind of secret: a sample that is found, a near miss that is not, and none of them stored."""

from __future__ import annotations

import re
from pathlib import Path

from recollect.model.secrets.documents import hits_in_text
from recollect.model.secrets.finder import PRIVATE_KEY, PUTTY_KEY, find
from recollect.model.secrets.patterns import NAMED, SHAPES, TOKENS, TokenPattern
from tests.model.secrets.samples import SAMPLES, Dice

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


# Two hundred kinds are one test: a test each would take longer to set up than to run.
def kinds_in(text: str) -> set[str]:
    return {one.kind for one in find(text)}


def test_every_sample_is_found_at_its_place() -> None:
    """In a sentence, with the name it needs before it: kind, place and value are right, whatever the letters."""
    missed = []
    for kind, sample in SAMPLES.items():
        for seed in range(5):
            secret = sample.make(Dice(f"{kind} {seed}"))
            text = f"Look: {sample.before}{secret}{sample.after} and so on"
            start = len("Look: ") + len(sample.before)
            found = [(one.kind, one.start, one.end, one.secret) for one in find(text)]
            if [(kind, start, start + len(secret), secret)] != found:
                missed.append((kind, seed, [(one[:3], start, len(secret)) for one in found]))

    assert [] == missed


def test_no_near_miss_is_of_that_kind() -> None:
    """Too short, or without what makes it one."""
    nears = [
        (
            kind,
            seed,
            f"Look: {sample.before}{sample.miss(Dice(f'{kind} miss {seed}'))}{sample.after} and so on",
        )
        for kind, sample in SAMPLES.items()
        for seed in range(5)
    ]

    assert [] == [(kind, seed) for kind, seed, text in nears if kind in kinds_in(text)]


def test_no_token_begins_inside_a_word() -> None:
    """``task-`` is not ``sk-``: letters before it make it something else."""
    kinds = [token.kind for token in TOKENS]

    assert [] == [
        kind for kind in kinds if kind in kinds_in(f"see abc{SAMPLES[kind].make(Dice(kind))} there")
    ]


def test_letters_of_documentation_are_no_token() -> None:
    """The same letter over and over is a placeholder."""

    def invented(token: TokenPattern) -> str:
        real = SAMPLES[token.kind].make(Dice(token.kind))
        start = next((one for one in token.starts if real.startswith(one)), "")
        return start + re.sub("[0-9A-Za-z]", "x", real[len(start) :])

    assert [] == [token.kind for token in TOKENS if token.kind in kinds_in(f"set {invented(token)} here")]


def test_kinds_can_stand_in_a_mark() -> None:
    """Lower case, digits and dashes only."""
    assert [] == [
        kind for kind in (*KINDS, PRIVATE_KEY, PUTTY_KEY) if not re.fullmatch("[0-9a-z-]{1,60}", kind)
    ]


def test_no_secret_is_stored_in_this_repository() -> None:
    """Neither in the patterns nor in their tests: samples are made at run time."""
    places = [ROOT / "src/recollect/model/secrets", ROOT / "tests/model/secrets"]
    files = [path for place in places for path in place.iterdir() if path.is_file()]

    assert len(files) > 8
    assert [] == [(path.name, hit.kind) for path in files for hit in hits_in_text(path.read_bytes())]
