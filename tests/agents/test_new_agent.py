"""An agent is one module and one row: one that does not exist is added here, and everything works on it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.system import paths
from recollect.system.paths import Agent
from tests.agents import parrot
from tests.agents.samples import tree_state

SESSION = "7b0e4c52-1111-4222-8333-444455556666"
SAID = (
    {"who": "me", "at": "2026-11-16T09:00:00.000Z", "says": "Why is the quincunx red?"},
    {
        "who": "bird",
        "at": "2026-11-16T09:00:05.000Z",
        "says": "Because of ink.",
        "used": {"in": 1000, "out": 200},
    },
    {"who": "cat", "at": "2026-11-16T09:00:06.000Z", "purrs": True},
)


@pytest.fixture
def home(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the new agent, where its client would keep it."""
    (own_home / ".claude" / "projects").mkdir(parents=True)
    row = Agent((".parrot",), ("talks",), ("parrot", "again"))
    monkeypatch.setitem(paths.AGENTS, "parrot", row)
    monkeypatch.setitem(sys.modules, "recollect.agents.parrot", parrot)
    talk = own_home / ".parrot" / "talks" / f"{SESSION}.jsonl"
    talk.parent.mkdir(parents=True)
    talk.write_text("".join(json.dumps(line) + "\n" for line in SAID))
    return own_home / ".parrot"


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) in (0, 1), capsys.readouterr().err
    return capsys.readouterr().out


def test_every_command_works_on_a_new_agent(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree_state(home)
    assert "parrot" in told(
        capsys,
    )
    (listed,) = json.loads(told(capsys, "list", "--agent", "parrot", "--json"))["sessions"]
    assert (listed["id"], listed["agent"]) == (SESSION, "parrot")
    assert "Because of ink." in told(capsys, "show", SESSION)
    assert SESSION[:8] in told(capsys, "search", "quincunx")
    (row,) = json.loads(told(capsys, "cost", "--by", "client", "--json"))["rows"]
    assert (row["client"], row["cost_usd"]) == ("parrot", "0.00325")
    assert "parrot:cat" in told(capsys, "doctor", SESSION)
    assert json.loads(told(capsys, "resume", SESSION, "--print", "--json"))["argv"] == [
        "parrot",
        "again",
        SESSION,
    ]
    told(capsys, "export", SESSION, "--format", "original", "--no-redact", "-o", str(tmp_path / "back"))
    assert (tmp_path / f"back/talks/{SESSION}.jsonl").read_bytes() == (
        home / f"talks/{SESSION}.jsonl"
    ).read_bytes()
    told(capsys, "export", SESSION, "--to", "codex", "-o", str(tmp_path / "codex"))
    assert "quincunx" in next((tmp_path / "codex").rglob("rollout-*.jsonl")).read_text()
    assert tree_state(home) == before
