"""The scan engine and ``re`` pass over nothing that the finder finds, and change no answer."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
from pathlib import Path

import pytest

from recollect.model.secrets import finder
from recollect.model.secrets.documents import hits_in_json, hits_in_text
from recollect.model.secrets.prefilter import suspects
from tests.model.secrets.engines import search_with
from tests.model.secrets.samples import SAMPLES, Dice, private_key
from tests.model.secrets.test_contexts import CONTEXTS, coloured, name_of
from tests.model.secrets.test_recall import FORMS

ROUNDS = 40 if os.environ.get("RECOLLECT_TORTURE") else 1
FILLER = Path(finder.__file__).read_text("utf-8")
# Of these the quick look knows a mark inside or at the end, which a break may run through.
KNOWN_BY_A_MARK = {"azure-client-secret", "mailchimp-api-key", "telegram-bot-token", "terraform-token"}


@pytest.fixture(params=["engine", "re"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to search."""
    search_with(request.param, monkeypatch)


def line_of(text: str) -> bytes:
    return json.dumps({"type": "user", "uuid": "u", "message": {"role": "user", "content": text}}).encode()


PROSE = line_of("nothing to see here, and more of it " * 120)


def passed_over(lines: dict[bytes, str]) -> set[str]:
    """The kinds of the lines with a secret that are not named, in one block between lines of prose."""
    block = b"\n".join([PROSE, *lines, PROSE])
    named = {block[start:end] for start, end in suspects(block)}
    assert PROSE not in named
    return {kind for line, kind in lines.items() if line not in named and hits_in_json(line)}


def test_no_line_with_a_secret_is_passed_over() -> None:
    """Each kind in each form and in a context; between letters in colours."""
    dice, lines = random.Random("recall"), dict[bytes, str]()
    for kind, number, form in itertools.product(sorted(SAMPLES), range(ROUNDS), FORMS):
        sample = SAMPLES[kind]
        secret = sample.make(Dice((kind, number, form.__name__)))
        lines[form(sample.before + secret + sample.after, len(sample.before), dice).encode()] = kind
        context = dice.choice(sorted(CONTEXTS))
        lines[line_of(CONTEXTS[context](name_of(kind), secret))] = kind
        lines[line_of(coloured(kind, number)[0])] = kind

    assert passed_over(lines) <= KNOWN_BY_A_MARK


def test_a_line_break_in_the_first_letters_hides_nothing() -> None:
    """Anywhere in them."""
    lines: dict[bytes, str] = {}
    for kind in sorted(SAMPLES):
        secret = SAMPLES[kind].make(Dice((kind, "broken")))
        for at in range(1, min(24, len(secret))):
            lines[line_of(f"out:\n{secret[:at]}\n{secret[at:]}\nnext")] = kind

    assert passed_over(lines) <= KNOWN_BY_A_MARK


@pytest.mark.parametrize("left", [1, 2, 4, 7])
def test_a_line_break_before_the_last_letters_hides_nothing(left: int) -> None:
    lines = {}
    for kind in sorted(SAMPLES):
        secret = SAMPLES[kind].make(Dice((kind, "late")))
        lines[line_of(f"out:\n{secret[:-left]}\n{secret[-left:]}\nnext")] = kind

    assert passed_over(lines) <= KNOWN_BY_A_MARK


def test_a_private_key_is_named_as_a_whole() -> None:
    line = line_of(private_key(Dice("alone")))

    assert [(len(PROSE) + 1, len(PROSE) + 1 + len(line))] == suspects(b"\n".join((PROSE, line, PROSE)))


def test_the_secrets_of_a_long_text() -> None:
    """Each at its place, far from any other and beside one; private keys to their end."""
    dice = Dice("long")
    parts, expected = [FILLER, private_key(dice), FILLER], ["private-key"]
    for kind in sorted(SAMPLES)[::4]:
        secret = SAMPLES[kind].before + SAMPLES[kind].make(dice) + SAMPLES[kind].after
        if [kind] == [hit.kind for hit in hits_in_text(secret.encode())]:
            parts += [secret, "\n", FILLER]
            expected.append(kind)

    assert [hit.kind for hit in hits_in_text("\n".join(parts).encode())] == expected
    assert len(expected) > 30


def test_the_lines_of_real_logs(transcripts: Path) -> None:
    """Of transcripts of people few lines need a closer look."""
    logs = [log.read_bytes() for log in sorted(transcripts.glob("corpus/**/*.jsonl"))][: 20 * ROUNDS]

    assert sum(len(suspects(log)) for log in logs) < sum(log.count(b"\n") for log in logs) / 20


def test_threads_share_the_engine() -> None:
    """Each with working memory of its own: a scan beside another gives the same."""
    block = b"\n".join([PROSE, *(line_of(coloured(kind, 0)[0]) for kind in sorted(SAMPLES)[:40])])
    expected, answers = suspects(block), []
    threads = [threading.Thread(target=lambda: answers.append(suspects(block))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [expected] * 4 == answers
