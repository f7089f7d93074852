"""Real transcripts beside the project, read in place and never copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def session_logs(transcripts: Path) -> list[Path]:
    """Every session and agent log of the samples and the corpus, other agents' files included."""
    roots = [transcripts / "samples", transcripts / "corpus"]
    logs = [log for root in roots for log in sorted(root.rglob("*.jsonl"))]
    assert logs, "the shared directory is there but holds no transcripts"
    return logs


def lines_of(logs: list[Path]) -> Iterator[bytes]:
    """Every line that ends in a newline, without it."""
    for log in logs:
        yield from log.read_bytes().split(b"\n")[:-1]
