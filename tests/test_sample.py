"""The built-in sample home is ours, small, and what its generator writes."""

from __future__ import annotations

from pathlib import Path

from recollect.model.lines.damage import Damage, DamageCode
from recollect.model.lines.entry import Entry, Kind
from recollect.sample import sample_home
from recollect.store.logs.reader import LogReader
from tools.build_sample_home import build, digest


def test_the_shipped_home_is_what_the_generator_writes(tmp_path: Path) -> None:
    """Change one and the other must follow: `make sample`."""
    build(tmp_path / "home")

    assert digest(tmp_path / "home") == digest(sample_home())


def test_it_is_small_and_whole() -> None:
    """Under 50 kB; every line is a known kind, but for the one torn line it is meant to show."""
    logs = sorted(sample_home().glob("projects/**/*.jsonl"))
    items = [item for log in logs for item in LogReader(log)]
    entries = [item for item in items if isinstance(item, Entry)]
    damage = [item for item in items if isinstance(item, Damage)]

    assert 4 == len(logs)
    assert 50_000 > sum(path.stat().st_size for path in sample_home().rglob("*") if path.is_file())
    assert [DamageCode.INVALID_JSON] == [item.code for item in damage]
    assert {Kind.USER, Kind.ASSISTANT, Kind.CUSTOM_TITLE, Kind.TAG} == {entry.kind for entry in entries}
