"""A fork of Codex without a copy of its history gets its beginning in the pass that finds the original."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import recollect
from recollect.agents.mirror import AgentMirror
from recollect.ask.sessions.originals import LostBeginning, lost_beginning, refused_fork, resumed
from recollect.change import label
from recollect.cli.main import main
from recollect.system import fsops
from tests.agents.test_codex import ALPHA, BETA, GAMMA, Payloads, mirror_of, rollout, turn

ORDER = {ALPHA: 0, BETA: 10, GAMMA: 20}


def begun(thread: str, base: str | None = None, end: int = 5) -> Payloads:
    """A session of five records; a fork goes on from all of another."""
    fields: dict[str, object] = {"id": thread, "cwd": "/w", "cli_version": "0.166.0"}
    if base is not None:
        fields |= {"forked_from_id": base, "history_base": {"thread_id": base, "end_ordinal_exclusive": end}}
    return [("session_meta", fields), *turn(f"asked in {thread}", 1, 1)]


def write(home: Path, thread: str, *, more: Payloads | None = None) -> None:
    """A session, a fork of it, and a fork of that."""
    above = {BETA: ALPHA, GAMMA: BETA}.get(thread)
    rollout(home, thread, ORDER[thread], [*begun(thread, above), *(more or [])], is_paginated=True)


def file_of(home: Path, thread: str) -> Path:
    return next(home.rglob(f"rollout-*-{thread}.jsonl"))


def logs_of(mirror: AgentMirror) -> dict[str, list[str]]:
    """The lines of every log without the order of sources, which is that of the passes."""
    return {
        log.name: [line for line in log.read_text().splitlines() if "foreign-source" not in line]
        for log in mirror.root.rglob("projects/**/*.jsonl")
    }


@pytest.mark.parametrize(
    "order", [(BETA, ALPHA), (GAMMA, BETA, ALPHA), (GAMMA, ALPHA, BETA), (BETA, GAMMA, ALPHA)]
)
def test_a_fork_that_was_mirrored_before_its_original_is_completed(
    order: tuple[str, ...], tmp_path: Path
) -> None:
    """As if all had been there from the start; also a fork of a fork."""
    for thread in order:
        write(tmp_path / "home", thread)
        late = mirror_of(tmp_path / "home", tmp_path / "late")
    assert logs_of(late) == logs_of(mirror_of(tmp_path / "home", tmp_path / "fresh"))
    home = recollect.Home(tmp_path / "home", data=tmp_path / "late", index=False)
    texts = [message.text for message in home.session(order[0]).conversation().messages]
    assert texts[0] == f"asked in {ALPHA}"
    assert home.check().summary.by_code == {}


def test_a_completed_fork_goes_on(tmp_path: Path) -> None:
    """What its file gains afterwards follows what it has; a name that a user gave it stays."""
    home, data = tmp_path / "home", tmp_path / "data"
    write(home, BETA)
    mirror_of(home, data)
    session = recollect.Home(home, data=data, index=False).session(BETA)
    label.apply(label.titled(session, "My fork"), data)
    write(home, ALPHA)
    mirror_of(home, data)
    write(home, BETA, more=turn("and then", 2, 1))
    mirror_of(home, data)
    session = recollect.Home(home, data=data, index=False).session(BETA)
    assert session.title == "My fork"
    texts = [message.text for message in session.conversation().messages if message.role == "user"]
    assert texts == [f"asked in {ALPHA}", f"asked in {BETA}", "and then"]


def test_a_fork_whose_own_file_is_gone_stays_as_it_was(tmp_path: Path) -> None:
    """It cannot be translated again, and still says what it lacks; a fork of it that is here lacks nothing more."""
    home, data = tmp_path / "home", tmp_path / "data"
    write(home, BETA)
    write(home, GAMMA)
    before = logs_of(mirror_of(home, data))
    file_of(home, BETA).unlink()
    write(home, ALPHA)
    for _ in range(2):
        found = logs_of(mirror_of(home, data))
        assert found[f"{BETA}.jsonl"] == before[f"{BETA}.jsonl"]
    sessions = recollect.Home(home, data=data, index=False)
    assert [lost_beginning(sessions.session(name)) for name in (ALPHA, BETA, GAMMA)] == [
        None,
        LostBeginning(ALPHA, is_here=True),
        LostBeginning(ALPHA, is_here=True),
    ]


def test_a_fork_finds_the_mirrored_original_whose_file_is_gone(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    write(home, ALPHA)
    mirror_of(home, data)
    file_of(home, ALPHA).unlink()
    write(home, BETA)
    mirror_of(home, data)
    texts = recollect.Home(home, data=data, index=False).session(BETA).conversation().messages
    assert texts[0].text == f"asked in {ALPHA}"


def test_an_original_that_comes_back_from_the_trash_completes_its_fork(tmp_path: Path) -> None:
    """With the next pass that has anything to do."""
    home, data = tmp_path / "home", tmp_path / "data"
    write(home, ALPHA)
    (log,) = mirror_of(home, data).root.rglob("projects/**/*.jsonl")
    kept = log.read_bytes()
    file_of(home, ALPHA).unlink()
    log.unlink()
    write(home, BETA)
    mirror_of(home, data)
    fsops.replace_file(log, kept)
    write(home, BETA, more=turn("and then", 2, 1))
    mirror_of(home, data)
    texts = recollect.Home(home, data=data, index=False).session(BETA).conversation().messages
    assert texts[0].text == f"asked in {ALPHA}"


def test_a_circle_of_forks_ends(tmp_path: Path) -> None:
    """Records may name anything."""
    home, data = tmp_path / "home", tmp_path / "data"
    rollout(home, ALPHA, 0, begun(ALPHA, BETA), is_paginated=True)
    mirror_of(home, data)
    rollout(home, BETA, 10, begun(BETA, ALPHA), is_paginated=True)
    rollout(home, GAMMA, 20, begun(GAMMA, GAMMA), is_paginated=True)
    for _ in range(2):
        mirror = mirror_of(home, data)
    assert not mirror.problems
    assert {json.loads(line)["sessionId"] for line in logs_of(mirror)[f"{BETA}.jsonl"]} == {BETA}


@pytest.mark.parametrize("is_fork_first", [False, True])
def test_a_fork_finds_the_original_that_only_our_archive_has(is_fork_first: bool, tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    write(home, ALPHA)
    kept_file = file_of(home, ALPHA).read_bytes()
    mirror = mirror_of(home, data)
    (log,) = mirror.root.rglob("projects/**/*.jsonl")
    add = ["protect", "now", "--home", str(home), "--data", str(data)]
    if is_fork_first:
        kept = log.read_bytes()
        log.unlink()
        file_of(home, ALPHA).unlink()
        write(home, BETA)
        mirror_of(home, data)
        fsops.replace_file(log, kept)
    assert main(add) == 0
    log.unlink()
    if not is_fork_first:
        file_of(home, ALPHA).unlink()
    write(home, BETA, more=turn("and then", 2, 1))
    mirror_of(home, data)
    session = recollect.Home(home, data=data, index=False).session(BETA)
    texts = [message.text for message in session.conversation().messages if message.role == "user"]
    assert texts == [f"asked in {ALPHA}", f"asked in {BETA}", "and then"]
    assert lost_beginning(session) is None
    assert [one["content"][0]["text"] for one in resumed(session) if one["role"] == "user"] == texts
    words = ["export", ALPHA, "--format", "original", "--no-redact", "--output", str(tmp_path / "out")]
    assert " ".join(words[:5]) in (refused_fork(session) or "")
    assert main([*words, *add[2:]]) == 0
    assert file_of(tmp_path / "out", ALPHA).read_bytes() == kept_file


def test_an_archived_session_of_another_home_is_no_beginning(tmp_path: Path) -> None:
    """A bundle may bring a session of any name."""
    write(tmp_path / "other", ALPHA)
    add = ["protect", "now", "--home", str(tmp_path / "other"), "--data", str(tmp_path / "data")]
    assert main(add) == 0
    write(tmp_path / "home", BETA)
    mirror_of(tmp_path / "home", tmp_path / "data")
    session = recollect.Home(tmp_path / "home", data=tmp_path / "data", index=False).session(BETA)
    assert session.conversation().messages[0].text == f"asked in {BETA}"
    lost = lost_beginning(session)
    assert lost is not None
    assert lost.session == ALPHA
