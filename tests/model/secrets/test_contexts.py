"""Secrets are found where people and programs write them: every kind in every ordinary context (K1)."""

from __future__ import annotations

import base64
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from urllib.parse import quote

import pytest

from recollect.model.secrets.documents import hits_in_json
from recollect.model.secrets.prefilter import suspects
from recollect.model.secrets.redaction import redacted_line
from tests.model.secrets.samples import SAMPLES, Dice

ROUNDS = 10 if os.environ.get("RECOLLECT_TORTURE") else 1
Context = Callable[[str, str], str]
# A name and a value as they stand in files, commands and output.
CONTEXTS: dict[str, Context] = {
    "environment": lambda n, v: f"HOME=/root\n{n}={v}\nPATH=/bin",
    "export": lambda n, v: f"export {n}='{v}'",
    "prefix of a command": lambda n, v: f"{n}={v} npm publish",
    "JSON": lambda n, v: json.dumps({n: v, "n": 1}, indent=2),
    "YAML": lambda n, v: f"env:\n  {n}: {v}\n  OTHER: 1",
    "TOML": lambda n, v: f'[section]\n{n} = "{v}"',
    "INI": lambda n, v: f"[default]\n{n} = {v}",
    "JavaScript": lambda n, v: f"const config = {{ {n}: '{v}' }};",
    "Python": lambda n, v: f'os.environ["{n}"] = "{v}"',
    "PHP": lambda n, v: f"define('{n}', '{v}');",
    "Docker": lambda n, v: f"docker run -e {n}={v} image",
    "diff": lambda n, v: f"@@ -1 +1 @@\n-{n}=\n+{n}={v}",
    "numbered lines": lambda n, v: f"     1\t# settings\n     2\t{n}={v}\n     3\t",
    "grep with colours": lambda n, v: f".env:\x1b[01;31m\x1b[K{n}\x1b[m\x1b[K={v}",
    "colours around the value": lambda n, v: f"\x1b[36m{n}\x1b[0m: \x1b[32m{v}\x1b[0m\n",
    "colours, quoted": lambda n, v: f"\x1b[33m{n}\x1b[39m = \x1b[32m'{v}'\x1b[39m,",
    "address": lambda n, v: f"GET /path?{n}={quote(v, safe='')}&x=1 HTTP/1.1",
    "form": lambda n, v: f"grant=x&{n}={quote(v)}&redirect=y",
    "XML": lambda n, v: f'<add key="{n}" value="{v}" />',
    "Markdown": lambda n, v: f"- `{n}`: `{v}`",
    "command line": lambda n, v: f'tool --set {n}="{v}" --verbose',
}


def name_of(kind: str) -> str:
    """The name that a kind needs beside it, or one that says nothing."""
    before = SAMPLES[kind].before
    found = re.search(r"([A-Za-z][\w.-]*)[\"'`]?\s*(?::=|=>|=|:)\s*[\"'`]?$", before)
    return found[1] if found else "VALUE"


def is_in_a_sentence(kind: str) -> bool:
    """Kinds that are a part of something larger, such as an address, not the value of a name."""
    sample = SAMPLES[kind]
    if kind in ("azure-sas-signature", "gitlab-session", "http-cookie"):
        return True
    return bool(sample.after) or (bool(sample.before) and name_of(kind) == "VALUE")


KINDS = [kind for kind in sorted(SAMPLES) if not is_in_a_sentence(kind)]


def line_of(text: str) -> bytes:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode()


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_kind_is_found_in_ordinary_contexts(context: str) -> None:
    """99 of 100, and what is found is replaced whole."""
    missed: Counter[str] = Counter()
    for kind in KINDS:
        for seed in range(ROUNDS):
            secret = SAMPLES[kind].make(Dice((kind, context, seed)))
            line = line_of(CONTEXTS[context](name_of(kind), secret))
            hits = hits_in_json(line) if suspects(line) else []
            left = redacted_line(line, lambda _: "00000000").data.decode()
            tail = secret.rstrip("=")[-8:]
            missed[kind] += not hits or tail in left
    tried = len(KINDS) * ROUNDS
    print(f"{context}: {tried - missed.total()} of {tried}; {dict(+missed)}")

    assert len(KINDS) >= 77
    assert missed.total() <= tried / 100


# What a terminal is told between the letters: colours of grep and others, old and new forms, links, and what is
# left of them in logs. Printed, and as the source of a program has them.
CODES = [
    "\x1b[31m", "\x1b[01;31m\x1b[K", "\x1b[0m", "\x1b(B\x1b[m", "\x1b[38;5;208m", "\x1b[38:2::255:100:0m", "\x1b[1;4;97;48;5;16m",
    "\x1b[2K\x1b[1G", "\x1b]8;;https://example.org/a\x1b\\", "\x1b]8;;\x07", "^[[32m", "[32m", "[1;31m",
    "\\033[1m", "\\x1b[32m", "\\e[0;36m", "\\u001b[39m",
]  # fmt: skip


def coloured(kind: str, seed: int) -> tuple[str, str, int]:
    """A text with a secret and codes at three places, one of them inside it: the text, the secret, that place."""
    sample, draw = SAMPLES[kind], random.Random(f"{kind} {seed}")
    secret = sample.make(Dice((kind, "code", seed)))
    at = draw.randrange(1, len(secret))
    one, two, three = draw.choices(CODES, k=3)
    return f"a {sample.before}{one}{secret[:at]}{two}{secret[at:]}{three}{sample.after} b", secret, at


@pytest.mark.parametrize("is_escaped", [False, True], ids=["a line", "an escaped line"])
def test_no_colour_inside_or_beside_a_secret_hides_it(is_escaped: bool) -> None:
    """Of any kind, at any letter; between name and value too. What is left of it is nothing."""
    missed: Counter[str] = Counter()
    found = 0
    for kind in sorted(SAMPLES):
        sample = SAMPLES[kind]
        for seed in range(4 * ROUNDS):
            text, secret, at = coloured(kind, seed)
            if not hits_in_json(line_of(f"a {sample.before}{secret}{sample.after} b")):
                continue  # the few that are not found without colours either
            found += 1
            line = line_of(json.dumps({"out": text}) if is_escaped else text)
            left = (
                redacted_line(line, lambda _: "00000000").data.decode() if suspects(line) else line.decode()
            )
            tail = secret.rstrip("=")[-8:]
            missed[kind] += (tail if len(secret) - at > 8 else secret[:at]) in left
    print(f"{found - missed.total()} of {found} with codes; {dict(+missed)}")

    assert found > len(SAMPLES) * 3 * ROUNDS
    assert missed.total() <= found / 100


def test_coloured_text_in_base64_is_searched() -> None:
    """As a program prints it: a beginning that a colour divides, in the output of ``base64``."""
    secret = SAMPLES["github-pat"].make(Dice("wrapped"))
    text = f"token \x1b[1m{secret[:6]}\x1b[0m{secret[6:]} end"
    line = line_of(f"out: {base64.b64encode(text.encode()).decode()}")

    assert [1, 1] == [len(suspects(line)), len(hits_in_json(line))]
