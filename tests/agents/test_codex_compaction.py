"""What a compaction of Codex leaves stands behind its cut: the conversation is shown as the client sends it."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import recollect
from recollect.agents import codex_rollout
from recollect.ask.sessions.originals import resumed
from recollect.model.conversation.chain import entries_of
from recollect.model.lines.blocks import TextBlock
from recollect.model.lines.damage import readable_entries
from recollect.model.lines.entry import Assistant, User
from recollect.model.text.titles import typed_text
from recollect.share import convert
from tests.agents.samples import codex_samples
from tests.agents.test_codex import ALPHA, BETA, Payloads, meta, mirror_of, rollout, turn

Said = list[tuple[str, str]]
NO_TEXT = "(compacted by the provider: no text)"


def shown(session: recollect.Session) -> Said:
    """Who says which text in the conversation as ``show`` has it."""
    entries = entries_of(session.conversation().nodes, session.load)
    spoken = [one.body for one in entries if isinstance(one.body, User | Assistant)]
    found = [("assistant" if isinstance(one, Assistant) else "user", one.message) for one in spoken]
    texts = [
        (role, "\n".join(block.text for block in said.blocks if isinstance(block, TextBlock)))
        for role, said in found
    ]
    return [(role, text) for role, text in texts if text]


def sent(session: recollect.Session) -> Said:
    """The same of ``show --api``."""
    found = []
    for item in resumed(session):
        texts = "\n".join(str(part["text"]) for part in item.get("content") or () if part.get("text"))
        if item["type"] == "message" and texts:
            found.append(("assistant" if item["role"] == "assistant" else "user", texts))
        elif item["type"] == "agent_message":
            found.append(("user", f"{item['author']}: {texts}"))
        elif item["type"] == "compaction":
            found.append(("user", NO_TEXT))
    return found


def test_every_thread_of_the_samples_is_shown_as_it_is_sent(
    transcripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent is what a rule says that met the client's own requests in 293 of 300 threads."""
    monkeypatch.syspath_prepend(transcripts / "dialects" / "oracle" / "codex")
    rule = importlib.import_module("context").context
    compared = compacted = ruled = 0
    for number, sample in enumerate(codex_samples(transcripts)):
        # The rule needs another program for the first; the client no longer reads the second.
        is_ruled = "compressed" not in sample.name and not sample.name.startswith("0.20.0")
        home = recollect.Home(sample.home, data=tmp_path / str(number), index=False)
        for session in home.sessions():
            assert shown(session) == sent(session), (sample.name, session.id)
            if is_ruled:
                assert resumed(session) == rule(sample.home, session.id), (sample.name, session.id)
            compared += 1
            ruled += is_ruled
            compacted += any(node.is_boundary for node in session.graph.nodes.values())
    assert compared >= 90
    assert ruled >= 70
    assert compacted >= 19


def message(role: str, text: str) -> dict[str, object]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def cut(*kept: str) -> Payloads:
    """A compaction that says what it left, or none."""
    history = {"replacement_history": [message("user", text) for text in kept]} if kept else {}
    return [("compacted", {"message": "all in all", **history})]


def rolled_back(turns: int) -> Payloads:
    return [("event_msg", {"type": "thread_rolled_back", "num_turns": turns})]


CASES: dict[str, Payloads] = {
    "list": [*turn("a", 1, 1), *turn("b", 2, 1), *cut("b", "all in all"), *turn("c", 3, 1)],
    "no list": [*turn("a", 1, 1), *turn("b", 2, 1), *cut(), *turn("c", 3, 1)],
    "twice": [*turn("a", 1, 1), *cut(), *turn("b", 2, 1), *cut(), *turn("c", 3, 1)],
    "rolled back": [*turn("a", 1, 1), *cut("a", "all in all"), *turn("b", 2, 1), *rolled_back(2)],
    "rolled back before": [*turn("a", 1, 1), *rolled_back(1), *turn("b", 2, 1), *cut(), *turn("c", 3, 1)],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_grown", [False, True])
def test_what_a_compaction_left_is_shown_and_rolled_back_as_the_client_does(
    name: str, is_grown: bool, tmp_path: Path
) -> None:
    """Also where the compaction is read in a later pass than the prompts that it carries over."""
    home, data = tmp_path / "home", tmp_path / "data"
    payloads = [meta(ALPHA), *CASES[name]]
    for end in range(2 if is_grown else len(payloads), len(payloads) + 1):
        rollout(home, ALPHA, 0, payloads[:end])
        mirror_of(home, data)
    session = recollect.Home(home, data=data, index=False).session(ALPHA)
    assert shown(session) == sent(session)
    assert shown(session)


def test_a_prompt_that_a_compaction_left_is_typed_once(tmp_path: Path) -> None:
    rollout(tmp_path / "home", ALPHA, 0, [meta(ALPHA), *CASES["list"]])
    session = recollect.Home(tmp_path / "home", data=tmp_path / "data", index=False).session(ALPHA)
    assert [text for entry in readable_entries(session.entries()) if (text := typed_text(entry))] == [
        "a",
        "b",
        "c",
    ]


def test_a_fork_goes_on_behind_the_compaction_of_its_original(tmp_path: Path) -> None:
    """A roll-back in it counts the prompts that the compaction left."""
    home = tmp_path / "home"
    rollout(home, ALPHA, 0, [meta(ALPHA), *CASES["list"]], is_paginated=True)
    kind, payload = meta(BETA, ALPHA)
    base = {"history_base": {"thread_id": ALPHA, "end_ordinal_exclusive": 99}}
    own = [(kind, payload | base), *turn("d", 4, 1), *rolled_back(3)]
    rollout(home, BETA, 5, own, is_paginated=True)
    session = recollect.Home(home, data=tmp_path / "data", index=False).session(BETA)
    assert shown(session) == sent(session) == [("user", "b")]


def test_convert_hands_over_what_a_compaction_left(tmp_path: Path) -> None:
    rollout(tmp_path / "home", ALPHA, 0, [meta(ALPHA), *CASES["list"]])
    session = recollect.Home(tmp_path / "home", data=tmp_path / "data", index=False).session(ALPHA)
    convert.apply(convert.planned(session, "claude", tmp_path / "to"))
    (found,) = recollect.Home(tmp_path / "to", data=tmp_path / "other", index=False).sessions()
    assert shown(found) == sent(session)
    assert ("user", "b") in shown(found)


def test_prompts_are_not_carried_over_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file must not become a log of any size."""
    monkeypatch.setattr(codex_rollout, "_MOST_CARRIED", 20_000)
    compactions = [one for _ in range(300) for one in cut()]
    rollout(tmp_path / "home", ALPHA, 0, [meta(ALPHA), *turn("a" * 1000, 1, 1), *compactions])
    (log,) = mirror_of(tmp_path / "home", tmp_path / "data").root.rglob("projects/**/*.jsonl")
    assert log.stat().st_size < 600_000
