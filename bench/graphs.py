"""The message graph must cost the same per entry in a long session as in a short one (H8)."""

from __future__ import annotations

import gc
import json
import time

from bench.report import Row
from recollect.model.conversation.chain import after_compaction, chain_to
from recollect.model.conversation.graph import Graph, node_of
from recollect.model.lines.damage import Line

SIZES = (100, 1_000, 10_000, 100_000)
ROUNDS = 5


def log_lines(count: int, first: int) -> list[Line]:
    """A talk of so many entries with a branch every fifty, as bytes with offsets."""
    lines, offset = [], 0
    for number in range(first, first + count):
        back = 3 if number % 50 == 0 else 1
        parent = None if number == first else f"{max(number - back, first):032x}"
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


def microseconds_per_entry(logs: list[list[Line]]) -> float:
    """Nodes, graph, leaf and conversation; best of some rounds, by CPU time."""
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        start = time.process_time()
        for lines in logs:
            graph = Graph(node_of(line) for line in lines)
            leaf = graph.active_leaf
            assert leaf is not None
            after_compaction(chain_to(graph, leaf, lambda node: None))
        best = min(best, time.process_time() - start)
    return best / SIZES[-1] * 1e6


def run() -> list[Row]:
    """The same 100,000 entries as sessions of each size: what a long one costs more, caches apart."""
    costs = {}
    for size in SIZES:
        logs = [log_lines(size, first) for first in range(0, SIZES[-1], size)]
        costs[size] = microseconds_per_entry(logs)
    rows = [
        Row(f"100,000 entries in sessions of {size:,}", f"{cost:.2f} µs an entry", "", None)
        for size, cost in costs.items()
    ]
    spread = costs[SIZES[-1]] / costs[SIZES[0]]
    return [
        *rows,
        Row("one of 100,000 against a thousand of 100", f"{spread:.2f} x", "<= 1.2 x", spread <= 1.2),
    ]
