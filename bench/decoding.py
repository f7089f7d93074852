"""Decode speed against orjson and json on the same lines, in one run, and scans for usage alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from bench.report import Row
from recollect.model.codec import decode
from recollect.model.damage import Line
from recollect.model.line_views.facts import usage_facts
from recollect.model.line_views.links import line_links

SHARED = Path(__file__).resolve().parents[2] / "shared"
ROUNDS = 5


def lines_here() -> list[bytes]:
    """Lines of real transcripts where they are at hand, else those of the sample home, repeated."""
    corpus = SHARED / "corpus"
    if corpus.is_dir():
        logs = sorted(corpus.glob("*/projects/**/*.jsonl"))
    else:
        from recollect.sample import sample_home

        logs = sorted(sample_home().glob("projects/**/*.jsonl")) * 500
    return [line for log in logs for line in log.read_bytes().split(b"\n") if line]


def megabytes_per_second(work: Callable[[bytes], object], lines: list[bytes]) -> float:
    """Best of several rounds, by CPU time."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for line in lines:
            work(line)
        best = min(best, time.process_time() - start)
    return sum(map(len, lines)) / 1e6 / best


def sound(line: bytes) -> object:
    """json and orjson raise on what we report as damage."""
    try:
        return orjson.loads(line)
    except ValueError:
        return None


def run() -> list[Row]:
    """All figures."""
    lines = lines_here()
    peers = {
        "json": megabytes_per_second(json.loads, lines),
        "orjson": megabytes_per_second(sound, lines),
    }
    rows = [Row(f"{name}.loads", f"{speed:.0f} MB/cpu-s", "", None) for name, speed in peers.items()]
    ours: list[tuple[str, Callable[[bytes], object], float | None]] = [
        ("decode: typed entry, damage found, text kept", lambda line: decode(Line(line)), None),
        ("line_links: ids and links", line_links, 1.5),
        ("usage_facts: token counts", usage_facts, 1.5),
    ]
    for what, work, wanted in ours:
        speed = megabytes_per_second(work, lines)
        ratio = speed / peers["orjson"]
        measured = f"{speed:.0f} MB/cpu-s = {ratio:.2f}x"
        budget = f">= {wanted} x orjson" if wanted else "(of orjson, which checks and types nothing)"
        rows.append(Row(what, measured, budget, ratio >= wanted if wanted else None))
    return rows
