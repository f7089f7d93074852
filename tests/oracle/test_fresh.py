"""Sessions fresh from real clients are sound: `check` has neither an error nor a warning for them.

The daily run checks what clients 2.0.76, 2.1.197 and 2.1.325 wrote once (``tests/data/fresh_logs.jsonl``, long texts
cut short); ``make oracle`` lets them write again and prints the rates.
"""

from __future__ import annotations

from pathlib import Path

from tests.oracle.fresh import VERSIONS
from tests.oracle.rates.check import recorded_findings


def test_recorded_sessions_have_neither_errors_nor_warnings(tmp_path: Path) -> None:
    """Tools, parallel calls, sub-agents, errors of the API, compaction, forks, interrupted and killed runs."""
    found = dict(recorded_findings(tmp_path))

    assert {
        version: sum(name.startswith(version) for name in found) >= 14 for version in VERSIONS
    } == dict.fromkeys(VERSIONS, True)
    assert {name: findings for name, findings in found.items() if findings} == {}
