"""Search through the library, in a process that has the index open, beside agentsview's server.

Fifty different questions of six kinds, some taken from the logs themselves. What counts is
the first time a question is asked in a process that has asked others: nothing of its answer
is at hand but what the operating system keeps of the files. Each question is asked so in
several processes and its best time is taken; a row is the median over its questions.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.measured import run as run_measured
from bench.peers import Server
from bench.report import Row
from bench.workplace import Workplace

if TYPE_CHECKING:
    from recollect.index.access import OpenIndex

BEFORE_SNIPPETS_MS = 2.0
WITH_SNIPPETS_MS = 10.0
RANKED_MS = 50.0
BUDGETS = {"found": BEFORE_SNIPPETS_MS, "shown": WITH_SNIPPETS_MS, "ranked": RANKED_MS}

COMMON = [
    "function",
    "error",
    "return",
    "cache",
    "session",
    "config",
    "handler",
    "timeout",
    "index",
    "thread",
]
PLANTED = ["qorvalith", "ponderwhisk", "abyssmarker", "delegatefern", "inputgalena"]
PHRASES = ['"amber kestrel protocol"', '"of the"', '"in the"', '"that is"']
PREFIXES = ["func*", "sess*", "hand*", "conf*", "qorv*", "pond*", "benchm*", "dead*"]
CJK = ["潮汐账本校验", "潮汐", "账本", "数据", "错误", "テスト", "関数"]
CAMEL = [
    "reconcileTidalLedgerV3",
    "tidal",
    '"tidal ledger"',
    "tokenHandler",
    "workerEntry",
    "graphMeta",
    "ledger",
]
DRAWN_WORDS = 4
DRAWN_PHRASES = 5
_LOGS_DRAWN_FROM = 60


class Question(NamedTuple):
    """What is asked, and which kind of question it is."""

    kind: str
    query: str


def questions(home: Path) -> list[Question]:
    """The fifty, the same for the same home."""
    words, phrases = _drawn(home)
    kinds = {
        "common word": COMMON,
        "rare word": [*PLANTED, *words],
        "phrase": [*PHRASES, *phrases],
        "prefix": PREFIXES,
        "CJK": CJK,
        "camel part": CAMEL,
    }
    return [Question(kind, query) for kind, queries in kinds.items() for query in queries]


def run(place: Workplace) -> list[Row]:
    """All figures."""
    place.ensure_index()
    asked = questions(place.home)
    times = {stage: _our_times(place, stage) for stage in BUDGETS}
    theirs = _their_times(place, asked)
    titles = {
        "found": "newest 20, before snippets",
        "shown": "newest 20, with snippets",
        "ranked": "best 20 by rank",
    }
    rows = []
    for stage, title in titles.items():
        beside = theirs if stage == "shown" else {}
        rows.append(_row(f"{title}: {len(asked)} questions", asked, times[stage], BUDGETS[stage], beside))
        for kind in dict.fromkeys(one.kind for one in asked):
            some = [one for one in asked if one.kind == kind]
            rows.append(_row(f"  {kind}", some, times[stage], BUDGETS[stage], beside))
    return rows


def _row(
    what: str, asked: list[Question], times: dict[str, float], budget: float, theirs: dict[str, float]
) -> Row:
    median, slowest = _middle_and_most(asked, times)
    beside = ""
    if theirs:
        beside = "agentsview: {:.1f} ms (slowest {:.1f})".format(*_middle_and_most(asked, theirs))
    measured = f"{median:.2f} ms (slowest {slowest:.1f})"
    return Row(what, measured, f"<= {budget:g} ms", median <= budget, None, beside)


def _middle_and_most(asked: list[Question], times: dict[str, float]) -> tuple[float, float]:
    chosen = [times[one.query] * 1000 for one in asked]
    return statistics.median(chosen), max(chosen)


def _their_times(place: Workplace, asked: list[Question]) -> dict[str, float]:
    """agentsview's full-text search of message texts, the one of its searches that has an index."""
    peer = place.ensure_synced()
    if peer is None:
        return {}
    rounds = []
    for _ in range(place.rounds):
        with peer.serving() as server:
            server.search("warm")
            rounds.append({one.query: _their_time(server, one.query) for one in asked})
    return {one.query: min(times[one.query] for times in rounds) for one in asked}


def _their_time(server: Server, query: str) -> float:
    taken, _ = server.search(query)
    return taken


def _our_times(place: Workplace, stage: str) -> dict[str, float]:
    probe = [sys.executable, "-m", "bench.searching", stage, str(place.home), str(place.data / "cache")]
    environment = {**place.environment, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    rounds = [json.loads(run_measured(probe, environment).output) for _ in range(place.rounds)]
    return {query: min(times[query] for times in rounds) for query in rounds[0]}


# --- in the measured process --------------------------------------------------------------------


def main() -> None:
    """Ask every question once; print the seconds each took as JSON."""
    from recollect.index.access import open_index

    stage, home, cache = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    times = {}
    with open_index([home], cache=cache, is_refreshed=False) as opened:
        ask = _way(stage, home, opened)
        ask("warm")
        for one in questions(home):
            start = time.perf_counter()
            ask(one.query)
            times[one.query] = time.perf_counter() - start
    print(json.dumps(times))


def _way(stage: str, home: Path, opened: OpenIndex) -> Callable[[str], object]:
    """One way to ask: only where the hits are, or the whole answer with titles and snippets."""
    from recollect.ask.search.search import search
    from recollect.index.text_queries import TextFilter, TextQueries
    from recollect.model.text.query import WordQuery

    database = opened.database
    if stage == "found":
        return lambda query: TextQueries(database).find(WordQuery.parse(query).fts(), TextFilter(), 20)
    return lambda query: search(query, opened=opened, limit=20, rank=stage == "ranked")


# --- questions from the logs --------------------------------------------------------------------


def _drawn(home: Path) -> tuple[list[str], list[str]]:
    """Words that stand in one first prompt only, and neighbours in such prompts."""
    prompts = [re.findall(r"\w+", prompt.lower()) for prompt in _first_prompts(home)]
    seen = Counter(word for prompt in prompts for word in set(prompt))
    rare = sorted(word for word, count in seen.items() if count == 1 and len(word) > 6)
    pairs = dict.fromkeys(f'"{prompt[1]} {prompt[2]}"' for prompt in prompts if len(prompt) > 5)
    return _spread(rare, DRAWN_WORDS), _spread(pairs, DRAWN_PHRASES)


def _spread(texts: Iterable[str], count: int) -> list[str]:
    every = list(texts)
    return every[:: max(len(every) // count, 1)][:count]


def _first_prompts(home: Path) -> list[str]:
    logs = sorted(log for log in home.glob("projects/*/*.jsonl") if not log.name.startswith("agent-"))
    found = []
    for log in logs[:_LOGS_DRAWN_FROM]:
        with log.open("rb") as lines:
            line = next((line for line in lines if b'"role":"user","content":"' in line), None)
        if line is not None and b"<command-name>" not in line:
            found.append(json.loads(line)["message"]["content"])
    return found


if __name__ == "__main__":
    main()
