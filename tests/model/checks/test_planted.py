"""Planted damage: check reports exactly what was planted, and a repair touches nothing else."""

from __future__ import annotations

import json
import os

import pytest
from msgspec import structs

from recollect.model.checks.rules import CODES, Severity
from recollect.model.repair.plan import Diagnosis, diagnosed
from tests.model.checks.planted import (
    ENDS,
    PLANTS,
    SESSION,
    SHAPES,
    Log,
    combined,
    planted,
    sound,
    touched,
)
from tests.model.repair.mended_bytes import output, source_of

COMBINED = 5_000 if os.environ.get("RECOLLECT_TORTURE") else 150
# Their damage is not in a log, or takes too much of it.
ELSEWHERE = {"oversize-line", "api-not-checked", "no-conversation", "nothing-said", "empty-log"}
OF_THE_SHAPE = {"result-cut-off", "result-not-reached"}


def diagnosis_of(log: Log) -> Diagnosis:
    return diagnosed(structs.replace(source_of(log.data, SESSION), log=log.identity))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sound_log_has_no_findings(shape: str) -> None:
    """Whatever its shape."""
    assert [diagnosis_of(sound(shape, seed)).findings for seed in range(5)] == [()] * 5


@pytest.mark.parametrize("name", [*PLANTS, *ENDS])
def test_planted_damage_is_reported_and_nothing_else(name: str) -> None:
    """In every shape of log."""
    logs = {shape: planted(shape, [name]) for shape in SHAPES}

    assert {shape: set(diagnosis_of(log).counts) for shape, log in logs.items()} == {
        shape: log.codes for shape, log in logs.items()
    }


def test_damage_of_several_kinds_is_reported_and_nothing_else() -> None:
    """Two or three at a time: every code that was planted, and no other."""
    wrong = [
        (shape, names, log.codes ^ set(diagnosis_of(log).counts))
        for shape, names, log in combined(COMBINED)
        if log.codes != set(diagnosis_of(log).counts)
    ]

    assert wrong == []


def test_a_repair_touches_only_lines_with_an_error_and_brings_back_every_message() -> None:
    """The bytes of all other lines stay; no error is left, and what the log holds is sent."""
    mended = 0
    for shape, names, log in combined(COMBINED, seed=1):
        diagnosis = diagnosis_of(log)
        assert (touched(log, diagnosis), diagnosis.refusal) == ([], ()), (shape, names)
        if diagnosis.repair is None or "missing-id" in log.codes:
            continue
        mended += 1
        result = output(diagnosis.repair)
        after = diagnosed(structs.replace(source_of(result, SESSION), log=log.identity))
        sent = json.dumps(after.scan.resumed.messages)
        assert not [one for one in after.findings if one.severity is Severity.ERROR], (shape, names)
        assert not [word for word in log.words if word.encode() in result and word not in sent], (
            shape,
            names,
        )
    assert mended > COMBINED / 3


def test_every_code_of_a_log_is_planted() -> None:
    """Those of homes and of whole logs have their cases in tests/ask/doctor."""
    planned = {code for name in [*PLANTS, *ENDS] for code in planted("plain", [name]).codes}
    of_homes = {code for code, rule in CODES.items() if list(CODES).index(code) >= _first_of_homes()}

    assert set(CODES) - planned - of_homes == ELSEWHERE | OF_THE_SHAPE


def _first_of_homes() -> int:
    return list(CODES).index("captures-continue")
