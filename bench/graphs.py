"""The message graph must cost the same per entry in a long session as in a short one (H8)."""

from __future__ import annotations

import gc
import json
import time

from bench.report import Row
from recollect.model.chain import after_compaction, chain_to
from recollect.model.damage import Line
from recollect.model.graph import Graph
from recollect.model.node import node_of

SIZES = (100, 1_000, 10_000, 100_000)
ENTRIES_A_MEASUREMENT = 200_000
ROUNDS = 3


def log_lines(count: int) -> list[Line]:
    """A talk of so many entries with a branch every fifty, as bytes with offsets."""
    lines, offset = [], 0
    for number in range(count):
        parent = None if number == 0 else f"{max(number - (3 if number % 50 == 0 else 1), 0):032x}"
        fields = {
            "parentUuid": parent,
            "type": "user" if number % 2 == 0 else "assistant",
            "message": {"id": f"msg_{number}", "content": "x" * 400},
            "uuid": f"{number:032x}",
            "timestamp": "2026-11-15T10:00:00.000Z",
        }
        data = json.dumps(fields, separators=(",", ":")).encode()
        lines.append(Line(data, offset))
        offset += len(data) + 1
    return lines


def microseconds_per_entry(lines: list[Line]) -> float:
    """Nodes, graph, leaf and conversation; best of some rounds, by CPU time."""
    repeats = max(ENTRIES_A_MEASUREMENT // len(lines), 1)
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        start = time.process_time()
        for _ in range(repeats):
            graph = Graph(node_of(line) for line in lines)
            leaf = graph.active_leaf
            assert leaf is not None
            after_compaction(chain_to(graph, leaf, lambda node: None))
        best = min(best, time.process_time() - start)
    return best / repeats / len(lines) * 1e6


def run() -> list[Row]:
    """Per-entry cost at each size, and the worst against the best."""
    costs = {size: microseconds_per_entry(log_lines(size)) for size in SIZES}
    rows = [Row(f"{size:,} entries", f"{cost:.2f} µs an entry", "", None) for size, cost in costs.items()]
    spread = costs[SIZES[-1]] / costs[SIZES[0]]
    return [*rows, Row("100,000 against 100", f"{spread:.2f} x", "<= 1.2 x", spread <= 1.2)]
