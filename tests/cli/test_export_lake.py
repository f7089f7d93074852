"""``data parquet`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.cli.main import main


def test_the_report_says_what_was_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--home", ":sample", "--data", str(tmp_path / "data"), "data", "parquet"]
    assert 0 == main([*words, "--to", str(tmp_path / "lake"), "--json"])
    report = json.loads(capsys.readouterr().out)
    found = sorted(
        str(path.relative_to(tmp_path / "lake")) for path in (tmp_path / "lake").rglob("*.parquet")
    )
    assert found == sorted(report["written"])
    assert str(tmp_path / "lake") == report["output"]
    assert 0 == main([*words, "--to", str(tmp_path / "lake")])
    assert "wrote 0 files" in capsys.readouterr().out
