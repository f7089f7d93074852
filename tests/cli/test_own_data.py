"""With --data, a command asks only what lies there."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, TALK, TWO, put


@pytest.mark.parametrize(
    "words",
    [
        ["secrets", "remove", ONE],
        ["doctor", ONE, "--fix"],
        ["rename", ONE, "Other"],
        ["tag", ONE, "work"],
        ["fork", ONE],
        ["rm", ONE],
        ["protect", "now", ONE],
        ["show", ONE],
    ],
    ids=" ".join,
)
def test_an_archive_elsewhere_is_not_asked(
    words: list[str], own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What only the usual archive has is unknown to a command that was given another directory."""
    log = put(own_home / ".claude", ONE, TALK)
    put(own_home / ".claude", TWO, TALK)
    assert 0 == main(["protect", "now", ONE])
    log.unlink()
    capsys.readouterr()

    assert 3 == main(["--data", str(tmp_path / "other"), *words])
    assert "not found" in capsys.readouterr().err
