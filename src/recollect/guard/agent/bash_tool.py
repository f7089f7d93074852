"""Bash: one command line in the sandbox, in the directory where the last one ended, or in the background.

The shell gets exactly the text that was decided. It writes its final directory to a private file; a directory
outside the working directories is not kept. The model's input cannot loosen the sandbox (E07): it is only a command
and a timeout.

What a task in the background prints is kept in the session's own directory. When it ends, the model is told by a
message of its own, in the client's words. No task outlives the run: ``close`` stops what is left and reports it.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from recollect.errors import RecollectError
from recollect.guard import sandbox as execution
from recollect.guard.agent.calls import (
    ApprovedCall,
    PermissionGate,
    ToolFailed,
    ToolOutcome,
    invalid,
    words,
)
from recollect.guard.sandbox import Confinement, RunLimits, RunResult
from recollect.system import fsops
from recollect.system.peek import open_regular

TaskStatus = Literal["running", "completed", "failed", "killed"]
_MOST_CHARACTERS = 30_000
_BLINK = 0.05
_MOST_SECONDS = 600.0


TaskReport = tuple[TaskStatus, str, str]
"""How a task ended: one line for people, and for an agent its answer."""


@dataclass(slots=True)
class BackgroundTask:
    """One piece of work. ``stop`` ends it; ``report`` is set when it has ended."""

    id: str
    call_id: str
    output: Path
    stop: threading.Event = field(default_factory=threading.Event)
    report: TaskReport | None = None
    is_reported: bool = False
    """Whether the model was told of its end."""
    thread: threading.Thread | None = None

    @property
    def status(self) -> TaskStatus:
        return self.report[0] if self.report else "running"

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            fsops.make_directories(self.output.parent)
            fd = fsops.open_append(self.output)
            try:
                fsops.write_all(fd, data)
            finally:
                fsops.close_quietly(fd)

    def text(self) -> str:
        """The end of its output so far."""
        try:
            with open_regular(self.output) as file:
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return text if len(text) <= _MOST_CHARACTERS else f"... {text[-_MOST_CHARACTERS:]}"

    def news(self) -> str:
        status, summary, details = self.report or ("running", "still running", "")
        lines = [
            f"<task-id>{self.id}</task-id>",
            f"<tool-use-id>{self.call_id}</tool-use-id>",
            f"<output-file>{self.output}</output-file>",
            f"<status>{status}</status>",
            f"<summary>{summary}</summary>",
            *([details] if details else []),
        ]
        return "\n".join(["<task-notification>", *lines, "</task-notification>"])


class BackgroundTasks:
    """The tasks of one session. Started and asked from one thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._tasks: dict[str, BackgroundTask] = {}

    @property
    def pending(self) -> bool:
        """Whether the model has yet to hear of a task."""
        return not all(task.is_reported for task in self._tasks.values())

    def start(
        self, call_id: str, work: Callable[[BackgroundTask], TaskReport], *, task_id: str = ""
    ) -> BackgroundTask:
        """Begin a task. An exception in ``work`` is reported as its failure."""
        name = task_id or f"b{secrets.token_hex(4)}"
        task = BackgroundTask(name, call_id, self._directory / f"{name}.txt")
        task.thread = threading.Thread(
            target=self._run, args=(task, work), name=f"recollect-task-{name}", daemon=True
        )
        self._tasks[name] = task
        task.thread.start()
        return task

    def news(self) -> list[str]:
        ended = [task for task in self._tasks.values() if task.report is not None and not task.is_reported]
        for task in ended:
            task.is_reported = True
        return [task.news() for task in ended]

    def wait(self, cancelled: threading.Event) -> list[str]:
        """Wait until a task has ended; nothing where the run is cancelled first."""
        while self.pending and not cancelled.is_set():
            found = self.news()
            if found:
                return found
            cancelled.wait(_BLINK)
        return []

    def close(self) -> list[str]:
        """Stop everything that still runs; returns what the model has not heard yet."""
        for task in self._tasks.values():
            task.stop.set()
        for task in self._tasks.values():
            if task.thread is not None:
                task.thread.join()
        return self.news()

    # ---- tools ---------------------------------------------------------------------------------------

    def output(self, call: ApprovedCall, cancelled: threading.Event) -> ToolOutcome:
        """TaskOutput: the state of a task and what it printed so far."""
        task = self._named(call)
        call.require_still_allowed()
        asked = call.number("timeout")
        end = time.monotonic() + min(max(30.0 if asked is None else asked / 1000, 0.0), _MOST_SECONDS)
        while call.arguments.get("block") is not False and task.report is None and time.monotonic() < end:
            if cancelled.wait(_BLINK):
                break
        text = task.text()
        shown = f"<status>{task.status}</status>\n<output>\n{text}\n</output>"
        return ToolOutcome(shown, {"task": {"task_id": task.id, "status": task.status, "output": text}})

    def end(self, call: ApprovedCall) -> ToolOutcome:
        task = self._named(call)
        call.require_still_allowed()
        if task.report is not None:
            raise ToolFailed(f"Task {task.id} is not running (status: {task.status})", refused=True)
        task.stop.set()
        if task.thread is not None:
            task.thread.join()
        text = f"Successfully stopped task: {task.id}"
        return ToolOutcome(text, {"message": text, "task_id": task.id})

    def _named(self, call: ApprovedCall) -> BackgroundTask:
        name = str(call.arguments.get("task_id"))
        if name not in self._tasks:
            raise ToolFailed(f"No task found with ID: {name}", refused=True)
        return self._tasks[name]

    def _run(self, task: BackgroundTask, work: Callable[[BackgroundTask], TaskReport]) -> None:
        try:
            task.report = work(task)
        except ToolFailed as failure:
            task.report = ("failed", failure.text, "")
        except RecollectError as problem:
            task.report = ("failed", problem.message, "")
        except Exception as problem:  # noqa: BLE001 - a task that ends must be reported, or the run waits for ever
            task.report = ("failed", f"{type(problem).__name__}: {problem}", "")


