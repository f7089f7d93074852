"""Decode speed against orjson and json on the same lines, in one run, and scans for usage alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import orjson

from bench.corpora import corpus
from bench.report import Row
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Line
from recollect.model.views.fact_line import fact_line
from recollect.model.views.facts import usage_facts
from tests.needs import TRANSCRIPTS

ROUNDS = 5


def lines_here() -> list[bytes]:
    """Lines of real transcripts where they are at hand, else generated ones."""
    real = TRANSCRIPTS / "corpus"
    home, pattern = (
        (real, "*/projects/**/*.jsonl") if real.is_dir() else (corpus("c10_1").path, "projects/**/*.jsonl")
    )
    return [line for log in sorted(home.glob(pattern)) for line in log.read_bytes().split(b"\n") if line]


def megabytes_per_second(work: Callable[[bytes], object], lines: list[bytes]) -> float:
    """Best of several rounds, by CPU time."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for line in lines:
            work(line)
        best = min(best, time.process_time() - start)
    return sum(map(len, lines)) / 1e6 / best


def sound(load: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """json and orjson raise on what we report as damage."""

    def loaded(line: bytes) -> object:
        try:
            return load(line)
        except ValueError:
            return None

    return loaded


def run() -> list[Row]:
    """All figures."""
    lines = lines_here()
    peers = {
        "json": megabytes_per_second(sound(json.loads), lines),
        "orjson": megabytes_per_second(sound(orjson.loads), lines),
    }
    rows = [Row(f"{name}.loads", f"{speed:.0f} MB/cpu-s", "", None) for name, speed in peers.items()]
    ours: list[tuple[str, Callable[[bytes], object], float | None]] = [
        ("decode: typed entry, damage found, text kept", lambda line: decode(Line(line)), None),
        ("fact_line: ids and links", fact_line, 1.5),
        ("usage_facts: token counts", usage_facts, 1.5),
    ]
    for what, work, wanted in ours:
        speed = megabytes_per_second(work, lines)
        ratio = speed / peers["orjson"]
        measured = f"{speed:.0f} MB/cpu-s = {ratio:.2f}x"
        budget = f">= {wanted} x orjson" if wanted else "(of orjson, which checks and types nothing)"
        rows.append(Row(what, measured, budget, ratio >= wanted if wanted else None))
    return rows
