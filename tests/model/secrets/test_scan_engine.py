"""The scan engine passes over nothing that the finder finds, and changes no answer."""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.model.secrets import scan_engine
from recollect.model.secrets.documents import hits_in_json, hits_in_text
from recollect.model.secrets.prefilter import suspects
from tests.model.secrets.engines import release_engine
from tests.model.secrets.samples import SAMPLES, Dice, private_key
from tests.model.secrets.test_contexts import CONTEXTS, coloured, name_of
from tests.model.secrets.test_recall import FORMS, Form

ROUNDS = 40 if os.environ.get("RECOLLECT_TORTURE") else 1
FILLER = Path(scan_engine.__file__).read_text("utf-8")

pytestmark = pytest.mark.skipif(not scan_engine.version(), reason="no wheel of hyperscan for this platform")


@pytest.fixture(scope="module")
def compiled() -> bytes:
    found = scan_engine.compiled()
    assert found is not None, "an expression cannot be compiled"
    return found


@pytest.fixture
def used(compiled: bytes) -> Iterator[None]:
    assert scan_engine.use(compiled)
    yield
    release_engine()


def line_of(text: str) -> str:
    return json.dumps({"type": "user", "uuid": "u", "message": {"role": "user", "content": text}})


def lines_with_secrets(seed: str) -> list[bytes]:
    """Each kind in each form and context, a line each, between lines of a program."""
    dice, lines = random.Random(seed), []
    for kind, number in itertools.product(sorted(SAMPLES), range(ROUNDS)):
        sample = SAMPLES[kind]
        secret = sample.make(Dice((kind, seed, number)))
        whole = sample.before + secret + sample.after
        form = FORMS[dice.randrange(len(FORMS))]
        lines.append(form(whole, len(sample.before), dice))
        context = dice.choice(sorted(CONTEXTS))
        lines.append(line_of(CONTEXTS[context](name_of(kind), secret)))
        at = dice.randrange(len(FILLER) - 400)
        lines.append(line_of(FILLER[at : at + 400]))
    return [line.encode() for line in lines]


@pytest.mark.usefixtures("used")
def test_no_line_with_a_secret_is_passed_over() -> None:
    """Every line in which the finder finds something is named, in one block of many."""
    lines = lines_with_secrets("recall")
    block = b"\n".join(lines)
    named = {block[start:end] for start, end in suspects(block)}
    release_engine()
    passed_over = [block[start:end] for start, end in suspects(block) if block[start:end] not in named]

    assert len(named) > len(SAMPLES) * ROUNDS
    assert [] == [line for line in passed_over if hits_in_json(line)]


