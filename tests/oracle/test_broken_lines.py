"""Which lines of a broken log client 2.1.325 reads: ours are the same, and so are those of ``tests.client_parser``.

Each log is a talk of six lines, T1 to T6, with one place of trouble. A line that is lost is bridged by the
five-second rule, so the texts that the client sends on resume are the lines it read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from recollect.model.lines.damage import readable_entries
from recollect.model.lines.json_text import loose_object
from recollect.store.logs.reader import LogReader
from tests.client_parser import client_lines
from tests.oracle.client_runner import Client, running_stub
from tests.oracle.conftest import command_of
from tests.oracle.recorded import recorded
from tests.talk import assistant, user

SESSION = "5f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c22"
BOM = b"\xef\xbb\xbf"


def _line(number: int) -> bytes:
    make = assistant if number % 2 == 0 else user
    parent = f"n{number - 1}" if number > 1 else None
    return msgspec.json.encode({**make(f"n{number}", parent, number, f"T{number}T"), "sessionId": SESSION})


T1, T2, T3, T4, T5, T6 = (_line(number) for number in range(1, 7))
BEFORE, AFTER = T1 + b"\n" + T2 + b"\n", b"\n" + T4 + b"\n" + T5 + b"\n" + T6 + b"\n"


def _cut(after: bytes) -> tuple[bytes, bytes]:
    """The third line in two parts."""
    at = T3.index(after) + len(after)
    return T3[:at], T3[at:]


MEMBER, COMMA, NAME = (_cut(word) for word in (b'"message":', b'"isSidechain":false,', b'"cwd"'))
SPREAD = msgspec.json.format(T3, indent=2)
IN_LIST = b'{"type":"x","a":['

# What stands where the third line would, between whole ones.
INSIDE = {
    "nothing wrong": T3,
    "over several lines": SPREAD,
    "over lines, then more": SPREAD + b" garbage",
    "over lines, then an object": SPREAD + T4,
    "cut after a comma": COMMA[0] + b"\n" + COMMA[1],
    "cut before a comma": COMMA[0][:-1] + b"\n," + COMMA[1],
    "cut before its last bracket": T3[:-1] + b"\n}",
    "blank lines inside": COMMA[0] + b"\n\n  \r\n" + COMMA[1],
    "torn after a comma": COMMA[0],
    "torn after a colon": MEMBER[0],
    "torn in a string": T3[: T3.index(b"T3T") + 1],
    "torn after a name": NAME[0],
    "torn before its last bracket": T3[:-1],
    "torn in a list": IN_LIST,
    "an error on a later line": b'{"type":"x",\n"a":1,\n"b":2 "c"\n' + T3,
    "a list over lines": b"[\n" + T3 + b"\n]",
    "a list that is not closed": b"[\n" + T3,
    "a list on one line": b"[" + T3 + b"]",
    "garbage before": b"garbage" + T3,
    "blanks before": b"  \t" + T3,
    "a vertical tab before": b"\x0b" + T3,
    "a wide blank before": b"\xc2\xa0" + T3,
    "a byte order mark before": BOM + T3,
    "NULs before": b"\0\0" + T3,
    "NULs after": T3 + b"\0\0",
    "NULs on a line": b"\0\0\0\n" + T3,
    "a NUL in a string": T3.replace(b"T3T", b"T3T\0x"),
    "a tab in a string": T3.replace(b"T3T", b"T3T\tx"),
    "a newline in a string": T3.replace(b"T3T", b"T3T\nx"),
    "two objects": T3 + _line(3).replace(b"T3T", b"T9T"),
    "two objects and a comma": T3 + b"," + T3,
    "a bracket after": T3 + b"}",
    "a comma after": T3 + b",",
    "a comma before the last bracket": T3[:-1] + b",}",
    "a number before": b"42 " + T3,
    "a string before": b'"x"' + T3,
    "null before": b"null" + T3,
    "a number on a line": b"42\n" + T3,
    "half a number on a line": b"-\n" + T3,
    "half a word, the rest below": b"tru\ne" + T3,
    "a line separator": T3 + b"\xe2\x80\xa8" + T4,
    "a leading zero": T3[:-1] + b',"x":01}',
    "not a number": T3[:-1] + b',"x":NaN}',
    "a huge number": T3[:-1] + b',"x":1e999,"y":123456789012345678901234567890}',
    "bytes that are not UTF-8": T3.replace(b"T3T", b"T3T\xff\xfe"),
    "bytes that are not UTF-8 after": T3 + b"\xff\xfe",
    "a CR between": T3 + b"\r" + T4,
}
WHOLE = BEFORE + T3 + AFTER
ELSEWHERE = {
    "CRLF everywhere": WHOLE.replace(b"\n", b"\r\n"),
    "a byte order mark first": BOM + WHOLE,
    "two byte order marks first": BOM + BOM + WHOLE,
    "a byte order mark and a blank line first": BOM + b" \n" + WHOLE,
    "NULs first": b"\0\0" + WHOLE,
    "garbage first": b"garbage\n" + WHOLE,
    "no newline at the end": WHOLE[:-1],
    "garbage at the end": WHOLE[:-1] + b"garbage",
    "half an object at the end": WHOLE[:-1] + b'{"half',
    "NULs at the end": WHOLE[:-1] + b"\0\0",
    "an object unfinished at the end": WHOLE[:-2],
    "an object over lines at the end": BEFORE + T3 + b"\n" + msgspec.json.format(T4, indent=1),
    "a list unfinished at the end": BEFORE + IN_LIST + b"\n" + T4 + b"\n",
    "a list unfinished, one line more": BEFORE + IN_LIST + b"\n" + T4 + b"\n" + T5 + b"\n",
    "a list unfinished at the end, no newline": BEFORE + IN_LIST + b"\n" + T4,
    "a list that swallows lines": BEFORE + IN_LIST + b"\n" + T3 + b",\n" + T4 + b"\n]}\n" + T5 + b"\n",
}
CASES = {**{name: BEFORE + text + AFTER for name, text in INSIDE.items()}, **ELSEWHERE}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    command = command_of("2.1.325")
    with running_stub() as stub:
        yield Client("2.1.325", command, tmp_path / "client", stub)


def _numbers(text: str) -> list[int]:
    return sorted({int(number) for number in re.findall(r"T(\d)T", text)})


def _resumed(client: Client, log: bytes) -> list[int] | None:
    client.put(SESSION, []).write_bytes(log)
    client.ask("GO", "--resume", SESSION)
    sent = client.stub.conversations()
    return _numbers(msgspec.json.encode(sent[-1]).decode()) if sent else None


@pytest.mark.parametrize("name", CASES)
def test_the_lines_that_are_read_are_the_clients(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """By our reader, and by the reference that other tests compare it with."""
    data = CASES[name]
    theirs = recorded(
        f"lines: {name}",
        data.decode("latin-1"),
        lambda: _resumed(request.getfixturevalue("client"), data),
    )
    log = tmp_path / "log.jsonl"
    log.write_bytes(data)

    ours = [entry.uuid for entry in readable_entries(LogReader(log)) if entry.uuid]
    objects = [
        loose_object(data[line.start : line.value_end])
        for line in client_lines(data)[0]
        if line.value_end is not None and line.is_object
    ]
    uuids = [f"n{number}" for number in theirs]
    assert (uuids, uuids) == (ours, [one["uuid"] for one in objects if "uuid" in one])
