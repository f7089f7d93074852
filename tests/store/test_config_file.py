"""A misspelt name in config.toml is an error: a setting that is not understood must not be off silently (law 11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, TALK, put

MISSPELT = {
    "[price]": ("cost", '[price."claude-nightly"]\ninput = 1\noutput = 1\n', "budget, prices, secrets, sync"),
    "[bugdet]": ("limits", "[bugdet]\nday = 20\n", "budget, prices, secrets, sync"),
    "budget.dya": ("limits", "[budget]\ndya = 20\n", "burn_hours"),
    "secrets.ignored": ("secrets", '[secrets]\nignored = ["jwt:1a2b3c4d"]\n', "known are ignore"),
    "[secret]": ("secrets", '[secret]\nignore = ["jwt:1a2b3c4d"]\n', "budget, prices, secrets, sync"),
}


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_name_ends_the_command(
    name: str, own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, with the file, the name and those that exist."""
    command, text, known = MISSPELT[name]
    put(tmp_path / "claude", ONE, TALK)
    file = own_home / "xdg-config" / "recollect" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)

    assert 2 == main([command, "--home", str(tmp_path / "claude")])
    said = capsys.readouterr().err
    assert [True, True, True] == [words in said for words in (str(file), f"{name} is not known", known)]
