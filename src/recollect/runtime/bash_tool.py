"""Bash: one command line in the sandbox, in the directory where the last one ended.

The shell gets exactly the text that was decided. It writes its final directory to a private file; a
directory outside the working directories is not kept. The model's input cannot loosen the sandbox
(E07): it is only a command and a timeout.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from recollect import execution
from recollect.errors import RecollectError
from recollect.execution import Confinement, RunLimits, RunResult
from recollect.runtime import words
from recollect.runtime.background import BackgroundTask, BackgroundTasks, TaskReport
from recollect.runtime.gate import PermissionGate
from recollect.runtime.outcome import ApprovedCall, ToolFailed, ToolOutcome
from recollect.system import fsops

_MOST_SECONDS = 600.0
_MOST_CHARACTERS = 30_000
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
            raise ToolFailed(
                words.invalid("Bash", "The required parameter `command` is missing"), refused=True
            )
        if call.arguments.get("run_in_background") is True:
            return self._started(call, command)
        limits = replace(self._limits, seconds=self._seconds(call))
        place = Path(tempfile.mkdtemp(prefix="recollect-shell-"))
        try:
            result = self._executed(call, command, place, limits, cancelled=self._cancelled)
            note = self._follow(place / "cwd")
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return self._answer(call, result, limits, note)

    def _started(self, call: ApprovedCall, command: str) -> ToolOutcome:
        """Begin a command that continues beside the conversation; its directory is not taken over."""
        if self._background is None:
            raise ToolFailed(
                words.invalid("Bash", "`run_in_background` is not available here; nothing was started"),
                refused=True,
            )
        call.require_still_allowed()
        task = self._background.start(call.id, lambda one: self._ended(call, command, one))
        rich = self._rich("", "") | {"backgroundTaskId": task.id}
        return ToolOutcome(words.in_background(task.id, str(task.output)), rich)

    def _ended(self, call: ApprovedCall, command: str, task: BackgroundTask) -> TaskReport:
        limits = replace(
            self._limits, seconds=self._seconds(call) if "timeout" in call.arguments else _MOST_SECONDS
        )
        place = Path(tempfile.mkdtemp(prefix="recollect-shell-"))
        try:
            result = self._executed(
                call, command, place, limits, cancelled=task.stop, on_output=lambda _, data: task.write(data)
            )
        finally:
            shutil.rmtree(place, ignore_errors=True)
        name = call.arguments.get("description")
        summary = words.background_end(
            name if isinstance(name, str) and name else command, result.exit_code, result.ended_by
        )
        if result.ended_by == "cancelled":
            return TaskReport("killed", summary)
        return TaskReport("completed" if result.exit_code == 0 else "failed", summary)

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
        asked = call.arguments.get("timeout")
        if isinstance(asked, int | float) and not isinstance(asked, bool) and asked > 0:
            return min(asked / 1000, _MOST_SECONDS)
        return self._limits.seconds

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
        return words.directory_reset(self.cwd)

    def _answer(self, call: ApprovedCall, result: RunResult, limits: RunLimits, note: str) -> ToolOutcome:
        out, err = _text(result.stdout), _text(result.stderr)
        err = "\n".join(filter(None, (err, note)))
        said = "\n".join(filter(None, (out, err)))
        marks: dict[str, object] = {"sandboxed": result.sandbox != "unconfined"}
        if result.ended_by == "cancelled":
            rich = self._rich(out, err) | {"interrupted": True}
            return ToolOutcome(
                "\n".join(filter(None, (said, words.ABORTED))), rich, True, interrupted=True, marks=marks
            )
        if result.ended_by is not None or result.exit_code != 0:
            text = _failure(result, limits, _cut(said))
            return ToolOutcome(text, f"Error: {text}", True, marks=marks)
        if len(said) > _MOST_CHARACTERS:
            return self._persisted(call, result.stdout, out, err, marks)
        return ToolOutcome(said or words.NO_OUTPUT, self._rich(out, err), marks=marks)

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
        return ToolOutcome(words.persisted(str(path), len(data), preview), rich, marks=marks)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").rstrip().lstrip("\n")


def _cut(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    half = _MOST_CHARACTERS // 2
    return f"{text[:half]}\n\n... [{len(text) - 2 * half} characters truncated] ...\n\n{text[-half:]}"


def _failure(result: RunResult, limits: RunLimits, said: str) -> str:
    reasons = {
        "memory": "Command was ended: it used too much memory",
        "disk": "Command was ended: the disk is nearly full",
    }
    reason = (
        words.timed_out(limits.seconds or 0) if result.timed_out else reasons.get(result.ended_by or "", "")
    )
    code = 143 if result.exit_code is None else result.exit_code
    return "\n".join(filter(None, (f"Exit code {code}", reason, said)))
