"""A mirror that an older translation made is translated again, from the records it holds."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import recollect
from recollect.services import label
from recollect.storage.foreign import codex, qwen
from recollect.storage.foreign import lines as made
from recollect.storage.foreign.codex_usage import CallCounter, vector
from recollect.storage.foreign.lines import LineFields, Voice
from recollect.storage.foreign.loose import Fields
from recollect.storage.foreign.mirror import AgentMirror, dialect_of
from recollect.storage.foreign.mirroring.sources import originals
from recollect.storage.foreign.mirroring.state import facts_of_mirror
from recollect.system import fsops
from tests.storage.foreign import tiny_homes
from tests.storage.foreign.samples import Call, codex_samples, counted, other_samples
from tests.storage.foreign.test_codex import ALPHA, BETA, DAILY, Payloads, meta, rollout


def old_key(self: CallCounter, payload: Fields, voice: Voice) -> list[LineFields]:
    """As the first translation named a call: without its turn."""
    key = made.key_of("codex", payload.get("response_id"))
    return self._call(voice, key, payload.get("turn_id"), vector(payload.get("usage")))


def old_link(voice: Voice, kind: str, body: LineFields) -> LineFields:
    """Entries by other ids."""
    line = new_link(voice, kind, body)
    voice.leaf = line["uuid"] = "0" + line["uuid"][1:]
    return line


new_link = made.link


@contextmanager
def old_code() -> Iterator[None]:
    """What follows is mirrored by another translation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CallCounter, "_recorded", old_key)
        patch.setattr(made, "link", old_link)
        patch.setattr(codex, "TRANSLATION", 1)
        yield


def mirrored(home: Path, data: Path, agent: str = "codex") -> AgentMirror:
    mirror = AgentMirror(agent, home, data)
    mirror.refresh()
    return mirror


def logs_of(mirror: AgentMirror) -> dict[str, bytes]:
    return {str(log.relative_to(mirror.root)): log.read_bytes() for log in mirror.root.rglob("*.jsonl")}


def used(home: Path, data: Path, *, index: bool = False) -> dict[Call, int]:
    return dict(counted(recollect.Home(home, data=data, index=index)))


def call(thread: str, number: int) -> Payloads:
    name = f"{thread[:-1]}{number}"
    usage = {"input_tokens": 100 + number, "output_tokens": number}
    text = [{"type": "input_text", "text": f"ask {number}"}]
    return [
        ("turn_context", {"turn_id": name, "model": "gpt-5", "cwd": "/w"}),
        ("response_item", {"type": "message", "role": "user", "content": text}),
        ("token_usage_record", {"turn_id": name, "response_id": f"resp_{number}", "usage": usage}),
    ]


def fork(home: Path) -> None:
    """A fork that has a copy of what it was made of."""
    rollout(home, BETA, 2, [meta(BETA, ALPHA), meta(ALPHA), *call(ALPHA, 1), *call(BETA, 2)])


def log_of(mirror: AgentMirror, thread: str) -> Path:
    return mirror.root / "projects" / "-w" / f"{thread}.jsonl"


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_call_mirrored_before_and_copied_after_counts_once(
    tmp_path: Path, index: bool, is_deleted: bool
) -> None:
    """Also where the client has deleted the original since: its records are in the mirror."""
    home, data = tmp_path / "home", tmp_path / "data"
    rollout(home, ALPHA, 1, [meta(ALPHA), *call(ALPHA, 1)])
    with old_code():
        used(home, data, index=index)
    fork(home)
    fresh = mirrored(home, tmp_path / "fresh")
    if is_deleted:
        next(home.rglob(f"*{ALPHA}.jsonl")).unlink()

    found = used(home, data, index=index)

    assert found == {Call(ALPHA, "gpt-5", 101, 0, 0, 1): 1, Call(BETA, "gpt-5", 102, 0, 0, 2): 1}
    assert logs_of(AgentMirror("codex", home, data)) == logs_of(fresh)


