"""Running a command: what comes back, how it ends, what is left of it."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from recollect.errors import NoSandbox, NotFound, UsageError
from recollect.guard import sandbox as execution
from recollect.guard.sandbox import Confinement, RunLimits, launch
from recollect.guard.sandbox.confine import descendants
from tests.descriptors import open_descriptors
from tests.guard.mcp.project import processes_with

CYCLES = 1_000 if os.environ.get("RECOLLECT_TORTURE") else 20


@pytest.fixture(params=["bubblewrap", "unconfined"])
def backend(request: pytest.FixtureRequest) -> execution.Backend:
    """Every back end that works here."""
    name: execution.Backend = request.param
    reason = None if name == "unconfined" else execution.unavailable()
    if reason is not None:
        pytest.skip(f"{name}: {reason}")
    return name


def sh(text: str, tree: Path, backend: execution.Backend, **more: object) -> execution.RunResult:
    limits = RunLimits(**more)  # type: ignore[arg-type] # tests name the one limit they are about
    return execution.run(
        ["/bin/sh", "-c", text],
        cwd=tree,
        confinement=Confinement(write=(tree,), backend=backend),
        limits=limits,
    )


def test_a_signal_is_told_as_shells_tell_it(tmp_path: Path, backend: execution.Backend) -> None:
    """128 + 9 for SIGKILL."""
    assert 137 == sh("kill -9 $$", tmp_path, backend).exit_code


def test_a_missing_program_is_127(tmp_path: Path, backend: execution.Backend) -> None:
    """And the message says which."""
    result = execution.run(
        ["no-such-program"], cwd=tmp_path, confinement=Confinement(write=(tmp_path,), backend=backend)
    )

    assert (127, b"recollect: 'no-such-program': no such program\n") == (result.exit_code, result.stderr)


def test_stdin_is_what_was_given(tmp_path: Path, backend: execution.Backend) -> None:
    """More than a pipe holds, and the end of it is seen."""
    data = b"x" * 300_000
    result = execution.run(["wc", "-c"], cwd=tmp_path, confinement=Confinement(backend=backend), stdin=data)

    assert b"300000" == result.stdout.strip()


def test_time_is_up(tmp_path: Path, backend: execution.Backend) -> None:
    """What was printed before is kept; a busy machine may take a while to print it."""
    tries = (sh("echo before; sleep 300", tmp_path, backend, seconds=seconds) for seconds in (1, 10, 100))
    result = next(one for one in tries if one.stdout)

    assert (b"before\n", None, True, True) == (
        result.stdout,
        result.exit_code,
        result.interrupted,
        result.timed_out,
    )


def test_cancelled(tmp_path: Path, backend: execution.Backend) -> None:
    """Somebody else says stop as soon as the first line is there."""
    cancelled = threading.Event()
    result = execution.run(
        ["/bin/sh", "-c", "echo before; sleep 60"],
        cwd=tmp_path,
        confinement=Confinement(backend=backend),
        cancelled=cancelled,
        on_output=lambda _stream, _piece: cancelled.set(),
    )

    assert (b"before\n", "cancelled", False) == (result.stdout, result.ended_by, result.timed_out)


def test_output_beyond_the_limit_is_dropped(tmp_path: Path, backend: execution.Backend) -> None:
    """The first bytes are kept, the command is not blocked, and the result says so."""
    result = sh("head -c 1000000 /dev/zero; echo end >&2", tmp_path, backend, output_bytes=1000)

    assert (bytes(1000), b"end\n", True, 0) == (
        result.stdout,
        result.stderr,
        result.truncated,
        result.exit_code,
    )


def test_a_background_process_does_not_keep_us_waiting(tmp_path: Path, backend: execution.Backend) -> None:
    """It holds the pipe open and is ended with the command."""
    result = sh("sleep 3600 & echo $!", tmp_path, backend, seconds=30)

    assert (0, False) == (result.exit_code, result.interrupted)


def test_the_environment_is_clean(
    tmp_path: Path, backend: execution.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our variables stay ours; what was asked for arrives."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    result = execution.run(
        ["env"], cwd=tmp_path, confinement=Confinement(backend=backend), environment={"ASKED": "1"}
    )
    names = {line.partition(b"=")[0].decode() for line in result.stdout.splitlines()}

    assert names - {"LANG", "TERM", "TZ", "USER", "LOGNAME", "COLUMNS", "LINES", "NO_COLOR", "COLORTERM"} - {
        name for name in names if name.startswith("LC_")
    } == {"ASKED", "HOME", "TMPDIR", "PATH"}
    assert b"canary" not in result.stdout


def test_home_and_tmp_are_private_and_go_away(tmp_path: Path, backend: execution.Backend) -> None:
    """It can write there, and afterwards there is nothing."""
    result = sh('echo x > "$HOME/a" && echo y > "$TMPDIR/b" && echo "$HOME"', tmp_path, backend)

    assert 0 == result.exit_code
    assert not Path(result.stdout.decode().strip()).exists()


def test_nothing_is_started_for_a_wrong_request(tmp_path: Path) -> None:
    """An empty command, a NUL, a missing directory, a system directory to write to."""
    confinement = Confinement(backend="unconfined")
    with pytest.raises(UsageError):
        execution.run([], cwd=tmp_path, confinement=confinement)
    with pytest.raises(UsageError):
        execution.run(["a\0b"], cwd=tmp_path, confinement=confinement)
    with pytest.raises(NotFound):
        execution.run(["true"], cwd=tmp_path / "none", confinement=confinement)
    for system in ("/", "/etc", "/proc/self"):
        with pytest.raises(UsageError):
            execution.run(["true"], cwd=tmp_path, confinement=Confinement(write=(Path(system),)))


def test_without_a_sandbox_it_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it does not work nothing is started, and the message says how to go on (X2)."""
    monkeypatch.setattr(launch, "unavailable", lambda: "it is broken")
    marker = tmp_path / "ran"
    with pytest.raises(NoSandbox, match=r"is broken.*--unconfined"):
        execution.run(["touch", str(marker)], cwd=tmp_path, confinement=Confinement(write=(tmp_path,)))

    assert not marker.exists()


