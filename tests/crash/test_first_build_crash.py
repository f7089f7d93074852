"""A first build that goes newest first, killed again and again while questions are asked (design, "The chain")."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.recollect_corpus import Options, write_corpus

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
ROUNDS = 12 if TORTURE else 2
# Three batches of the first build, so that two of them are left to the background.
SIZE_MB = 100 if TORTURE else 72
RECENT_DAYS = 5
QUESTIONS = 4
_COVERAGE = re.compile(r"(\d+) of (\d+) sessions")

pytestmark = [pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the builder in /proc")]


class Asked:
    """A home, its truth, and our command over it with an index of its own."""

    def __init__(self, home: Path, truth: dict[str, Any], data: Path) -> None:
        self._home, self.truth, self._data = home, truth, data
        self.word, self.planted = next(
            (word, facts["messages"])
            for word, facts in truth["words"].items()
            if " " not in word and facts["kind"] == "prose" and facts["messages"] > 1
        )
        self.days = sorted(truth["by_day"])
        self.partial = 0  # answers that said they are not whole

    def json(self, *words: str) -> dict[str, Any]:
        """The answer of one command; a failure is one of the test."""
        with self._started(*words) as process:
            answer, problem = process.communicate(timeout=300)
        assert process.returncode == 0, problem.decode()
        return dict(json.loads(answer))

    def kill_question(self, seconds: float) -> None:
        """Ask for all costs, which reads all logs, and kill that after a while."""
        with self._started("cost", "--by", "day") as process, contextlib.suppress(subprocess.TimeoutExpired):
            try:
                process.communicate(timeout=seconds)
            finally:
                process.kill()

    def _started(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "recollect", "--home", str(self._home), "--data", str(self._data)]
        environment = {**os.environ, "HOME": str(self._data), "TZ": "UTC"}
        return subprocess.Popen(
            [*command, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )

    def builders(self) -> list[int]:
        """The processes that build the index of this data directory."""
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = place.read_bytes()
                if b"index.background" in words and os.fsencode(self._data) in words:
                    found.append(int(place.parent.name))
        return found

    def kill(self) -> int:
        """Kill whoever builds; how many that were."""
        killed = 0
        for pid in self.builders():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        return killed

    def check_recent_cost(self) -> None:
        """The cost of the newest days is exact from the first answer on."""
        since = self.days[-RECENT_DAYS]
        report = self.json("cost", "--by", "day", "--since", since, "--timezone", "UTC")
        assert {row["day"]: _nano(row) for row in report["rows"]} == self.daily(since)

    def check_search(self) -> None:
        """All messages with the word, or fewer and a note that says how many sessions were searched."""
        answer = self.json("search", self.word, "--limit", "100000")
        hits = {hit["uuid"] for hit in answer["hits"]}
        assert len(hits) == len(answer["hits"])
        coverage = _COVERAGE.search(" ".join(answer["notes"]))
        if len(hits) != self.planted:
            assert coverage is not None
            assert len(hits) < self.planted
            assert int(coverage[1]) < int(coverage[2])
            self.partial += 1

    def daily(self, since: str = "") -> dict[str, int]:
        """What each day cost, of which anything is to be paid."""
        return {
            day: sum(row["cost_nano_usd"] for row in models.values())
            for day, models in self.truth["by_day"].items()
            if day >= since
        }


def _nano(row: dict[str, Any]) -> int:
    return int(Decimal(row["cost_usd"] or 0) * 10**9)


@pytest.mark.kills
@pytest.mark.long
def test_answers_are_exact_or_say_what_they_lack_while_the_builder_is_killed(tmp_path: Path) -> None:
    """Kill -9 of the builder and of who waits, at random moments: recent costs stay exact, a search never lies about
    what it searched, and whoever comes last finds everything."""
    rng = random.Random(20261119)
    home = tmp_path / "home"
    truth = write_corpus(home, Options(SIZE_MB, days=60, damage=0))
    kills = partial = 0
    for number in range(ROUNDS):
        asked = Asked(home, truth, tmp_path / f"data-{number}")
        asked.check_recent_cost()
        for _ in range(QUESTIONS):
            time.sleep(rng.random() * 0.2)
            kills += asked.kill()
            asked.kill_question(0.3 + rng.random() * 0.7)
            kills += 1
            rng.choice((asked.check_recent_cost, asked.check_search))()
        asked.json("search", asked.word, "--rank")  # waits for the whole index
        answer = asked.json("search", asked.word, "--limit", "100000")
        assert (asked.planted, len({hit["uuid"] for hit in answer["hits"]})) == (
            answer["total"],
            asked.planted,
        )
        report = asked.json("cost", "--by", "day", "--timezone", "UTC")
        assert {row["day"]: _nano(row) for row in report["rows"]} == asked.daily()
        assert asked.json("list", "--limit", "1")["total"] == truth["sessions"]
        partial += asked.partial
    print(f"\nkill -9 of a first build: {kills} kills, {partial} answers that said what they lack")
    assert partial
