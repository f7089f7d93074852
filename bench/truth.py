"""Every total and every planted word against what the generator knows.

Several seeds, each with forks, both layouts of sub-agents, one-hour cache writes and a
model without a price. Tokens, money (to the nano-dollar) and sessions must be exact in
every view, from the index and from the logs themselves; every planted word must be found
in exactly as many messages as it was planted in, none of them twice. What differs is
listed; the list must be empty.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from bench.corpora import SEEDS, Corpus, cache_directory, corpus
from bench.peers import plain_environment
from bench.report import Row
from bench.workplace import Workplace, recollect

VIEWS = (
    "day",
    "week",
    "month",
    "session",
    "project",
    "model",
    "branch",
    "agent",
    "tool",
    "block",
    "day,model",
    "project,agent,tool",
)
SOURCES = {"index": (), "logs": ("--no-index",)}
# Our names of the token kinds, and the generator's.
_KINDS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_write_5m_tokens": "cache_5m",
    "cache_write_1h_tokens": "cache_1h",
    "cache_read_tokens": "cache_read",
}
# Where the generator plants, and the kind a hit must then have; agents' words may be of any kind.
_PLANTED = {
    "prose": "prose",
    "code": "tool_result",
    "deep": "tool_result",
    "thinking": "thinking",
    "tool_input": "tool_input",
}
_NANO = 10**9
# As the generator spells them; a quoted text has backslashes there.
_RESPONSE = re.compile(rb'"id":"(msg_\w+)"')
_SESSION = re.compile(rb'"sessionId":"([\w-]+)"')
_UUID = re.compile(rb'"uuid":"([\w-]+)"')
_SYNTHETIC = "<synthetic>"
_SHOWN = 20


class Difference(NamedTuple):
    """One figure that is not what it must be."""

    where: str
    expected: object
    actual: object


class Checked:
    """Figures compared so far, and those that differ."""

    def __init__(self) -> None:
        self.compared = 0
        self.differences: list[Difference] = []

    def equal(self, where: str, expected: object, actual: object) -> None:
        """Compare one figure."""
        self.compared += 1
        if expected != actual:
            self.differences.append(Difference(where, expected, actual))


class Asked:
    """Our command over one corpus, with an index of its own."""

    def __init__(self, home: Path, scratch: Path) -> None:
        self._home = home
        self._data = scratch / "data"
        self._environment = plain_environment(scratch)

    def json(self, *arguments: str) -> dict[str, Any]:
        """The JSON answer of one command."""
        answer = recollect(self._home, self._data, self._environment, *arguments, "--json")
        return dict(json.loads(answer.output))

    def sessions(self) -> tuple[set[str], set[str]]:
        """All sessions by their logs' names, and those that hold a response which no other holds."""
        logs = self._home.glob("projects/*/*.jsonl")
        every = {log.stem for log in logs if not log.name.startswith("agent-")}
        holders: dict[bytes, set[str]] = {}
        for log in self._home.glob("projects/**/*.jsonl"):
            with log.open("rb") as lines:
                for line in lines:
                    response, session = _RESPONSE.search(line), _SESSION.search(line)
                    if response and session:
                        holders.setdefault(response[1], set()).add(session[1].decode())
        return every, {next(iter(sessions)) for sessions in holders.values() if len(sessions) == 1}

    def torn(self, phrase: str) -> int:
        """Messages in which the generator planted another word in the middle of a phrase: it is none there any more."""
        whole, words = phrase.encode(), [word.encode() for word in phrase.split()]
        found: set[bytes] = set()
        for log in self._home.glob("projects/**/*.jsonl"):
            for line in log.read_bytes().split(b"\n"):
                if all(word in line for word in words) and whole not in line and (uuid := _UUID.search(line)):
                    found.add(uuid[1])
        return len(found)


def run(place: Workplace) -> list[Row]:
    """Every seed and the corpus of this run."""
    corpora = [found for name in SEEDS if (found := corpus(name)) is not None]
    rows: list[Row] = []
    planted: Counter[str] = Counter()
    for one in [*corpora, place.corpus]:
        planted.update({word: needle["unique_messages"] for word, needle in one.truth["needles"].items()})
        rows += list(_corpus_rows(one))
    missing = [word for word, count in planted.items() if not count]
    rows.append(Row("planted words that no corpus holds", ", ".join(missing) or "none", "none", not missing))
    return rows


