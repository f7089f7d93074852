"""Bash runs the text that was decided about, in the sandbox, from where the last command left off."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from recollect.execution import Confinement
from tests.runtime.workshop import Workshop, bash, call, needs_sandbox

pytestmark = needs_sandbox


def everything_goes(place: Path) -> Workshop:
    return Workshop(place, mode="bypassPermissions")


def test_a_failure_says_code_and_both_streams(tmp_path: Path) -> None:
    """As client 2.1.325 words it."""
    workshop = everything_goes(tmp_path)

    ran = bash(workshop.runner(), "echo out; echo err >&2; exit 3")

    assert ("Exit code 3\nout\nerr", True) == (ran.block["content"], ran.block["is_error"])
    assert "Error: Exit code 3\nout\nerr" == workshop.last()["toolUseResult"]


def test_no_output_is_said_in_words(tmp_path: Path) -> None:
    """The API takes no empty result, and the client says so."""
    ran = bash(everything_goes(tmp_path).runner(), "true")

    assert "(Bash completed with no output)" == ran.block["content"]


def test_the_directory_is_kept_between_commands(tmp_path: Path) -> None:
    """``cd`` in one command is where the next one runs, and what later entries say."""
    workshop = everything_goes(tmp_path)
    runner = workshop.runner()
    bash(runner, "mkdir -p sub/deep && cd sub/deep")

    ran = bash(runner, "pwd")

    inside = str(workshop.project / "sub" / "deep")
    assert (inside, inside, inside) == (ran.block["content"], runner.cwd, workshop.last()["cwd"])


@pytest.mark.parametrize("outside", ["/", "/etc", ".."])
def test_a_directory_outside_is_not_kept(tmp_path: Path, outside: str) -> None:
    """The shell goes back to the start, and says so as the client does."""
    workshop = everything_goes(tmp_path)
    runner = workshop.runner()

    ran = bash(runner, f"cd {outside}")

    assert f"Shell cwd was reset to {workshop.project}" == ran.block["content"]
    assert str(workshop.project) == runner.cwd


def test_a_link_out_of_the_directory_is_outside(tmp_path: Path) -> None:
    """Links are followed before it is asked where a directory is."""
    workshop = everything_goes(tmp_path)
    (workshop.project / "out").symlink_to("/usr")
    runner = workshop.runner()

    bash(runner, "cd out")

    assert str(workshop.project) == runner.cwd


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


def test_the_exit_code_is_the_commands_own(tmp_path: Path) -> None:
    """What stands behind the command does not change how it ended."""
    ran = bash(everything_goes(tmp_path).runner(), "false")

    assert "Exit code 1" == ran.block["content"]


def test_keys_of_ours_do_not_reach_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key the agent works with is not in a command's environment."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")

    ran = bash(everything_goes(tmp_path).runner(), "env")

    assert "sk-very-secret" not in str(ran.block["content"])
    assert "PATH=" in str(ran.block["content"])


def test_a_command_writes_in_the_project_and_not_beside_it(tmp_path: Path) -> None:
    """Even where every rule says yes, the sandbox holds."""
    workshop = everything_goes(tmp_path)

    ran = bash(workshop.runner(), f"echo x > inside; echo x > {tmp_path}/beside")

    assert ran.outcome.is_error
    assert ((workshop.project / "inside").exists(), (tmp_path / "beside").exists()) == (True, False)


def test_the_models_arguments_do_not_loosen_the_sandbox(tmp_path: Path) -> None:
    """``dangerouslyDisableSandbox`` is only a word here (E07)."""
    workshop = everything_goes(tmp_path)

    bash(workshop.runner(), f"echo x > {tmp_path}/beside", dangerouslyDisableSandbox=True)

    assert (False, True) == ((tmp_path / "beside").exists(), workshop.last()["sandboxed"])


def test_without_a_sandbox_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A back end that cannot be had is a refusal, not a weaker run (E06)."""
    from recollect.execution import backends

    monkeypatch.setattr(backends, "_why_not", lambda name: "not here")
    workshop = everything_goes(tmp_path)

    ran = bash(workshop.runner(), "touch made")

    assert (True, False) == (ran.outcome.is_error, (workshop.project / "made").exists())
    assert "no sandbox" in str(ran.block["content"])


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """The time is the model's to choose; what was printed is kept."""
    workshop = everything_goes(tmp_path)

    ran = bash(workshop.runner(), "echo early; sleep 60", timeout=700)

    assert "Exit code 143\nCommand timed out after 1s\nearly" == ran.block["content"]


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


def test_output_that_is_no_text_is_still_an_entry(tmp_path: Path) -> None:
    """Bytes outside UTF-8 become replacement characters; the log stays sound."""
    workshop = everything_goes(tmp_path)

    ran = bash(workshop.runner(), r"printf 'a\377b\0c'")

    assert ("a\ufffdb\0c", []) == (ran.block["content"], workshop.damage())


def test_hosts_are_closed_unless_named() -> None:
    """The runner starts from a confinement without hosts."""
    assert () == Confinement().allow_hosts
