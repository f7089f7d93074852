"""Make a new session that starts as a copy of another, up to its end or to any entry.

The copy lies beside the original and the client resumes it like any other session.
The original is not touched, and usage is not counted twice. Prints the plan; --apply
does it.

Example:
  recollect fork @last --apply
  recollect fork 3f2a9c1e --at 51c0 --title "Second try" --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import output, plans
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, size, visible
from recollect.services import fork
from recollect.services.documents.changes import fork_document
from recollect.services.fork import ForkPlan


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("session", metavar="S", help="id or its start, title, path, or @last")
    parser.add_argument(
        "--at", metavar="UUID", help="the last entry to copy; a branch's leaf copies that branch"
    )
    parser.add_argument("--title", help='title of the new session (default: the old one and "(fork)")')
    plans.add_apply(parser)


def run(options: Namespace) -> int:
    """Plan or do it."""
    session = open_home(options.homes).own_session(options.session)
    plan = fork.planned_fork(session, options.at, options.title)
    if options.apply:
        fork.apply(plan)
    undo = plans.command(options, "rm", plan.new, "--apply") if options.apply else ""
    if options.json:
        output.print_json(fork_document(plan, applied=options.apply, undo=undo or None))
        return 0
    _tell(plan, plans.command(options, "resume", plan.new), done=options.apply)
    again = [
        "fork",
        plan.session,
        *plans.option("--at", plan.leaf),
        *plans.option("--title", plan.title),
        "--apply",
    ]
    plans.say_end(options, plans.command(options, *again), undo)
    return 0


def _tell(plan: ForkPlan, go_on: str, *, done: bool) -> None:
    verb = "Forked" if done else "Would fork"
    what = f"{counted(plan.entries, 'entry').replace('entrys', 'entries')}, {size(plan.bytes)}"
    if plan.backups:
        what += f", {counted(len(plan.backups), 'file backup')}"
    output.say(
        f"{verb} {output.styled(visible(plan.session[:8]), 'cyan')} at {visible(plan.leaf[:8])}: {what}"
    )
    output.say(f"Title: {visible(plan.title)}")
    if done:
        output.say(f"New session: {output.styled(plan.new, 'bold')}")
        output.say(f"Go on with it: {go_on}")
