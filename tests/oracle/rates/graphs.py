"""How often our list of messages is one that the client's request allows."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.errors import NotFound
from recollect.services.homes import Home
from tests.oracle.rates.rate import Rate
from tests.oracle.what_is_sent import as_blocks

CASES = Path(__file__).resolve().parents[4] / "shared" / "oracle" / "cases" / "graphs.jsonl.gz"
SESSION = "5f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c22"


def rows(path: Path = CASES) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def ours(log: str) -> list[dict[str, Any]] | None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "claude" / "projects" / "-srv-app" / f"{SESSION}.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(log.encode("utf-8", "surrogatepass"))
        try:
            return as_blocks(Home(path.parents[2]).session(str(path)).conversation().to_api())
        except NotFound:
            return None


def measure() -> Iterator[Rate]:
    same, differ = 0, []
    total = 0
    for row in rows():
        total += 1
        if ours(row["log"]) in row["expected"]:
            same += 1
        else:
            differ.append(f"{row['seed']}: {' '.join(row['troubles'])}")
    yield Rate("conversations of wild logs", same, total, 0.99, tuple(differ))
