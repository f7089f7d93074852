"""`recollect rules run`: a command in the sandbox, if the rules allow it."""

from __future__ import annotations

import re
import shlex
import signal
import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import asdict
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.homes import settings_home
from recollect.cli.terminal.text import visible, visible_lines
from recollect.errors import NotPermitted, UsageError
from recollect.guard import sandbox
from recollect.guard.permissions.engine import permit
from recollect.guard.sandbox import Confinement, RunLimits, RunResult
from recollect.model.settings.decision import Decision, Verdict

TIME_IS_UP, INTERRUPTED, ENDED_BY_US = 124, 130, 137


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("command", metavar="CMD", nargs="+", help="the command and its arguments, after --")
    add(
        "--allow-net",
        metavar="HOST",
        action="append",
        default=[],
        help="a host it may reach over HTTP(S) (repeatable)",
    )
    add(
        "--write", metavar="DIR", action="append", default=[], help="a directory it may write to (repeatable)"
    )
    add(
        "--show",
        metavar="PATH",
        action="append",
        default=[],
        help="a place with credentials it may read; they are hidden by default (repeatable)",
    )
    add("--timeout", metavar="S", type=float, default=120.0, help="time limit in seconds (default 120)")
    add(
        "--memory", metavar="SIZE", type=_memory, default=None, help="memory limit, such as 512M (default 2G)"
    )
    add(
        "--command",
        metavar="NAME",
        dest="commands",
        action="append",
        help="a program that may be run; with this, no other may (repeatable)",
    )
    add("--yes", action="store_true", help="confirm if a rule asks")
    add("--unconfined", action="store_true", help="run it without a sandbox")
    add("--json", action="store_true", help="print one JSON document at the end")


def run(options: Namespace) -> int:
    if not options.timeout > 0:
        raise UsageError(f"timeout {options.timeout:g}: must be more than 0", hint="give seconds above 0")
    cwd, home = Path.cwd(), settings_home(options.homes)
    # The rules decide about exactly the words that are then run: no shell parses them again.
    command = shlex.join(options.command)
    decision = permit(home, cwd, with_config=True).decide("Bash", {"command": command})
    _require_permission(f"Bash({command})", cwd, decision, accepts_ask=options.yes)
    result = sandbox.run(
        options.command,
        cwd=cwd,
        confinement=Confinement(
            write=(cwd, *map(Path, options.write)),
            allow_hosts=tuple(options.allow_net),
            show=tuple(Path(place).expanduser() for place in options.show),
            commands=tuple(options.commands) if options.commands else None,
            backend="unconfined" if options.unconfined else "bubblewrap",
        ),
        limits=RunLimits(seconds=options.timeout, memory_bytes=options.memory or RunLimits().memory_bytes),
        cancelled=_cancelled_by_interrupt(),
        on_output=None if options.json else _show,
    )
    if options.json:
        texts = {name: getattr(result, name).decode("utf-8", "replace") for name in ("stdout", "stderr")}
        seconds = round(result.seconds, 3)
        output.print_json({"exit_code": result.exit_code, **asdict(result), **texts, "seconds": seconds})
    else:
        _tell(result)
    if result.exit_code is not None:
        return result.exit_code
    return {"time": TIME_IS_UP, "cancelled": INTERRUPTED}.get(result.ended_by or "", ENDED_BY_US)


def _require_permission(call: str, cwd: Path, decision: Decision, *, accepts_ask: bool) -> None:
    """Raise unless the command is allowed, or needs a confirmation that was given; a deny stays a deny."""
    if decision.verdict is Verdict.ALLOW or (decision.verdict is Verdict.ASK and accepts_ask):
        return
    short, place = (
        shlex.quote(text if len(text) <= 300 else text[:297] + "...") for text in (call, str(cwd))
    )
    see = f"`recollect rules check --explain {short} --cwd {place}` shows why"
    more = "; --yes runs it anyway" if decision.verdict is Verdict.ASK else ""
    raise NotPermitted(call, decision.why, hint=see + more)


def _memory(text: str) -> int:
    found = re.fullmatch(r"([1-9][0-9]{0,11})([KMGT]?)", text.strip().upper().removesuffix("B"), re.ASCII)
    if found is None:
        raise ArgumentTypeError(f"{text!a} is not a size such as 512M")
    return int(found[1]) << 10 * " KMGT".index(found[2] or " ")


def _cancelled_by_interrupt() -> threading.Event:
    """Ctrl-C ends the command, not this process: its output still has to be printed."""
    event = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: event.set())
    return event


def _show(stream: str, piece: bytes) -> None:
    target = sys.stdout if stream == "stdout" else sys.stderr
    if target.isatty():  # the output may contain hostile text
        target.write(visible_lines(piece.decode("utf-8", "replace")))
    else:
        target.buffer.write(piece)
    target.flush()


def _tell(result: RunResult) -> None:
    if result.sandbox != "bubblewrap":
        for text in result.not_held:
            output.note(f"recollect: {result.sandbox}: {text}")
    for name in result.put_back:
        output.note(
            f"recollect: {visible(name)} was changed and has been restored; the changed version is saved beside it"
        )
    if result.truncated:
        output.note("recollect: the output was too long and was cut")
    if result.ended_by:
        reason = {
            "time": "the time limit was reached",
            "memory": "it used too much memory",
            "disk": "the disk is nearly full",
        }
        output.note(f"recollect: ended: {reason.get(result.ended_by, result.ended_by)}")