def test_a_back_end_that_is_installed_but_broken_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bwrap that fails, as where namespaces are forbidden: the trial says so, and why."""
    if execution.unavailable() == "only on Linux":
        pytest.skip("only on Linux")
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("recollect.guard.sandbox.jail.program", lambda: str(broken))
    monkeypatch.setattr("recollect.guard.sandbox.jail.binds_descriptors", lambda: True)

    assert "No permissions to create new namespace" in (launch._trial(-1) or "")


def test_a_server_is_spoken_with_and_ended(tmp_path: Path, backend: execution.Backend) -> None:
    """Lines in and out, stderr kept, and after the end nothing of it is alive."""
    text = 'echo ready >&2; sleep 3600 & while read line; do echo "<$line>"; done'
    running = execution.start(["/bin/sh", "-c", text], cwd=tmp_path, confinement=Confinement(backend=backend))
    running.stdin.write(b"hello\n")
    running.stdin.flush()
    answer = running.stdout.readline()
    before = running.poll()
    family = [running.pid, *descendants(running.pid)]
    running.kill()
    running.kill()
    running.stdout.close()

    assert (b"<hello>\n", None, b"ready\n") == (answer, before, running.stderr)
    assert len(family) >= 3
    assert [] == [pid for pid in family if Path(f"/proc/{pid}").exists()]


def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path, backend: execution.Backend) -> None:
    """ "Die with the parent" means the thread to the kernel; it must mean the process to us."""
    started: list[execution.RunningProcess] = []

    def start() -> None:
        started.append(execution.start(["cat"], cwd=tmp_path, confinement=Confinement(backend=backend)))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    time.sleep(0.2)
    with started[0] as running:
        running.stdin.write(b"still here\n")
        running.stdin.flush()
        answer = running.stdout.readline()
    running.stdout.close()

    assert b"still here\n" == answer


def test_it_ends_with_the_process_that_started_it(tmp_path: Path, backend: execution.Backend) -> None:
    """Our own end, however sudden, is the end of what we started."""
    mark = f"4711{os.getpid()}"
    text = f"""
