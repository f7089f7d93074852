"""`recollect doctor` against client 2.1.325: where it says error the client loses or fails, where it does not it resumes all.

What goes wrong is judged by ``trouble.py``. Damage that is planted in generated logs is asked about too.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from recollect.ask.doctor.check import check
from recollect.ask.library import Home
from recollect.model.checks.rules import CODES, Severity
from tests.model.checks.planted import ENDS, PLANTS, planted
from tests.oracle.client_runner import Client, running_stub
from tests.oracle.conftest import command_of
from tests.oracle.recorded import recorded
from tests.oracle.trouble import trouble_with
from tests.oracle.what_is_sent import NEW_PROMPT
from tests.talk import Fields, assistant, call, encoded, link, result, user

SESSION = "5f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c22"
RIVAL = "6f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c23"
WORDS = ("Q-one", "A-one", "Q-two", "A-two")


class Family(Struct):
    """A log, the errors that ``check`` must report, and words that a full history holds."""

    log: bytes
    errors: set[str] = set()
    words: tuple[str, ...] = WORDS


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def talk(*inner: tuple[str, Any], gap: float = 1) -> list[Fields]:
    """Two questions with their answers, and between them what is given: ("user" or "answer", content)."""
    spoken = [("user", "Q-one"), ("answer", "A-one"), *inner, ("user", "Q-two"), ("answer", "A-two")]
    lines = []
    for number, (who, content) in enumerate(spoken, 1):
        make = user if who == "user" else assistant
        parent = uuid(number - 1) if number > 1 else None
        lines.append(make(uuid(number), parent, number * gap, content))
    return lines


def tool_talk(*results: Fields, name: str = "toolu_1") -> list[Fields]:
    return talk(("user", "q"), ("answer", [call(name)]), ("user", list(results)), ("answer", "k"))


def text(words: str) -> Fields:
    return {"type": "text", "text": words}


def image(data: str) -> Fields:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def png(width: int, height: int) -> str:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(30)
    return base64.b64encode(head).decode()


def changed(number: int, gap: float = 1, **fields: Any) -> bytes:
    lines = talk(gap=gap)
    lines[number].update(fields)
    return encoded(lines)


def without(name: str, *numbers: int) -> bytes:
    lines = talk()
    return encoded(
        [
            {k: v for k, v in one.items() if k != name} if at in numbers else one
            for at, one in enumerate(lines)
        ]
    )


def replaced(number: int, line: bytes, gap: float = 1) -> bytes:
    lines = encoded(talk(gap=gap)).splitlines()
    lines[number] = line
    return b"\n".join(lines) + b"\n"


def compacted() -> list[Fields]:
    """A boundary stands between a call and its result; what is before it is hidden on purpose."""
    return [
        user(uuid(1), None, 1, "old"),
        assistant(uuid(2), uuid(1), 2, [call("toolu_1")]),
        link(
            uuid(3),
            None,
            3,
            type="system",
            subtype="compact_boundary",
            content="x",
            logicalParentUuid=uuid(2),
        ),
        user(uuid(4), uuid(3), 4, [result("toolu_1")]),
        assistant(uuid(5), uuid(4), 5, "A-one"),
        user(uuid(6), uuid(5), 6, "Q-two"),
        assistant(uuid(7), uuid(6), 7, "A-two"),
    ]


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
PLAIN = encoded(talk())
FAMILIES: dict[str, Family] = {
    # sound, or repaired by the client itself
    "plain": Family(PLAIN),
    "tools and thinking": Family(
        encoded(
            talk(
                ("user", "q"),
                ("answer", [THOUGHT, call("toolu_1")]),
                ("user", [result("toolu_1")]),
                ("answer", "k"),
            )
        )
    ),
    "odd ids": Family(PLAIN.replace(uuid(2).encode(), b"two")),
    "orphan within five seconds": Family(changed(2, parentUuid=uuid(99))),
    "circle": Family(changed(0, parentUuid=uuid(4))),
    "repeated lines": Family(PLAIN + PLAIN),
    "no final newline": Family(PLAIN[:-1]),
    "inner entry without time": Family(without("timestamp", 1)),
    "CRLF": Family(PLAIN.replace(b"\n", b"\r\n")),
    "line that is no object": Family(PLAIN + b"42\n"),
    "invalid UTF-8": Family(PLAIN.replace(b"A-one", b"A-one\xff")),
    "call without result": Family(encoded(talk(("user", "q"), ("answer", [call("toolu_1")])))),
    "result without call": Family(encoded(talk(("user", [result("toolu_9")]), ("answer", "k")))),
    "result cut off by a compaction": Family(encoded(compacted()), words=("A-one", "Q-two", "A-two")),
    "two results": Family(encoded(tool_talk(result("toolu_1"), result("toolu_1", "again")))),
    "call before another answer": Family(
        encoded(
            talk(("user", "q"), ("answer", [call("toolu_1")]), ("answer", "k"), ("user", [result("toolu_1")]))
        )
    ),
    "empty text of the user": Family(encoded(talk(("user", "")))),
    "empty block of the user": Family(encoded(talk(("user", [text(""), text("x")]), ("answer", "k")))),
    "empty answer": Family(encoded(talk(("user", "q"), ("answer", [])))),
    "empty result": Family(encoded(tool_talk(result("toolu_1", "")))),
    "empty text in a result": Family(encoded(tool_talk(result("toolu_1", [text("")])))),
    "empty thinking with a signature": Family(
        encoded(talk(("user", "q"), ("answer", [{**THOUGHT, "thinking": ""}, text("k")])))
    ),
    "title glued to an entry": Family(
        replaced(1, PLAIN.splitlines()[1] + b'{"type":"tag","tag":"x","sessionId":"s"}', gap=1)
    ),
    "text that is no entry": Family(PLAIN + b"<<<<<<< HEAD\n"),
    # history is lost
    "orphan after a minute": Family(changed(2, gap=60, parentUuid=uuid(99)), {"history-cut"}),
    "no parents": Family(encoded([{**one, "parentUuid": None} for one in talk()]), {"unlinked-answer"}),
    "circle in the middle": Family(changed(2, gap=60, parentUuid=uuid(4)), {"history-cut"}),
    "no ids": Family(without("uuid", 0, 1, 2), {"missing-id"}),
    "half a line": Family(replaced(1, PLAIN.splitlines()[1][:100]), {"invalid-json"}),
    "glued lines": Family(
        b"".join(PLAIN.splitlines(keepends=True)[:2]) + b"".join(PLAIN.splitlines()[2:]) + b"\n",
        {"glued-objects"},
    ),
    "NUL bytes over a line": Family(replaced(1, bytes(200)), {"nul-run"}),
    "torn tail": Family(PLAIN[:-40], {"torn-tail"}),
    # nothing is found
    "last entry without time": Family(without("timestamp", 3), {"session-not-found"}),
    "no times": Family(without("timestamp", 0, 1, 2, 3), {"session-not-found"}),
    "messages without message": Family(without("message", 0, 1, 2, 3), {"nothing-said"}),
    # the API refuses it for ever
    "empty prompt alone": Family(encoded(talk(("user", ""), ("answer", "k"))), {"api-empty-content"}),
    "blank text before a call": Family(
        encoded(
            talk(
                ("user", "q"),
                ("answer", [text(" "), call("toolu_1")]),
                ("user", [result("toolu_1")]),
                ("answer", "k"),
            )
        ),
        {"api-empty-text"},
    ),
    "unsigned thinking": Family(
        encoded(talk(("user", "q"), ("answer", [{"type": "thinking", "thinking": "hm"}, text("k")]))),
        {"api-unsigned-thinking"},
    ),
    "emptied thinking": Family(
        encoded(talk(("user", "q"), ("answer", [{"type": "thinking", "signature": "s"}, text("k")]))),
        {"api-emptied-thinking"},
    ),
    "empty image": Family(
        encoded(talk(("user", [image(""), text("x")]), ("answer", "k"))), {"api-empty-image"}
    ),
    "empty image in a result": Family(
        encoded(tool_talk(result("toolu_1", [image("")]))), {"api-empty-image"}
    ),
    "image that is not base64": Family(
        encoded(talk(("user", [image("iVBORw0KGgo[REDACTED]AAA"), text("x")]), ("answer", "k"))),
        {"api-damaged-image"},
    ),
    "image over 5 MB": Family(
        encoded(talk(("user", [image("A" * 5_242_884), text("x")]), ("answer", "k"))), {"api-oversize-image"}
    ),
    "image over 8000 pixels": Family(
        encoded(talk(("user", [image(png(9000, 10)), text("x")]), ("answer", "k"))), {"api-oversize-image"}
    ),
    "bad call id": Family(encoded(tool_talk(result("a b"), name="a b")), {"api-bad-call-id"}),
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Client 2.1.325 alone: its way of resuming is what check goes by."""
    command = command_of("2.1.325")
    with running_stub() as stub:
        yield Client("2.1.325", command, tmp_path / "client", stub)


