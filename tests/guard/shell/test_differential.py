from __future__ import annotations

import os
import shutil

import pytest

from tools.shell_differential import Bench, compare

_COUNT = 100_000 if os.environ.get("RECOLLECT_TORTURE") else 200
"""``tools/shell_differential.py --count 100000`` is the long run."""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_nothing_runs_in_bash_that_the_analyser_did_not_list() -> None:
    """T3: every program a real shell started was foreseen, or the text was unanalysable."""
    report = compare(_COUNT, seed=20_261_116)
    print(report)
    assert (report.texts, report.misses, report.unfinished) == (_COUNT, [], 0)
    assert report.analysable >= 0.4 * report.texts
    assert len(report.unsuspected) <= 0.001 * report.started


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_bench_sees_what_really_runs() -> None:
    """Without this the differential could pass by seeing nothing: markers log their name and arguments."""
    with Bench() as bench:
        assert bench.run(["""X=rm; $X "a b" | r''m""", "false && ls"]) in (
            [[("rm", "a b"), ("rm",)], []],
            [[("rm",), ("rm", "a b")], []],
        )
