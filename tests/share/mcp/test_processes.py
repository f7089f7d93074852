"""A server ends with its client, however that ends; none is left, and its memory does not grow."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.share.mcp.past import SHOP, past, tools

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
AT_ONCE = 5
ROUNDS = 50 if TORTURE else 1  # of four manners: 1,000 servers, or 20
QUESTIONS = 10_000
_PATIENCE = 120.0
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}) + "\n"

# Starts servers, talks to each, prints their process numbers, and waits to be killed. With "held", another process
# keeps the writing ends of their pipes.
CLIENT = f"""
import subprocess, sys, time
held, command = sys.argv[1] == "held", sys.argv[2:]
started = []
for _ in range({AT_ONCE}):
    one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    started.append(one)
for one in started:
    one.stdin.write({INITIALIZE!r}.encode())
    one.stdin.flush()
    assert b"recollect" in one.stdout.readline()
others = []
if held:
    ends = [one.stdin.fileno() for one in started]
    others = [subprocess.Popen(["sleep", "1000"], pass_fds=ends, stdin=subprocess.DEVNULL)]
if sys.argv[1] == "half":
    for one in started:
        one.stdin.write(b'{{"jsonrpc": "2.0", "id": 2, "meth')
        one.stdin.flush()
print(*(one.pid for one in others), "|", *(one.pid for one in started), flush=True)
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    home = tmp_path_factory.mktemp("served") / "home"
    past(home)
    tools(home)  # builds the index
    options = ["--home", str(home), "--data", str(home.parent / "data"), "--project", SHOP]
    return [sys.executable, "-P", "-m", "recollect", "mcp", "serve", *options]


def is_running(process: int) -> bool:
    """Whether it exists and is not merely waiting to be collected."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def left(processes: list[int]) -> list[int]:
    """Which of them still run after a long while."""
    until = time.monotonic() + _PATIENCE
    while any(map(is_running, processes)) and time.monotonic() < until:
        time.sleep(0.05)
    return [one for one in processes if is_running(one)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("manner", ["killed", "held", "half"])
def test_no_server_outlives_a_client_that_is_killed(manner: str, command: list[str]) -> None:
    for _ in range(ROUNDS):
        with subprocess.Popen(
            [sys.executable, "-c", CLIENT, manner, *command], stdout=subprocess.PIPE
        ) as client:
            try:
                assert client.stdout is not None
                others, servers = (
                    [int(one) for one in part.split()] for part in client.stdout.readline().split(b"|")
                )
            finally:
                client.kill()
        try:
            assert len(servers) == AT_ONCE
            assert left(servers) == []
        finally:
            for one in (*others, *servers):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)


def test_a_closed_pipe_ends_it_with_success(command: list[str]) -> None:
    for _ in range(ROUNDS):
        started = [_started(command) for _ in range(AT_ONCE)]
        for one in started:
            out, _ = one.communicate(INITIALIZE.encode() + b'{"jsonrpc"', timeout=_PATIENCE)
            assert out.count(b"\n") == 1
            assert one.returncode == 0


def _started(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with _started(command) as one:
        try:
            yield one
        finally:
            one.kill()


def test_nothing_is_printed_but_answers(command: list[str]) -> None:
    """Neither on the error stream, whatever the environment holds and the client sends."""
    secret = "environment-of-the-client"
    environment = {"HOME": "/nonexistent", "SOME_TOKEN": secret, "CLAUDE_CODE_SESSION_ID": secret}
    sent = [
        INITIALIZE,
        "{\n",
        "[]\n",
        '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"recall"}}\n',
    ]
    done = subprocess.run(
        command,
        input="".join(sent).encode(),
        capture_output=True,
        timeout=_PATIENCE,
        env=environment,
        check=True,
    )
    assert done.stderr == b""
    assert secret.encode() not in done.stdout
    assert [("error" in json.loads(line)) for line in done.stdout.splitlines()] == [False, True, True, False]


@pytest.mark.torture
def test_memory_is_flat_over_ten_thousand_questions(command: list[str]) -> None:
    words = ["rounding", "cart", "token", "midnight", "prices", "nothing", "Decimal", "hello"]
    with running(command) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        sizes = []
        for number in range(QUESTIONS):
            question = f"{words[number % 8]} {words[number // 8 % 8]} {number}"
            params = {"name": "recall", "arguments": {"question": question}}
            call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            server.stdin.write(json.dumps(call).encode() + b"\n")
            server.stdin.flush()
            assert json.loads(server.stdout.readline())["id"] == number
            if number in (QUESTIONS // 10, QUESTIONS - 1):
                sizes.append(_resident(server.pid))
    assert sizes[1] - sizes[0] < 4_000, sizes  # kB
    assert sizes[1] < 130_000


def _resident(process: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1])