_PREVIEW_BYTES = 2_000


class BashTool:
    """The shell of one session. ``cwd`` is where the next command runs."""

    def __init__(
        self,
        gate: PermissionGate,
        confinement: Confinement,
        limits: RunLimits,
        results: Path,
        cancelled: threading.Event,
        *,
        background: BackgroundTasks | None = None,
    ) -> None:
        self._gate, self._confinement, self._limits = gate, confinement, limits
        self._results, self._cancelled, self._background = results, cancelled, background
        self.cwd = gate.root

    def run(self, call: ApprovedCall) -> ToolOutcome:
        command = call.arguments.get("command")
        if not isinstance(command, str) or "\0" in command:
            raise invalid("Bash", "The required parameter `command` is missing")
        if call.arguments.get("run_in_background") is True:
            return self._started(call, command)
        limits = replace(self._limits, seconds=self._seconds(call))
        with tempfile.TemporaryDirectory(prefix="recollect-shell-", ignore_cleanup_errors=True) as place:
            result = self._executed(call, command, Path(place), limits, cancelled=self._cancelled)
            note = self._follow(Path(place, "cwd"))
        return self._answer(call, result, limits, note)

    def _started(self, call: ApprovedCall, command: str) -> ToolOutcome:
        """Begin a command that continues beside the conversation; its directory is not taken over."""
        if self._background is None:
            raise invalid("Bash", "`run_in_background` is not available here; nothing was started")
        call.require_still_allowed()
        task = self._background.start(call.id, lambda one: self._ended(call, command, one))
        rich = self._rich("", "") | {"backgroundTaskId": task.id}
        return ToolOutcome(words("in_background", task=task.id, output=str(task.output)), rich)

    def _ended(self, call: ApprovedCall, command: str, task: BackgroundTask) -> TaskReport:
        limits = replace(
            self._limits, seconds=self._seconds(call) if "timeout" in call.arguments else _MOST_SECONDS
        )
        with tempfile.TemporaryDirectory(prefix="recollect-shell-", ignore_cleanup_errors=True) as place:
            result = self._executed(
                call,
                command,
                Path(place),
                limits,
                cancelled=task.stop,
                on_output=lambda _, data: task.write(data),
            )
        name = call.arguments.get("description")
        task_name = f'Background command "{name if isinstance(name, str) and name else command}"'
        if result.exit_code == 0:
            return "completed", f"{task_name} completed (exit code 0)", ""
        if result.ended_by == "cancelled":
            return "killed", f"{task_name} was stopped", ""
        limit = f"it exceeded its limit of {result.ended_by}"
        return (
            "failed",
            f"{task_name} failed ({limit if result.ended_by else f'exit code {result.exit_code}'})",
            "",
        )

    def _executed(
        self,
        call: ApprovedCall,
        command: str,
        place: Path,
        limits: RunLimits,
        *,
        cancelled: threading.Event,
        on_output: Callable[[str, bytes], None] | None = None,
    ) -> RunResult:
        directory_file = shlex.quote(str(place / "cwd"))
        # The path is in the text, not in a variable: a command may change every variable. Both streams are
        # one, as in the client, so that the output keeps its order.
        script = f'exec 2>&1\neval "$1"\n__recollect_code=$?\nbuiltin pwd -P >| {directory_file}\nexit "$__recollect_code"'
        writable = (*map(Path, self._gate.roots), place, *self._confinement.write)
        call.require_still_allowed()
        try:
            return execution.run(
                ["bash", "--noprofile", "--norc", "-c", script, "bash", command],
                cwd=Path(call.cwd),
                confinement=replace(self._confinement, write=writable),
                limits=limits,
                cancelled=cancelled,
                on_output=on_output,
            )
        except RecollectError as problem:
            raise ToolFailed(f"{problem.message}. {problem.hint}") from problem

    def _seconds(self, call: ApprovedCall) -> float | None:
        asked = call.number("timeout")
        return min(asked / 1000, _MOST_SECONDS) if asked and asked > 0 else self._limits.seconds

    def _follow(self, directory_file: Path) -> str:
        """Take over the command's final directory; returns the message if it is not kept, else ""."""
        try:
            fd = fsops.open_nofollow(directory_file)
            try:
                ended_in = fsops.pread(fd, 8192, 0).decode("utf-8", "surrogateescape").removesuffix("\n")
            finally:
                fsops.close_quietly(fd)
        except OSError:
            return ""  # it called exit, or was ended: the directory stays the same
        if not ended_in.startswith("/") or "\0" in ended_in or ended_in == self.cwd:
            return ""
        if Path(ended_in).is_dir() and self._gate.holds_directory(ended_in):
            self.cwd = self._gate.world.resolved(ended_in)
            return ""
        self.cwd = self._gate.root
        return words("directory_reset", directory=self.cwd)

    def _answer(self, call: ApprovedCall, result: RunResult, limits: RunLimits, note: str) -> ToolOutcome:
        texts = (data.decode("utf-8", "replace") for data in (result.stdout, result.stderr))
        out, err = (text.rstrip().lstrip("\n") for text in texts)
        err = "\n".join(filter(None, (err, note)))
        said = "\n".join(filter(None, (out, err)))
        marks: dict[str, object] = {"sandboxed": result.sandbox != "unconfined"}
        if result.ended_by == "cancelled":
            rich = self._rich(out, err) | {"interrupted": True}
            return ToolOutcome(
                "\n".join(filter(None, (said, words("aborted")))), rich, True, interrupted=True, marks=marks
            )
        if result.ended_by is not None or result.exit_code != 0:
            text = _failure(result, limits, _cut(said))
            return ToolOutcome(text, f"Error: {text}", True, marks=marks)
        if len(said) > _MOST_CHARACTERS:
            return self._persisted(call, result.stdout, out, err, marks)
        return ToolOutcome(said or words("no_output"), self._rich(out, err), marks=marks)

    def _rich(self, out: str, err: str) -> dict[str, object]:
        return {
            "stdout": out[:_MOST_CHARACTERS],
            "stderr": err[:_MOST_CHARACTERS],
            "interrupted": False,
            "isImage": False,
            "noOutputExpected": False,
        }

    def _persisted(
        self, call: ApprovedCall, data: bytes, out: str, err: str, marks: dict[str, object]
    ) -> ToolOutcome:
        """Long output goes to a file of the session; the model gets its start and the path."""
        name = "".join(one for one in call.id if one.isascii() and (one.isalnum() or one in "_-"))[:80]
        path = self._results / f"{name or 'result'}.txt"
        try:
            fsops.make_directories(path.parent)
            fsops.replace_file(path, data)
        except OSError:
            return ToolOutcome(_cut(out), self._rich(out, err), marks=marks)
        preview = data[:_PREVIEW_BYTES].decode("utf-8", "ignore")
        preview = preview.rpartition("\n")[0] or preview
        rich = self._rich(out, err) | {"persistedOutputPath": str(path), "persistedOutputSize": len(data)}
        return ToolOutcome(
            words("persisted", path=path, kib=len(data) / 1024, preview=preview), rich, marks=marks
        )


def _cut(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    half = _MOST_CHARACTERS // 2
    return f"{text[:half]}\n\n... [{len(text) - 2 * half} characters truncated] ...\n\n{text[-half:]}"


def _failure(result: RunResult, limits: RunLimits, said: str) -> str:
    minutes, rest = divmod(round(limits.seconds or 0), 60)
    reasons = {
        "time": f"Command timed out after {f'{minutes}m ' if minutes else ''}{rest}s",
        "memory": "Command was ended: it used too much memory",
        "disk": "Command was ended: the disk is nearly full",
    }
    reason = reasons.get(result.ended_by or "", "")
    code = 143 if result.exit_code is None else result.exit_code
    return "\n".join(filter(None, (f"Exit code {code}", reason, said)))
