"""A small home with one session of several files, to be archived."""

from __future__ import annotations

import random
from pathlib import Path

from recollect.store.archive.archive import Archive, ArchiveResult
from recollect.store.archive.manifest import Manifest

SESSION = "3f2a9c1e-0000-4000-8000-000000000001"
KEY = "-srv-app"
AT = "2026-11-15T12:00:00+00:00"


def lines(count: int, seed: int = 1, width: int = 300) -> bytes:
    """Lines of JSON that compress like text does."""
    rng = random.Random(seed)
    words = ["basket", "total", "order", "cent", "round", "test", "file", "error", "value"]
    return b"".join(
        b'{"n":%d,"text":"%s"}\n' % (number, " ".join(rng.choices(words, k=width // 6)).encode())
        for number in range(count)
    )


def small_session(home: Path, *, log: bytes | None = None) -> list[Path]:
    """Write a session with an agent and a tool result; its files, the log first."""
    project = home / "projects" / KEY
    files = {
        project / f"{SESSION}.jsonl": lines(40) if log is None else log,
        project / SESSION / "subagents" / "agent-a1.jsonl": lines(10, seed=2),
        project / SESSION / "tool-results" / "b7.txt": b"output\n" * 200,
        home / "file-history" / SESSION / "abc@v1": b"print(1)\n",
    }
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return list(files)


def described(home: Path, at: str = AT) -> Manifest:
    """What the archive is told of it."""
    return Manifest(SESSION, KEY, str(home), "/srv/app", "Basket totals", None, None, at, ())


def added(archive: Archive, home: Path, files: list[Path], at: str = AT) -> ArchiveResult:
    """Archive it."""
    with archive.adding():
        return archive.add(described(home, at), files)
