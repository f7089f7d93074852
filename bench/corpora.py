"""Generated homes of a known size, with the exact answers beside them.

The generator lies beside the project (``../shared/tools/corpus.py``) and always writes the
same bytes for the same options. What it made is kept in a cache directory and made anew
when the options or the generator changed; ``RECOLLECT_BENCH_CORPORA`` names a directory
of ready ones (``c100``, ``c1000``, ``c10_1`` ...), which are taken as they are.

A corpus is never written to. What has to grow is a copy: hard links to every log but
the one that is written to, so that it costs neither time nor disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

GENERATOR = Path(__file__).resolve().parents[2] / "shared" / "tools" / "corpus.py"
OPTIONS = {
    "c10_1": "--size-mb 10 --seed 1",
    "c10_2": "--size-mb 10 --seed 2",
    "c10_3": "--size-mb 10 --seed 3",
    "c100": "--size-mb 100 --projects 15 --seed 2",
    "c200": "--size-mb 200 --projects 20 --days 60 --seed 7",
    "c1000": "--size-mb 1000 --projects 30 --days 180 --seed 4",
    "c5000": "--size-mb 5000 --projects 60 --days 360 --seed 5",
    "s10000": "--size-mb 200 --sessions 10000 --projects 60 --days 360 --seed 6",
}
SEEDS = ("c10_1", "c10_2", "c10_3")
_TRUTH, _MADE_WITH = "GROUND_TRUTH.json", "MADE_WITH"


class Corpus(NamedTuple):
    """A generated home and what an exact reader must say of it."""

    name: str
    path: Path
    truth: dict[str, Any]

    @property
    def about(self) -> str:
        """Its size in a few words."""
        truth, files = self.truth, self.truth["files"]
        agents = files.get("subagent_new", 0) + files.get("subagent_old", 0)
        return (
            f"{truth['bytes'] / 1e6:,.0f} MB in {truth['lines']:,} lines, {truth['sessions']:,} sessions"
            f" ({files.get('forks', 0)} forks), {agents:,} agents, {truth['responses']:,} responses"
            f" (`corpus.py {OPTIONS[self.name]}`)"
        )


def cache_directory() -> Path:
    """Where corpora and peers are kept between runs, outside the repository."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "recollect-bench"


def corpus(name: str) -> Corpus | None:
    """The corpus so named; None (and a word about it) where there is none and none can be made."""
    ready = os.environ.get("RECOLLECT_BENCH_CORPORA")
    if ready and (Path(ready) / name / _TRUTH).is_file():
        return _opened(name, Path(ready) / name)
    place = cache_directory() / "corpora" / name
    if not GENERATOR.is_file():
        print(f"no corpus {name}: the generator ../shared/tools/corpus.py is not beside the project")
        return None
    if not _is_current(place, name):
        _make(place, name)
    return _opened(name, place)


def copied(home: Path, target: Path, grown: Path) -> Path:
    """A home in which ``grown`` is a real copy and all else is linked; returns the log that may grow."""
    for source in _files(home):
        copy = target / source.relative_to(home)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source == grown:
            shutil.copy2(source, copy)
            continue
        try:
            os.link(source, copy)
        except OSError:  # another disk, or links are not allowed there
            shutil.copy2(source, copy)
    return target / grown.relative_to(home)


def newest_log(home: Path) -> Path:
    """The session that was worked on last, of those whose last line is whole."""
    logs = (log for log in home.glob("projects/*/*.jsonl") if not log.name.startswith("agent-"))
    return max((log for log in logs if _ends_whole(log)), key=lambda log: log.stat().st_mtime_ns)


def _files(home: Path) -> Iterator[Path]:
    return (path for path in sorted(home.rglob("*")) if path.is_file())


def _ends_whole(log: Path) -> bool:
    with log.open("rb") as data:
        data.seek(-1, os.SEEK_END)
        return data.read(1) == b"\n"


def _opened(name: str, place: Path) -> Corpus:
    return Corpus(name, place, json.loads((place / _TRUTH).read_text(encoding="utf-8")))


def _made_with(name: str) -> str:
    return f"{OPTIONS[name]}\n{hashlib.sha256(GENERATOR.read_bytes()).hexdigest()}\n"


def _is_current(place: Path, name: str) -> bool:
    made = place / _MADE_WITH
    return made.is_file() and made.read_text(encoding="utf-8") == _made_with(name)


def _make(place: Path, name: str) -> None:
    print(f"making corpus {name} ({OPTIONS[name]}) ...", flush=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{name}-") as scratch:
        made = Path(scratch) / name
        command = [sys.executable, str(GENERATOR), str(made), *OPTIONS[name].split()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (made / _MADE_WITH).write_text(_made_with(name), encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        made.rename(place)
