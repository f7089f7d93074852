"""Homes of other agents that lose, regain and rewrite what they hold: the mirror says what a fresh one says."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import recollect
from bench.recollect_corpus.agents import WRITERS, Said, Talk
from recollect.agents.mirror import AgentMirror
from recollect.cli.main import main
from tests.agents import tiny_homes
from tests.needs import MADE_AND_REAL, TRANSCRIPTS

CODEX = "dialects/samples/codex/0.166.0"


@pytest.fixture(params=MADE_AND_REAL)
def codex(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    home = tmp_path / ".codex"
    if request.param == "real":
        shutil.copytree(TRANSCRIPTS / CODEX / "turns/.codex", home)
        return home
    steps = [
        Said(kind, f"2026-11-16T09:00:{number:02d}.000Z", text, call="r", given={"output_tokens": 3})
        for number, (kind, text) in enumerate(
            (
                ("prompt", "first question"),
                ("text", "one"),
                ("usage", ""),
                ("prompt", "second question"),
                ("text", "two"),
            )
        )
    ]
    WRITERS["codex"](home, iter([Talk("019c0000-0000-7000-8000-00000000000c", "/srv/app", steps)]))
    return home


def rollout_of(home: Path) -> Path:
    return next((home / "sessions").rglob("rollout-*.jsonl"))


def talk(home: Path, data: Path) -> list[str]:
    """The conversation of its one session, what clients add left out."""
    (session,) = recollect.Home(home, data=data, index=False).sessions()
    return [
        one.text
        for one in session.conversation().messages
        if one.text and not one.is_meta and one.role != "system"
    ]


def test_an_older_copy_of_a_rollout_takes_back_what_it_does_not_have(codex: Path, tmp_path: Path) -> None:
    """As `show --api` and the client do; what was said stays as a branch, and is the conversation again when it returns."""
    data, file = tmp_path / "data", rollout_of(codex)
    whole = file.read_bytes()
    said = talk(codex, data)
    lines = whole.splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if b"second question" in line)
    file.write_bytes(b"".join(lines[: first - 2]))
    assert talk(codex, data) == talk(codex, tmp_path / "older")
    assert len(talk(codex, data)) < len(said)
    (session,) = recollect.Home(codex, data=data, index=False).sessions()
    assert set(said) <= {one.text for one in session.messages(branches="all")}
    file.write_bytes(whole)
    assert talk(codex, data) == said


def test_a_torn_line_whose_end_comes_after_all_is_one_record(codex: Path, tmp_path: Path) -> None:
    """A suspended machine, or a copy that paused, leaves one for longer than a minute."""
    data, file = tmp_path / "data", rollout_of(codex)
    whole = file.read_bytes()
    file.write_bytes(whole[: whole.index(b"second question") + 4])
    os.utime(file, (1_700_000_000, 1_700_000_000))
    talk(codex, data)
    file.write_bytes(whole)
    assert talk(codex, data) == talk(codex, tmp_path / "fresh")


@pytest.mark.parametrize("lines", [1, 9, 20])
def test_a_fork_of_what_was_here_in_part_is_completed_with_it(
    lines: int, transcripts: Path, tmp_path: Path
) -> None:
    """A home may be copied file by file. Until then it lacks its beginning; nothing is done again while nothing is new."""
    home, data = tmp_path / ".codex", tmp_path / "data"
    shutil.copytree(transcripts / CODEX / "exec_fork/.codex", home)
    parent = next(home.rglob("rollout-*-01a1e396-2ff1-7f60-9f19-b33756b4e4c4.jsonl"))
    whole = parent.read_bytes()
    parent.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))

    def said(where: Path) -> dict[str, list[str]]:
        found = recollect.Home(home, data=where, index=False).sessions()
        forks = [one for one in found if one.id not in parent.name]
        return {one.id: [message.text for message in one.conversation().messages] for one in forks}

    before = said(data)
    mirror = AgentMirror("codex", home, data)
    logs = {path: path.stat().st_ino for path in mirror.root.rglob("*.jsonl")}
    parent.touch()
    mirror.refresh()
    assert {path: path.stat().st_ino for path in logs} == logs
    parent.write_bytes(whole)
    assert said(data) == said(tmp_path / "fresh") != before
    assert recollect.Home(home, data=data, index=False).check().summary.by_code == {}


def test_a_session_that_was_taken_back_in_part_is_as_new_as_it_was(tmp_path: Path) -> None:
    """Lists go by the last time; a note that messages were taken back is not older than they are."""
    home, data = tmp_path / ".gemini", tmp_path / "data"
    file = home / "tmp" / "proj" / "chats" / "session-2026-11-16T09-00-0e48df2f.jsonl"
    file.parent.mkdir(parents=True)
    said = [
        {"id": f"m{number}", "timestamp": f"2026-11-1{number}T09:00:00.000Z", "type": kind, "content": "text"}
        for number, kind in enumerate(["user", "gemini", "user", "gemini"], 5)
    ]
    meta = {"sessionId": "0e48df2f-82dd-4e38-99ce-1e24bcfef5d7", "startTime": "2026-11-14T09:00:00.000Z"}
    file.write_text("".join(json.dumps(one) + "\n" for one in [meta, *said]))
    (before,) = recollect.Home(home, data=data, index=False).listed()
    with file.open("a") as log:
        log.write('{"$rewindTo": "m7"}\n')
    (after,) = recollect.Home(home, data=data, index=False).listed()
    assert before.last_at == after.last_at is not None


def test_a_document_that_says_nothing_any_more_is_taken_back_as_a_whole(tmp_path: Path) -> None:
    """Gemini before 0.39 writes an empty list of messages where everything was rewound."""
    home, data = tmp_path / ".gemini", tmp_path / "data"
    file = home / "tmp" / "proj" / "chats" / "session-2026-11-16T09-00-0e48df2f.json"
    file.parent.mkdir(parents=True)
    message = {"id": "m1", "timestamp": "2026-11-16T09:00:00.000Z", "type": "user", "content": "one"}
    document = {
        "sessionId": "0e48df2f-82dd-4e38-99ce-1e24bcfef5d7",
        "startTime": "2026-11-16T09:00:00.000Z",
        "messages": [message],
    }
    file.write_text(json.dumps(document))
    assert talk(home, data) == ["one"]
    file.write_text(json.dumps({**document, "messages": []}))
    assert talk(home, data) == []
    (session,) = recollect.Home(home, data=data, index=False).sessions()
    assert "one" in [one.text for one in session.messages(branches="all")]


def test_a_session_that_returns_after_rm_has_its_name_again(tmp_path: Path) -> None:
    """The whole log is mirrored again when its client goes on; so is what the user called it."""
    home, data = tmp_path / ".codex", tmp_path / "data"
    file = tiny_homes.codex(home)
    (home / "session_index.jsonl").write_text(
        json.dumps({"id": tiny_homes.CHANGED, "thread_name": "My own name"}) + "\n"
    )

    def title() -> str | None:
        found = recollect.Home(home, data=data, index=False).sessions()
        return next((one.title for one in found if one.id == tiny_homes.CHANGED), None)

    assert title() == "My own name"
    assert main(["--home", str(home), "--data", str(data), "rm", tiny_homes.CHANGED, "--apply"]) == 0
    assert title() is None
    with file.open("ab") as log:
        log.write(file.read_bytes().splitlines(keepends=True)[-1])
    assert title() == "My own name"
