"""Work that continues while the model does other things: commands and sub-agents, each in a thread.

What a task prints is kept in the session's own directory, where archive and sync find it. When a task
ends, the model is told by a message of its own, in the client's words (``<task-notification>``). No task
outlives the run: ``close`` stops what is left and reports it too.
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from recollect.errors import RecollectError
from recollect.runtime.outcome import ApprovedCall, ToolFailed, ToolOutcome
from recollect.system import fsops
from recollect.system.peek import open_regular

TaskStatus = Literal["running", "completed", "failed", "killed"]
_MOST_SHOWN = 30_000
_BLINK = 0.05
_LONGEST_WAIT = 600.0


@dataclass(frozen=True, slots=True)
class TaskReport:
    """How a task ended: one line for people, and for an agent its answer."""

    status: TaskStatus
    summary: str
    details: str = ""


@dataclass(slots=True)
class BackgroundTask:
    """One piece of work. ``stop`` ends it; ``report`` is set when it has ended."""

    id: str
    call_id: str
    output: Path
    stop: threading.Event = field(default_factory=threading.Event)
    report: TaskReport | None = None
    thread: threading.Thread | None = None

    @property
    def status(self) -> TaskStatus:
        return "running" if self.report is None else self.report.status

    def write(self, data: bytes) -> None:
        """Add to its output. A full disk must not end the work, so the output may be cut short."""
        with contextlib.suppress(OSError):
            fsops.make_directories(self.output.parent)
            opened = fsops.open_append(self.output)
            try:
                fsops.write_all(opened.fd, data)
            finally:
                fsops.close_quietly(opened.fd)

    def text(self) -> str:
        """The end of its output so far."""
        try:
            with open_regular(self.output) as file:
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return text if len(text) <= _MOST_SHOWN else f"... {text[-_MOST_SHOWN:]}"

    def news(self) -> str:
        """The message about its end, as the client writes it."""
        report = self.report or TaskReport("running", "still running")
        lines = [
            f"<task-id>{self.id}</task-id>",
            f"<tool-use-id>{self.call_id}</tool-use-id>",
            f"<output-file>{self.output}</output-file>",
            f"<status>{report.status}</status>",
            f"<summary>{report.summary}</summary>",
            *([report.details] if report.details else []),
        ]
        return "\n".join(["<task-notification>", *lines, "</task-notification>"])


class BackgroundTasks:
    """The tasks of one session. Started and asked from one thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._tasks: dict[str, BackgroundTask] = {}
        self._ended: queue.SimpleQueue[BackgroundTask] = queue.SimpleQueue()
        self._untold = 0

    @property
    def pending(self) -> bool:
        """Whether the model has yet to hear of a task."""
        return self._untold > 0

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
        self._untold += 1
        task.thread.start()
        return task

    def news(self) -> list[str]:
        """What ended since the last question."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._ended.get_nowait().news())
        self._untold -= len(found)
        return found

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
        asked = call.arguments.get("timeout")
        seconds = asked / 1000 if isinstance(asked, int | float) and not isinstance(asked, bool) else 30.0
        end = time.monotonic() + min(max(seconds, 0.0), _LONGEST_WAIT)
        while call.arguments.get("block") is not False and task.report is None and time.monotonic() < end:
            if cancelled.wait(_BLINK):
                break
        text = task.text()
        shown = f"<status>{task.status}</status>\n<output>\n{text}\n</output>"
        return ToolOutcome(shown, {"task": {"task_id": task.id, "status": task.status, "output": text}})

    def end(self, call: ApprovedCall) -> ToolOutcome:
        """TaskStop: end a task."""
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
            report = work(task)
        except ToolFailed as failure:
            report = TaskReport("failed", failure.text)
        except RecollectError as problem:
            report = TaskReport("failed", problem.message)
        except Exception as problem:  # noqa: BLE001 - a task that ends must be reported, or the run waits for ever
            report = TaskReport("failed", f"{type(problem).__name__}: {problem}")
        task.report = report
        self._ended.put(task)
