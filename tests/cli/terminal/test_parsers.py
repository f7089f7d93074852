"""What a command says about words that are missing."""

from __future__ import annotations

import pytest

from recollect.cli.main import main


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("config", "one of check, restore"),
        ("sync", "one of login, push, pull, status, watch, rotate, tokens, revoke"),
        ("archive", "ACTION"),
        ("tag", "S, TAG"),
    ],
)
def test_a_missing_word_is_named_by_its_choices(
    command: str, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What may be left out is not called required."""
    with pytest.raises(SystemExit):
        main([command])

    assert capsys.readouterr().err.endswith(f"the following arguments are required: {missing}\n")
