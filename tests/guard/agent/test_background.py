"""Commands in the background: started, looked at, stopped, and reported when they end."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from recollect.guard.agent.bash_tool import BackgroundTask, BackgroundTasks, TaskReport
from tests.guard.agent.workshop import Script, Workshop, bash, call, needs_sandbox, plain

pytestmark = needs_sandbox


def told(workshop: Workshop) -> list[str]:
    """The messages about tasks, as the log has them."""
    lines = [line for line in workshop.lines() if line.get("origin") == {"kind": "task-notification"}]
    return [line["message"]["content"] for line in lines]


def background(command: str, **more: Any) -> dict[str, Any]:
    return call("Bash", {"command": command, "run_in_background": True, **more}, "toolu_bg")


def test_the_model_goes_on_and_hears_of_the_end(tmp_path: Path) -> None:
    """The call is answered at once; the end of the command is a message of its own, and the run waits for it."""
    workshop = Workshop(tmp_path, allow=["Bash"])
    script = Script([background("sleep 0.3; echo made > made", description="Slow one")], "Waiting.", "Heard.")

    result = workshop.agent(script).run("Go")

    (news,) = told(workshop)
    assert ("success", "Heard.", "made\n") == (
        result.ending,
        result.text,
        (workshop.project / "made").read_text(),
    )
    assert (
        '<status>completed</status>\n<summary>Background command "Slow one" completed (exit code 0)' in news
    )
    answered = next(line for line in workshop.lines() if isinstance(line.get("toolUseResult"), dict))
    assert answered["toolUseResult"]["backgroundTaskId"] in news
    sent = plain(script.asked[-1]["messages"])
    assert [*sent, {"role": "assistant", "content": [{"type": "text", "text": "Heard."}]}] == plain(
        workshop.read_back().conversation().to_api()
    )


def test_output_so_far_and_stop(tmp_path: Path) -> None:
    """TaskOutput shows what was printed, TaskStop ends it, and its processes are gone."""
    workshop = Workshop(tmp_path, allow=["Bash"])
    runner = workshop.runner()
    started = runner.run(background("echo first; sleep 60; echo never"))
    name = started.outcome.rich["backgroundTaskId"]  # type: ignore[index]
    task = runner.background._tasks[name]
    while "first" not in task.text():
        threading.Event().wait(0.02)

    seen = runner.run(call("TaskOutput", {"task_id": name, "block": False}))
    stopped = runner.run(call("TaskStop", {"task_id": name}))
    (news,) = runner.background.news()

    assert "<status>running</status>\n<output>\nfirst\n" in seen.block["content"]
    assert f"Successfully stopped task: {name}" == stopped.block["content"]
    assert ("<status>killed</status>" in news, "never" in task.text()) == (True, False)
    assert task.output.parent == workshop.session.log.path.with_suffix("") / "tool-results"


def test_a_failing_command_says_so(tmp_path: Path) -> None:
    """The exit code is in the message."""
    workshop = Workshop(tmp_path, allow=["Bash"])

    workshop.agent(Script([background("exit 3", description="Fails")], "Waiting.", "Heard.")).run("Go")

    assert (
        '<status>failed</status>\n<summary>Background command "Fails" failed (exit code 3)'
        in told(workshop)[0]
    )


def test_a_command_that_no_rule_allows_is_not_started(tmp_path: Path) -> None:
    """The background is no way around the rules."""
    workshop = Workshop(tmp_path)

    ran = bash(workshop.runner(), "touch made", run_in_background=True)

    assert (True, False) == (ran.outcome.denied, (workshop.project / "made").exists())


def test_nothing_outlives_the_run(tmp_path: Path) -> None:
    """Where the run ends first, the command is stopped, and the log says so."""
    workshop = Workshop(tmp_path, allow=["Bash"])
    runner = workshop.runner()

    result = workshop.agent(Script([background("sleep 60")]), runner, max_turns=1).run("Go")

    assert ("error_max_turns", 1, False) == (result.ending, len(told(workshop)), runner.background.pending)
    assert "<status>killed</status>" in told(workshop)[0]


def test_an_interrupted_wait_ends_the_run(tmp_path: Path) -> None:
    """Ctrl-C while the run waits for a task: the task is stopped, the end is recorded."""
    workshop = Workshop(tmp_path, allow=["Bash"])
    runner = workshop.runner()

    def stop() -> str:
        threading.Timer(0.2, runner.cancelled.set).start()
        return "Waiting."

    result = workshop.agent(Script([background("sleep 60")], stop), runner).run("Go")

    assert ("interrupted", False) == (result.ending, runner.background.pending)
    assert "[Request interrupted by user]" in json.dumps(workshop.lines())


def test_a_crash_of_the_work_is_a_failure_of_the_task(tmp_path: Path) -> None:
    """Whatever happens inside, the end is reported; else the run would wait for ever."""
    tasks = BackgroundTasks(tmp_path)

    def broken(task: BackgroundTask) -> TaskReport:
        raise ValueError("no")

    tasks.start("toolu_1", broken)

    (news,) = tasks.wait(threading.Event())
    assert "<status>failed</status>\n<summary>ValueError: no</summary>" in news
