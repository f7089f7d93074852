"""List the documents of plan mode, newest first; with a NAME, print one.

Plans belong to no single session, so the client lists them nowhere. --find
keeps those whose name or text holds all the words. Changes nothing.

Example:
  recollect plans
  recollect plans --find "rounding cents"
  recollect plans quiet-brewing-otter
"""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import output
from recollect.cli.terminal.csv_tables import add_csv, print_csv, wants_csv
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import ago, counted, shortened, size, visible, visible_lines
from recollect.errors import Ambiguous, NotFound
from recollect.services.documents.history import PlansDocument
from recollect.services.history import PlanDocument, plan_documents

_HEADING_COLUMNS = 60


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="name of a plan, or the start of it")
    parser.add_argument("--find", metavar="WORDS", help="only plans that hold all of these words")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_csv(parser)


def run(options: Namespace) -> int:
    found = plan_documents(open_home(options.homes), options.find)
    if options.name is not None:
        found = [_named(found, options.name)]
    if wants_csv(options):
        print_csv(found)
        return 0
    if options.json:
        output.print_json(PlansDocument(found, len(found)))
        return 0
    if options.name is not None:
        output.say(visible_lines(found[0].text))
        return 0
    now = dt.datetime.now(dt.UTC)
    for one in found:
        seen = one.path.stat()
        when = ago(dt.datetime.fromtimestamp(seen.st_mtime, dt.UTC), now)
        output.say(f"{output.styled(visible(one.name), 'cyan')}  {when}, {size(seen.st_size)}")
        output.say(f"    {shortened(visible(_heading(one)), _HEADING_COLUMNS)}")
    output.say(output.styled(counted(len(found), "plan"), "dim"))
    return 0


def _named(plans: list[PlanDocument], name: str) -> PlanDocument:
    exact = [one for one in plans if one.name == name] or [one for one in plans if one.name.startswith(name)]
    if len(exact) > 1:
        raise Ambiguous("plan", name, tuple(one.name for one in exact))
    if not exact:
        raise NotFound(f"plan {name!r}: there is none", hint="`recollect plans` lists them")
    return exact[0]


def _heading(plan: PlanDocument) -> str:
    """The first line that says something."""
    return next(
        (line.lstrip("# ").strip() for line in plan.text.splitlines() if line.strip("# \t")), "(empty)"
    )
