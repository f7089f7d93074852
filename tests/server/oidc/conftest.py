"""The real provider, where it was fetched, and one that says whatever a test wants."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from joserfc import jwk

from recollect.server.identity_provider import ProviderSettings
from tests.server.oidc.odd_provider import OddProvider
from tests.server.team_page import ORIGIN

GROUPS = {"ada-1": ["staff", "bosses", "search"], "bob-2": ["staff"], "eve-3": ["strangers"]}


class RealProvider:
    """A running oidc-provider."""

    def __init__(self, issuer: str, client_secret: str) -> None:
        self.issuer, self.client_secret = issuer, client_secret

    def settings(self, organisation: str, **more: object) -> ProviderSettings:
        return provider_settings(organisation, self.issuer, **more)


def provider_settings(organisation: str, issuer: str, **more: object) -> ProviderSettings:
    values = {
        "scopes": ("openid", "profile", "groups"),
        "roles": {"staff": "member", "bosses": "admin"},
        "teams": {"search": "Search"},
        **more,
    }
    return ProviderSettings(organisation, issuer, "recollect", **values)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def real_provider() -> Iterator[RealProvider]:
    place = os.environ.get("RECOLLECT_OIDC_PROVIDER", "")
    node = shutil.which("node")
    if not node or not Path(place, "node_modules", "oidc-provider").is_dir():
        pytest.skip(
            "RECOLLECT_OIDC_PROVIDER names no fetched provider: tools/fetch_oidc_provider.sh DIRECTORY"
        )
    key = jwk.RSAKey.generate_key(2048, parameters={"kid": "first", "use": "sig", "alg": "RS256"})
    settings = {
        "client_id": "recollect",
        "client_secret": secrets.token_urlsafe(32),
        "redirect_uris": [f"{ORIGIN}/oidc/callback"],
        "jwks": {"keys": [key.as_dict(private=True)]},
        "cookie_keys": [secrets.token_urlsafe(32)],
        "groups": GROUPS,
    }
    script = str(Path(__file__).with_name("provider.mjs"))
    process = subprocess.Popen(
        [node, script, place, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = next(line for line in process.stdout if line.startswith(b"{"))
        yield RealProvider(f"http://127.0.0.1:{json.loads(said)['port']}", str(settings["client_secret"]))
    finally:
        process.stdin.close()  # it ends by itself
        process.wait(30)
        process.stdout.close()


@pytest.fixture
def odd_provider() -> Iterator[OddProvider]:
    with OddProvider() as provider:
        yield provider
