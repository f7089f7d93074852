"""``recollect admin org move``: an organisation to another PostgreSQL cluster."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from recollect.cli.terminal import output
from recollect.cli.terminal.change_plans import command, option
from recollect.cli.terminal.text import padded, visible
from recollect.errors import UsageError

if TYPE_CHECKING:
    from recollect.server.clusters.move import MoveReport
    from recollect.server.database.contract import Database
    from recollect.server.database.records import Org

_NOTHING = "Nothing was changed. Repeat with --apply to do it."


def add_move_options(parser: ArgumentParser) -> None:
    parser.add_argument("--back", action="store_true", help="org move: cancel a move that is under way")
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
    if options.back:
        report = await move.back(apply=options.apply)
    elif options.remove_left:
        report = await move.remove_left(apply=options.apply)
    else:
        report = await (move.run() if options.apply else move.plan())
    if options.json:
        output.print_json(report)
        return
    for line in _lines(options, org, report):
        output.say(line)


def _lines(options: Namespace, org: Org, report: MoveReport) -> list[str]:
    name, rows = visible(org.name), sum(report.rows.values())
    clusters = option("--clusters", options.clusters) if options.clusters else []
    again = command(options, "admin", "org", "move", org.id, report.source, *clusters)
    if report.is_moved:
        moved = f"{name} is in {report.target} now: {rows:,} rows, {report.changes:,} changes meanwhile"
        return [
            f"{moved}; writes waited {report.paused_seconds:.2f} s.",
            f"{report.source} still has the old rows, unseen. To remove them: {again} --remove-left --apply",
            f"To move it back, remove them, then: {again} --apply",
        ]
    if options.back or options.remove_left:
        place = report.source if options.remove_left else report.target
        verb = "Removed" if options.apply else "Would remove"
        done = f"{verb} {rows:,} rows of {name} from {place}."
        return [done] if options.apply else [done, _NOTHING]
    counts = [f"  {padded(table, 14)} {count:>12,} rows" for table, count in report.rows.items() if count]
    return [
        f"{name} is in {report.source}. Moving it to {report.target} copies:",
        *counts,
        "Members go on working; writes wait for at most 2 seconds at the end.",
        _NOTHING,
    ]
