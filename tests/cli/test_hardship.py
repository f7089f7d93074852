"""Commands where nothing can be written, nothing can be read, or the home is missing: a typed error, and nothing lost.

Each condition is one child process that runs every command, because most of the time of a command is its start.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, call, link, outcome, prompt, put, reply, said, state

NO_SUCH = "no such directory, but $CLAUDE_CONFIG_DIR names it"
# What a terminal would obey, or show as something else than it is.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\u2066\x9b31m\r\x08\x00\u200b\x7f\u2028"
PROGRAM = """
import contextlib, io, json, os, resource, sys
sys.dont_write_bytecode = True  # half a compiled module would break every other test
from recollect.cli.main import main
commands, limit = json.loads(sys.argv[1]), int(sys.argv[2])
import duckdb, pyarrow, pyarrow.dataset, pyarrow.compute, pyarrow.parquet
if limit >= 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
found = {}
for name, words in commands.items():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    found[name] = [code, out.getvalue(), err.getvalue()]
os.write(1, json.dumps(found).encode())
"""
# Root without the two capabilities that pass over permissions.
AS_ANYONE = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
needs_setpriv = pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None,
    reason="root reads everything, and setpriv is missing",
)


class Ran(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


@pytest.fixture
def place(own_home: Path) -> Path:
    """A home whose session wrote a file of a project; settings, budgets, and no index yet."""
    file = own_home / "work" / "a.txt"
    file.parent.mkdir()
    file.write_text("one\n")
    made = {"type": "create", "filePath": str(file), "content": "one\n", "structuredPatch": []}
    block = {"type": "tool_result", "tool_use_id": "t1", "content": HOSTILE}
    talk = [
        prompt(1, None, HOSTILE, gitBranch=HOSTILE),
        reply(2, 1, {**call("t1"), "name": "Write", "input": {"file_path": str(file), "content": "one\n"}}),
        link(3, 2, type="user", message={"role": "user", "content": [block]}, toolUseResult=made),
        reply(4, 3, said(HOSTILE), {**call("t2"), "name": HOSTILE}),
        outcome(5, 4, "t2", HOSTILE),
        {"type": "custom-title", "customTitle": HOSTILE, "sessionId": ONE},
    ]
    talk[1]["message"]["model"] = HOSTILE
    put(own_home / ".claude", ONE, [{**one, "cwd": str(file.parent)} for one in talk], str(file.parent))
    (own_home / ".claude" / "settings.json").write_text('{\n  "model": "opus"\n}\n')
    config = own_home / "xdg-config" / "recollect" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[budget]\nday = "20.00"\n')
    return own_home


def commands(place: Path) -> dict[str, list[str]]:
    file = str(place / "work" / "a.txt")
    return {
        "sql": ["data", "sql", "SELECT * FROM messages"],
        "budget": ["limits"],
        "budget --hook": ["limits", "--hook"],
        "stats": ["report"],
        "blame": ["blame", file],
        "blame a line": ["blame", f"{file}:1"],
        "log": ["files", file],
        "convert": ["export", ONE, "--to", "codex"],
        "convert --into": ["export", ONE, "--to", "codex", "-o", str(place / "into")],
        "plugin install": ["mcp", "plugin", "install", "--status-line", "--apply"],
        "export parquet": ["data", "parquet"],
        "mcp list": ["mcp", "list"],
        "team cost": ["team", "cost"],
    }


def all_run(
    place: Path, before: Sequence[str] = (), limit: int = -1, environment: dict[str, str | None] | None = None
) -> dict[str, Ran]:
    wanted = {**os.environ, **(environment or {})}
    env = {name: value for name, value in wanted.items() if value is not None}
    words = [*before, sys.executable, "-c", PROGRAM, json.dumps(commands(place)), str(limit)]
    done = subprocess.run(words, env=env, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert 0 == done.returncode, done.stderr.decode()
    return {name: Ran(*one) for name, one in json.loads(done.stdout).items()}


def expect_typed(found: dict[str, Ran], codes: dict[str, int]) -> None:
    """Each command ends as said, the others with 0; a failure names what, why and the next step."""
    assert {name: codes.get(name, 0) for name in found} == {name: one.code for name, one in found.items()}
    for name, one in found.items():
        assert "Traceback" not in one.err, name
        if one.code:
            *_, problem, step = one.err.splitlines()
            assert (True, True) == (problem.startswith("recollect: "), step.startswith("  ")), name


FAILING = {
    "convert": 74,
    "convert --into": 74,
    "plugin install": 74,
    "export parquet": 74,
    "team cost": 3,
}


@pytest.mark.parametrize("limit", [0, 200])
def test_on_a_full_disk_the_home_is_as_it_was(place: Path, limit: int) -> None:
    """What only reads answers from the logs; what writes says where, why and what to do, and leaves nothing."""
    before = state(place / ".claude")
    found = all_run(place, limit=limit)

    expect_typed(found, FAILING)
    assert before == state(place / ".claude")
    assert [] == [
        path
        for path in place.rglob("*")
        if path.name.endswith((".tmp", ".parquet", ".jsonl")) and ".claude" not in path.parts
    ]


@needs_setpriv
def test_in_a_directory_that_cannot_be_written_the_home_is_as_it_was(place: Path) -> None:
    """Our own directories and the home are read-only."""
    for name in ("xdg-data", "xdg-cache"):
        (place / name).mkdir()
    before = state(place / ".claude")
    closed = [path for path in (place, *place.rglob("*")) if path.is_dir()]
    for path in closed:
        path.chmod(0o500)
    try:
        found = all_run(place, AS_ANYONE)
    finally:
        for path in closed:
            path.chmod(0o700)

    expect_typed(found, FAILING)
    assert "check owner and mode" in found["convert"].err
    after = state(place / ".claude")
    assert {path: seen[1:] for path, seen in before.items()} == {
        path: seen[1:] for path, seen in after.items()
    }


@needs_setpriv
def test_a_home_that_cannot_be_read_is_no_empty_home(place: Path) -> None:
    """An answer without it says so."""
    projects = place / ".claude" / "projects"
    projects.chmod(0)
    try:
        found = all_run(place, AS_ANYONE)
    finally:
        projects.chmod(0o700)

    expect_typed(found, {"convert": 3, "convert --into": 3, "team cost": 3})
    told = [
        name for name, one in found.items() if f"could not be read: {projects}: Permission denied" in one.err
    ]
    assert ["sql", "budget", "stats", "blame", "blame a line", "log", "export parquet"] == told


@pytest.mark.parametrize("home", ["/no/such/directory", None])
def test_without_a_home_directory_of_the_user(place: Path, home: str | None) -> None:
    """HOME names nothing, or is not set: the homes that are named are read all the same."""
    expect_typed(all_run(place, environment={"HOME": home}), {"team cost": 3})


def test_a_home_that_the_environment_names_must_exist(place: Path) -> None:
    """As one that --home names: a misspelt variable is no empty home, and `scan` does not call it clean."""
    missing = str(place / "mistyped")
    found = all_run(place, environment={"CLAUDE_CONFIG_DIR": f"{place / '.claude'},{missing}"})

    tolerant = {"budget --hook": 0, "mcp list": 0}
    expect_typed(found, {name: tolerant.get(name, 3) for name in found})
    named = [name for name, one in found.items() if f"home {missing}: {NO_SUCH}" in one.err]
    assert sorted(named) == sorted(set(found) - set(tolerant) - {"team cost"})


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["cost"],
        ["search", "x"],
        ["secrets"],
        ["doctor"],
        ["show", "@last"],
        ["doctor", "--fix"],
        ["export", "@last"],
    ],
)
def test_the_rule_is_the_same_for_every_command_that_reads(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "mistyped"))
    assert 3 == main(words)
    assert NO_SUCH in capsys.readouterr().err


def test_hostile_text_reaches_no_output(place: Path) -> None:
    """Nothing that a terminal obeys or that reorders text, on either stream."""
    found = all_run(place)

    expect_typed(found, {"team cost": 3})
    obeyed = set(HOSTILE) - set("]0;owned[2Jgnp.exe31m")
    for name, one in found.items():
        assert set() == obeyed & set(one.out + one.err), name
    assert "owned" in found["sql"].out


@pytest.mark.parametrize("name", ["convert", "plugin install", "export parquet"])
def test_killed_in_the_middle_it_can_be_done_again(place: Path, name: str) -> None:
    """The home is old or new; no half of a file is left where a reader looks; the next run does it."""
    before = state(place / ".claude")
    program = (
        "import os, signal, sys; from recollect.system import fsops; from recollect.cli.main import main\n"
        "whole = fsops.write_all\n"
        "def cut(fd, data, *more):\n"
        "    whole(fd, bytes(data)[: len(data) // 2], *more); os.kill(os.getpid(), signal.SIGKILL)\n"
        "fsops.write_all = cut\n"
        "main(sys.argv[1:])"
    )
    words = commands(place)[name]
    killed = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=False)
    assert -signal.SIGKILL == killed.returncode
    assert before == state(place / ".claude")
    assert [] == list((place / "xdg-data").rglob("*/rollout-*.jsonl"))
    assert 0 == main(words)