@pytest.mark.parametrize("name", FAMILIES)
def test_an_error_is_a_loss_and_no_error_is_none(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Errors are exactly those of the family; and only with errors the client loses, fails or is refused."""
    family = FAMILIES[name]
    log = tmp_path / "claude" / "projects" / "-srv-app" / f"{SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(family.log)
    home = Home(tmp_path / "claude", data=tmp_path / "data")
    findings = check(home, [home.session(SESSION)], data=tmp_path / "data").findings
    errors = {one.code for one in findings if one.severity == Severity.ERROR}
    given = family.log.decode("latin-1") + repr(family.words)
    trouble = recorded(
        f"check: {name}",
        given,
        lambda: trouble_with(request.getfixturevalue("client"), SESSION, family.log, family.words),
    )

    assert (family.errors, bool(family.errors)) == (errors, bool(trouble)), trouble


@pytest.mark.parametrize("with_rival", [False, True])
def test_an_empty_log_captures_continue(with_rival: bool, client: Client, tmp_path: Path) -> None:
    """With it the client starts from nothing and says nothing; check says so."""
    log = client.put(SESSION, [])
    log.write_bytes(PLAIN.replace(b'"/srv/app"', json.dumps(str(client.cwd)).encode()))
    os.utime(log, (1_900_000_000, 1_900_000_000))
    if with_rival:
        rival = client.put(RIVAL, [])
        os.utime(rival, (1_900_000_100, 1_900_000_100))
    home = Home(client.config, data=tmp_path / "data")
    codes = check(home, data=tmp_path / "data", with_secrets=False).summary.by_code
    client.ask(NEW_PROMPT, "--continue")
    is_lost = "Q-one" not in json.dumps(client.stub.conversations())

    assert (with_rival, with_rival) == ("captures-continue" in codes, is_lost)


PLAIN_SHAPES = ("plain", "compacted", "branched")


@pytest.mark.parametrize("name", [*PLANTS, *ENDS])
@pytest.mark.parametrize("shape", PLAIN_SHAPES)
def test_planted_damage_is_an_error_where_the_client_loses_by_it(
    shape: str, name: str, request: pytest.FixtureRequest
) -> None:
    """Every kind of damage, in several shapes of logs: errors are reported exactly where the client has trouble."""
    log = planted(shape, [name])
    has_errors = any(CODES[code].severity == Severity.ERROR for code in log.codes)
    given = log.data.decode("latin-1") + repr(log.words)
    trouble = recorded(
        f"planted: {shape}, {name}",
        given,
        lambda: trouble_with(request.getfixturevalue("client"), SESSION, log.data, tuple(log.words)),
    )

    assert has_errors == bool(trouble), trouble