import os, sys
from pathlib import Path
from recollect.guard import sandbox as execution
here = Path({str(tmp_path)!r})
confinement = execution.Confinement(write=(here,), backend={backend!r})
execution.start(["/bin/sh", "-c", "setsid sleep {mark} & sleep {mark}"], cwd=here, confinement=confinement)
import time; time.sleep(0.3)
os.kill(os.getpid(), 9)
"""
    import sys

    subprocess.run([sys.executable, "-c", text], check=False, cwd=tmp_path)
    end = time.monotonic() + 60
    while time.monotonic() < end and processes_with(mark):
        time.sleep(0.02)

    assert [] == processes_with(mark)


def test_many_starts_and_ends_leave_nothing(tmp_path: Path, backend: execution.Backend) -> None:
    """No process, no descriptor, no file, whatever moment the end comes at."""
    mark = f"4712{os.getpid()}"
    confinement = Confinement(write=(tmp_path,), backend=backend)
    argv = ["/bin/sh", "-c", f"(setsid sleep {mark} &) ; sleep {mark} & sleep {mark}"]
    execution.run(["true"], cwd=tmp_path, confinement=confinement)
    descriptors = open_descriptors()
    took = []
    for cycle in range(CYCLES):
        began = time.monotonic()
        with execution.start(argv, cwd=tmp_path, confinement=confinement) as running:
            took.append(time.monotonic() - began)
            time.sleep(0.002 * (cycle % 8))
        running.stdout.close()
    print(
        f"{backend}: {CYCLES} starts, median {statistics.median(took) * 1000:.0f} ms, "
        f"p95 {sorted(took)[int(CYCLES * 0.95)] * 1000:.0f} ms"
    )

    assert [] == processes_with(mark)
    assert descriptors == open_descriptors()
    assert [] == list(tmp_path.iterdir())


def test_git_works_inside_and_does_not_see_the_placeholders(tmp_path: Path) -> None:
    """Everything is added and committed, and only what the project holds."""
    git = shutil.which("git")
    if git is None or execution.unavailable():
        pytest.skip("needs git and bubblewrap")
    subprocess.run([git, "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "file").write_text("text")
    text = "git add -A && git -c user.name=a -c user.email=a@b commit -qm one && git ls-files"
    result = sh(text, tmp_path, "bubblewrap")

    assert (0, b"file\n") == (result.exit_code, result.stdout)


def test_a_project_below_tmp_and_one_below_a_hidden_home(tmp_path: Path, backend: execution.Backend) -> None:
    """The jail's own /tmp does not cover the project; the deeper path wins over what is hidden."""
    home = tmp_path / "home"
    project = home / "project"
    project.mkdir(parents=True)
    (home / "key").write_text("canary")
    (project / "own").write_text("own")
    result = execution.run(
        ["/bin/sh", "-c", "cat own; cat ../key"],
        cwd=project,
        confinement=Confinement(write=(project,), hidden=(home,), backend=backend),
    )

    assert (b"own" if backend != "unconfined" else b"owncanary") == result.stdout


def test_a_secret_inside_a_writable_tree(tmp_path: Path, backend: execution.Backend) -> None:
    """It is hidden all the same."""
    (tmp_path / ".env").write_text("canary")
    confinement = Confinement(write=(tmp_path,), hidden=(tmp_path / ".env",), backend=backend)
    result = execution.run(["cat", ".env"], cwd=tmp_path, confinement=confinement)

    assert (b"" if backend == "bubblewrap" else b"canary") == result.stdout


def test_what_the_command_names_below_tmp_is_shown_and_the_rest_is_not(tmp_path: Path) -> None:
    """A program installed below /tmp can be started; what others left there is not to be read."""
    if execution.unavailable():
        pytest.skip(f"bubblewrap: {execution.unavailable()}")
    with tempfile.TemporaryDirectory(dir="/tmp") as named, tempfile.TemporaryDirectory(dir="/tmp") as other:
        (Path(named) / "beside").write_text("beside")
        (Path(other) / "secret").write_text("canary")
        (Path(named) / "program").write_text(f"cat {named}/beside; cat {other[:5]}*/secret")
        result = execution.run(
            ["/bin/sh", f"{named}/program"], cwd=tmp_path, confinement=Confinement(backend="bubblewrap")
        )

    assert b"beside" == result.stdout


@pytest.mark.root
def test_a_killed_supervisor_does_not_set_its_children_free(tmp_path: Path) -> None:
    """The machine may run out of memory and pick just him: with a control group nobody is left all the same."""
    mark = f"4713{os.getpid()}"
    text = f"(setsid sleep {mark} &); echo ready; sleep {mark}"
    running = execution.start(
        ["/bin/sh", "-c", text], cwd=tmp_path, confinement=Confinement(backend="unconfined")
    )
    running.stdout.readline()
    if running._order.group is None:
        running.kill()
        running.stdout.close()
        pytest.skip("no control group can be made here: only the command itself follows its supervisor")
    os.kill(running.pid, 9)
    running.wait()
    running.kill()
    running.stdout.close()

    assert [] == processes_with(mark)
