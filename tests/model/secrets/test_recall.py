"""How many of the secrets are found (K1), and how much else (K2)."""

from __future__ import annotations

import base64
import json
import os
import random
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.model.secrets.documents import hits_in_json
from recollect.model.secrets.prefilter import suspects
from recollect.model.secrets.redaction import redacted_line
from tests.model.secrets.samples import COMMON, SAMPLES, Dice

MANY = bool(os.environ.get("RECOLLECT_TORTURE"))
Form = Callable[[str, int, random.Random], str]


def _in_log(text: str) -> str:
    return json.dumps({"type": "user", "uuid": "u", "message": {"role": "user", "content": text}})


def plain(text: str, _start: int, _dice: random.Random) -> str:
    """In a sentence."""
    return _in_log(f"Here it is: {text} and more\nlines")


def escaped(text: str, _start: int, _dice: random.Random) -> str:
    """In JSON that a tool printed."""
    return _in_log(json.dumps({"stdout": f"x\n{text}\ny", "n": 1}))


def every_letter_escaped(text: str, _start: int, _dice: random.Random) -> str:
    """As an encoder may write it that trusts no letter."""
    return _in_log("@").replace("@", "see " + "".join(f"\\u{ord(letter):04x}" for letter in text))


def in_base64(text: str, _start: int, _dice: random.Random) -> str:
    """As ``base64 .env`` prints it, in lines of 76 letters."""
    encoded = base64.encodebytes(
        f"A=1\n{text}\nB=2 and words enough to make it two lines long at least\n".encode()
    )
    return _in_log(f"$ base64 .env\n{encoded.decode()}")


def split_by_a_newline(text: str, start: int, dice: random.Random) -> str:
    """Somewhere in the secret."""
    at = dice.randrange(start + 1, len(text))
    return _in_log(f"out:\n{text[:at]}\n{text[at:]}\nnext line")


def wrapped(text: str, _start: int, dice: random.Random) -> str:
    """As a terminal of some width shows it."""
    width = dice.choice([32, 40, 64, 76, 80])
    lines = "\n".join(textwrap.wrap(text, width, break_on_hyphens=False, drop_whitespace=False))
    return _in_log(f"out:\n{lines}\nnext line")


FORMS: list[Form] = [plain, escaped, every_letter_escaped, in_base64, split_by_a_newline, wrapped]


def recall(kinds: list[str], form: Form, rounds: int) -> float:
    """The part of some samples that is found in a line of a log, by the quick look and the finder both."""
    tried = found = 0
    for kind in kinds:
        for seed in range(rounds):
            sample, dice = SAMPLES[kind], random.Random(f"{kind} {seed}")
            secret = sample.make(Dice((kind, "recall", seed)))
            line = form(sample.before + secret + sample.after, len(sample.before), dice).encode()
            hits = hits_in_json(line) if suspects(line) else []
            tried += 1
            found += any(hit.kind == kind for hit in hits)
    return found / tried


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_common_formats_are_found(form: Form) -> None:
    """K1: at least 99 of 100 samples of the thirty most common formats, in every form."""
    assert recall(sorted(COMMON), form, 100 if MANY else 8) >= 0.99


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_all_formats_are_found(form: Form) -> None:
    """K1: at least 95 of 100 over all kinds, in every form."""
    assert recall(sorted(SAMPLES), form, 40 if MANY else 2) >= 0.95


@pytest.mark.parametrize(
    "form", [plain, escaped, every_letter_escaped, in_base64], ids=lambda form: form.__name__
)
def test_nothing_of_a_redacted_secret_is_left(form: Form) -> None:
    """Neither its beginning nor its end, in none of the forms."""
    for kind in sorted(SAMPLES):
        sample = SAMPLES[kind]
        secret = sample.make(Dice((kind, "rest")))
        line = form(sample.before + secret + sample.after, 0, random.Random(1)).encode()
        data, _ = redacted_line(line, lambda _: "00000000")
        left = json.loads(data)["message"]["content"]

        assert secret[:8] not in left.replace(sample.before, "") or secret[:8] in kind
        assert secret[-8:] not in left


# ---- K2 -------------------------------------------------------------------------------------------------


def test_real_transcripts_have_next_to_no_false_hits(transcripts: Path) -> None:
    """K2: at most one in a thousand entries; these transcripts are public and hold no secrets."""
    entries = hits = 0
    for log in sorted([*transcripts.glob("corpus/**/*.jsonl"), *transcripts.glob("samples/**/*.jsonl")]):
        data = log.read_bytes()
        entries += data.count(b"\n")
        hits += sum(len(hits_in_json(data[start:end])) for start, end in suspects(data))

    assert entries > 10_000
    assert hits * 1000 <= entries


def test_our_own_sources_have_no_false_hits() -> None:
    """Prose and code of this repository: thousands of lines about keys, tokens and secrets."""
    root = Path(__file__).resolve().parents[3]
    files = [*root.glob("src/**/*.py"), *root.glob("docs/**/*.md"), root / "README.md"]
    found = [
        (path.name, hit.kind)
        for path in files
        for start, end in suspects(path.read_bytes())
        for hit in hits_in_json(path.read_bytes()[start:end])
    ]

    assert len(files) > 100
    assert [] == found