def test_every_sample_becomes_what_a_fresh_mirror_is(shared: Path, tmp_path: Path) -> None:
    """Forks with and without a copy, reverts, sub-agents, names, compressed files; half of them deleted since."""
    changed = 0
    for number, sample in enumerate(one for one in codex_samples(shared) if one.name in DAILY):
        home, data = tmp_path / f"home{number}", tmp_path / f"data{number}"
        shutil.copytree(sample.home, home)
        with old_code():
            old = logs_of(mirrored(home, data))
        fresh = mirrored(home, tmp_path / f"fresh{number}")
        wanted = used(home, tmp_path / f"fresh{number}")
        for path in sorted(home.rglob("rollout-*"))[::2]:
            path.unlink()

        renewed = mirrored(home, data)

        assert logs_of(renewed) == logs_of(fresh), sample.name
        assert used(home, data) == wanted, sample.name
        assert not (renewed.root / "renewal").exists()
        changed += old != logs_of(renewed)
    assert changed == len(DAILY)


def test_what_comes_after_it_is_read_from_where_the_old_translation_stopped(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    rollout(home, ALPHA, 1, [meta(ALPHA), *call(ALPHA, 1)])
    with old_code():
        mirrored(home, data)
    mirrored(home, data)
    rollout(home, ALPHA, 1, [meta(ALPHA), *call(ALPHA, 1), *call(ALPHA, 2)])

    mirror = mirrored(home, data)

    assert logs_of(mirror) == logs_of(mirrored(home, tmp_path / "fresh"))
    assert (facts := facts_of_mirror(mirror.root)) is not None
    assert facts.translation == codex.TRANSLATION


def test_the_names_and_tags_of_its_user_stay(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    tiny_homes.codex(home)
    with old_code():
        found = recollect.Home(home, data=data, index=False)
        label.apply(label.titled(found.session(tiny_homes.CHANGED), "my name"), data)
        label.apply(label.tagged(found.session(tiny_homes.CHANGED), "mine"), data)

    mirror = mirrored(home, data)

    added = log_of(mirror, tiny_homes.CHANGED).read_bytes().splitlines()[-2:]
    assert [json.loads(line)["type"] for line in added] == ["custom-title", "tag"]
    fresh = log_of(mirrored(home, tmp_path / "fresh"), tiny_homes.CHANGED).read_bytes().splitlines()
    assert log_of(mirror, tiny_homes.CHANGED).read_bytes().splitlines()[:-2] == fresh


def test_what_was_redacted_or_removed_here_does_not_come_back(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    source = tiny_homes.codex(home)
    with old_code():
        mirror = mirrored(home, data)
    log = log_of(mirror, tiny_homes.CHANGED)
    log.write_bytes(log.read_bytes().replace(b"done ", b"[redacted] "))
    log_of(mirror, tiny_homes.UNTOUCHED).unlink()
    mirrored(home, data)
    with source.open("a") as file:
        file.write(
            '{"timestamp":"2026-11-16T10:00:00.000Z","type":"event_msg","payload":{"type":"turn_aborted","reason":"x"}}\n'
        )
    mirrored(home, data)

    assert list(logs_of(mirror)) == [str(log.relative_to(mirror.root))]
    assert b"done " not in log.read_bytes()
    assert b"[redacted] " in log.read_bytes()
    assert log.read_bytes().count(b"turn_aborted") == 2  # an entry and its record: read once


def test_a_rewritten_source_keeps_both_its_generations(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    with old_code():
        rollout(home, ALPHA, 1, [meta(ALPHA), *call(ALPHA, 1)])
        mirrored(home, data)
        rollout(home, ALPHA, 1, [meta(ALPHA), *call(ALPHA, 3)])
        before = mirrored(home, data)
    old = log_of(before, ALPHA).read_bytes()

    mirror = mirrored(home, data)

    new = log_of(mirror, ALPHA).read_bytes()
    assert new != old
    source = next(home.rglob("rollout-*"))
    held = {source.relative_to(home).as_posix(): source.read_bytes().splitlines(keepends=True)}
    assert [originals(map(json.loads, data.splitlines())) for data in (old, new)] == [held, held]
    assert b"ask 1" in new
    assert {one.input for one in used(home, data)} == {101, 103}


def test_a_log_whose_records_have_no_translation_stays_as_it_is(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    tiny_homes.codex(home)
    with old_code():
        mirror = mirrored(home, data)
    log = log_of(mirror, tiny_homes.CHANGED)
    log.write_bytes(log.read_bytes().replace(b'"source":"sessions/', b'"source":"../sessions/'))
    before = log.read_bytes()

    mirrored(home, data)

    assert log.read_bytes() == before


def test_a_fork_keeps_the_history_copied_into_it_where_its_original_was_removed_here(
    shared: Path, tmp_path: Path
) -> None:
    sample = next(one for one in codex_samples(shared) if one.name == "0.166.0/exec_fork")
    with old_code():
        mirror = mirrored(sample.home, tmp_path)
    copied = {name: data for name, data in logs_of(mirror).items() if b'"source":""' in data.splitlines()[0]}
    for name in logs_of(mirror).keys() - copied.keys():
        (mirror.root / name).unlink()
    assert copied

    assert logs_of(mirrored(sample.home, tmp_path)) == copied


def test_other_agents_that_keep_lines_are_renewed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A title of the client's own, made from a record, is not there twice."""
    home, data = tmp_path / "home", tmp_path / "data"
    tiny_homes.qwen(home)
    fresh = logs_of(mirrored(home, tmp_path / "fresh", "qwen"))
    with monkeypatch.context() as patch:
        patch.setattr(qwen, "_CALL", "called otherwise")
        assert logs_of(mirrored(home, data, "qwen")) != fresh

    monkeypatch.setattr(qwen, "TRANSLATION", qwen.TRANSLATION + 1)

    assert logs_of(mirrored(home, data, "qwen")) == fresh


@pytest.mark.parametrize("agent", ["codex", "gemini", "opencode", "qwen"])
def test_the_same_translation_makes_the_same_mirror(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """Of files that are rewritten and stores too: byte for byte."""
    found = codex_samples(shared) if agent == "codex" else other_samples(shared, agent)
    for number, sample in enumerate(one for one in found if agent != "codex" or one.name in DAILY):
        with monkeypatch.context() as patch:
            mirror = mirrored(sample.home, tmp_path / f"{number}", agent)
            before = logs_of(mirror)
            patch.setattr(dialect_of(agent), "TRANSLATION", 99)
            assert logs_of(mirrored(sample.home, tmp_path / f"{number}", agent)) == before, sample.name
            assert (facts := facts_of_mirror(mirror.root)) is not None
            assert facts.translation == 99


@pytest.mark.parametrize("steps", range(6))
def test_killed_at_any_file_each_log_is_old_or_new_and_the_next_pass_ends_it(
    tmp_path: Path, steps: int
) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    rollout(home, ALPHA, 1, [meta(ALPHA), *call(ALPHA, 1)])
    fork(home)
    with old_code():
        old = logs_of(mirrored(home, data))
    new = logs_of(mirrored(home, tmp_path / "fresh"))

    child = os.fork()
    if not child:
        replace, left = fsops.replace_file, iter(range(steps))

        def die(path: Path, data: bytes, *, mode: int = fsops.FILE_MODE) -> None:
            if next(left, None) is None:
                os._exit(9)
            replace(path, data, mode=mode)

        fsops.replace_file = die
        mirrored(home, data)
        os._exit(0)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == (9 if steps < 5 else 0)
    between = {
        name: one for name, one in logs_of(AgentMirror("codex", home, data)).items() if "renewal" not in name
    }
    assert {name: one in (old[name], new[name]) for name, one in between.items()} == dict.fromkeys(new, True)
    assert logs_of(mirrored(home, data)) == new
