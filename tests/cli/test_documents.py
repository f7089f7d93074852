"""What commands print with ``--json``: every key, in its order, stays as programs know it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from recollect.sample import sample_home
from tests.share.sync.conftest import Team, team
from tests.surfaces.case import Case

__all__ = ["team"]

KEYS = Path(__file__).resolve().parents[1] / "data" / "document_keys.json"
_SESSION = "3f044e7b"
_SETTINGS = {
    "permissions": {"allow": ["Bash(ls:*)", "Bash(", "Bash(sudo:*)"], "deny": ["Read(./.env)"]},
    "model": "opus",
}
_SERVERS = {
    "mcpServers": {"one": {"command": "echo", "args": ["hi"], "env": {"A": "1"}}, "bad": {"type": "zz"}}
}


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """A copy of the sample with one secret, and a project with settings to stand in."""
    place = tmp_path
    home, project = place / "claude", place / "project"
    shutil.copytree(sample_home(), home)
    for path in home.rglob("*"):
        path.chmod(path.stat().st_mode | 0o600)
    log = next(home.glob(f"projects/*/{_SESSION}*.jsonl"))
    line = json.loads(log.read_text().splitlines()[-1])
    secret = "AKIA" + "QYLPMN5HHHFPZAM2"
    line |= {"type": "user", "uuid": "11111111-1111-4111-8111-111111111111"}
    with log.open("a") as end:
        end.write(json.dumps({**line, "message": {"role": "user", "content": f"key {secret}"}}) + "\n")
    (project / ".claude").mkdir(parents=True)
    (project / ".claude" / "settings.json").write_text(json.dumps(_SETTINGS))
    (project / ".mcp.json").write_text(json.dumps(_SERVERS))
    monkeypatch.chdir(project)
    return Case(home, place)


def _document(case: Case, command: str, team: Team, token: str) -> Any:
    names = {"BUNDLE": str(case.place / "bundle"), "REMOTE": team.url}
    words = (names.get(word, word) for word in command.split(" "))
    return json.loads(case.said(*words, "--json", typed=token))


def keys_of(value: object, start: str = "") -> list[str]:
    """The paths of all keys, in the order in which they are printed; ``[]`` stands for every item of a list."""
    if isinstance(value, list):
        return list(dict.fromkeys(key for item in value for key in keys_of(item, f"{start}[]")))
    if not isinstance(value, dict):
        return []
    return [
        path
        for name, inner in value.items()
        for path in (f"{start}.{name}".lstrip("."), *keys_of(inner, f"{start}.{name}".lstrip(".")))
    ]


def test_a_document_has_the_keys_that_programs_know(case: Case, team: Team) -> None:
    """None is missing, renamed or elsewhere. A new key belongs into the list of known ones."""
    known = json.loads(KEYS.read_text())
    token = team.token()
    printed = {command: keys_of(_document(case, command, team, token)) for command in known}

    assert printed == known
