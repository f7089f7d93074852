"""The allow list in our own settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.errors import UsageError
from recollect.store.own_settings import ignored_secrets


def settings(own_home: Path, text: str) -> None:
    file = own_home / "xdg-config" / "recollect" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)


def test_the_list(own_home: Path) -> None:
    """Kind and fingerprint, as they are printed."""
    settings(own_home, '[secrets]\nignore = ["jwt:1a2b3c4d", "1password-secret-key:00ff00ff"]')

    assert {"jwt:1a2b3c4d", "1password-secret-key:00ff00ff"} == ignored_secrets()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("secrets = 3", "is not a section"),
        ("[secrets]\nignore = 'jwt:1a2b3c4d'", "is not a list"),
        ("[secrets]\nignore = ['jwt:1a2b3c4d', 'jwt']", "entry 2 is not a kind"),
        ("[secrets]\nignore = [3]", "entry 1 is not a kind"),
        ("[secrets]\nignore = ['jwt:1A2B3C4D']", "entry 1 is not a kind"),
        ("[secrets", "not a TOML file"),
    ],
)
def test_a_list_that_cannot_be_understood_is_an_error(own_home: Path, text: str, words: str) -> None:
    """With the place and what to write."""
    settings(own_home, text)
    with pytest.raises(UsageError, match=words):
        ignored_secrets()


def test_an_entry_is_not_shown(own_home: Path) -> None:
    """Somebody may have put the secret itself there."""
    settings(own_home, "[secrets]\nignore = ['my-very-own-secret']")
    with pytest.raises(UsageError) as caught:
        ignored_secrets()

    assert "very-own" not in str(caught.value)
