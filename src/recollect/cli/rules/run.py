"""Run a command in a sandbox, if the permission rules allow it.

The rules of this directory decide first, about exactly the words given here. A
call that a rule asks about is refused unless you add --yes; a denied call is
always refused.

The command then runs without network, cannot read keys, and can write only to
this directory and those named with --write. Files that other programs execute
(git hooks, .mcp.json, shell start files) cannot be changed. The sandbox is
bubblewrap, or else Landlock; if neither works, nothing runs unless you add
--unconfined. --memory limits all its processes together (default 2G), and
--command names the only programs that may be run.

Exit status: the command's own (128 + n after signal n); 124 after --timeout,
130 when interrupted, 2 if the command was not started.

Example:
  recollect run -- make test
  recollect run --allow-net example.org --yes -- curl -s https://example.org/
  recollect run --write ../build --timeout 600 --json -- cmake --build ../build
  recollect run --show ~/.config/gh --yes -- gh auth status
  recollect run --command make --command git --memory 512M -- make test
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from recollect.cli.terminal import output
from recollect.cli.terminal.text import visible, visible_lines
from recollect.errors import UsageError
from recollect.services.documents.runs import RunDocument

if TYPE_CHECKING:
    from threading import Event

    from recollect.execution import RunResult

TIME_IS_UP, INTERRUPTED, ENDED_BY_US = 124, 130, 137


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("command", metavar="CMD", nargs="+", help="the command and its arguments, after --")
    parser.add_argument(
        "--allow-net",
        metavar="HOST",
        action="append",
        default=[],
        help="a host it may reach over HTTP(S) (repeatable)",
    )
    parser.add_argument(
        "--write", metavar="DIR", action="append", default=[], help="a directory it may write to (repeatable)"
    )
    parser.add_argument(
        "--show",
        metavar="PATH",
        action="append",
        default=[],
        help="a place with credentials it may read; they are hidden by default (repeatable)",
    )
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=120.0, help="time limit in seconds (default 120)"
    )
    parser.add_argument(
        "--memory", metavar="SIZE", type=_memory, default=None, help="memory limit, such as 512M (default 2G)"
    )
    parser.add_argument(
        "--command",
        metavar="NAME",
        dest="commands",
        action="append",
        help="a program that may be run; with this, no other may (repeatable)",
    )
    parser.add_argument("--yes", action="store_true", help="confirm if a rule asks")
    parser.add_argument("--unconfined", action="store_true", help="run it without a sandbox")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")


def run(options: Namespace) -> int:
    from pathlib import Path

    from recollect.cli.terminal.homes import settings_home
    from recollect.execution import RunLimits
    from recollect.services.permissions import sandboxed_run

    if not options.timeout > 0:
        raise UsageError(f"timeout {options.timeout:g}: must be more than 0", hint="give seconds above 0")
    request = sandboxed_run.RunRequest(
        argv=tuple(options.command),
        cwd=Path.cwd(),
        write=tuple(map(Path, options.write)),
        allow_hosts=tuple(options.allow_net),
        show=tuple(Path(place).expanduser() for place in options.show),
        is_unconfined=options.unconfined,
        seconds=options.timeout,
        memory_bytes=options.memory or RunLimits().memory_bytes,
        commands=tuple(options.commands) if options.commands else None,
        accepts_ask=options.yes,
    )
    show = None if options.json else _show
    home = settings_home(options.homes)
    result = sandboxed_run.run(request, home, cancelled=_cancelled_by_interrupt(), on_output=show)
    if options.json:
        output.print_json(_document(result))
    else:
        _tell(result)
    return _exit_code(result)


def _memory(text: str) -> int:
    """A number of bytes: ``512M``, ``2G``, or plain bytes."""
    found = re.fullmatch(r"([1-9][0-9]{0,11})([KMGT]?)", text.strip().upper().removesuffix("B"), re.ASCII)
    if found is None:
        raise ArgumentTypeError(f"{text!a} is not a size such as 512M")
    return int(found[1]) << 10 * " KMGT".index(found[2] or " ")


def _cancelled_by_interrupt() -> Event:
    """Ctrl-C ends the command, not this process: its output still has to be printed."""
    import signal
    import threading

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


def _document(result: RunResult) -> RunDocument:
    return RunDocument(
        exit_code=result.exit_code,
        stdout=result.stdout.decode("utf-8", "replace"),
        stderr=result.stderr.decode("utf-8", "replace"),
        interrupted=result.interrupted,
        truncated=result.truncated,
        sandbox=result.sandbox,
        timed_out=result.timed_out,
        ended_by=result.ended_by,
        seconds=round(result.seconds, 3),
        put_back=result.put_back,
        not_held=result.not_held,
    )


def _exit_code(result: RunResult) -> int:
    if result.exit_code is not None:
        return result.exit_code
    return {"time": TIME_IS_UP, "cancelled": INTERRUPTED}.get(result.ended_by or "", ENDED_BY_US)
