"""``recollect admin org move``: an organisation to another PostgreSQL cluster."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from recollect.cli.terminal import output
from recollect.cli.terminal.text import padded, visible
from recollect.errors import UsageError

if TYPE_CHECKING:
    from recollect.server.clusters.move import MoveReport
    from recollect.server.database.contract import Database
    from recollect.server.database.records import Org


def add_move_options(parser: ArgumentParser) -> None:
    parser.add_argument("--back", action="store_true", help="org move: give up a move that is under way")
    parser.add_argument(
        "--remove-left",
        action="store_true",
        help="org move: remove what a finished move left in CLUSTER",
    )


async def move_org(options: Namespace, database: Database, org: Org, cluster: str) -> None:
    from recollect.server.clusters.move import OrgMove
    from recollect.server.clusters.router import ClusterDatabase

    if not isinstance(database, ClusterDatabase):
        raise UsageError("org move: needs more than one cluster", hint="name them with --clusters FILE")
    if options.back and options.remove_left:
        raise UsageError("--back and --remove-left exclude each other", hint="leave one out")
    move = OrgMove(database, org.id, cluster)
    if not options.apply:
        report = await move.plan()
    elif options.back:
        report = await move.back()
    elif options.remove_left:
        report = await move.remove_left()
    else:
        report = await move.run()
    if options.json:
        output.print_json(report)
        return
    for line in _lines(options, org, report):
        output.say(line)


def _lines(options: Namespace, org: Org, report: MoveReport) -> list[str]:
    name, rows = visible(org.name), sum(report.rows.values())
    remove = f"recollect admin org move {org.id} {report.source} --remove-left --apply"
    if report.is_moved:
        moved = f"{name} is in {report.target} now: {rows:,} rows, {report.changes:,} changes meanwhile"
        return [
            f"{moved}; writes waited {report.paused_seconds:.2f} s.",
            f"{report.source} still has the old rows, unseen. To remove them: {remove}",
            f"To move it back, remove them, then: recollect admin org move {org.id} {report.source} --apply",
        ]
    if options.apply:
        place = report.source if options.remove_left else report.target
        return [f"Removed {rows:,} rows of {name} from {place}."]
    counts = [f"  {padded(table, 14)} {count:>12,} rows" for table, count in report.rows.items() if count]
    return [
        f"{name} is in {report.source}. Moving it to {report.target} copies:",
        *counts,
        "Members go on working; writes wait for at most 2 seconds at the end.",
        "Nothing was changed. Repeat with --apply to do it.",
    ]
