"""Set the tag of a session, shown as #tag in the client's list. "" removes it.

Appends one line to the session's log. This is safe while a client has the
session open. A session has one tag. Prints the plan; --apply carries it out.

Example:
  recollect tag @last release --apply
  recollect tag 6ada00ba "" --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from recollect.cli.keep.rename import carried_out
from recollect.cli.terminal import change_plans
from recollect.cli.terminal.homes import open_home
from recollect.services import label


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="S", help="session: id, start of an id, title, path, or @last")
    parser.add_argument("tag", metavar="TAG", help='the new tag; "" removes it')
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    session = open_home(options.homes).own_session(options.session)
    return carried_out(options, label.tagged(session, options.tag))
