"""Run the benchmarks and print figures beside budgets.

python -m bench [--full | --small | --growth] [--write [--page FILE]] [--rounds N] [SUITE]...

Suites: {suites}. Without a name all of them run.
--full measures over 1 GB of generated logs instead of 100 MB; --write puts the figures into
docs/benchmarks.md (all suites only, so that a section comes from one run). A suite that fails is
named there with its reason, and the others are written all the same.
--growth compares homes of 100 MB to 5 GB and one of 10,000 sessions, and nothing else: it makes 6 GB of logs.
--small is a rehearsal over 10 MB in one round: its figures are worth nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench import (
    append,
    archiving,
    checking,
    costs,
    decoding,
    document,
    graphs,
    growth,
    html_pages,
    indexing,
    lists,
    other_agents,
    page,
    reading,
    searching,
    secrets,
    serving,
    start_up,
    syncing,
    team_costs,
    truth,
)
from bench.corpora import corpus
from bench.measured import Failed
from bench.peers import find_peers
from bench.report import Row, table
from bench.workplace import Workplace

TRUTH = "Exact totals and full recall"
# Over a generated home, beside the peers.
OVER_LOGS: dict[str, tuple[str, Callable[[Workplace], list[Row]]]] = {
    "truth": (TRUTH, truth.run),
    "indexing": ("Index", indexing.run),
    "costs": ("Cost", costs.run),
    "searching": ("Search in a warm process", searching.run),
    "start_up": ("Commands as fresh processes", start_up.run),
    "checking": ("Check and scan as fresh processes", checking.run),
    "lists": ("Lists of sessions as fresh processes", lists.run),
    "syncing": ("Sync", syncing.run),
    "growth": ("Growth", growth.run),
}
ALONE: dict[str, tuple[str, Callable[[], list[Row]]]] = {
    "decoding": ("Decoding", decoding.run),
    "append": ("Durable append", append.run),
    "reading": ("Reading large logs", reading.run),
    "graphs": ("Message graph", graphs.run),
    "archiving": ("Archive", archiving.run),
    "secrets": ("Secrets", secrets.run),
    "serving": ("Team server", serving.run),
    "team_costs": ("Costs of a company", team_costs.run),
    "other_agents": ("Homes of other agents, the same conversations in each", other_agents.run),
    "html_pages": ("Exported pages", html_pages.run),
    "page": ("The page in Chromium", page.run),
}
ROUNDS = 5


def main() -> int:
    """Exit status 1 where a program failed or an answer was wrong; a missed budget is a figure like any."""
    options = _options()
    names = options.suites or (["growth"] if options.growth else [*OVER_LOGS, *ALONE])
    measured: list[tuple[str, list[Row]]] = []
    failed = 0
    with _workplace(options, names) as place:
        for name in names:
            start = time.monotonic()
            title, rows, is_whole = _measured(*_suite(name, place, is_large=options.growth))
            measured.append((title, rows))
            failed += not is_whole
            print(f"{table(title, rows)}\n  ({name}: {time.monotonic() - start:.0f} s)", flush=True)
        if options.write:
            section = document.SECTIONS[2 if options.growth else options.full]
            document.write(section, _about(place), measured, options.page)
    rows = [row for _, suite in measured for row in suite]
    print(f"{sum(row.met is True for row in rows)} as wanted, {sum(row.met is False for row in rows)} missed")
    if failed:
        print(f"{failed} of {len(names)} suites failed", file=sys.stderr)
    return 1 if failed or any(title == TRUTH and _is_wrong(rows) for title, rows in measured) else 0


def _measured(title: str, run: Callable[[], list[Row]]) -> tuple[str, list[Row], bool]:
    """The rows of a suite, and whether it came to its end: one that fails must not cost what others measured."""
    try:
        return title, run(), True
    except Failed as problem:
        reason = str(problem)
    except Exception as problem:  # noqa: BLE001 - whatever it is, the figures of the others must not be lost
        traceback.print_exc()
        reason = f"{type(problem).__name__}: {problem}"
    return title, [Row("FAILED", "", "", None, beside=" ".join(reason.split())[:300])], False


def _options() -> argparse.Namespace:
    suites = [*OVER_LOGS, *ALONE]
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=(__doc__ or "").format(suites=", ".join(suites)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="only these suites")
    parser.add_argument("--full", action="store_true", help="over 1 GB of logs")
    parser.add_argument("--growth", action="store_true", help="only growth, up to 5 GB of logs")
    parser.add_argument("--small", action="store_true", help="a rehearsal over 10 MB")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument(
        "--page", type=Path, default=document.PAGE, metavar="FILE", help="write this file instead"
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, metavar="N", help=f"median of so many (default {ROUNDS})"
    )
    options = parser.parse_args()
    unknown = [name for name in options.suites if name not in suites]
    if unknown:
        parser.error(f"no suite {unknown[0]}: there are {', '.join(suites)}")
    if options.write and options.suites:
        parser.error("--write needs a run of all suites")
    if options.growth and (options.full or options.small or options.suites):
        parser.error("--growth is a run of its own")
    if options.small and (options.full or (options.write and options.page == document.PAGE)):
        parser.error("--small is a rehearsal: not with --full, and it writes only where --page says")
    return options


@contextlib.contextmanager
def _workplace(options: argparse.Namespace, names: list[str]) -> Iterator[Workplace | None]:
    size = "c1000" if options.full or options.growth else "c10_1" if options.small else "c100"
    if not any(name in OVER_LOGS for name in names):
        yield None
        return
    with Workplace(
        corpus(size),
        find_peers(),
        is_full=options.full or options.growth,
        rounds=1 if options.small else options.rounds,
    ) as place:
        yield place


def _suite(
    name: str, place: Workplace | None, *, is_large: bool = False
) -> tuple[str, Callable[[], list[Row]]]:
    if name in ALONE:
        return ALONE[name]
    title, run = OVER_LOGS[name] if not is_large else ("Growth", growth.run_large)
    assert place is not None
    return title, partial(run, place)


def _about(place: Workplace | None) -> list[str]:
    lines = document.machine()
    if place is not None:
        peers = place.peers.versions(place.user_home)
        lines += [f"logs: {place.corpus.about}", f"peers: {', '.join(peers) or 'none could be installed'}"]
    return lines


def _is_wrong(rows: list[Row]) -> bool:
    return any(row.met is False for row in rows)


if __name__ == "__main__":
    sys.exit(main())
