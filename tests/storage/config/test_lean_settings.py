"""Settings that can hold no prices are told apart from those that may."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.storage.config.lean_settings import may_have_prices


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ('[sync]\nserver = "https://example.org"\n', False),
        ('[prices."claude-nightly"]\ninput = 3\n', True),
        ('["pr\\u0069ces".x]\ninput = 3\n', True),
        ("[prices", True),
    ],
)
def test_a_file_without_the_word_sets_no_price(tmp_path: Path, text: str, expected: bool) -> None:
    """A key written with an escape is the same key."""
    (tmp_path / "config.toml").write_text(text)

    assert expected == may_have_prices(str(tmp_path / "config.toml"))


def test_what_is_not_there_sets_no_price_and_what_cannot_be_read_may(tmp_path: Path) -> None:
    """The proper reader says what is wrong with it."""
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    names = ["none", "file/below", "directory"]

    assert [False, False, True] == [may_have_prices(str(tmp_path / name)) for name in names]
