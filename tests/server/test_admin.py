"""``recollect team admin``: organisations, members and tokens, straight in the database."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from recollect.cli.main import main


@pytest.fixture
def say(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> object:
    """Run a command on a database of its own; its exit status and what it printed."""
    monkeypatch.setenv("RECOLLECT_DATABASE", f"sqlite:///{tmp_path / 'team.sqlite'}")

    def run(*words: str) -> tuple[int, str]:
        status = main(["team", "admin", *words])
        return status, capsys.readouterr().out

    return run


def test_a_team_is_made_and_changed(say: object) -> None:
    """Every act of the command, its answer, and its row in the audit log."""
    assert callable(say)
    assert say("org", "add", "Acme")[0] == 0
    assert say("user", "add", "Acme", "ada", "--role", "admin")[0] == 0
    token = json.loads(say("token", "add", "Acme", "ada", "--days", "30", "--json")[1])
    assert token["token"].startswith("rcl_")
    assert say("token", "revoke", "Acme", token["id"])[0] == 0
    assert "revoked" in say("token", "list", "Acme")[1]
    assert token["token"] not in say("token", "list", "Acme", "--json")[1]
    assert (
        say("user", "change", "Acme", "ada", "--role", "viewer", "--disable")[1] == "ada: viewer, disabled\n"
    )
    assert say("org", "retention", "Acme", "30")[0] == 0
    assert json.loads(say("org", "list", "--json")[1])["orgs"][0]["retention_days"] == 30
    acts = [act["act"] for act in json.loads(say("audit", "Acme", "--json")[1])["acts"]]
    assert acts == ["org.change", "user.change", "token.revoke", "token.add", "user.add", "org.add"]


def test_a_new_token_can_be_piped(say: object) -> None:
    """Nothing but the token is on stdout: `admin token add ... | sync login URL`."""
    assert callable(say)
    say("org", "add", "Acme")
    say("user", "add", "Acme", "ada", "--role", "admin")

    assert re.fullmatch(r"rcl_\S+\n", say("token", "add", "Acme", "ada")[1])


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("org", "add", "Acme"), 2),
        (("org", "add"), 2),
        (("org", "add", " "), 2),
        (("org", "fly"), 2),
        (("user", "list", "Nobody"), 3),
        (("user", "change", "Acme", "nobody"), 3),
        (("token", "add", "Acme", "ada", "--scope", "fly"), 2),
        (("token", "add", "Acme", "ada", "--days", "0"), 2),
        (("token", "revoke", "Acme", "nothing"), 3),
        (("org", "retention", "Acme", "soon"), 2),
        (("org", "list", "--database", "memory:"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_said(say: object, words: tuple[str, ...], status: int) -> None:
    """By exit status: 2 for a wrong request, 3 for what is not there."""
    assert callable(say)
    say("org", "add", "Acme")
    say("user", "add", "Acme", "ada")
    assert say(*words)[0] == status
