"""Give a session a tag, shown as #tag in the client's list; an empty tag clears it.

Appends one small line to the session's log, also while a client has it open.
A session has one tag at a time. Prints the plan; --apply does it.

Example:
  recollect tag @last release --apply
  recollect tag 3f2a9c1e "" --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from recollect.cli.keep.rename import carried_out
from recollect.cli.terminal import plans
from recollect.cli.terminal.homes import open_home
from recollect.services import label


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("session", metavar="S", help="id or its start, title, path, or @last")
    parser.add_argument("tag", metavar="TAG", help='the new tag; "" clears it')
    plans.add_apply(parser)


def run(options: Namespace) -> int:
    """Plan or do it."""
    session = open_home(options.homes).own_session(options.session)
    return carried_out(options, label.tagged(session, options.tag))
