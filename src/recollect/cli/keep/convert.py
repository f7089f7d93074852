"""Rewrite a session so that another client can continue it: Claude Code or Codex.

Takes over prompts, answers, tool calls and their results, as the session's own
client would load them, and lists what the other client cannot hold. The new
session goes into recollect's data directory, or into the directory that --into
names, laid out like a home of the other client; never into a client's home.
Prints the plan; --apply writes the file.

Example:
  recollect convert @last --to codex
  recollect convert 01a1e3a3 --to claude --into ~/handed-over --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import named_session
from recollect.cli.terminal.not_shown import tell_lost_beginning
from recollect.cli.terminal.text import counted, size, visible
from recollect.model.ids import short_id
from recollect.services.documents.export import convert_document
from recollect.services.foreign import convert
from recollect.services.foreign.convert import ConvertPlan


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="S", help="session: id, start of an id, title, path, or @last")
    parser.add_argument(
        "--to", required=True, choices=convert.TARGETS, help="the client that goes on with it"
    )
    parser.add_argument("--into", type=Path, metavar="DIR", help="write below this directory")
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    session = named_session(options, options.session)
    tell_lost_beginning(session)
    directory = options.into or change_plans.own_data(options) / "converted" / options.to
    plan = convert.planned(session, options.to, directory.absolute())
    convert.refuse_target(plan)
    if options.apply:
        convert.apply(plan)
    undo = f"rm {change_plans.shell_word(str(plan.path))}" if options.apply else ""
    if options.json:
        output.print_json(convert_document(plan, applied=options.apply, undo=undo or None))
        return 0
    _tell(plan, done=options.apply)
    into = change_plans.option("--into", str(options.into)) if options.into else []
    again = change_plans.command(options, "convert", plan.session, "--to", plan.to_agent, *into, "--apply")
    change_plans.say_end(options, again, undo)
    return 0


def _tell(plan: ConvertPlan, *, done: bool) -> None:
    verb = "Converted" if done else "Would convert"
    output.say(
        f"{verb} {visible(short_id(plan.session))} of {plan.from_agent} for {plan.to_agent}:"
        f" {counted(len(plan.lines), 'line')}, {size(plan.bytes)}"
    )
    output.say(f"File: {visible(str(plan.path))}")
    for loss in plan.losses:
        output.say(f"  not carried: {visible(loss.what)} ({loss.count:,} x {loss.code})")
    if done:
        path = change_plans.shell_word(str(plan.path))
        words = f"claude --resume {path}" if plan.to_agent == "claude" else f"codex resume {plan.new}"
        where = (
            "" if plan.to_agent == "claude" else ", with its home as CODEX_HOME or the file copied into yours"
        )
        output.say(visible(f"Continue it with: {words}{where}"))
