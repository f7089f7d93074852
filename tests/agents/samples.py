"""Homes that real clients of other agents wrote, and what the stub of their model service billed."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import recollect

ALL = bool(os.environ.get("RECOLLECT_TORTURE"))


class Call(NamedTuple):
    """One billed call: the thread that made it, the model, and disjoint counts."""

    thread: str
    model: str
    input: int
    cache_read: int
    cache_write: int
    output: int


class Sample(NamedTuple):
    """A home and the calls that left a trace in its files."""

    name: str
    agent: str
    home: Path
    billed: Counter[Call]
    cut: Counter[Call]  # of those: the stream was cut


def codex_samples(transcripts: Path) -> Iterator[Sample]:
    """Every home written by the Codex client."""
    root = transcripts / "dialects" / "samples" / "codex"
    for truth in sorted(root.glob("*/*/truth.json")):
        calls = json.loads(truth.read_text())["calls"]
        billed = Counter(_codex_call(call) for call in calls if call["in_files"])
        yield Sample(str(truth.parent.relative_to(root)), "codex", truth.parent / ".codex", billed, Counter())


def codex_rooms(root: Path) -> Iterator[Sample]:
    """Homes that Codex clients wrote just now (``tools/write_agent_homes.py``); all that was billed, also what left no trace."""
    for bill in sorted(root.glob("*/*/bill.jsonl")):
        rows = [json.loads(line) for line in bill.read_text().splitlines()]
        billed = Counter(codex_bill(row["thread"], row["model"], row["usage"]) for row in rows)
        yield Sample(
            str(bill.parent.relative_to(root)), "codex", bill.parent / "home/.codex", billed, Counter()
        )


def codex_bill(thread: str, model: str, used: dict[str, Any]) -> Call:
    """A bill of the stub of the Responses API."""
    details = used.get("input_tokens_details") or {}
    cached, written = details.get("cached_tokens", 0), details.get("cache_write_tokens", 0)
    return Call(
        thread, model, used["input_tokens"] - cached - written, cached, written, used["output_tokens"]
    )


def _codex_call(call: dict[str, Any]) -> Call:
    cached, written = call["cached_input_tokens"], call["cache_write_input_tokens"]
    uncached = call["input_tokens"] - cached - written
    return Call(call["thread"], call["model"], uncached, cached, written, call["output_tokens"])


def other_samples(transcripts: Path, agent: str) -> Iterator[Sample]:
    """Homes written by another client, and all that was billed, also what left no trace."""
    yield from homes_of(transcripts / "dialects" / "samples", agent)


def homes_of(root: Path, agent: str) -> Iterator[Sample]:
    """Homes of one agent, each in ``<agent>-<version>/`` beside what was billed."""
    for truth in sorted(root.glob(f"{agent}-*/truth.json")):
        calls = json.loads(truth.read_text())["billed"]
        billed, cut = (
            Counter(_call(call) for call in calls if call["cut"] in which)
            for which in ((False, True), (True,))
        )
        home = truth.parent / ("data/opencode" if agent == "opencode" else f".{agent}")
        yield Sample(truth.parent.name, agent, home, billed, cut)


def _call(call: dict[str, Any]) -> Call:
    used = call["usage"]
    output = used["output"] + used["reasoning"]
    return Call(
        call.get("session") or "",
        call["model"],
        used["input"],
        used["cache_read"],
        used["cache_write"],
        output,
    )


def counted(home: recollect.Home, *, by_root: bool = False) -> Counter[Call]:
    """What recollect counts: every response once, in the thread it belongs to; or in its root session."""
    return Counter(
        Call(
            (None if by_root else one.agent) or one.session or "",
            one.model or "",
            one.tokens.input,
            one.tokens.cache_read,
            one.tokens.cache_write_5m + one.tokens.cache_write_1h,
            one.tokens.output,
        )
        for one in home.responses()
    )


def tree_state(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """Every path below a directory with what would change if it were touched."""
    return {
        str(path.relative_to(root)): (seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ino)
        for path in sorted(root.rglob("*"))
        for seen in (path.lstat(),)
    }
