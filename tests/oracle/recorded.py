"""What client 2.1.325 did with fixed input, written down once.

One version of the client always does the same with the same bytes, so asking it again every day proves nothing
about our code. The daily run compares us with the record, also where no client is installed. A torture run
(``make oracle``) asks the client itself and compares the record with it. After a case was added or changed,
write the record again::

    RECOLLECT_CLIENTS=DIR RECOLLECT_RECORD=1 pytest -n 0 tests/oracle/test_check.py

The answers come from the client, never from our own code.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).resolve().parents[1] / "data" / "client_answers.json"


def recorded(case: str, given: str, ask: Callable[[], Any]) -> Any:
    """The client's answer in this case. ``given`` is everything the answer depends on, as a text."""
    digest = hashlib.blake2b(given.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    if os.environ.get("RECOLLECT_RECORD"):
        _write(case, [digest, ask()])
    known, answer = _records().get(case, ("", None))
    assert known == digest, f"{case}: not recorded, or changed since; {__name__} says how to record it"
    if os.environ.get("RECOLLECT_TORTURE"):
        assert answer == ask(), f"{case}: the client does something else than what is recorded"
    return answer


@functools.cache
def _records() -> dict[str, Any]:
    records: dict[str, Any] = json.loads(RECORDS.read_text(encoding="utf-8"))
    return records


def _write(case: str, record: list[Any]) -> None:
    records = {**(_records() if RECORDS.exists() else {}), case: record}
    rows = [f"{json.dumps(name)}: {json.dumps(records[name])}" for name in sorted(records)]
    RECORDS.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    _records.cache_clear()
