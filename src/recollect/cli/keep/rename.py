"""Set the title of a session, as the client's /rename does. "" removes it.

Appends one line to the session's log. This is safe while a client has the
session open. Prints the plan; --apply carries it out.

Example:
  recollect rename @last "Basket totals" --apply
  recollect rename 6ada00ba "" --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import visible
from recollect.model.ids import short_id
from recollect.services import label
from recollect.services.documents.changes.labels import LabelDocument


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="S", help="session: id, start of an id, title, path, or @last")
    parser.add_argument("title", metavar="TITLE", help='the new title; "" removes it')
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    session = open_home(options.homes).own_session(options.session)
    return carried_out(options, label.titled(session, options.title))


def carried_out(options: Namespace, plan: label.LabelPlan) -> int:
    """Print the plan for a title or tag; with ``--apply``, carry it out."""
    if options.apply:
        label.apply(plan, change_plans.own_data(options))
    name = "rename" if plan.what == "title" else "tag"
    undo = change_plans.applied(options, name, plan.session, plan.before)
    if options.json:
        output.print_json(
            LabelDocument(
                session=plan.session,
                path=str(plan.path),
                what=plan.what,
                before=plan.before,
                after=plan.after,
                applied=options.apply,
                undo=undo,
            )
        )
        return 0
    change = f"{_shown(plan.before)} -> {output.styled(_shown(plan.after), 'bold')}"
    output.say(
        f"{plan.what.capitalize()} of {output.styled(visible(short_id(plan.session)), 'cyan')}: {change}"
    )
    change_plans.say_end(options, change_plans.applied(options, name, plan.session, plan.after), undo)
    return 0


def _shown(label_text: str) -> str:
    return visible(label_text) or "(none)"
