"""Manual pages, shown by the real man."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from recollect.cli.main import COMMANDS, main
from recollect.cli.shell.man_pages import all_pages


def test_there_is_a_page_for_every_command(tmp_path: Path) -> None:
    assert 0 == main(["man", "--write", str(tmp_path / "man1")])

    assert {"recollect.1", *(f"recollect-{name}.1" for name in COMMANDS)} == set(
        os.listdir(tmp_path / "man1")
    )


def test_man_shows_them_without_a_complaint(tmp_path: Path) -> None:
    """What the help says is on the page, in words; groff has nothing to warn about."""
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("man and groff are not installed: the pages cannot be shown here")
    for name in ("recollect.1", "recollect-search.1", "recollect-completion.1"):
        page = tmp_path / name
        page.write_text(all_pages()[name])
        env = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "TERM": "dumb"}
        shown = subprocess.run(
            ["man", "--warnings=all", "-l", str(page)], env=env, capture_output=True, text=True, check=True
        )
        assert "" == shown.stderr
        assert all(head in shown.stdout for head in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"))
        if name == "recollect-search.1":
            assert "recollect search '\"purple walrus\" NOT test*' --kind prose --since 30d" in shown.stdout
            assert "--substring" in shown.stdout


def test_a_page_in_a_pipe_is_roff_and_a_wrong_name_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["man", "ls"])
    assert '.TH "RECOLLECT-LIST"' in capsys.readouterr().out
    assert 2 == main(["man", "serach"])
    assert "did you mean search?" in capsys.readouterr().err
