"""A Claude home of generated sessions, and exactly what is in it.

The same options make the same bytes. ``TRUTH`` in the home says what an exact reader must say of it: tokens and money by model
and day, where each planted word stands (log and line), what is damaged, how many sessions, forks, sub-agents and lines there are.
Responses that forks, or news of agents, repeat count once. Usage is as the client of each session writes it; one version
writes only what a stream begins with (``uncertain_responses``).

Homes of other agents with the same conversations: ``agents.py``.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from bench.recollect_corpus.logs import ERAS, Era, Log, encode
from bench.recollect_corpus.tools import Material, Project
from bench.recollect_corpus.truth import Line, Truth
from bench.recollect_corpus.words import PLANTED, Planter, Words

TRUTH = "TRUTH.json"
_END = dt.datetime(2026, 11, 14, tzinfo=dt.UTC)
_FORKABLE, _LONGEST_FORK = 6, 3_000_000


class Options(NamedTuple):
    """How large a home is, and what it is made of."""

    size_mb: float = 10
    seed: int = 1
    projects: int = 10
    days: int = 120
    sessions: int = 0  # 0: about one a megabyte
    forks: float = 0.08  # the share of sessions that begin with a copy of another
    damage: float = 0.01  # the share with a torn end, and that with a broken line
    largest_mb: float = 0  # one session more, of this size


def write_corpus(home: Path, options: Options) -> dict[str, Any]:
    """Write a home that does not exist yet; its truth."""
    return _Corpus(home, options).write()


class _Corpus:
    def __init__(self, home: Path, options: Options) -> None:
        self._home, self._options = home, options
        self._rng = Random(f"{options.seed} sessions")
        words = Words(options.seed, 1_500 + int(min(options.size_mb, 200) * 200))
        self._material = Material(words, Planter(options.size_mb))
        self._projects = [
            Project(words, Random(f"{options.seed} project {number}"), number)
            for number in range(options.projects)
        ]
        self._forkable: list[Log] = []
        self._history: list[tuple[int, dict[str, Any]]] = []
        self._written = 0
        self._truth = Truth()

    def write(self) -> dict[str, Any]:
        options, rng = self._options, self._rng
        if options.largest_mb:
            self._session(int(options.largest_mb * 1e6), _END - dt.timedelta(days=1), None)
        start, goal = self._written, options.size_mb * 1e6
        count = options.sessions or max(5, int(options.size_mb))
        mean, number = goal / count, 0
        while (left := start + goal - self._written) > 0:
            number += 1
            day = _END - dt.timedelta(days=options.days * max(0.0, 1 - number / count))
            origin = rng.choice(self._forkable) if self._forkable and rng.random() < options.forks else None
            # A few long ones among many short ones, about the mean.
            size = mean * min(0.3 / (rng.random() + 0.04), 40)
            self._session(int(min(size, left)), day + dt.timedelta(seconds=rng.randrange(86_400)), origin)
        self._history.sort(key=lambda entry: entry[0])
        self._save(Path("history.jsonl"), _END, [encode(entry) for _, entry in self._history])
        truth = {**options._asdict(), "bytes": self._written, **self._truth.report(PLANTED)}
        (self._home / TRUTH).write_text(json.dumps(truth, indent=1, ensure_ascii=False), encoding="utf-8")
        return truth

    def _session(self, size: int, start: dt.datetime, origin: Log | None) -> None:
        rng, counts = self._rng, self._truth.counts
        era = origin.era if origin else self._era(start)
        project = origin.project if origin else self._projects[int(len(self._projects) * rng.random() ** 1.5)]
        log = Log(self._material, project, rng, max(start, origin.now) if origin else start, era)
        if origin:
            log.copy(origin)
        log.talk(log.size + size if origin else size)
        counts["sessions"] += 1
        counts["forks"] += origin is not None
        counts["prompts"] += len(log.prompts)
        self._write_log(Path("projects", project.key, f"{log.session}.jsonl"), log)
        for agent in log.agents:
            counts["agents"] += 1
            folder = Path("projects", project.key)
            if era.agents == "nested":
                folder = folder / log.session / "subagents"
            self._write_log(folder / f"agent-{agent.id}.jsonl", agent.log)
            if era.is_late:
                self._save(folder / f"agent-{agent.id}.meta.json", agent.log.now, [encode(agent.meta)])
        for at, text in log.prompts:
            entry = {"display": text, "pastedContents": {}, "timestamp": at, "project": project.cwd}
            self._history.append((at, {**entry, "sessionId": log.session}))
        if log.size < _LONGEST_FORK:
            log.agents = []
            self._forkable = [*self._forkable, log][-_FORKABLE:]

    def _era(self, start: dt.datetime) -> Era:
        """Clients are updated as time goes by, some sooner than others."""
        passed = 1 - (_END - start) / dt.timedelta(days=self._options.days)
        number = int(len(ERAS) * passed + self._rng.choice((-0.7, 0, 0, 0.5)))
        return ERAS[min(max(number, 0), len(ERAS) - 1)]

    def _write_log(self, path: Path, log: Log) -> None:
        lines, name = log.lines, str(path)
        half = next(line.data[: min(len(line.data) // 2, 300)] for line in lines if not line.words)
        if self._rng.random() < self._options.damage:
            at = self._rng.randrange(1, len(lines) + 1)
            lines = [*lines[:at], Line(half), *lines[at:]]
            self._truth.broken.append((name, at + 1))
        self._truth.count(name, lines)
        data = [line.data for line in lines]
        is_torn = self._rng.random() < self._options.damage
        if is_torn:
            self._truth.torn.append(name)
        self._written += self._save(path, log.now, data, half if is_torn else b"")

    def _save(self, path: Path, when: dt.datetime, lines: Sequence[bytes], tail: bytes = b"") -> int:
        place = self._home / path
        place.parent.mkdir(parents=True, exist_ok=True)
        size = place.write_bytes(b"".join([part for line in lines for part in (line, b"\n")]) + tail)
        place.chmod(0o600)
        os.utime(place, (when.timestamp(), when.timestamp()))
        return size
