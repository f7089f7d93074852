"""Cost by day beside ccusage: with the index after one more line, without any index, and before there is one.

Both read the same home, which has grown by one response before every round. The answer
of each round is compared with the one before it: a report that missed the new response
would be fast and worthless.
"""

from __future__ import annotations

import json
from fractions import Fraction

from bench.corpora import corpus
from bench.measured import Failed, Taken, in_turns, typical
from bench.peers import CCUsage
from bench.report import Row, part
from bench.workplace import Workplace, recollect

INDEXED_BUDGET = Fraction(1, 40)
SCAN_BUDGET = Fraction(33, 100)
# On less than 1 GB the start of the interpreter is a larger part of it.
SMALL_SCAN_BUDGET = Fraction(1, 2)
_TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
)
_BY_DAY = ("cost", "--by", "day", "--timezone", "UTC", "--json")


def run(place: Workplace) -> list[Row]:
    """All figures."""
    place.ensure_index()
    expected = tokens(place.recollect(*_BY_DAY))

    def indexed() -> Taken:
        nonlocal expected
        expected += place.add_line()
        return _checked(place.recollect(*_BY_DAY), expected)

    def scanned() -> Taken:
        return _checked(place.recollect(*_BY_DAY, "--no-index"), expected)

    programs = {"indexed": indexed, "scanned": scanned}
    if place.ccusage is not None:
        programs["ccusage"] = place.ccusage.daily
    taken = in_turns(place.rounds, **programs)
    unchanged = typical([place.recollect(*_BY_DAY) for _ in range(place.rounds)])
    unrefreshed = typical([place.recollect(*_BY_DAY, "--no-refresh") for _ in range(place.rounds)])
    peer = taken.get("ccusage")
    return [
        _against("cost --by day, one line added", taken["indexed"], peer, INDEXED_BUDGET, place.is_full),
        _against("cost --by day --no-index", taken["scanned"], peer, SCAN_BUDGET, place.is_full),
        Row("cost --by day, nothing changed", f"{unchanged.wall * 1000:.0f} ms", "", None, unchanged),
        Row("cost --by day --no-refresh", f"{unrefreshed.wall * 1000:.0f} ms", "", None, unrefreshed),
        *(_small_scan(place) if place.is_full and place.peers.ccusage else ()),
    ]


def _small_scan(place: Workplace) -> list[Row]:
    """Without an index over 200 MB; the generator says what the logs hold."""
    small = corpus("c200")
    if small is None or place.peers.ccusage is None:
        return []
    peer = CCUsage(place.peers.ccusage, small.path, place.user_home)
    ours = (small.path, place.scratch / "small", place.environment, *_BY_DAY)
    expected = tokens(recollect(*ours, "--no-index"))
    taken = in_turns(
        place.rounds,
        scanned=lambda: _checked(recollect(*ours, "--no-index"), expected),
        ccusage=peer.daily,
    )
    share = taken["scanned"].wall / taken["ccusage"].wall
    first = _checked(recollect(*ours), expected)
    waits = ("search", "the", "--rank", "--json")  # only the index ranks
    built = recollect(small.path, place.scratch / "small", place.environment, *waits)
    again = (small.path, place.scratch / "again", place.environment)
    searched = recollect(*again, "search", "walrus", "--json")
    recollect(*again, *waits)  # nothing is measured beside the builder
    return [
        Row(
            "cost --by day --no-index, 200 MB",
            f"{taken['scanned'].wall * 1000:.0f} ms = {share:.2f}",
            f"<= {float(SMALL_SCAN_BUDGET)} of ccusage",
            share <= SMALL_SCAN_BUDGET,
            taken["scanned"],
            f"ccusage: {taken['ccusage']}",
        ),
        Row(
            "the first cost --by day, 200 MB: the index is built behind it",
            f"{first.wall * 1000:.0f} ms",
            "",
            None,
            first,
            f"a ranked search right after it waits {built.wall:.1f} s for the index",
        ),
        Row(
            "the first search, 200 MB: the index is built behind it",
            f"{searched.wall * 1000:.0f} ms",
            "",
            None,
            searched,
        ),
    ]


def tokens(report: Taken) -> int:
    """The tokens of all kinds that one of our reports adds up to."""
    totals = json.loads(report.output)["totals"]
    return sum(totals[name] for name in _TOKENS)


def _checked(report: Taken, expected: int) -> Taken:
    if tokens(report) != expected:
        raise Failed(f"cost: {tokens(report):,} tokens, but the logs hold {expected:,}")
    return report


def _against(what: str, ours: Taken, peer: Taken | None, budget: Fraction, is_full: bool) -> Row:
    """Our wall time as a share of ccusage's. The budget is set for 1 GB: on less, start-up decides."""
    if peer is None:
        return Row(what, f"{ours.wall * 1000:.0f} ms", "(ccusage is not here)", None, ours)
    share = ours.wall / peer.wall
    shown = part(share) if budget.numerator == 1 else f"{share:.2f}"
    wanted = f"<= {budget if budget.numerator == 1 else float(budget)} of ccusage"
    return Row(
        what,
        f"{ours.wall * 1000:.0f} ms = {shown}",
        wanted if is_full else f"({wanted}, at 1 GB)",
        share <= budget if is_full else None,
        ours,
        f"ccusage: {peer}",
    )
