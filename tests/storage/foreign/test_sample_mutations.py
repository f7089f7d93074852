"""The same with homes that real clients wrote: what one file has become changes no unrelated session."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.storage.foreign.mirror import AgentMirror, dialect_of
from tests.storage.foreign.mutations import MARK
from tests.storage.foreign.samples import ALL, Sample, codex_samples, other_samples

# One home of each kind; thousands of changes of all homes where there is time.
USUAL = {"0.166.0/agents_v2", "gemini-0.24.5", "gemini-0.61.0", "qwen-0.24.4", "opencode-1.0.61"}
EACH = 40 if ALL else 4


def samples(shared: Path, agent: str) -> Iterator[Sample]:
    found = codex_samples(shared) if agent == "codex" else other_samples(shared, agent)
    return (one for one in found if one.name in USUAL or ALL)


def mirrored(agent: str, home: Path, data: Path) -> dict[str, bytes]:
    mirror = AgentMirror(agent, home, data)
    mirror.refresh()
    return {str(log.relative_to(mirror.root)): log.read_bytes() for log in mirror.root.rglob("*.jsonl")}


def unrelated(logs: dict[str, bytes], source: str) -> set[str]:
    """Logs that hold nothing of a file, and neither name a session that does nor are named by one, over any distance."""
    mine = {name for name, log in logs.items() if source.encode() in log}
    while True:
        names = {one for name in mine for one in names_of(name)}
        text = b"".join(logs[name] for name in mine)
        near = {
            name
            for name, log in logs.items()
            if any(one in log for one in names) or any(one in text for one in names_of(name))
        }
        if near <= mine:
            return logs.keys() - mine
        mine |= near


def names_of(log: str) -> set[bytes]:
    """The session whose log it is, and the agent."""
    agent = log.rpartition("/agent-")[2] if "/agent-" in log else ""
    return {one.removesuffix(".jsonl").encode() for one in (log.split("/")[2], agent) if one}


def changed(data: bytes, chance: random.Random) -> bytes:
    """A cut, a foreign word in place of some bytes, or a value of another type after a colon."""
    place = chance.randrange(len(data))
    how = chance.choice(["cut", "word", "value", "value", "value"])
    if how == "cut":
        return data[:place]
    if how == "word":
        return data[:place] + MARK.encode() + data[place + 9 :]
    colon = data.find(b'":', place) + 2
    end = min((at for mark in (b",", b"}") if (at := data.find(mark, colon)) > 0), default=colon)
    value = chance.choice(["null", "7", "[7]", '{"zz-mutant": 7}', "true", '"zz-mutant"', "-1e99"])
    return data[:colon] + value.encode() + data[end:]


@pytest.mark.parametrize("agent", ["codex", "gemini", "qwen", "opencode"])
def test_a_changed_file_of_a_real_home_changes_no_other_session(
    shared: Path, tmp_path: Path, agent: str
) -> None:
    tried = compared = 0
    for sample in samples(shared, agent):
        chance = random.Random(sample.name)
        home = tmp_path / "home"
        shutil.copytree(sample.home, home)
        if agent == "codex":  # most of these homes hold one session: a second one moves in
            other = next(one for one in codex_samples(shared) if one.name != sample.name)
            shutil.copytree(other.home / "sessions", home / "sessions", dirs_exist_ok=True)
        for path in (home, *home.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)
        before = mirrored(agent, home, tmp_path / "before")
        files = sorted(path for path in home.rglob("*.json*") if source_of(agent, path, home))
        for _ in range(EACH if files else 0):
            path = chance.choice(files)
            data = path.read_bytes()
            path.write_bytes(changed(data, chance))
            os.utime(path, (1_700_000_000, 1_700_000_000))
            now = mirrored(agent, home, tmp_path / "data")
            if agent == "opencode":
                assert len(now) >= len(before), path
            else:
                for name in unrelated(before, path.relative_to(home).as_posix()):
                    assert now[name] == before[name], path
                    compared += 1
            tried += 1
            path.write_bytes(data)
            shutil.rmtree(tmp_path / "data")
        shutil.rmtree(home)
        shutil.rmtree(tmp_path / "before")
    assert tried
    assert compared >= tried or agent == "opencode"


def source_of(agent: str, path: Path, home: Path) -> bool:
    """Whether a file is one of the agent's sessions; the names that Codex keeps in one file concern many."""
    if agent == "opencode":
        return path.parent.parent.name in ("message", "part", "session")
    is_unit = any(unit.path == path for unit in dialect_of(agent).units(home))
    return is_unit and path.name != "session_index.jsonl" and path.stat().st_size > 0
