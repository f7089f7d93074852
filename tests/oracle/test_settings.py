"""Which settings files the real client ignores as a whole: our judgement equals what it does.

Each file denies ``touch``, and the command line allows it: where the client runs it, the file was ignored.
What the client did is recorded; ``RECOLLECT_TORTURE=1`` asks it again (some 180 runs of a second each).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.model.settings.schema import COUNT, COUNT_OR_0, LENIENT, SCHEMA, SHARE, layer_of
from tests.oracle.client_runner import Client
from tests.oracle.conftest import command_of
from tests.oracle.recorded import recorded
from tests.oracle.test_files_and_tasks import ScriptedStub
from tests.oracle.tool_client import running

DENY = {"deny": ["Bash(touch:*)"]}
HOOK = {"matcher": "Bash", "hooks": [{"type": "nonsense"}]}
CASES: dict[str, Any] = {
    "sound": {},
    "days as a text": {"cleanupPeriodDays": "30"},
    "no days": {"cleanupPeriodDays": 0},
    "half a day": {"cleanupPeriodDays": 1.5},
    "environment of all kinds": {"env": {"A": 1, "B": None, "C": ["x"]}},
    "model as a number": {"model": 4},
    "model as null": {"model": None},
    "a rule that is a number": {"permissions": {**DENY, "allow": [1]}},
    "a rule that is none": {"permissions": {**DENY, "allow": ["nonsense("]}},
    "rules as a text": {"permissions": {**DENY, "allow": "Bash"}},
    "a mode that is none": {"permissions": {**DENY, "defaultMode": "nonsense"}},
    "another word for a mode": {"permissions": {**DENY, "defaultMode": "manual"}},
    "directories of all kinds": {"permissions": {**DENY, "additionalDirectories": ["x", 4]}},
    "hooks as a list": {"hooks": []},
    "hooks of an unknown event": {"hooks": {"Nonsense": 4}},
    "an event's hooks as a text": {"hooks": {"PreToolUse": "x"}},
    "a hook of an unknown type": {"hooks": {"PreToolUse": [HOOK]}},
    "a theme as a number": {"theme": 4},
    "a status line without a command": {"statusLine": {"type": "command"}},
    "an unknown key": {"fromTheFuture": {"x": 1}},
}
TEXTS = {
    "a comma too many": '{"permissions": {"deny": ["Bash(touch:*)"]},}',
    "a comment": '// c\n{"permissions": {"deny": ["Bash(touch:*)"]}}',
    "a byte order mark": '\ufeff{"permissions": {"deny": ["Bash(touch:*)"]}}',
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with running(ScriptedStub()) as stub:
        yield Client("2.1.325", command_of("2.1.325"), tmp_path, stub)


def is_read(client: Client, text: str) -> bool:
    """Whether the client keeps to the file's deny rule."""
    client.config.mkdir(parents=True, exist_ok=True)
    (client.config / "settings.json").write_text(text)
    assert isinstance(client.stub, ScriptedStub)
    client.stub.script = [("Bash", {"command": "touch made"})]
    done = client.ask("Go on.", "--allowedTools", "Bash(touch:*)")
    assert (0, []) == (done.returncode, client.stub.script), done.stderr
    return not (client.cwd / "made").exists()


@pytest.mark.parametrize("name", [*CASES, *TEXTS])
def test_we_know_which_files_it_ignores(request: pytest.FixtureRequest, name: str) -> None:
    """Wrong types, malformed rules, unknown keys, odd bytes."""
    text = TEXTS.get(name) or json.dumps({"permissions": DENY, **CASES[name]})
    theirs = recorded(f"settings: {name}", text, lambda: is_read(request.getfixturevalue("client"), text))

    assert theirs is layer_of("user", "/s.json", text.encode()).counts


@pytest.mark.parametrize("key", [*SCHEMA, *LENIENT])
def test_every_key_of_the_table(request: pytest.FixtureRequest, key: str) -> None:
    """A number where something else belongs, a text where a number does."""
    wants_number = SCHEMA.get(key) in (COUNT, COUNT_OR_0, SHARE)
    text = json.dumps({"permissions": DENY, key: "x" if wants_number else 4})
    theirs = recorded(f"settings key: {key}", text, lambda: is_read(request.getfixturevalue("client"), text))

    assert theirs is (key in LENIENT)
