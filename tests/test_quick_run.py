"""What ``make test-quick`` leaves out."""

from __future__ import annotations

import os
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


@pytest.mark.slow
def test_what_fails_before_or_after_a_test_is_told_by_a_process_of_xdist(tmp_path: Path) -> None:
    """Set-up and the rest of a test are reported only if they fail or take time: none that fails may be lost."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_ends.py").write_text(_ENDS)
    alone = ("-c", os.devnull, "--rootdir", str(tmp_path), "-p", "tests.conftest", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-n", "1", *alone, str(tmp_path / "tests")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(TESTS).parent)

    assert "1 failed, 2 passed, 1 skipped, 2 errors" in done.stdout, done.stdout + done.stderr
    assert ("at the end" in done.stdout, "at the start" in done.stdout) == (True, True)


_ENDS = """
import pytest
from tests import conftest

conftest.SHOWN_SECONDS = 3600  # whatever takes time on this machine

@pytest.fixture
def bad_end():
    yield
    raise ValueError("at the end")

@pytest.fixture
def bad_start():
    raise ValueError("at the start")

def test_passes(): pass
def test_bad_end(bad_end): pass
def test_bad_start(bad_start): pass
def test_fails(): assert False
def test_skips(): pytest.skip("here")
"""
