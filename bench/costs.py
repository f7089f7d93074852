"""Cost by day beside ccusage: with the index after one more line, and before there is one.

Both read the same home, which has grown by one response before every round. The answer
of each round is compared with the one before it: a report that missed the new response
would be fast and worthless.
"""

from __future__ import annotations

import json
from fractions import Fraction

from bench.corpora import corpus
from bench.measured import Failed, Taken, in_turns, typical
from bench.report import Row, part
from bench.workplace import Workplace, recollect

INDEXED_BUDGET = Fraction(1, 15)
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

    programs = {"indexed": indexed}
    if place.ccusage is not None:
        programs["ccusage"] = place.ccusage.daily
    taken = in_turns(place.rounds, **programs)
    unchanged = typical([place.recollect(*_BY_DAY) for _ in range(place.rounds)])
    unrefreshed = typical([place.recollect(*_BY_DAY, "--no-refresh") for _ in range(place.rounds)])
    peer = taken.get("ccusage")
    return [
        _against("cost --by day, one line added", taken["indexed"], peer, INDEXED_BUDGET, place.is_full),
        Row("cost --by day, nothing changed", f"{unchanged.wall * 1000:.0f} ms", "", None, unchanged),
        Row("cost --by day --no-refresh", f"{unrefreshed.wall * 1000:.0f} ms", "", None, unrefreshed),
        *(_first(place) if place.is_full and place.peers.ccusage else ()),
    ]


def _first(place: Workplace) -> list[Row]:
    """First contact with 200 MB."""
    if place.peers.ccusage is None:
        return []
    small, scratch = corpus("c200"), place.scratch
    cost = recollect(small.path, scratch / "small", place.environment, *_BY_DAY)
    search = recollect(small.path, scratch / "again", place.environment, "search", "kestrel", "--json")
    return [
        Row(f"the first {name}, 200 MB", f"{taken.wall * 1000:.0f} ms", "", None, taken)
        for name, taken in (("cost --by day", cost), ("search", search))
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
