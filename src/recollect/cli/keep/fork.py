"""Start a new session as a copy of another, up to its end or to any entry.

The client resumes the copy like any other session. The original is not changed,
and its usage is not counted twice. Prints the plan; --apply carries it out.

Example:
  recollect fork @last --apply
  recollect fork 6ada00ba --at 51c0 --title "Second try" --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, size, visible
from recollect.model.ids import short_id
from recollect.services import fork
from recollect.services.documents.changes.labels import fork_document
from recollect.services.fork import ForkPlan


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="S", help="session: id, start of an id, title, path, or @last")
    parser.add_argument(
        "--at", metavar="UUID", help="last entry to copy; the leaf of a branch copies that branch"
    )
    parser.add_argument("--title", help='title of the new session (default: the old title with "(fork)")')
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    session = open_home(options.homes).own_session(options.session)
    plan = fork.planned_fork(session, options.at, options.title)
    if options.apply:
        fork.apply(plan)
    undo = change_plans.command(options, "rm", plan.new, "--apply") if options.apply else ""
    if options.json:
        output.print_json(fork_document(plan, applied=options.apply, undo=undo or None))
        return 0
    _tell(plan, change_plans.command(options, "resume", plan.new), done=options.apply)
    again = [
        "fork",
        plan.session,
        *change_plans.option("--at", plan.leaf),
        *change_plans.option("--title", plan.title),
        "--apply",
    ]
    change_plans.say_end(options, change_plans.command(options, *again), undo)
    return 0


def _tell(plan: ForkPlan, resume: str, *, done: bool) -> None:
    verb = "Forked" if done else "Would fork"
    what = f"{counted(plan.entries, 'entry').replace('entrys', 'entries')}, {size(plan.bytes)}"
    if plan.backups:
        what += f", {counted(len(plan.backups), 'file backup')}"
    output.say(
        f"{verb} {output.styled(visible(short_id(plan.session)), 'cyan')} at {visible(plan.leaf[:8])}: {what}"
    )
    output.say(f"Title: {visible(plan.title)}")
    if done:
        output.say(f"New session: {output.styled(plan.new, 'bold')}")
        output.say(f"Continue it with: {resume}")
