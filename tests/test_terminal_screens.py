"""The screens in the documentation are what the commands show."""

from __future__ import annotations

import os

import pytest

from tools import build_terminal_screens


@pytest.mark.skipif(os.name != "posix", reason="screens are taken from a pseudo-terminal")
def test_the_screens_are_what_commands_show() -> None:
    """``make docs`` writes them, from the sample home, at 80 and at 200 columns."""
    assert build_terminal_screens.PAGE.read_text(encoding="utf-8") == build_terminal_screens.page()
