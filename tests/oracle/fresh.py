"""Sessions fresh from a real client: scenarios that let it write logs of every kind in a home of its own.

The scenarios and the API stub that plays them stand beside the real transcripts (``oracle/generate.py`` in
RECOLLECT_TRANSCRIPTS); those below add what they lack: a run that is interrupted, one that is killed, prompts that queue
up, and a fork of a compacted session. Every client runs in the environment of ``client_runner.environment``.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.needs import TRANSCRIPTS
from tests.oracle.client_runner import environment

# How long a run that is broken off may take to reach its tool call.
_STARTING_SECONDS = 8.0


def is_possible() -> bool:
    """Whether the scenarios and the clients are on this machine."""
    return (TRANSCRIPTS / "oracle" / "generate.py").is_file() and bool(os.environ.get("RECOLLECT_CLIENTS"))


def program_of(version: str) -> Path | None:
    """The program of a client version; None where it is not installed."""
    root = Path(os.environ["RECOLLECT_CLIENTS"], version)
    found = next((one for one in (root / "claude", root / "cli.js") if one.is_file()), None)
    return None if found is None or (found.suffix == ".js" and not shutil.which("node")) else found


def write_sessions(version: str, root: Path, only: tuple[str, ...] = ()) -> Iterator[tuple[str, Path]]:
    """Play every scenario with one client; yields its name and the client's configuration root.

    Each scenario has a home of its own. A client that does not know an option fails the scenario, and what
    it wrote until then counts.
    """
    program = program_of(version)
    with _scenarios() as (scenarios, make):
        for name, play in scenarios.items():
            if program is None or (only and name not in only):
                continue
            client = make(program, root / name / "home", root / name / "work")
            try:
                play(client)
            except Exception as problem:  # noqa: BLE001 - a scenario that an old client cannot play
                print(f"{version} {name}: {problem!r}", file=sys.stderr)
            yield name, client.config


@contextmanager
def _scenarios() -> Iterator[tuple[dict[str, Callable[[Any], Any]], Callable[[Path, Path, Path], Any]]]:
    """The scenarios by name, and what makes a client for one of them."""
    sys.path.insert(0, str(TRANSCRIPTS / "oracle"))
    try:
        generate = importlib.import_module("generate")
        stub = importlib.import_module("stub_api").Stub().start()
    finally:
        sys.path.remove(str(TRANSCRIPTS / "oracle"))
    generate.Client.env = _environment_of

    def make(program: Path, home: Path, work: Path) -> Any:
        return generate.Client(str(program), home, work, stub.port)

    try:
        yield {**generate.SCENARIOS, **_OWN}, make
    finally:
        stub.shutdown()
        stub.server_close()


def _environment_of(client: Any) -> dict[str, str]:
    return {**environment(client.home, f"http://127.0.0.1:{client.port}"), **client.extra_env}


# ---- scenarios of our own --------------------------------------------------------------------------------


def _scripted(text: str, *steps: dict[str, Any]) -> str:
    return f"{text} STUB:{json.dumps(list(steps))}"


def _bash(command: str) -> dict[str, Any]:
    return {"name": "Bash", "input": {"command": command, "description": "a command"}}


def _broken_off(client: Any, how: signal.Signals) -> None:
    """A run that ends while its tool is at work; then the session goes on."""
    session = "11111111-2222-4333-8444-666666666666"
    prompt = _scripted("Wait.", {"text": "Waiting.", "tools": [_bash("touch at-work; sleep 30")]})
    process = subprocess.Popen(
        [*client.argv, "-p", prompt, "--session-id", session, "--allowedTools", "Bash"],
        cwd=client.cwd,
        env=client.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + _STARTING_SECONDS
    while time.monotonic() < until and not (client.cwd / "at-work").exists():
        time.sleep(0.1)
    time.sleep(0.3)
    process.send_signal(how)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    with suppress(ProcessLookupError):  # its children may have ended with it
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _interrupted(client: Any) -> None:
    _broken_off(client, signal.SIGINT)


def _killed(client: Any) -> None:
    _broken_off(client, signal.SIGKILL)


def _killed_and_resumed(client: Any) -> None:
    _broken_off(client, signal.SIGKILL)
    session = "11111111-2222-4333-8444-666666666666"
    client.ask(_scripted("Go on.", {"text": "Gone on."}), "--resume", session)


def _queued_prompts(client: Any) -> None:
    prompts = [
        _scripted("Slow.", {"delay": 1, "tools": [_bash("sleep 1; echo slow")]}, {"text": "Slow done."}),
        _scripted("Second, while the first runs.", {"text": "Second done."}),
        _scripted("Third, while the first runs.", {"text": "Third done."}),
    ]
    lines = [{"type": "user", "message": {"role": "user", "content": prompt}} for prompt in prompts]
    options = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
    stdin = "".join(json.dumps(line) + "\n" for line in lines)
    client.run("-p", *options, "--allowedTools", "Bash", stdin=stdin)


def _compacted_fork(client: Any) -> None:
    begun = client.ask(_scripted("One.", {"thinking": "", "text": "Answer one."}))[1]["session_id"]
    client.ask("/compact", "--resume", begun)
    client.ask(_scripted("Two.", {"text": "Answer two."}), "--resume", begun)
    client.ask(_scripted("Fork.", {"text": "Answer of the fork."}), "--resume", begun, "--fork-session")
    client.ask("/compact", "--resume", begun)
    client.ask(_scripted("Three.", {"text": "Answer three."}), "--resume", begun)


def _empty_shapes(client: Any) -> None:
    """Empty thinking with a signature, a tool without output, and thinking alone before a call."""
    client.ask(
        _scripted(
            "Say little.",
            {"thinking": "", "tools": [_bash("true")]},
            {"thinking": "", "text": "Little.", "tools": [_bash("true"), _bash("printf ' '")]},
            {"text": "Said."},
        ),
        "--allowedTools",
        "Bash",
    )


_OWN: dict[str, Callable[[Any], Any]] = {
    "interrupted": _interrupted,
    "killed": _killed,
    "killed_and_resumed": _killed_and_resumed,
    "queued_prompts": _queued_prompts,
    "compacted_fork": _compacted_fork,
    "empty_shapes": _empty_shapes,
}


# ---- the record ------------------------------------------------------------------------------------------

VERSIONS = ("2.0.76", "2.1.197", "2.1.325")
RECORD = Path(__file__).resolve().parents[1] / "data" / "fresh_logs.jsonl"
_RECORDED = (
    "tools",
    "parallel",
    "subagent",
    "mcp",
    "api_error",
    "resume",
    "compact",
    "slash",
    "hooks",
    "stream_input",
    "interrupted",
    "killed_and_resumed",
    "queued_prompts",
    "compacted_fork",
    "empty_shapes",
)
# Records of requests and the client's own words: long, and of no effect on what is checked.
_LEFT_OUT = frozenset(["api-request", "api-request-blob", "api-request-shape"])
_DROPPED = frozenset(["rendered", "toolUseResult", "usage", "modelUsage", "requestRef"])
_LONGEST = 60


def recorded_logs() -> dict[tuple[str, str], dict[str, bytes]]:
    """Logs of fresh sessions, by version and scenario, then by their path below ``projects``."""
    homes: dict[tuple[str, str], dict[str, bytes]] = {}
    for row in map(json.loads, RECORD.read_text(encoding="utf-8").splitlines()):
        data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in row["lines"])
        homes.setdefault((row["version"], row["scenario"]), {})[row["path"]] = data.encode()
    return homes


def record(root: Path) -> None:
    """Write the record: the logs of all versions, with long texts cut short."""
    rows = []
    for version in VERSIONS:
        for scenario, config in write_sessions(version, root / version, _RECORDED):
            for log in sorted((config / "projects").rglob("*.jsonl")):
                work = str(root / version / scenario)
                lines = [_shortened(json.loads(line), work) for line in log.read_bytes().splitlines()]
                path = "-srv-app/" + "/".join(log.relative_to(config / "projects").parts[1:])
                kept = [line for line in lines if line.get("type") not in _LEFT_OUT]
                rows.append({"version": version, "scenario": scenario, "path": path, "lines": kept})
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    RECORD.write_text(text, encoding="utf-8")


def _shortened(value: Any, work: str) -> Any:
    if isinstance(value, str):
        return value.replace(work, "/srv/app")[:_LONGEST]
    if isinstance(value, list):
        return [_shortened(one, work) for one in value]
    if isinstance(value, dict):
        return {name: _part(name, one, work) for name, one in value.items() if name not in _DROPPED}
    return value


def _part(name: str, value: Any, work: str) -> Any:
    """The client's notes are recorded by their kind alone."""
    return {"type": value["type"]} if name == "attachment" else _shortened(value, work)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
