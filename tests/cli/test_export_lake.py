"""``export --format parquet`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["@last"], "exports all sessions"),
        (["--project", "shop"], "exports all sessions"),
        (["--output", "x.parquet"], "writes a directory"),
        (["--no-redact"], "texts are always redacted"),
    ],
)
def test_options_of_other_formats_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], said: str
) -> None:
    assert 2 == main(["--home", ":sample", "--data", str(tmp_path), "export", "--format", "parquet", *words])
    assert said in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("words", [["--to", "DIR"], ["--text"]])
def test_options_of_parquet_are_refused_elsewhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str]
) -> None:
    assert 2 == main(["--home", ":sample", "--data", str(tmp_path), "export", "@last", *words])
    assert f"{words[0]}: is for --format parquet" in capsys.readouterr().err


def test_the_report_says_what_was_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--home", ":sample", "--data", str(tmp_path / "data"), "export", "--format", "parquet"]
    assert 0 == main([*words, "--to", str(tmp_path / "lake"), "--json"])
    report = json.loads(capsys.readouterr().out)
    found = sorted(
        str(path.relative_to(tmp_path / "lake")) for path in (tmp_path / "lake").rglob("*.parquet")
    )
    assert found == sorted(report["written"])
    assert str(tmp_path / "lake") == report["output"]
    assert 0 == main([*words, "--to", str(tmp_path / "lake")])
    assert "wrote 0 files" in capsys.readouterr().out
