"""What ``make test-quick`` leaves out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SLOW_TESTS, TESTS


def test_every_slow_test_that_is_listed_exists() -> None:
    """A test that was renamed is measured again, or its line goes."""
    files = {name: (TESTS.parent / name.partition("::")[0]).read_text("utf-8") for name in SLOW_TESTS}
    missing = [
        name
        for name, text in files.items()
        if f"def {name.rpartition('::')[2]}(" not in text and not name.endswith("::runTest")
    ]

    assert [] == missing


@pytest.mark.slow
def test_the_quick_run_starts_no_database() -> None:
    """What a test uses is known before ``-m`` chooses: of three databases the one that is a server is left out."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--collect-only", "-m", "not slow"]
    done = subprocess.run(
        [*command, "tests/server/test_contract_logs.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(TESTS).parent,
    )
    chosen = [line for line in done.stdout.splitlines() if "::" in line]

    assert 0 == done.returncode, done.stdout + done.stderr
    assert any("[sqlite" in line for line in chosen)
    assert not any("postgres" in line for line in chosen)
