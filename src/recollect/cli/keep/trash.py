"""List removed sessions, restore them, or delete them for good.

  list            list the removals (batches), newest first
  restore BATCH   put one back, byte for byte; needs --apply
  empty           delete batches older than --older-than for good; needs --apply

rm and cleanup move sessions to the trash; only `empty` deletes them. A batch
whose session is not in the archive stays, unless you add --not-archived. What
`archive rm` removed from the archive is kept by `recollect undo`, not here.

Example:
  recollect trash list
  recollect trash restore 20261115T203000-1f2e3d4c --apply
  recollect trash empty --older-than 90d --apply
"""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace

from recollect.cli.keep import rm
from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.csv_tables import add_csv
from recollect.cli.terminal.text import counted, size, visible
from recollect.errors import UsageError
from recollect.model import timespan
from recollect.services import trash as trash_service
from recollect.services.archive import archive as archive_service
from recollect.services.documents.changes.trash import EmptiedBatchDocument, EmptiedTrashDocument
from recollect.storage.trash import TrashBatch


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "restore", "empty"), help="see above")
    parser.add_argument(
        "batch", nargs="?", metavar="BATCH", help="restore: a batch, or the start of its name or session id"
    )
    parser.add_argument(
        "--older-than", default="30d", metavar="AGE", help="empty: 30d, 12w, or a date (default 30d)"
    )
    parser.add_argument(
        "--not-archived", action="store_true", help="empty: also sessions that are not archived"
    )
    change_plans.add_apply(parser)
    add_csv(parser)


def run(options: Namespace) -> int:
    if options.action == "empty":
        return _empty(options)
    if (options.action == "restore") != (options.batch is not None):
        raise UsageError(
            f"trash {options.action}: only restore takes a batch, and it needs one",
            hint="`recollect trash list` lists them",
        )
    options.sessions, options.list = [], options.action == "list"
    options.restore = options.batch
    return rm.run(options)


def _empty(options: Namespace) -> int:
    data = change_plans.own_data(options)
    trash, archive = trash_service.trash_at(data), archive_service.archive_at(data)
    before = timespan.so_long_ago(options.older_than, dt.datetime.now(dt.UTC))
    old = [batch for batch in trash.batches() if dt.datetime.fromisoformat(batch.at) < before]
    going = [batch for batch in old if options.not_archived or archive_service.holds(archive, batch)]
    staying = [batch for batch in old if batch not in going]
    if options.apply:
        for batch in going:
            trash.destroy(batch)
    if options.json:
        rows = [EmptiedBatchDocument(one.batch, one.session, one.bytes) for one in going]
        output.print_json(EmptiedTrashDocument(rows, [one.batch for one in staying], options.apply))
        return 0
    _tell(options, going, staying)
    return 0


def _tell(options: Namespace, going: list[TrashBatch], staying: list[TrashBatch]) -> None:
    verb = "Deleted for good" if options.apply else "Would delete for good"
    for batch in going:
        output.say(visible(f"{verb}: {batch.batch}  {batch.session}  ({size(batch.bytes)})"))
    for batch in staying:
        output.say(visible(f"Stays because it is not archived: {batch.batch}  {batch.session}"))
    output.say(
        f"{counted(len(going), 'batch') if len(going) == 1 else f'{len(going):,} batches'}, {size(sum(one.bytes for one in going))}"
    )
    if not options.apply and going:
        flags = ["--not-archived"] if options.not_archived else []
        output.say(
            f"Nothing was changed. Do it with: {change_plans.command(options, 'trash', 'empty', '--older-than', options.older_than, *flags, '--apply')}"
        )
