"""Real clients of other agents: what they wrote is found, costs what was billed, and is what they send on resume."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.ask.sessions.originals import resumed
from tests.agents.samples import tree_state
from tests.oracle.clients.runner import Ran, ran
from tests.oracle.clients.sketch import before, sketch

WORD = "quincunx"
SHELL: dict[str, dict[str, Any]] = {
    "codex": {"tools": [{"name": "exec_command", "args": {"cmd": "echo out"}}]},
    "opencode": {"tools": [{"name": "bash", "input": {"command": "echo out", "description": "say"}}]},
    "gemini": {"tools": [{"name": "run_shell_command", "input": {"command": "echo out"}}]},
    "qwen": {
        "tools": [
            {
                "name": "run_shell_command",
                "input": {"command": "echo out", "description": "say", "is_background": False},
            }
        ]
    },
}


# Qwen starts slowly and writes what Gemini and Claude do between them: it runs with `make torture`.
@pytest.fixture(scope="module", params=SHELL if os.environ.get("RECOLLECT_TORTURE") else list(SHELL)[:3])
def client(
    request: pytest.FixtureRequest, transcripts: Path, tmp_path_factory: pytest.TempPathFactory
) -> Ran:
    """A client that took a turn with a tool and, resumed, another one."""
    agent = request.param
    root = tmp_path_factory.mktemp(agent) / "room"
    think = {"reasoning" if agent == "codex" else "thinking": "let me think"}
    turns: list[dict[str, Any]] = [
        {
            "prompt": f"look for the {WORD}",
            "steps": [{"text": "I look", **think, **SHELL[agent]}, {"text": "found it"}],
        },
        {"prompt": "and now", "steps": [{"text": "second answer"}], "resume": True},
    ]
    return ran(agent, transcripts, root, turns)


@pytest.fixture
def home(client: Ran, tmp_path: Path) -> recollect.Home:
    return recollect.Home(client.home, data=tmp_path / "data", index=False)


def test_a_session_of_a_real_client_is_found_and_costs_what_was_billed(
    client: Ran, home: recollect.Home
) -> None:
    """Every call of the conversation once, with its model; nothing that was not billed. Its home stays as it was."""
    before = tree_state(client.home)
    (session,) = home.sessions()
    texts = [message.text for message in session.conversation().messages]
    assert any(WORD in text for text in texts)
    assert texts[-1] == "second answer"
    assert [hit.session for hit in home.search(WORD).hits][:1] == [session.id]
    assert [(call.name, call.status.value) for call in session.tool_calls()] == [
        (SHELL[client.agent]["tools"][0]["name"], "ok")
    ]
    counted = Counter(
        (
            one.model,
            one.tokens.input,
            one.tokens.cache_read,
            one.tokens.cache_write_5m + one.tokens.cache_write_1h,
            one.tokens.output,
        )
        for one in home.responses()
    )
    names = ("model", "input", "cache_read", "cache_write", "output")
    # OpenCode stores no call that made a title.
    billed = Counter(tuple(one[name] for name in names) for one in client.billed if one["kind"] != "title")
    assert counted == billed
    assert tree_state(client.home) == before


def test_show_api_is_what_the_client_sends_on_resume(client: Ran, home: recollect.Home) -> None:
    (session,) = home.sessions()
    sent = before("and now", sketch(client.turns[-1]["sent"][0]))
    ours = before("and now", sketch({"messages": resumed(session)}))
    assert ours == sent
    assert len(sent) >= 5


def test_the_rooms_have_no_way_out(client: Ran) -> None:
    """Nothing of this machine's own homes and no key of ours is in a room."""
    ours = [
        value for name, value in os.environ.items() if name.endswith(("_KEY", "_TOKEN")) and len(value) > 12
    ]
    for path in client.home.rglob("*.jsonl"):
        data = path.read_text(errors="replace")
        assert not any(value in data for value in ours), path
        assert json.dumps(str(Path.home() / ".claude"))[1:-1] not in data
