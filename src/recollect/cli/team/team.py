"""Show what a team's sessions cost, from the team server.

  cost   tokens and cost by person, repo, branch, model, project, machine,
         session or day (UTC)

Every response counts once, however many machines sent it, at the prices of the
server that you chose with `recollect sync login`. Encrypted sessions are not
included, because the server cannot read them.

Example:
  recollect team cost --by person,repo --since 30d
  recollect team cost --by day,model --csv > cost.csv
"""

from __future__ import annotations

import datetime as dt
import sys
from argparse import ArgumentParser, Namespace

import msgspec
from msgspec import Struct

from recollect.cli.terminal import output
from recollect.cli.terminal.options import SINCE, UNTIL
from recollect.cli.terminal.plans import own_data
from recollect.cli.terminal.text import padded, shortened, visible, width
from recollect.errors import Busy, UsageError
from recollect.model import timespan
from recollect.services.sync.sync import SyncClient
from recollect.storage.config.sync_settings import load_login

_KEYS = ("person", "repo", "branch", "model", "project", "machine", "session", "day")
_WIDEST = 44


class _RemoteCostRow(Struct):
    keys: dict[str, str]
    responses: int
    tokens: dict[str, int]
    pico_usd: int
    unpriced: list[str]


class _RemoteCostReport(Struct):
    by: list[str]
    rows: list[_RemoteCostRow]
    total: _RemoteCostRow


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("cost",), help="see above")
    parser.add_argument(
        "--by", default="person", help=f"{', '.join(_KEYS)}; separate several with commas (default person)"
    )
    parser.add_argument("--since", metavar="DATE", help=SINCE)
    parser.add_argument("--until", metavar="DATE", help=UNTIL)
    parser.add_argument("--csv", action="store_true", help="comma-separated")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    if options.csv and options.json:
        raise UsageError("team cost: --csv and --json exclude each other", hint="leave one out")
    by = ",".join(word.strip() for word in options.by.split(","))
    unknown = sorted(set(by.split(",")) - {*_KEYS, "repository", "user"})
    if unknown:
        raise UsageError(f"--by {unknown[0]!a}: unknown key", hint=f"known: {', '.join(_KEYS)}")
    now = dt.datetime.now(dt.UTC)
    since, until = map(_moment, timespan.bounds(options.since or None, options.until or None, now))
    server = SyncClient(load_login(), own_data(options), patience=20.0).server()
    try:
        answer = server.cost(by, since, until, "csv" if options.csv else "json")
    finally:
        server.close()
    if options.csv:
        sys.stdout.write(_shown_csv(answer))
        return 0
    document = _document(answer)
    if options.json:
        # As the server sent it: a newer one may say more than this version knows.
        output.write_json([msgspec.json.format(answer, indent=2), b"\n"])
        return 0
    _say(document)
    return 0


def person_costs(
    options: Namespace, since: dt.datetime, until: dt.datetime
) -> dict[str, tuple[int, list[str]]]:
    """What each person spent, in pico-dollars, and the models without a price."""
    server = SyncClient(load_login(), own_data(options), patience=20.0).server()
    try:
        answer = server.cost("person", _moment(since), _moment(until), "json")
    finally:
        server.close()
    report = msgspec.convert(_document(answer), type=_RemoteCostReport)
    return {row.keys["person"]: (row.pico_usd, row.unpriced) for row in report.rows}


def _moment(when: dt.datetime | None) -> str | None:
    """A time for a query, without ``+``, which would be decoded as a space."""
    return None if when is None else when.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _shown_csv(answer: bytes) -> str:
    text = answer.decode("utf-8", "replace")
    if not sys.stdout.isatty():
        return text
    return "".join(visible(line) + "\n" for line in text.splitlines())


def _document(answer: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(answer, type=dict[str, object])
    except msgspec.DecodeError:
        raise Busy(
            "the server's answer is not a cost report",
            hint="the server may have another version of recollect",
        ) from None


def _say(document: dict[str, object]) -> None:
    from recollect.model.cost.money import dollars

    report = msgspec.convert(document, type=_RemoteCostReport)
    head = [*report.by, "responses", "input", "output", "cache write", "cache read", "cost"]
    rows = [_cells(report.by, row, dollars(row.pico_usd)) for row in report.rows]
    total = _cells([], report.total, dollars(report.total.pico_usd))
    rows.append(["total", *[""] * (len(report.by) - 1), *total] if report.by else total)
    widths = [max(map(width, column)) for column in zip(head, *rows, strict=True)]
    for number, row in enumerate([head, *rows]):
        cells = [
            padded(cell, wide) if n < len(report.by) else " " * (wide - width(cell)) + cell
            for n, (cell, wide) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        output.say(output.styled(line, "dim") if not number else line)
    unpriced = sorted({name for row in report.rows for name in row.unpriced})
    if unpriced:
        output.note(f"not in the cost, because they have no price: {', '.join(map(visible, unpriced))}")


def _cells(by: list[str], row: _RemoteCostRow, cost: str) -> list[str]:
    tokens = row.tokens
    writes = tokens.get("cache_write_5m", 0) + tokens.get("cache_write_1h", 0)
    numbers = (
        row.responses,
        tokens.get("input", 0),
        tokens.get("output", 0),
        writes,
        tokens.get("cache_read", 0),
    )
    names = [shortened(visible(row.keys.get(name, "")), _WIDEST) for name in by]
    return [*names, *(f"{number:,}" for number in numbers), cost]
