"""The file of identity providers: what it may say, and what is refused before the server starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.errors import RecollectError, UsageError
from recollect.server.identity_provider import load_providers

GOOD = """
[[provider]]
organisation = "Acme"
issuer = "https://login.example.org"
client_id = "recollect"
client_secret_env = "SECRET"
scopes = ["openid", "profile", "groups"]
token_days = 7

[provider.roles]
"eng" = "member"

[provider.teams]
"eng-search" = "Search"
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "oidc.toml"
    path.write_text(GOOD)
    (one,) = load_providers(path)
    assert (one.organisation, one.token_days, one.roles, one.teams) == (
        "Acme",
        7,
        {"eng": "member"},
        {"eng-search": "Search"},
    )
    assert one.secret({"SECRET": "s\n"}) == "s"
    with pytest.raises(UsageError, match="SECRET"):
        one.secret({})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("https://login", "http://login"),
        ('"openid", ', ""),
        ('"member"', '"king"'),
        ("token_days = 7", "token_days = 0"),
        ("token_days = 7", 'token_scopes = ["metrics"]'),
        ("token_days", "token_day"),
        ('client_id = "recollect"\n', ""),
        ("token_days = 7", 'client_secret_file = "/x"'),
        ("[[provider]]", "[[provider"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "oidc.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UsageError, match=r"oidc\.toml") as found:
        load_providers(path)
    assert found.value.hint == "see docs/guides/sign-in.md"


def test_an_organisation_has_one_provider(tmp_path: Path) -> None:
    path = tmp_path / "oidc.toml"
    path.write_text(GOOD + GOOD)
    with pytest.raises(UsageError, match="two providers"):
        load_providers(path)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecollectError, match=r"none\.toml"):
        load_providers(tmp_path / "none.toml")
