"""Rows of sessions on a narrow terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.cli.terminal import output


def test_every_row_names_its_agent_where_there_is_room_for_little_else(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of these is a fork: the note about it gives way, the agent does not."""
    monkeypatch.setattr(output, "columns", lambda: 80)
    home = shared / "dialects" / "samples" / "qwen-0.24.4" / ".qwen"
    assert main(["--home", str(home), "--data", str(tmp_path), "list"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) > 5
    assert all("  qwen" in row and len(row) <= 80 for row in rows)
