"""How often our list of messages is one that the client's request allows.

The given cases and the recorded answers are compared as they are. With ``RECOLLECT_TORTURE=1`` and a client also
logs that it was never asked about, and real sessions.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator

from tests.needs import TRANSCRIPTS
from tests.oracle.asked import ours, theirs
from tests.oracle.rates.rate import Rate
from tests.oracle.stand_ins import is_allowed
from tests.oracle.wild_answers import KNOWN_DIFFERENCES, answers, is_same
from tests.oracle.wild_logs import wild_log
from tests.talk import encoded

CASES = TRANSCRIPTS / "oracle" / "cases" / "graphs.jsonl.gz"
CORPUS = TRANSCRIPTS / "corpus"
FRESH = int(os.environ.get("RECOLLECT_FRESH", "60"))


def measure() -> Iterator[Rate]:
    """Every rate that can be measured on this machine."""
    if CASES.exists():
        yield _given()
    yield _recorded()
    if os.environ.get("RECOLLECT_TORTURE") and os.environ.get("RECOLLECT_CLIENTS"):
        yield _fresh()
        if CORPUS.exists():
            yield _real()


def _given() -> Rate:
    differing, total = [], 0
    with gzip.open(CASES, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            total += 1
            if ours(row["log"].encode("utf-8", "surrogatepass")) not in row["expected"]:
                differing.append(f"{row['seed']}: {' '.join(row['troubles'])}")
    return Rate("conversation: given wild logs", total - len(differing), total, 0.99, tuple(differing))


def _recorded() -> Rate:
    rows = answers()
    differing = [number for number, row in rows.items() if not is_same(number, row)]
    why = tuple(f"{number}: {KNOWN_DIFFERENCES.get(number, 'reason not known')}" for number in differing)
    return Rate("conversation: recorded wild logs", len(rows) - len(differing), len(rows), 0.99, why)


def _fresh() -> Rate:
    first = max(answers()) + 1
    logs = {number: wild_log(number) for number in range(first, first + FRESH)}
    differing = [
        f"{number}: {' '.join(names)}"
        for number, (names, lines) in logs.items()
        if ours(encoded(lines)) not in theirs(encoded(lines))
    ]
    return Rate("conversation: wild logs asked now", FRESH - len(differing), FRESH, 0.99, tuple(differing))


def _real() -> Rate:
    logs = [
        log
        for log in sorted(CORPUS.rglob("*.jsonl"))
        if not log.name.startswith("agent-") and "other-agents" not in log.parts
    ]
    differing = [
        f"{log.relative_to(CORPUS)}"
        for log in logs
        if not is_allowed(ours(log.read_bytes()), theirs(log.read_bytes()))
    ]
    return Rate("conversation: real sessions", len(logs) - len(differing), len(logs), 0.95, tuple(differing))