# Of these the engine knows a mark inside or at the end, which a break may run through.
KNOWN_BY_A_MARK = {"azure-client-secret", "mailchimp-api-key", "telegram-bot-token", "terraform-token"}
PROSE = line_of("nothing to see here, and more of it " * 120).encode()


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("form", [*FORMS, "context"], ids=lambda form: getattr(form, "__name__", form))
@settings(
    max_examples=60 * ROUNDS, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_secret_far_from_any_other_is_named(form: Form | str, data: st.DataObject) -> None:
    """One in a block: no needle of another secret has the part examined in which it is."""
    kind = data.draw(st.sampled_from(sorted(SAMPLES)))
    seed = data.draw(st.integers(0, 1 << 32))
    sample, dice = SAMPLES[kind], random.Random(seed)
    secret = sample.make(Dice((kind, "alone", seed)))
    if isinstance(form, str):
        text = line_of(CONTEXTS[data.draw(st.sampled_from(sorted(CONTEXTS)))](name_of(kind), secret))
    else:
        text = form(sample.before + secret + sample.after, len(sample.before), dice)
    line = text.encode()
    block = b"\n".join((PROSE, line, PROSE))
    place = (len(PROSE) + 1, len(PROSE) + 1 + len(line))

    named = suspects(block)
    engine = vars(scan_engine)["_engine"]
    release_engine()
    without = suspects(block)
    vars(scan_engine)["_engine"] = engine

    assert set(named) <= {place}
    # The rare cases in which the prefilter itself passes over a secret are counted elsewhere.
    assert place in named or place not in without or not hits_in_json(line) or kind in KNOWN_BY_A_MARK


@pytest.mark.usefixtures("used")
def test_a_private_key_far_from_any_other_secret_is_named() -> None:
    """And as a whole: it is examined to its end."""
    line = line_of(private_key(Dice("alone"))).encode()

    assert [(len(PROSE) + 1, len(PROSE) + 1 + len(line))] == suspects(b"\n".join((PROSE, line, PROSE)))


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("left", [1, 2, 3, 4, 7])
def test_a_line_break_before_the_last_letters_hides_nothing(left: int) -> None:
    """The engine names every line with a secret that the prefilter names without it, each in a block of its own."""
    blocks: dict[str, bytes] = {}
    for kind in sorted(set(SAMPLES) - KNOWN_BY_A_MARK):
        secret = SAMPLES[kind].make(Dice((kind, "late")))
        line = line_of(f"out:\n{secret[:-left]}\n{secret[-left:]}\nnext").encode()
        if hits_in_json(line):
            blocks[kind] = b"\n".join((PROSE, line, PROSE))
    named = {kind for kind, block in blocks.items() if suspects(block)}
    release_engine()

    assert {kind for kind, block in blocks.items() if suspects(block)} == named
    assert len(named) > len(SAMPLES) * 0.3


@pytest.mark.usefixtures("used")
def test_no_colour_hides_a_secret_from_the_engine() -> None:
    """Each line with codes inside and beside a secret, in one block with lines of a program."""
    lines = [line_of(coloured(kind, 0)[0]).encode() for kind in sorted(SAMPLES)]
    block = b"\n".join([*lines, line_of(FILLER[:6000]).encode()])
    named = {block[start:end] for start, end in suspects(block)}

    assert [] == [line for line in lines if line not in named and hits_in_json(line)]
    assert len(named) > len(SAMPLES) * 0.9


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("kind", ["basic-auth", "http-cookie", "bearer"])
def test_a_value_that_a_line_breaks_early_is_named(kind: str) -> None:
    """A terminal wraps where it ends: a few letters of the value may stand before the break."""
    dice = random.Random(kind)
    secret = "".join(dice.choices("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=40))
    login = base64.b64encode(f"bob:{secret[:16]}".encode()).decode()
    before, value = {
        "basic-auth": ("Authorization: Basic ", login),
        "http-cookie": ("Cookie: theme=dark; sessionid=", secret),
        "bearer": ("Authorization: Bearer ", secret),
    }[kind]
    lines = [line_of(f"out:\n{before}{value[:at]}\n{value[at:]}\nnext").encode() for at in (1, 2, 5, 9)]
    found = [line for line in lines if hits_in_json(line)]
    block = b"\n".join([*lines, line_of(FILLER[:6000]).encode()])
    named = {block[start:end] for start, end in suspects(block)}
    assert len(found) >= 2, "the finder itself must find some of them"
    assert not set(found) - named


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("indent", ["", "   "])
def test_a_line_break_anywhere_in_the_first_letters_hides_nothing(indent: str) -> None:
    """The engine names every line with a secret that the prefilter names without it."""
    lines: dict[bytes, str] = {}
    for kind in sorted(SAMPLES):
        secret = SAMPLES[kind].make(Dice((kind, "broken")))
        for at in range(1, min(24, len(secret))):
            text = f"out:\n{secret[:at]}\n{indent}{secret[at:]}\nnext"
            lines[line_of(text).encode()] = kind
    block = b"\n".join(lines)
    named = {block[start:end] for start, end in suspects(block)}
    release_engine()
    without = {block[start:end] for start, end in suspects(block)}

    assert {lines[line] for line in without - named if hits_in_json(line)} <= KNOWN_BY_A_MARK
    assert len(named) > len(SAMPLES) * (15 if not indent else 5)


LETTER = rb"[0-9A-Za-z+/]"
# The first letters of text in base64 in one expression, each end of which is named.
WHOLE = re.compile(
    rb"(?:^|[^0-9A-Za-z+/]|\\[nrt])\+?"
    rb"(?:[A-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589]%s){6}%s{3}" % (LETTER, LETTER)
)
PIECES = st.one_of(
    st.binary(min_size=12, max_size=60).map(base64.b64encode),
    st.text("abcXYZ 019:=", min_size=12, max_size=60).map(lambda text: base64.b64encode(text.encode())),
    st.sampled_from(
        [b"+", b"n", b"r", b"/", b"\\", b"\\n", b"\\r\\n", b"\\t+", b"\n", b'"', b" ", b"=", b"\xc3"]
    ),
)


@pytest.mark.usefixtures("used")
@settings(
    max_examples=400 * ROUNDS, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_every_beginning_of_text_in_base64_is_named(block: bytes) -> None:
    """Each run of letters, alone, behind another, behind an escape and behind the mark of a patch."""
    starts = (WHOLE.match(block, at) for at in range(len(block)))
    engine = scan_engine.engine()

    assert engine is not None
    assert sorted({found.end() for found in starts if found}) == engine.matches(block).base64


@pytest.mark.usefixtures("used")
def test_long_texts_have_the_same_secrets() -> None:
    """Regions of a text: the same kinds at the same places, private keys to their end."""
    dice = Dice("long")
    parts = [FILLER, private_key(dice), FILLER]
    for kind in sorted(SAMPLES)[::4]:
        parts += [SAMPLES[kind].before + SAMPLES[kind].make(dice) + SAMPLES[kind].after, "\n", FILLER[:900]]
    text = "\n".join(parts).encode()
    fast = [(hit.kind, hit.spans) for hit in hits_in_text(text)]
    release_engine()

    assert [(hit.kind, hit.spans) for hit in hits_in_text(text)] == fast
    assert len(fast) > 40


@pytest.mark.usefixtures("used")
def test_real_logs_have_the_same_suspects(shared: Path) -> None:
    """Line for line, on transcripts of people."""
    logs = [log.read_bytes() for log in sorted(shared.glob("corpus/**/*.jsonl"))][: 20 * ROUNDS]
    fast = [suspects(log) for log in logs]
    release_engine()

    assert [suspects(log) for log in logs] == fast


@pytest.mark.usefixtures("used")
def test_threads_share_the_engine() -> None:
    """Each with working memory of its own: a scan beside another gives the same."""
    block = b"\n".join(lines_with_secrets("threads")[:150])
    expected, found = suspects(block), []
    threads = [threading.Thread(target=lambda: found.append(suspects(block))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [expected] * 4 == found


def test_a_database_of_another_version_is_refused() -> None:
    """And the prefilter works on without it."""
    assert not scan_engine.use(b"not a database")
    assert scan_engine.engine() is None
