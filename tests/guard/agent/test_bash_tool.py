"""Bash runs the text that was decided about, in the sandbox, from where the last command left off."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.guard.agent.workshop import Workshop, bash, call, needs_sandbox

pytestmark = needs_sandbox


def everything_goes(place: Path) -> Workshop:
    return Workshop(place, mode="bypassPermissions")


@pytest.mark.parametrize(
    "command",
    [
        "set -- x /etc; cd sub",
        "exit 0",
        "trap 'cd /' EXIT",
        "exec >/dev/null 2>&1; cd sub",
        "code=7; PWD=/etc; cd sub",
    ],
)
def test_no_command_steers_where_its_directory_is_written(tmp_path: Path, command: str) -> None:
    """Arguments, variables and redirections of the command do not reach our own line behind it."""
    workshop = everything_goes(tmp_path)
    (workshop.project / "sub").mkdir()
    before = sorted(workshop.project.rglob("*"))
    runner = workshop.runner()

    ran = bash(runner, command)

    assert not ran.outcome.is_error
    assert before == sorted(workshop.project.rglob("*"))
    assert runner.cwd in (str(workshop.project), str(workshop.project / "sub"))


def test_keys_of_ours_do_not_reach_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key the agent works with is not in a command's environment."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")

    ran = bash(everything_goes(tmp_path).runner(), "env")

    assert "sk-very-secret" not in str(ran.block["content"])
    assert "PATH=" in str(ran.block["content"])


def test_without_a_sandbox_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A back end that cannot be had is a refusal, not a weaker run (E06)."""
    from recollect.guard.sandbox import launch

    monkeypatch.setattr(launch, "unavailable", lambda: "not here")
    workshop = everything_goes(tmp_path)

    ran = bash(workshop.runner(), "touch made")

    assert (True, False) == (ran.outcome.is_error, (workshop.project / "made").exists())
    assert "no sandbox" in str(ran.block["content"])


def test_an_interrupted_command_keeps_what_it_printed(tmp_path: Path) -> None:
    """Ctrl-C: the output so far, marked interrupted, in the client's shape."""
    workshop = everything_goes(tmp_path)
    stopped = threading.Event()
    runner = workshop.runner(cancelled=stopped)

    def stop_soon() -> None:
        deadline = time.monotonic() + 120
        while not (workshop.project / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        stopped.set()

    thread = threading.Thread(target=stop_soon)
    thread.start()
    ran = bash(runner, "echo early; touch begun; sleep 60")
    thread.join()

    assert "early\n<error>Command was aborted before completion</error>" == ran.block["content"]
    rich = workshop.last()["toolUseResult"]
    assert ("early", True) == (rich["stdout"], rich["interrupted"])


def test_long_output_goes_to_a_file_of_the_session(tmp_path: Path) -> None:
    """The model gets the start and the place; the file holds all of it."""
    workshop = everything_goes(tmp_path)

    ran = bash(workshop.runner(), "seq 1 40000")

    rich = workshop.last()["toolUseResult"]
    kept = Path(rich["persistedOutputPath"])
    expected = "".join(f"{number}\n" for number in range(1, 40_001))
    assert (expected, len(expected), expected[:30_000]) == (
        kept.read_text(),
        rich["persistedOutputSize"],
        rich["stdout"],
    )
    assert kept.parent == workshop.session.log.path.with_suffix("") / "tool-results"
    assert str(ran.block["content"]).startswith(
        "<persisted-output>\nOutput too large (223.5KB). Full output saved to: "
    )


def test_a_name_of_a_call_is_no_path(tmp_path: Path) -> None:
    """The id of a call comes from the API; it names a file, never a place."""
    workshop = everything_goes(tmp_path)

    workshop.runner().run(call("Bash", {"command": "seq 1 40000"}, "../../../../evil"))

    kept = Path(workshop.last()["toolUseResult"]["persistedOutputPath"])
    assert "evil.txt" == kept.name
    assert kept.parent == workshop.session.log.path.with_suffix("") / "tool-results"


def test_a_sub_agent_has_no_background_commands(tmp_path: Path) -> None:
    """Its conversation ends with its report, so a command that it leaves behind could tell it nothing."""
    workshop = everything_goes(tmp_path)
    runner = workshop.runner()

    with workshop.session.log.sub_agent("a1") as log:
        ran = bash(runner.for_sub_agent(log, runner.cancelled, None), "touch made", run_in_background=True)

    assert (True, False) == (ran.outcome.is_error, (workshop.project / "made").exists())