def _corpus_rows(one: Corpus) -> Iterator[Row]:
    scratch = Path(tempfile.mkdtemp(prefix="truth-", dir=cache_directory()))
    try:
        asked = Asked(one.path, scratch)
        asked.json("search", "the", "--rank")  # waits for the index, which other first questions do not
        name = f"seed {one.truth['seed']}, {one.truth['bytes'] / 1e6:,.0f} MB"
        for source, options in SOURCES.items():
            costs, searches = Checked(), Checked()
            check_costs(costs, one.truth, asked, options)
            yield from _rows(f"{name}, cost from the {source}, {len(VIEWS)} views", costs)
            check_searches(searches, one.truth, asked, options)
            yield from _rows(f"{name}, search in the {source}, {len(one.truth['needles'])} words", searches)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _rows(what: str, checked: Checked) -> Iterator[Row]:
    count = len(checked.differences)
    yield Row(what, f"{checked.compared:,} figures, {count} differ", "0 differ", not count)
    for found in checked.differences[:_SHOWN]:
        yield Row(f"  {found.where}", f"{found.actual}", f"{found.expected}", False)


# --- cost ---------------------------------------------------------------------------------------


def check_costs(checked: Checked, truth: dict[str, Any], asked: Asked, options: tuple[str, ...]) -> None:
    """All views of one corpus."""
    for view in VIEWS:
        report = asked.json("cost", "--by", view, "--timezone", "UTC", *options)
        for name, value in _figures(truth["total"]).items():
            checked.equal(f"--by {view}: total {name}", value, _ours(report["totals"])[name])
            checked.equal(f"--by {view}: sum of the rows, {name}", value, _sum(report["rows"], name))
        if view == "day,model":
            wanted = {
                (day, model): row for day, models in truth["by_day"].items() for model, row in models.items()
            }
            _check_cells(checked, wanted, {(row["day"], row["model"]): row for row in report["rows"]})
        if view == "model":
            _check_cells(checked, truth["by_model"], {row["model"]: row for row in report["rows"]})
            _check_unpriced(checked, truth, report)
        if view == "session":
            _check_sessions(checked, truth, asked, {row["session"] for row in report["rows"]})


def _check_cells(
    checked: Checked, wanted: dict[Any, dict[str, Any]], found: dict[Any, dict[str, Any]]
) -> None:
    nothing = dict.fromkeys([*_KINDS.values(), "cost_nano_usd"], 0)
    for key in sorted({*wanted, *found}):
        expected = _figures(wanted.get(key, nothing))
        actual = _ours(found[key]) if key in found else dict.fromkeys(expected, 0)
        for name, value in expected.items():
            checked.equal(f"{key}: {name}", value, actual[name])


def _check_unpriced(checked: Checked, truth: dict[str, Any], report: dict[str, Any]) -> None:
    wanted = {model for model in truth["by_model"] if model not in truth["prices_nano_usd_per_token"]}
    checked.equal("unpriced models", sorted(wanted), sorted(row["model"] for row in report["unpriced"]))
    responses = sum(row["messages"] for row in report["rows"] if row["model"] != _SYNTHETIC)
    checked.equal("responses", truth["responses"], responses)


def _check_sessions(checked: Checked, truth: dict[str, Any], asked: Asked, named: set[str]) -> None:
    """Who has a response of its own has a row. A fork may leave its original none: the copies are equal."""
    checked.equal("sessions listed", truth["sessions"], asked.json("list", "--limit", "1")["total"])
    every, own = asked.sessions()
    checked.equal("sessions that do not exist", [], sorted(named - every))
    checked.equal("sessions without a row", [], sorted(own - named))


def _figures(row: dict[str, Any]) -> dict[str, int]:
    return {**{name: row[kind] for name, kind in _KINDS.items()}, "cost_nano_usd": row["cost_nano_usd"]}


def _ours(row: dict[str, Any]) -> dict[str, int | Decimal]:
    return {**{name: row[name] for name in _KINDS}, "cost_nano_usd": Decimal(row["cost_usd"] or 0) * _NANO}


def _sum(rows: list[dict[str, Any]], name: str) -> int | Decimal:
    return sum(_ours(row)[name] for row in rows)


# --- search -------------------------------------------------------------------------------------


def check_searches(checked: Checked, truth: dict[str, Any], asked: Asked, options: tuple[str, ...]) -> None:
    """All planted words of one corpus."""
    for word, needle in truth["needles"].items():
        query = f'"{word}"' if " " in word else word
        limits = ("--limit", "100000", "--max-bytes", "1000000000", "--seconds", "600")
        answer = asked.json("search", query, *limits, *options)
        hits = answer["hits"]
        count = needle["unique_messages"] - (asked.torn(word) if " " in word else 0)
        checked.equal(f"{word}: hits", count, len(hits))
        checked.equal(f"{word}: different messages", count, len({hit["uuid"] for hit in hits}))
        checked.equal(f"{word}: total", count, answer["total"])
        if needle["where"] == "sub":
            checked.equal(f"{word}: hits of agents", count, sum(hit["agent"] is not None for hit in hits))
        else:
            kinds = Counter(hit["kind"] for hit in hits)
            checked.equal(f"{word}: kinds", Counter({_PLANTED[needle["where"]]: count}), kinds)
