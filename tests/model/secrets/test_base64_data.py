"""Data in base64 is never changed: what looks like a secret inside a picture is chance."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Callable

import pytest

from recollect.model.secrets.documents import hits_in_json
from recollect.model.secrets.redaction import redacted_line
from tests.model.secrets.samples import BASE64, SAMPLES, Dice

ROUNDS = 40 if os.environ.get("RECOLLECT_TORTURE") else 3
HEADS = {
    "png": b"\x89PNG\r\n\x1a\n",
    "jpeg": b"\xff\xd8\xff\xe0",
    "gif": b"GIF89a",
    "zip": b"PK\x03\x04\x14\x00",
    "pdf": b"%PDF-1.7\n",
}
# Kinds that can have letters of base64 only, so that they can stand in data.
KINDS = [kind for kind in SAMPLES if set(BASE64).issuperset(SAMPLES[kind].make(Dice(kind)))]


def data_with(secret: str, head: bytes, dice: random.Random) -> str:
    """Binary data whose base64 holds the letters of a secret, with a slash or a plus on both sides."""
    before = base64.b64encode(head + dice.randbytes(3 * dice.randrange(40, 400)))[:-4]
    behind = base64.b64encode(dice.randbytes(3 * dice.randrange(40, 400)))
    inside = f"/{secret}+"
    inside += "A" * (-len(inside) % 4)
    return before.decode() + inside + behind.decode()


def as_image(data: str) -> object:
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": source}]}]


FORMS: dict[str, Callable[[str], object]] = {
    "image": as_image,
    "address": lambda data: f'<img src="data:image/png;base64,{data}">',
    "output": lambda data: (
        "$ base64 x.png\n" + "\n".join(data[at : at + 76] for at in range(0, len(data), 76))
    ),
    "file": lambda data: json.dumps({"file": {"base64": data, "type": "image/png"}}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("head", HEADS)
def test_data_in_base64_keeps_every_byte(head: str, form: str) -> None:
    """Whatever the letters say, for every kind that could stand there."""
    assert len(KINDS) > 20
    for kind in KINDS:
        for seed in range(ROUNDS):
            dice = random.Random(f"{kind} {head} {seed}")
            secret = SAMPLES[kind].make(Dice((kind, seed)))
            if not set(BASE64).issuperset(secret):
                continue
            data = data_with(secret, HEADS[head], dice)
            line = json.dumps(
                {"type": "user", "message": {"role": "user", "content": FORMS[form](data)}}
            ).encode()

            assert line == redacted_line(line, lambda _: "00000000").data, kind


def test_a_secret_beside_data_is_found() -> None:
    """The data stays, the secret goes."""
    dice = random.Random(1)
    secret = SAMPLES["github-pat"].make(Dice(1))
    data = data_with("x", HEADS["png"], dice)
    line = json.dumps({"content": [f"{data} {secret}", secret, data]}).encode()

    assert 2 == len(hits_in_json(line))
    assert 2 == redacted_line(line, lambda _: "00000000").data.count(data.encode())


def test_a_text_in_base64_is_searched() -> None:
    """A file with settings is text, however long; letters beyond ASCII too."""
    secret = SAMPLES["github-pat"].make(Dice(2))
    for words in ("settings of the project\n" * 30, "settings of this project: 設定ファイル\n" * 30):
        encoded = base64.b64encode(f"# {words}TOKEN={secret}\n".encode()).decode()

        assert hits_in_json(json.dumps({"content": encoded}).encode())
