"""What client 2.1.325 sent for the logs of ``wild_logs``, as digests: one row a log, recorded once.

    RECOLLECT_CLIENTS=DIR python -m tests.oracle.wild_answers FIRST END

asks the client about the numbers from FIRST up to END and adds them to the record. The answers come from the
client, never from our own code.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.oracle.asked import ours, theirs
from tests.oracle.wild_logs import wild_log
from tests.talk import encoded

RECORD = Path(__file__).resolve().parents[1] / "data" / "wild_answers.json"
# Logs that differ, with the reason.
KNOWN_DIFFERENCES = {
    525: "a note after a result whose call is gone is not gathered",
    615: "a result written long before its answer stands before a note inside that answer",
    648: "of two results for one call the one that hangs off a note is taken",
    5135: "in a circle that a note closes, the walk goes on from the answer and not from the note",
    8292: "a result without a parent is not found for a call whose line has the id null",
    8295: "a note after a result stands beside it and not inside it where answers share an id",
    9008: "reason not known",
    9009: "reason not known",
    9010: "reason not known: a progress line that was written twice, with another parent",
    9030: "reason not known: a call of an earlier answer in an open turn is dropped",
    9121: "reason not known",
    9165: "reason not known",
    9217: "reason not known",
    9224: "reason not known",
}


def digest(value: Any) -> str:
    """A short hash of a log, or of a list of messages."""
    data = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return hashlib.blake2b(data, digest_size=6).hexdigest()


def answers() -> dict[int, list[str]]:
    """By number: the digest of the log, then one of every list that the client's request allows."""
    return {int(number): row for number, row in json.loads(RECORD.read_text(encoding="utf-8")).items()}


def is_same(number: int, row: list[str]) -> bool:
    """Whether our list for this log is one of the client's; a log other than the recorded one is an error."""
    log = encoded(wild_log(number)[1])
    assert row[0] == digest(log), f"wild log {number} is not the recorded one"
    return digest(ours(log)) in row[1:]


def write(rows: dict[int, list[str]]) -> None:
    """Store the record, a line a log."""
    lines = [f'"{number}": {json.dumps(rows[number])}' for number in sorted(rows)]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def asked(number: int) -> list[str]:
    """The row of a log, from the client."""
    log = encoded(wild_log(number)[1])
    return [digest(log), *dict.fromkeys(map(digest, theirs(log)))]


if __name__ == "__main__":
    known = answers() if RECORD.exists() else {}
    for one in range(*map(int, sys.argv[1:])):
        known[one] = asked(one)
        write(known)
        print(one, "same" if is_same(one, known[one]) else "DIFFERS", flush=True)
