"""Generated homes of a known size, with the exact answers beside them.

``bench/recollect_corpus`` always writes the same bytes for the same options. What it made is
kept in a cache directory and made anew when the options or the generator changed.

A corpus is never written to. What has to grow is a copy: hard links to every log but
the one that is written to, so that it costs neither time nor disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench import recollect_corpus
from bench.recollect_corpus import TRUTH, Options, write_corpus

OPTIONS = {
    "c10_1": Options(10, seed=1, sessions=20, forks=0.3, damage=0.1),
    "c10_2": Options(10, seed=2, sessions=20, forks=0.3, damage=0.1),
    "c10_3": Options(10, seed=3, sessions=20, forks=0.3, damage=0.1),
    "c50": Options(1, seed=1, largest_mb=50),
    "c100": Options(100, seed=2, projects=15, sessions=90),
    "c200": Options(200, seed=7, projects=20, days=60, sessions=180),
    "c1000": Options(1_000, seed=4, projects=30, days=180, sessions=900),
    "c5000": Options(5_000, seed=5, projects=60, days=360, sessions=4_500),
    "s10000": Options(200, seed=6, projects=60, days=360, sessions=10_000),
}
SEEDS = ("c10_1", "c10_2", "c10_3")
_MADE_WITH = "MADE_WITH"


class Corpus(NamedTuple):
    """A generated home and what an exact reader must say of it."""

    name: str
    path: Path
    truth: dict[str, Any]

    @property
    def about(self) -> str:
        """Its size in a few words."""
        truth = self.truth
        return (
            f"{truth['bytes'] / 1e6:,.0f} MB in {truth['lines']:,} lines, {truth['sessions']:,} sessions"
            f" ({truth['forks']} forks), {truth['agents']:,} agents, {truth['responses']:,} responses"
            f" (`{self.name}` of `bench/corpora.py`)"
        )


def cache_directory() -> Path:
    """Where corpora and peers are kept between runs, outside the repository."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "recollect-bench"


def corpus(name: str) -> Corpus:
    """The corpus so named, made if it is not there."""
    place = cache_directory() / "corpora" / name
    if not _is_current(place, name):
        _make(place, name)
    return Corpus(name, place, json.loads((place / TRUTH).read_text(encoding="utf-8")))


def largest_log(directory: Path) -> Path:
    """A session of 50 MB, in a home below this directory."""
    home = directory / "home"
    shutil.copytree(corpus("c50").path, home)
    return max(home.glob("projects/*/*.jsonl"), key=lambda log: log.stat().st_size)


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


def _made_with(name: str) -> str:
    code = hashlib.sha256()
    for module in sorted(Path(recollect_corpus.__path__[0]).glob("*.[pt]*")):
        code.update(module.read_bytes())
    return f"{OPTIONS[name]}\n{code.hexdigest()}\n"


def _is_current(place: Path, name: str) -> bool:
    made = place / _MADE_WITH
    return made.is_file() and made.read_text(encoding="utf-8") == _made_with(name)


def _make(place: Path, name: str) -> None:
    print(f"making corpus {name} ({OPTIONS[name].size_mb:g} MB) ...", flush=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{name}-") as scratch:
        made = Path(scratch) / name
        write_corpus(made, OPTIONS[name])
        (made / _MADE_WITH).write_text(_made_with(name), encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        made.rename(place)
