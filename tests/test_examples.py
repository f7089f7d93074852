"""The programs in docs/examples do what they say, and two type checkers find nothing in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pytest

from recollect import Home
from tests.small_home import (
    ONE,
    TALK,
    TWO,
    call,
    open_in_this_process,
    outcome,
    prompt,
    put,
    reply,
    said,
)

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "docs" / "examples"
NAMES = ["cost_alert", "data_frame", "exporter", "permission_hook", "provider_with_sdk_store"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two sessions; one has a call, and is open in this process."""
    put(tmp_path / "home", ONE, TALK)
    talk = [
        prompt(11, None, "* How?\n* so"),
        reply(12, 11, call("t"), said("Like this.")),
        outcome(13, 12, "t", "one\ntwo"),
    ]
    put(tmp_path / "home", TWO, [{**line, "sessionId": TWO} for line in talk])
    open_in_this_process(tmp_path / "home", ONE)
    return tmp_path / "home"


def ran(name: str, *arguments: str, data: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run an example as a user would."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        input=given,
        env={**os.environ, "RECOLLECT_DATA": str(data)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_example_is_tested() -> None:
    """A new one needs a test here."""
    assert NAMES == sorted(path.stem for path in EXAMPLES.glob("*.py"))


def test_cost_alert(home: Path, tmp_path: Path) -> None:
    """The open session is told when it is above the limit, and only then; what it cost is exact."""
    cost = Home(home, data=tmp_path / "data").costs(session=ONE).totals.usd or Decimal(0)
    below = ran("cost_alert", str(cost), "--once", "--home", str(home), data=tmp_path / "data")
    above = ran(
        "cost_alert", str(cost - Decimal("0.000001")), "--once", "--home", str(home), data=tmp_path / "data"
    )

    assert (0, "", "") == (below.returncode, below.stdout, below.stderr)
    assert (1, "") == (above.returncode, above.stderr)
    assert f"{cost} dollars" in above.stdout
    assert ONE[:8] in above.stdout


def test_data_frame(home: Path, tmp_path: Path) -> None:
    """The total of the frame is that of the report: the program compares them itself."""
    done = ran("data_frame", str(home), data=tmp_path / "data")

    total = Home(home, data=tmp_path / "data").costs().totals
    assert (0, "") == (done.returncode, done.stderr)
    assert f"{total.responses} responses, {total.usd} dollars" in done.stdout
    assert "claude-sonnet-4-5" in done.stdout
    nothing = ran("data_frame", str(tmp_path / "empty"), data=tmp_path / "data")
    assert (0, "nothing was spent\n") == (nothing.returncode, nothing.stdout)


def test_exporter(home: Path, tmp_path: Path) -> None:
    """Headings are prompts; no line of a transcript can become one."""
    done = ran("exporter", TWO, str(home), data=tmp_path / "data")

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.splitlines()[1:] == [
        "* * How?",
        "  * so",
        "** Read",
        "  Like this.",
        "#+BEGIN_EXAMPLE",
        "  one",
        "  two",
        "#+END_EXAMPLE",
    ]
    missing = ran("exporter", "no-such-session", str(home), data=tmp_path / "data")
    assert 3 == missing.returncode


def test_provider_with_sdk_store(tmp_path: Path) -> None:
    """Each side reads what the other wrote."""
    done = ran("provider_with_sdk_store", str(tmp_path / "store"), data=tmp_path / "data")

    assert (0, "") == (done.returncode, done.stderr)
    assert "user: How many orders today?\nassistant: Forty-two.\nuser: Thanks.\n" in done.stdout
    assert "3 entries in the SDK's view\n3 messages for recollect\n" in done.stdout


@pytest.mark.parametrize(
    ("tool", "arguments", "verdict", "rule"),
    [
        ("Bash", {"command": "git status -s"}, "allow", "Bash(git status *)"),
        ("Bash", {"command": "git status && git push origin"}, "deny", "Bash(git push *)"),
        ("Read", {"file_path": "/etc/shadow"}, "deny", "Read(//etc/**)"),
        ("Bash", {"command": "cargo run"}, "ask", ""),
    ],
)
def test_permission_hook(
    tmp_path: Path, tool: str, arguments: dict[str, str], verdict: str, rule: str
) -> None:
    """One call in, one decision out, with the rule that decided."""
    request = {"tool_name": tool, "tool_input": arguments, "cwd": str(tmp_path)}
    done = ran("permission_hook", data=tmp_path / "data", given=json.dumps(request))

    said_by_hook = json.loads(done.stdout)["hookSpecificOutput"]
    assert (verdict, "PreToolUse") == (said_by_hook["permissionDecision"], said_by_hook["hookEventName"])
    assert rule in said_by_hook["permissionDecisionReason"]


def test_a_permission_hook_that_fails_denies(tmp_path: Path) -> None:
    """Nonsense on standard input is a deny, and no traceback."""
    done = ran("permission_hook", data=tmp_path / "data", given="nonsense")

    assert (0, "") == (done.returncode, done.stderr)
    assert "deny" == json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"]


def test_mypy_finds_nothing() -> None:
    """In strict mode, as the configuration asks."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "docs/examples"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stdout


def test_pyright_finds_nothing_but_a_planted_mistake(tmp_path: Path) -> None:
    """In strict mode too: the checker of most editors. basedpyright is pyright with its own Node.js in a wheel.

    One run looks at the examples and at a copy of one that asks a block for a field it does not have: a run that
    looked at nothing would not find that.
    """
    import_module("basedpyright")
    source = (EXAMPLES / "exporter.py").read_text().replace("{block.name}", "{block.title}")
    (tmp_path / "wrong.py").write_text(source)
    settings = {
        "include": [str(EXAMPLES), "wrong.py"],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT / "src")],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ("basedpyright", "--pythonpath", sys.executable, "--project", str(tmp_path), "--outputjson")
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)

    found = json.loads(done.stdout)
    assert len(NAMES) + 1 == found["summary"]["filesAnalyzed"]
    problems = {(Path(one["file"]).name, one["rule"]) for one in found["generalDiagnostics"]}
    assert (1, {"wrong.py"}) == (done.returncode, {file for file, _ in problems}), problems
    assert ("wrong.py", "reportAttributeAccessIssue") in problems
