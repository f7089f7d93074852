"""Tokens as people get and replace them: rotation, warnings before the end, sign-in at an identity provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from recollect.cli.main import main
from recollect.store.own_settings import SyncLogin, load_login, save_login
from tests.cli.test_sync import typed
from tests.server.live import LiveServer
from tests.server.oidc.browser import Browser
from tests.server.oidc.conftest import RealProvider, real_provider
from tests.share.sync.conftest import Team, sqlite_at, team

__all__ = ["real_provider", "team"]
DAY = 86_400_000


def test_a_token_is_replaced_and_saved(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new one is in the login and works; neither is shown. Another machine with the old one is told what happened."""
    typed(monkeypatch, f"{team.token()}\n")
    assert main(["team", "login", team.url]) == 0
    old = load_login()
    assert main(["team", "rotate", "--overlap", "2"]) == 0
    said = capsys.readouterr()
    new = load_login()
    assert new == replace(old, token=new.token)
    assert new.token != old.token
    assert not {old.token, new.token} & set(said.out.split())
    assert "The old one works until " in said.out
    assert main(["team", "list"]) == 0
    capsys.readouterr()
    save_login(old)
    assert main(["team", "rotate"]) == 2
    assert "was replaced before, and its replacement is in use" in capsys.readouterr().err
    save_login(new)
    assert main(["team", "rotate", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["address"], document["expires"], document["old_until"] > 0) == (team.url, None, True)
    assert main(["team", "rotate", "--overlap", "721"]) == 2


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (15 * DAY, ""),
        (3 * DAY + DAY // 2, "your token expires in 3 days: `recollect team rotate` replaces it"),
        (DAY // 2, "your token expires today: `recollect team rotate` replaces it"),
        (-DAY, "your token has expired: `recollect team login` again"),
        (None, ""),
    ],
)
def test_the_end_of_a_token_is_told_before(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str], left: int | None, told: str
) -> None:
    """From two weeks before, on stderr, by status as by push; the document has the time."""
    end = None if left is None else time.time_ns() // 1_000_000 + left
    save_login(SyncLogin("http://127.0.0.1:1", "rcl_x", "laptop", expires=end))
    (own_home / ".claude" / "projects").mkdir(parents=True)
    for words in (["status", "--json"], ["push"]):
        assert main(["team", *words]) == 0
        said = capsys.readouterr()
        assert said.err.strip() == told
        if "--json" in words:
            assert json.loads(said.out)["token_expires"] == end


def test_without_an_identity_provider_it_is_said(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["team", "login", team.url, "--sso"]) == 3
    assert "has no identity provider" in capsys.readouterr().err


@pytest.fixture(scope="module")
def sso_server(tmp_path_factory: pytest.TempPathFactory, real_provider: RealProvider) -> Iterator[LiveServer]:
    """A server as an operator starts it, with a file of providers."""
    place = tmp_path_factory.mktemp("sso")
    address = sqlite_at(place)
    secret = place / "client-secret"
    secret.write_text(real_provider.client_secret)
    file = place / "oidc.toml"
    file.write_text(
        f'''[[provider]]
organisation = "Acme"
issuer = "{real_provider.issuer}"
client_id = "recollect"
client_secret_file = "{secret}"
scopes = ["openid", "profile", "groups"]
[provider.roles]
staff = "member"
'''
    )
    assert main(["team", "admin", "org", "add", "Acme", "--database", address]) == 0
    with LiveServer(address, place, "--oidc", str(file)) as server:
        yield server


def test_a_machine_is_logged_in_by_its_owner_in_a_browser(
    sso_server: LiveServer, real_provider: RealProvider, own_home: Path
) -> None:
    """`sync login --sso` says where to go, waits, and saves the token; `sync status` then works with it."""
    words = [sys.executable, "-m", "recollect", "team", "login", sso_server.url, "--sso", "--machine", "box"]
    process = subprocess.Popen(
        [*words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stderr is not None
    link = (
        next(line for line in process.stderr if line.startswith("or open ")).removeprefix("or open ").strip()
    )
    browser = Browser("bob-2")
    browser.visit(link, real_provider.issuer)
    browser.close()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    document = json.loads(out)
    assert (document["organization"], document["person"], document["scopes"], document["machine"]) == (
        "Acme",
        "bob",
        ["read", "write"],
        "box",
    )
    login = load_login()
    assert login.token not in out + err
    assert login.expires is not None
    assert main(["team", "list"]) == 0
