"""Every total and every planted word against what the generator knows.

Several seeds, each with forks, both layouts of sub-agents, one-hour cache writes and a
model without a price. Tokens, money (to the nano-dollar) and sessions must be exact in
every view, from a kept index and a temporary one; every planted word must be found
in exactly as many messages as it was planted in, none of them twice, and nowhere else; so must
all damage. What differs is listed; the list must be empty.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from bench.corpora import SEEDS, Corpus, cache_directory, corpus
from bench.peers import plain_environment
from bench.recollect_corpus.truth import KINDS
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
SOURCES = {"index": (), "temporary index": ("--no-index",)}
# Where the generator plants, and the kind a hit must then have; agents' words may be of any kind.
_PLANTED = {
    "prose": "prose",
    "code": "tool_result",
    "deep": "tool_result",
    "thinking": "thinking",
    "tool_input": "tool_input",
}
# The second of each says that no message is lost with it.
_BROKEN, _TORN = ("invalid-json", "skipped-bytes"), ("torn-tail", "unfinished-line")
_NANO = 10**9
# As the generator spells them; a quoted text has backslashes there.
_RESPONSE = re.compile(rb'"id":"(msg_\w+)"')
_SESSION = re.compile(rb'"sessionId":"([\w-]+)"')
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

    def json(self, *arguments: str, expected: Sequence[int] = (0,)) -> dict[str, Any]:
        """The JSON answer of one command."""
        answer = recollect(self._home, self._data, self._environment, *arguments, "--json", expected=expected)
        return dict(json.loads(answer.output))

    def place(self, path: str, offset: int) -> tuple[str, int]:
        """A log as the generator names it, and the number of a line in it."""
        line = Path(path).read_bytes().count(b"\n", 0, offset) + 1
        return str(Path(path).relative_to(self._home)), line

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


def run(place: Workplace) -> list[Row]:
    """Every seed and the corpus of this run."""
    rows: list[Row] = []
    planted: Counter[str] = Counter()
    for one in [*map(corpus, SEEDS), place.corpus]:
        planted.update({word: facts["messages"] for word, facts in one.truth["words"].items()})
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
        damage = Checked()
        check_damage(damage, one.truth, asked)
        yield from _rows(f"{name}, damage found", damage)
        for source, options in SOURCES.items():
            costs, searches = Checked(), Checked()
            check_costs(costs, one.truth, asked, options)
            yield from _rows(f"{name}, cost from the {source}, {len(VIEWS)} views", costs)
            check_searches(searches, one.truth, asked, options)
            yield from _rows(f"{name}, search in the {source}, {len(one.truth['words'])} words", searches)
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
    nothing = dict.fromkeys([*KINDS, "cost_nano_usd"], 0)
    for key in sorted({*wanted, *found}):
        expected = _figures(wanted.get(key, nothing))
        actual = _ours(found[key]) if key in found else dict.fromkeys(expected, 0)
        for name, value in expected.items():
            checked.equal(f"{key}: {name}", value, actual[name])


def _check_unpriced(checked: Checked, truth: dict[str, Any], report: dict[str, Any]) -> None:
    checked.equal("unpriced models", truth["unpriced"], sorted(row["model"] for row in report["unpriced"]))
    responses = sum(row["responses"] for row in report["rows"] if row["model"] != _SYNTHETIC)
    checked.equal("responses", truth["responses"], responses)


def _check_sessions(checked: Checked, truth: dict[str, Any], asked: Asked, named: set[str]) -> None:
    """Who has a response of its own has a row. A fork may leave its original none: the copies are equal."""
    checked.equal("sessions listed", truth["sessions"], asked.json("list", "--limit", "1")["total"])
    every, own = asked.sessions()
    checked.equal("sessions that do not exist", [], sorted(named - every))
    checked.equal("sessions without a row", [], sorted(own - named))


def _figures(row: dict[str, Any]) -> dict[str, int]:
    return {name: row[name] for name in (*KINDS, "cost_nano_usd")}


def _ours(row: dict[str, Any]) -> dict[str, int | Decimal]:
    return {**{name: row[name] for name in KINDS}, "cost_nano_usd": Decimal(row["cost_usd"] or 0) * _NANO}


def _sum(rows: list[dict[str, Any]], name: str) -> int | Decimal:
    return sum(_ours(row)[name] for row in rows)


# --- damage -------------------------------------------------------------------------------------


def check_damage(checked: Checked, truth: dict[str, Any], asked: Asked) -> None:
    """Each broken line and each torn end is found where it is, and no other."""
    findings = asked.json("doctor", "--limit", "0", expected=(0, 1))["findings"]
    broken, torn = (
        [asked.place(one["path"], one["offset"]) for one in findings if one["code"] in codes]
        for codes in (_BROKEN, _TORN)
    )
    checked.equal("broken lines", sorted(map(tuple, truth["damage"]["broken"])), sorted(broken))
    checked.equal("torn ends", sorted(truth["damage"]["torn"]), sorted(path for path, _ in torn))


# --- search -------------------------------------------------------------------------------------


def check_searches(checked: Checked, truth: dict[str, Any], asked: Asked, options: tuple[str, ...]) -> None:
    """All planted words of one corpus."""
    for word, facts in truth["words"].items():
        query = f'"{word}"' if " " in word else word
        limits = ("--limit", "100000", "--max-bytes", "1000000000", "--seconds", "600")
        answer = asked.json("search", query, *limits, *options)
        hits, count = answer["hits"], facts["messages"]
        checked.equal(f"{word}: hits", count, len(hits))
        checked.equal(f"{word}: different messages", count, len({hit["uuid"] for hit in hits}))
        checked.equal(f"{word}: total", count, answer["total"])
        planted = {(path, line) for path, line in facts["places"]}
        hit_at = {asked.place(hit["path"], hit["offset"]) for hit in hits}
        checked.equal(f"{word}: hits where it was not planted", set(), hit_at - planted)
        if facts["kind"] == "agent":
            checked.equal(f"{word}: hits of agents", count, sum(hit["agent"] is not None for hit in hits))
        else:
            kinds = Counter(hit["kind"] for hit in hits)
            checked.equal(f"{word}: kinds", Counter({_PLANTED[facts["kind"]]: count}), kinds)
