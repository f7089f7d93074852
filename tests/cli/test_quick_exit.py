"""A short command ends at once, and nothing is missing: what it printed, its exit status, what others left to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.talk import assistant, log_at, user

_SESSION = "11111111-1111-4111-8111-111111111111"
# Shows whether Python ended by itself: it waits for threads first.
_TAKEN_APART = "threading._shutdown = lambda: os.write(1, b'taken apart')\n"


@pytest.fixture(autouse=True)
def _log() -> None:
    """A session with an answer."""
    lines = [user("u", None, 0, "some words"), assistant("a", "u", 1, "more words")]
    log_at(Path.home() / ".claude" / "projects" / "-srv" / f"{_SESSION}.jsonl", lines)


def ended(before: str, *arguments: str, stdout: int = subprocess.PIPE) -> tuple[int, str, str]:
    """Exit status, output and errors of the command, after a program that prepared something."""
    program = (
        f"import atexit, os, sys, threading, time\n{before}\n"
        f"sys.argv = ['recollect', *{arguments}]\n"
        "from recollect.cli.main import program\n"
        "program()\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=environment,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", [("cost", "--json"), ("list",), ("search", "words"), ("--help",)])
def test_it_is_not_taken_apart(command: tuple[str, ...]) -> None:
    """All it printed is there."""
    plain = subprocess.run(
        [sys.executable, "-c", f"from recollect.cli.main import main; main({list(command)})"],
        capture_output=True,
        text=True,
        check=True,
    )
    code, output, _ = ended(_TAKEN_APART, *command)

    assert (0, len(plain.stdout.splitlines())) == (code, len(output.splitlines()))
    assert "taken apart" not in output


def test_a_command_that_loads_more_ends_as_ever() -> None:
    """It may hold what has to be closed."""
    code, output, _ = ended(_TAKEN_APART, "show", _SESSION)

    assert (0, True) == (code, output.endswith("taken apart"))


def test_its_exit_status_stays() -> None:
    code, output, errors = ended(_TAKEN_APART, "cost", "--session", "nothing")

    assert (3, "") == (code, output)
    assert "nothing" in errors


def test_what_others_left_to_do_is_done() -> None:
    """Functions of atexit run, after them what they print is written, and threads are waited for."""
    # Longer than the command takes on any machine: it ends when Python waits for its threads.
    later = (
        "def work():\n"
        "    while threading.main_thread().is_alive(): time.sleep(0.05)\n"
        "    print('thread')\n"
        "threading.Thread(target=work).start()\n"
    )
    at_exit = "atexit.register(lambda: print('at exit'))\n"

    assert ended(at_exit, "cost")[1].endswith("at exit\n")
    assert ended(at_exit + later, "cost")[1].endswith("thread\nat exit\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_still_said() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        code, _, errors = ended("", "cost", stdout=full)
    finally:
        os.close(full)

    assert (120, True) == (code, "No space left" in errors)
