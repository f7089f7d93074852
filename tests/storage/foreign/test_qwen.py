"""A home of Qwen Code 0.24, read through its mirror."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import recollect
from recollect.services.agents import agents_of
from recollect.storage.foreign import qwen
from recollect.storage.foreign.mirror import AgentMirror, originals
from tests.storage.foreign.samples import Sample, counted, other_samples, tree_state


@pytest.fixture(scope="module")
def sample(shared: Path) -> Sample:
    (found,) = other_samples(shared, "qwen")
    return found


def test_every_finished_call_is_counted_once(sample: Sample, tmp_path: Path) -> None:
    """31 of 31; a fork repeats calls of its origin, and five streams that were cut have no counts."""
    found = counted(recollect.Home(sample.home, data=tmp_path), by_root=True)
    assert found == sample.billed - sample.cut
    assert found.total() == 31


def test_it_is_read_back_byte_for_byte_and_untouched(sample: Sample, tmp_path: Path) -> None:
    before = tree_state(sample.home)
    mirror = AgentMirror("qwen", sample.home, tmp_path)
    mirror.refresh()
    assert tree_state(sample.home) == before
    back = originals(
        json.loads(line) for log in mirror.root.rglob("*.jsonl") for line in log.read_bytes().splitlines()
    )
    for unit in qwen.units(sample.home):
        assert b"".join(back[unit.source]) == unit.path.read_bytes()


def test_conversations_keep_the_ids_of_the_client(sample: Sample, tmp_path: Path) -> None:
    home = recollect.Home(sample.home, data=tmp_path, index=False)
    fork = home.session("936545cc")
    origin = home.session("15a9b980")
    assert [message.text for message in fork.conversation().messages][1::2] == ["base answer", "fork answer"]
    assert fork.conversation().messages[0].uuid == origin.conversation().messages[0].uuid
    compacted = home.session("e955250d").conversation()
    assert [message.is_summary for message in compacted.messages[:2]].count(True) == 1
    assert "long talk one" not in " ".join(message.text for message in compacted.messages)


def test_a_sub_agent_is_tied_to_its_call(sample: Sample, tmp_path: Path) -> None:
    home = recollect.Home(sample.home, data=tmp_path, index=False)
    (agent,) = agents_of(home.session("cea11658"))
    assert agent.agent_type == "general-purpose"
    assert agent.spawned_by


def test_nothing_is_wrong_with_it(sample: Sample, tmp_path: Path) -> None:
    assert not recollect.Home(sample.home, data=tmp_path, index=False).check().findings
