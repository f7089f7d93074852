"""Growth: the same work over homes of several sizes, as ratios to the smallest.

Building an index must take the same CPU for each megabyte, questions the same time, and both the same memory,
however large the home is. The last home has lost its 100 oldest sessions: their logs were archived and deleted.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.corpora import Corpus, copied, corpus, newest_log
from bench.measured import Failed, Taken, seconds, typical
from bench.report import Row
from bench.workplace import Workplace, recollect

# By the corpus of the run. The first is what the others are compared with.
LARGE = ("c100", "c1000", "c5000", "s10000")
SIZES = {
    "c1000": ("c100", "c1000"),
    "c100": ("c10_1", "c100"),
    "c10_1": ("c10_1", "c10_2"),
}
LINEAR, FLAT, MEMORY = 1.15, 1.5, 1.5
ARCHIVED = 100
_QUESTIONS = {
    "search": ("search", "function", "--json"),
    "cost": ("cost", "--by", "day", "--json"),
    "list": ("list", "--json", "--limit", "20"),
}


class Growth(NamedTuple):
    """What one home took. Questions by their name."""

    label: str
    megabytes: float
    build: Taken
    questions: dict[str, Taken]


def run_large(place: Workplace) -> list[Row]:
    """With 5 GB and with 10,000 sessions: making these homes takes longer than everything else."""
    return run(place, LARGE)


def run(place: Workplace, sizes: Sequence[str] | None = None) -> list[Row]:
    """All figures."""
    names = SIZES[place.corpus.name] if sizes is None else sizes
    found = [corpus(name) for name in names]
    grown = [measured(place, one) for one in found]
    grown.append(measured(place, found[min(1, len(found) - 1)], archived=ARCHIVED))
    return rows(grown)


def measured(place: Workplace, logs: Corpus, *, archived: int = 0) -> Growth:
    """Build the index of a home, and ask; of ``archived`` sessions only the archive has copies."""
    scratch = place.scratch / "growth"
    shutil.rmtree(scratch, ignore_errors=True)
    home, data = scratch / "home", scratch / "data"
    copied(logs.path, home, newest_log(logs.path))
    label = f"{logs.truth['bytes'] / 1e6:,.0f} MB, {logs.truth['sessions']:,} sessions"
    try:
        if archived:
            label += f", {_archive(place, home, data, archived)} of them archived and deleted"
        build = recollect(home, data, place.environment, "data", "index", "rebuild", is_family_watched=True)
        questions = {
            name: typical([_answer(place, home, data, ask) for _ in range(place.rounds)])
            for name, ask in _QUESTIONS.items()
        }
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Growth(label, logs.truth["bytes"] / 1e6, build, questions)


def _archive(place: Workplace, home: Path, data: Path, count: int) -> int:
    logs = sorted(home.glob("projects/*/*.jsonl"), key=lambda log: log.stat().st_mtime_ns)
    chosen = [log for log in logs if not log.name.startswith("agent-")][:count]
    recollect(home, data, place.environment, "protect", "now", *(log.stem for log in chosen))
    for log in chosen:
        log.unlink()
    return len(chosen)


def _answer(place: Workplace, home: Path, data: Path, ask: tuple[str, ...]) -> Taken:
    taken = recollect(home, data, place.environment, *ask)
    if not taken.output.strip():
        raise Failed(f"{' '.join(ask)}: printed nothing")
    return taken


def rows(grown: list[Growth]) -> list[Row]:
    """Every home beside the first, which has no budget."""
    found = []
    for number, one in enumerate(grown):
        found.append(_build_row(one, grown[0], is_first=not number))
        found.append(_memory_row(one, grown[0], is_first=not number))
        found += [_question_row(name, one, grown[0], is_first=not number) for name in one.questions]
    return found


def _build_row(one: Growth, first: Growth, *, is_first: bool) -> Row:
    own, base = one.build.cpu / one.megabytes, first.build.cpu / first.megabytes
    what = f"{one.label}: index, CPU for each MB"
    return _row(what, f"{own * 1000:.1f} ms", own / base, LINEAR, one.build, is_first=is_first)


def _memory_row(one: Growth, first: Growth, *, is_first: bool) -> Row:
    share = one.build.memory / first.build.memory
    return _row("  memory", f"{one.build.memory / 1e6:.0f} MB", share, MEMORY, None, is_first=is_first)


def _question_row(name: str, one: Growth, first: Growth, *, is_first: bool) -> Row:
    taken = one.questions[name]
    share = taken.wall / first.questions[name].wall
    return _row(f"  {name}", seconds(taken.wall), share, FLAT, taken, is_first=is_first)


def _row(what: str, figure: str, share: float, most: float, taken: Taken | None, *, is_first: bool) -> Row:
    if is_first:
        return Row(what, figure, "", None, taken)
    return Row(what, f"{figure} = {share:.2f}", f"<= {most} of the first", share <= most, taken)
