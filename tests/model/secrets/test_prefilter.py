"""The quick look: which lines it names, and that it misses nothing the finder would find."""

from __future__ import annotations

import base64
import binascii
import json
import random

import pytest

from recollect.model.secrets import prefilter
from recollect.model.secrets.finder import find
from recollect.model.secrets.prefilter import regions, suspects
from tests.model.secrets.samples import SAMPLES, Dice, private_key

# What the looks look for, and what may stand between: texts made of these are noted for every reason there is.
PARTS = (
    b"password=|PwD: |passphrase|Private Key|login bob password |curl -u a:b http|://|//a:bcd@|hooks.slack|\\u0041|\\n|\n"
    b'|%3D|%2F|Q~|sig=|\x1b[31m|[1m|\\u001b]8;;|^[[|token|":"|abcdefg1|ABCDEFGH|3456|a|+|/|-|_|.| |glc_|sk-ant-'
    b"|Q~abc.def~abc.def~abc.def~abc.def~|sk%2Dant%2Dapi03%2DabcDEF12|sig=abc%2Fabc%2Fabc%2Fabc%2Fabc%2Fabc%2Fabc%2Fabc%2F"
).split(b"|")

TOKEN = SAMPLES["github-pat"].make(Dice("prefilter"))


def line_of(text: str) -> bytes:
    return json.dumps({"type": "user", "message": {"content": text}}).encode()


def test_the_lines_are_named_by_their_places() -> None:
    """First, last and middle ones; the newline is not part of a line."""
    lines = [line_of(f"a {TOKEN}"), line_of("nothing"), line_of(f"{TOKEN}"), b"", line_of(f"b {TOKEN} c")]
    block = b"\n".join(lines)

    assert [lines[0], lines[2], lines[4]] == [block[start:end] for start, end in suspects(block)]


def test_lines_of_a_log_are_passed_over() -> None:
    """Ids, usage, signatures and code are no reason to look closer."""
    entry = {
        "parentUuid": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
        "sessionId": "6a0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c11",
        "requestId": "req_011CSHoEeqs5C35K2UUqR7Fy",
        "message": {
            "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
            "content": [
                {"type": "thinking", "thinking": "", "signature": Dice(5).draw("ABCdef012+/", 400)},
                {
                    "type": "tool_use",
                    "id": "toolu_01A09q90qw90lq917835lq9",
                    "input": {"command": "ls /usr/lib/python3"},
                },
                {
                    "type": "text",
                    "text": "def some_very_long_function_name(first_argument):\n    return other_long_name",
                },
            ],
            "usage": {"input_tokens": 12, "cache_creation_input_tokens": 3456, "output_tokens": 789},
        },
    }

    assert [] == suspects(json.dumps(entry, separators=(",", ":")).encode() + b"\n")


def test_regions_hold_what_stands_around() -> None:
    """A region is a small part of a long text, and whole words of it."""
    text = f"{'word ' * 4000}{TOKEN} {'word ' * 4000}".encode()
    [(start, end)] = regions(text)

    assert TOKEN.encode() in text[start:end]
    assert end - start < 5000
    assert (b" ", b" ") == (text[start - 1 : start], text[end : end + 1])


def test_a_region_reaches_to_the_end_of_the_text() -> None:
    """Where the last word of a long text is the secret."""
    text = f"{'word ' * 4000}{TOKEN}".encode()

    assert [len(text)] == [end for _, end in regions(text)]


def test_what_stands_behind_the_usage_of_a_response_is_looked_at() -> None:
    """Its names and numbers are passed over in one step, and nothing else with them."""
    usage = {
        "cache_creation_input_tokens": 12,
        "cache_read_input_tokens": 3,
        "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 9,
    }
    plain, names = {**usage, "note": "no"}, {**usage, TOKEN: 1}
    lines = [
        plain,
        {**usage, "note": TOKEN},
        {"a": usage, "b": TOKEN},
        names,
        {**usage, "output_tokens": TOKEN},
    ]

    assert [0, 1, 1, 1, 1] == [
        len(suspects(json.dumps(one, separators=(",", ":")).encode())) for one in lines
    ]


def test_regions_that_meet_are_one() -> None:
    """Nothing is looked at twice."""
    assert 1 == len(regions(f"{TOKEN} and {TOKEN} and {TOKEN}".encode()))


def test_no_sample_is_passed_over() -> None:
    """In a line of a log, at the start of a line of its text, and inside JSON that the text is."""
    passed_over = []
    for kind, sample in SAMPLES.items():
        for seed in range(3):
            secret = f"{sample.before}{sample.make(Dice((kind, seed)))}{sample.after}"
            texts = [f"see {secret} there", f"out:\n{secret}\nnext", json.dumps({"stdout": f"a\n{secret}\n"})]
            if [1, 1, 1] != [len(suspects(line_of(text))) for text in texts]:
                passed_over.append((kind, seed))

    assert [] == passed_over


def test_a_private_key_is_not_passed_over() -> None:
    """Nor its lines behind it."""
    text = f"see\n{private_key(Dice(7))}\nend".encode()

    assert [(0, len(text))] == regions(text)
    assert 1 == len(find(text.decode()))


def test_base64_of_a_long_text_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work grows with the length, not with its square: a line of it is not the start of another text."""
    decoded: list[int] = []
    real = binascii.a2b_base64

    def counting(data: bytes) -> bytes:
        decoded.append(len(data))
        return real(data)

    monkeypatch.setattr(binascii, "a2b_base64", counting)
    encoded = base64.encodebytes(b"plain words and nothing else in them " * 5000)
    suspects(encoded.replace(b"\n", b"\\n"))

    assert sum(decoded) < 2 * len(encoded)


def short_texts() -> list[bytes]:
    """Parts in any order, and samples as they stand in strings of a log: with their names, escaped, and cut."""
    dice = random.Random("short")
    texts = [b"".join(dice.choices(PARTS, k=dice.randrange(1, 9))) for _ in range(20_000)]
    for kind, sample in SAMPLES.items():
        whole = sample.before + sample.make(Dice(kind)) + sample.after
        at = dice.randrange(1, len(whole))
        texts += (
            form.encode()
            for form in (
                whole,
                json.dumps({"name": whole}),
                json.dumps(f"{whole[:at]}\n{whole[at:]}"),
                f"{whole[:at]}\\u{ord(whole[at]):04x}{whole[at + 1 :]}",
                base64.b64encode(whole.encode()).decode(),
            )
        )
    return [text for text in texts if len(text) <= prefilter._SHORT_TEXT]


def test_a_short_text_is_passed_over_only_if_no_look_notes_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it has any letters that matter is asked first; the answer is never another."""
    texts = short_texts()
    found = [regions(text) for text in texts]
    passed_over = sum(prefilter._ANYTHING.search(text) is None for text in texts)
    monkeypatch.setattr(prefilter, "_SHORT_TEXT", -1)

    assert [regions(text) for text in texts] == found
    assert passed_over > 300
    assert sum(map(bool, found)) > 3_000
