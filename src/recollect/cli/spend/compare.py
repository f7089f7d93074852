"""``cost --compare``: our figures beside those of ccusage, each difference with its cause."""

from __future__ import annotations

import os
import subprocess
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.csv_tables import print_csv, wants_csv
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.text import shortened, visible
from recollect.errors import NotFound, StorageError, UsageError
from recollect.model.cost.cents import dollars
from recollect.model.cost.compare import CostComparison, SessionDifference, compared, peer_sessions
from recollect.model.cost.money import exact
from recollect.model.cost.report import CostReport
from recollect.model.ids import short_id
from recollect.services.documents.cost.report import CostComparisonDocument, CostDifferenceDocument
from recollect.storage.config.our_config import price_list

_SECONDS = 600
_SHOWN = 30


def compare(options: Namespace, report: Callable[[], CostReport]) -> int:
    """Print what differs, largest difference first."""
    if options.since or options.until or options.period or options.by:
        raise UsageError(
            "--compare: compares whole sessions", hint="leave out --by and the options that choose a time"
        )
    peer = peer_sessions(_peer_json(options))
    found = compared(report(), peer, price_list())
    if wants_csv(options):
        print_csv([_row(one) for one in found.differences])
    elif options.json:
        rows = [_row(one) for one in found.differences]
        costs = (exact(found.pico_usd), exact(found.peer_pico_usd))
        output.print_json(CostComparisonDocument("ccusage", *costs, found.equal, rows))
    else:
        _say(found, options.limit or _SHOWN)
    return 0


def _peer_json(options: Namespace) -> bytes:
    if options.compare != "ccusage":
        path = Path(options.compare).expanduser()
        try:
            return path.read_bytes()
        except OSError as cause:
            raise StorageError(
                "read", path, cause, hint="name the output of: ccusage session --json"
            ) from cause
    import shutil

    program = shutil.which("ccusage")
    if program is None:
        raise NotFound(
            "program 'ccusage' is not on PATH",
            hint="install it, or name a file: ccusage claude session --json --offline > FILE, then --compare FILE",
        )
    homes = ",".join(str(home.path) for home in chosen_homes(options.homes) if home.exists)
    command = [program, "claude", "session", "--json", "--offline"]
    run = subprocess.run(
        command,
        env={**os.environ, "CLAUDE_CONFIG_DIR": homes},
        capture_output=True,
        check=False,
        timeout=_SECONDS,
    )
    if run.returncode:
        told = shortened(visible(run.stderr.decode("utf-8", "replace").strip()), 200)
        raise NotFound(
            f"ccusage ended with {run.returncode}: {told}",
            hint="run it by hand, and name its output with --compare",
        )
    return run.stdout


def _row(one: SessionDifference) -> CostDifferenceDocument:
    causes = [f"{cause.what} ({dollars(cause.pico_usd)})" for cause in one.causes]
    return CostDifferenceDocument(
        one.session,
        one.title,
        exact(one.pico_usd),
        exact(one.peer_pico_usd),
        exact(one.pico_usd - one.peer_pico_usd),
        causes,
    )


def _say(found: CostComparison, limit: int) -> None:
    for one in found.differences[:limit]:
        amount = _signed(one.pico_usd - one.peer_pico_usd)
        head = f"{visible(short_id(one.session))}  {shortened(visible(one.title), 44)}".rstrip()
        output.say(
            f"{output.styled(head, 'bold')}  {dollars(one.pico_usd)} here, {dollars(one.peer_pico_usd)} there: {amount}"
        )
        for cause in one.causes:
            output.say(f"    {_signed(cause.pico_usd)}  {visible(cause.what)}")
    if len(found.differences) > limit:
        output.note(f"{limit:,} of {len(found.differences):,} sessions that differ; --limit N shows more")
    output.say(
        f"{dollars(found.pico_usd)} here, {dollars(found.peer_pico_usd)} in ccusage:"
        f" {_signed(found.pico_usd - found.peer_pico_usd)} in {_sessions(found.differences)}; {found.equal:,} agree"
    )
    for what, pico in found.by_cause():
        output.say(f"    {_signed(pico)}  {what}")


def _sessions(differences: Sequence[SessionDifference]) -> str:
    return "1 session" if len(differences) == 1 else f"{len(differences):,} sessions"


def _signed(pico: int) -> str:
    return f"{'-' if pico < 0 else '+'}{dollars(abs(pico))}"
