"""Homes of other agents: first index and first cost beside Claude's logs of the same conversations.

A MB of Claude's logs holds fewer words than a MB of the others (results stand there twice, and signatures), and an index
costs by the word. So there are two comparisons: the time for the same conversations, which has the budget, and the
time for a MB. Homes take turns. Memory is that of the largest process.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

from bench.corpora import cache_directory, corpus
from bench.measured import Taken, in_turns, seconds
from bench.peers import plain_environment
from bench.recollect_corpus.agents import say_more, written
from bench.report import Row, table
from bench.workplace import recollect

SIZE = 60_000_000  # of Claude's logs; the least of the others has 30 MB then
SHARE, MS_PER_MB, MEMORY = 1.5, 18, 150e6
ROUNDS, ROUNDS_OF_ONE = 3, 7
# Needs the index: the first report by other keys of over 64 MB of logs, or of a mirror, waits for none.
_BY_PROMPT = ("cost", "--by", "prompt", "--json")


def run() -> list[Row]:
    """A row for each home, Claude's own first."""
    logs = corpus("c100")
    cache_directory().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="agents-", dir=cache_directory()) as directory:
        scratch = Path(directory)
        (scratch / "user").mkdir()
        homes = written(logs.path, SIZE, scratch / "homes")
        rows = []
        for what, command in (
            ("first index", ("data", "index", "rebuild")),
            ("first cost by prompt", _BY_PROMPT),
        ):
            taken = in_turns(
                ROUNDS, **{name: partial(_fresh, home, scratch, *command) for name, home in homes.items()}
            )
            own = taken["claude"].cpu * 1000 / _megabytes(homes["claude"])
            rows += [_row(what, name, homes[name], taken[name], taken["claude"], own) for name in homes]
        rows += _after_one_more(homes, scratch)
    return rows


def _after_one_more(homes: dict[str, Path], scratch: Path) -> list[Row]:
    """``cost`` when one record was added since the last command: what people wait for all day."""
    environment = plain_environment(scratch / "user")

    def asked(name: str) -> Taken:
        say_more(homes[name])
        return recollect(homes[name], scratch / name, environment, "cost", "--by", "day")

    for name, home in homes.items():
        recollect(home, scratch / name, environment, "data", "index", "rebuild")
    taken = in_turns(ROUNDS_OF_ONE, **{name: partial(asked, name) for name in homes})
    own = taken["claude"].cpu
    return [
        Row(
            f"cost, one record added: {name}, CPU",
            f"{seconds(one.cpu)} = {one.cpu / own:.2f} of Claude's",
            f"<= {SHARE} of Claude's",
            one.cpu <= SHARE * own,
            one,
        )
        for name, one in taken.items()
        if name != "claude"
    ]


def _fresh(home: Path, scratch: Path, *command: str) -> Taken:
    data = scratch / "data"
    shutil.rmtree(data, ignore_errors=True)
    return recollect(home, data, plain_environment(scratch / "user"), *command)


def _megabytes(home: Path) -> float:
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file()) / 1e6


def _row(what: str, name: str, home: Path, taken: Taken, claude: Taken, own: float) -> Row:
    size = _megabytes(home)
    share, each = taken.cpu / claude.cpu, taken.cpu * 1000 / size
    figures = f"{seconds(taken.cpu)} = {each:.0f} ms a MB"
    title = f"{what}: {name}, {size:.0f} MB, CPU"
    if name == "claude":
        return Row(title, figures, f"<= {MS_PER_MB} ms a MB", each <= MS_PER_MB, taken)
    return Row(
        f"  {title}",
        f"{figures} = {share:.2f} of Claude's",
        f"<= {SHARE} of Claude's, {MEMORY / 1e6:.0f} MB",
        share <= SHARE and taken.memory <= MEMORY,
        taken,
        f"{each / own:.1f} of Claude's for a MB",
    )


if __name__ == "__main__":
    print(table("Homes of other agents", run()))
