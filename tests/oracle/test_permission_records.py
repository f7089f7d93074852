"""Our decisions against those of the real client, call by call: never laxer, and nearly always the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from recollect.model.settings.decision import Verdict
from tests.oracle.permission_cases import CaseGenerator
from tests.oracle.permission_records import asked, our_verdicts, recorded_cases
from tests.oracle.rates.permissions import rates, shared_verdicts, shown


def test_no_recorded_call_is_decided_laxer_than_the_client_decides(tmp_path: Path) -> None:
    """At least a thousand calls of our own generator: not one laxer, and 97 of 100 the same."""
    never_laxer, same = rates("recorded", our_verdicts(recorded_cases(), tmp_path))

    assert () == never_laxer.differences
    assert (True, True) == (never_laxer.total >= 1000, same.is_met), same.share


@pytest.mark.transcripts
def test_no_shared_case_is_decided_laxer_than_the_client_decides() -> None:
    """The decisions that were collected elsewhere, in their own world."""
    never_laxer, same = rates("shared", shared_verdicts())

    assert ((), True) == (never_laxer.differences, same.is_met), same.share


@pytest.mark.torture
def test_calls_that_were_never_asked_before_are_not_decided_laxer(tmp_path: Path) -> None:
    """Compositions of another seed every time, asked of the client now."""
    seed = random.SystemRandom().randrange(10**6)
    fresh = (case for case in CaseGenerator(seed).cases() if case["group"].startswith("composed"))
    decided = our_verdicts(asked(fresh), tmp_path)
    laxer = [
        shown(case, ours)
        for case, ours in decided
        if Verdict(ours).strictness < Verdict(case["client"]).strictness
    ]

    assert [] == laxer, f"seed {seed}"
