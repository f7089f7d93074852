"""Homes of Gemini CLI 0.24, 0.38 and 0.61, read through their mirrors."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

import recollect
from recollect.agents.gemini import project_root
from recollect.agents.mirror import AgentMirror
from recollect.ask.resume import resumption
from recollect.ask.sessions.messages import agents_of
from recollect.ask.sessions.originals import original_files, resumed
from recollect.cli.main import main
from tests.agents import tiny_homes
from tests.agents.samples import other_samples

EMPTIED = "All messages were taken back"


def test_a_resumed_session_that_the_client_deletes_is_still_there(transcripts: Path, tmp_path: Path) -> None:
    """0.61.0 deletes a session that was resumed when it starts next: three states of one home."""
    steps = transcripts / "dialects" / "samples" / "gemini-0.61.0-retention"
    home = tmp_path / ".gemini"
    for step in sorted(steps.iterdir()):
        shutil.rmtree(home / "tmp", ignore_errors=True)
        shutil.copytree(step, home / "tmp")
        found = recollect.Home(home, data=tmp_path / "data", index=False)
        names = {session.id[:8]: session for session in found.sessions()}
    assert not list((home / "tmp").rglob("*5d6112c1*"))
    assert {"5d6112c1", "5aa70046"} <= names.keys()
    assert len(names["5d6112c1"].conversation().messages) >= 4


def write(path: Path, *records: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def said(name: str, kind: str, text: str) -> dict[str, object]:
    return {"id": name, "timestamp": "2026-11-16T09:00:00.000Z", "type": kind, "content": text}


def texts(home: Path, data: Path) -> tuple[list[str], list[str]]:
    """The conversation as it is, and everything that was ever said."""
    (session,) = recollect.Home(home, data=data, index=False).sessions()
    live = [message.text for message in session.conversation().messages]
    return live, [message.text for message in session.messages(branches="all")]


def test_what_is_replaced_rewound_and_checkpointed_is_folded(tmp_path: Path) -> None:
    home = tmp_path / ".gemini"
    file = home / "tmp" / "proj" / "chats" / "session-2026-11-16T09-00-0e48df2f.jsonl"
    meta = {
        "sessionId": "0e48df2f-82dd-4e38-99ce-1e24bcfef5d7",
        "projectHash": "x",
        "startTime": "2026-11-16T09:00:00.000Z",
    }
    write(
        file,
        meta,
        said("q1", "user", "one"),
        said("a1", "gemini", "first"),
        said("a1", "gemini", "first, better"),
    )
    write(file, said("q2", "user", "two"), said("a2", "gemini", "second"))
    assert texts(home, tmp_path / "data")[0] == ["one", "first, better", "two", "second"]
    write(file, {"$rewindTo": "q2"})
    live, everything = texts(home, tmp_path / "data")
    assert live == ["one", "first, better"]
    assert "second" in everything
    write(file, {"$set": {"messages": [said("q3", "user", "three")]}})
    live, everything = texts(home, tmp_path / "data")
    assert live == ["three"]
    assert {"one", "first, better", "two", "second"} <= set(everything)
    write(file, {"brand": "new"})
    report = recollect.Home(home, data=tmp_path / "data", index=False).check()
    assert report.summary.by_code == {"unknown-type": 1}


def test_a_result_has_the_time_at_which_its_call_was_done(tmp_path: Path) -> None:
    home = tmp_path / ".gemini"
    result = [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a"}}}]
    call = {"id": "c1", "name": "ls", "args": {}, "result": result, "timestamp": "2026-11-16T09:00:07.000Z"}
    write(
        home / "tmp" / "proj" / "chats" / "session-2026-11-16T09-00-0e48df2f.jsonl",
        {"sessionId": "0e48df2f-82dd-4e38-99ce-1e24bcfef5d7", "startTime": "2026-11-16T09:00:00.000Z"},
        said("q1", "user", "list"),
        {**said("a1", "gemini", "first"), "toolCalls": [call]},
    )
    (session,) = recollect.Home(home, data=tmp_path / "data", index=False).sessions()
    times = [message.at for message in session.messages()]
    assert [at.second for at in times if at is not None] == [0, 0, 7]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_prompt_that_the_client_took_back_leaves_the_context_it_began_with(
    tmp_path: Path, is_new: bool
) -> None:
    """As after a request that the service refused: the checkpoint has only what the client says by itself."""
    home = tmp_path / ".gemini"
    file = home / "tmp" / "proj" / "chats" / "session-2026-11-16T09-00-0e48df2f.jsonl"
    meta = {"sessionId": "0e48df2f-82dd-4e38-99ce-1e24bcfef5d7", "startTime": "2026-11-16T09:00:00.000Z"}
    context = said("c1", "user", "<session_context>here</session_context>")
    write(file, meta, {"$set": {"messages": [context]}}, said("q1", "user", "refused"))
    if not is_new:
        texts(home, tmp_path / "data")
    write(file, {"$set": {"messages": [context]}})
    live, everything = texts(home, tmp_path / "data")
    assert live == ["<session_context>here</session_context>"]
    assert "refused" in everything


@pytest.mark.parametrize(
    "dropping", [{"$rewindTo": "nobody"}, {"$rewindTo": "q1"}, {"$set": {"messages": []}}], ids=json.dumps
)
def test_what_is_taken_back_as_a_whole_leaves_nothing_as_in_the_client(
    tmp_path: Path, dropping: dict[str, object]
) -> None:
    """A rewind to an id that is not there drops everything (0.61.0: messagesMap.clear()); all of it stays as a branch."""
    home = tmp_path / ".gemini"
    file = home / "tmp" / "proj" / "chats" / "session-2026-11-16T09-00-0e48df2f.jsonl"
    write(file, {"sessionId": "0e48df2f-82dd-4e38-99ce-1e24bcfef5d7", "projectHash": "x"})
    talk = [said("q1", "user", "one"), said("a1", "gemini", "first")]
    write(file, *talk)
    assert texts(home, tmp_path / "data")[0] == ["one", "first"]
    write(file, dropping)
    for data in ("data", "data", "fresh"):
        assert texts(home, tmp_path / data) == ([EMPTIED], ["one", "first", EMPTIED])
    (session,) = recollect.Home(home, data=tmp_path / "data", index=False).sessions()
    assert resumed(session) == []
    write(file, {"$set": {"lastUpdated": "2026-11-16T09:01:00.000Z"}})
    assert texts(home, tmp_path / "data") == ([EMPTIED], ["one", "first", EMPTIED])
    write(file, said("q3", "user", "three"))
    for data in ("data", "later"):
        assert texts(home, tmp_path / data)[0] == ["three"]
    write(file, {"$set": {"messages": talk}})
    for data in ("data", "last"):
        live, everything = texts(home, tmp_path / data)
        assert live == ["one", "first"]
        assert "three" in everything


def test_a_result_in_a_file_of_its_own_is_restored_and_keeps_no_session_for_its_client(
    tmp_path: Path,
) -> None:
    """Its bytes need be no text. While only it is left, the client has no session to resume."""
    file = tiny_homes.gemini_lines(tmp_path / ".gemini")
    spilled = file.parents[1] / "tool-outputs" / f"session-{tiny_homes.CHANGED}" / "shell_1.txt"
    spilled.parent.mkdir(parents=True)
    spilled.write_bytes(b"no text: \xff\n" * 9)
    for data in (spilled.read_bytes(), b"written again"):
        spilled.write_bytes(data)
        home = recollect.Home(tmp_path / ".gemini", data=tmp_path / "data", index=False)
        session = home.session(tiny_homes.CHANGED)
        back = original_files(session)
        for path in (file, spilled):
            assert back[path.relative_to(tmp_path / ".gemini").as_posix()] == path.read_bytes()
    assert len(session.conversation().messages) == 3
    file.unlink()
    with pytest.raises(recollect.UsageError, match="no longer has it"):
        resumption(session)


def test_a_second_file_that_says_nothing_yet_takes_nothing_back(tmp_path: Path) -> None:
    """Resuming begins one: the session stays as the first one has it."""
    home = tmp_path / ".gemini"
    file = home / "tmp" / "proj" / "chats" / "session-2026-11-16T09-00-0e48df2f.jsonl"
    meta = {"sessionId": "0e48df2f-82dd-4e38-99ce-1e24bcfef5d7", "projectHash": "x"}
    write(file, meta, said("q1", "user", "one"))
    assert texts(home, tmp_path / "data")[0] == ["one"]
    write(file.with_name(file.name.replace("09-00", "09-30")), meta, {"$rewindTo": "nobody"})
    assert texts(home, tmp_path / "data")[0] == ["one"]


def test_a_line_that_was_torn_for_long_is_folded_when_its_rest_comes(tmp_path: Path) -> None:
    """Half a line that nobody finished for a minute is taken as it is; the fold reads the whole line all the same."""
    home = tmp_path / ".gemini"
    file = home / "tmp" / "proj" / "chats" / "session-2026-11-16T09-00-0e48df2f.jsonl"
    meta = {"sessionId": "0e48df2f-82dd-4e38-99ce-1e24bcfef5d7", "projectHash": "x"}
    write(file, meta, said("q1", "user", "one"))
    torn = json.dumps(said("a1", "gemini", "first")).encode()
    with file.open("ab") as log:
        log.write(torn[:40])
    os.utime(file, (1, 1))
    assert texts(home, tmp_path / "data")[0] == ["one"]
    with file.open("ab") as log:
        log.write(torn[40:] + b"\n" + json.dumps(said("q2", "user", "two")).encode() + b"\r")
        log.write(json.dumps(said("q3", "user", "three")).encode() + b"\n")
    assert texts(home, tmp_path / "data")[0] == ["one", "first", "two", "three"]


def test_sessions_of_before_0_29_have_the_directory_that_their_project_is_the_checksum_of(
    transcripts: Path, tmp_path: Path
) -> None:
    sample = next(one for one in other_samples(transcripts, "gemini") if one.name == "gemini-0.24.5")
    home = recollect.Home(sample.home, data=tmp_path, index=False)
    assert {session.cwd for session in home.sessions()} == {"/home/user/My Proj.x"}


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ('{"file_path": "/srv/My App/src/a.txt"}', True),
        ('{"text": "in /srv/My App, of course"}', True),
        ('{"text": "The directory is: /srv/My App\\nand"}', True),
        ('{"text": "see `/srv/My App`."}', True),
        ('{"text": "/srv/My and more"}', False),
        ('{"text": "http://srv/My App"}', False),
    ],
)
def test_a_directory_is_known_by_its_checksum_in_any_text(
    tmp_path: Path, text: str, *, is_found: bool
) -> None:
    digest = hashlib.sha256(b"/srv/My App").hexdigest()
    chats = tmp_path / digest / "chats"
    chats.mkdir(parents=True)
    (chats / "session-1.json").write_text(text)
    found = project_root(tmp_path / digest, tmp_path, None)
    assert found == ("/srv/My App" if is_found else "")


def test_two_sub_agents_of_one_moment_are_told_apart_by_their_prompts(tmp_path: Path) -> None:
    """0.38 names no sub-agent beside its call. Where the prompts are alike, none is guessed."""
    session, chats = "0b5c1d3e-0000-4000-8000-000000000001", tmp_path / ".gemini" / "tmp" / "p" / "chats"
    at = "2026-11-16T09:00:00.000Z"
    shown = {"isSubagentProgress": True, "agentName": "helper"}
    prompts = {"c1": "count", "c2": "sort", "c3": "same", "c4": "same"}
    calls = [
        {
            "id": call,
            "name": "helper",
            "args": {"query": prompt},
            "timestamp": "2026-11-16T09:00:09.000Z",
            "resultDisplay": shown,
        }
        for call, prompt in prompts.items()
    ]
    answer = {"id": "a1", "timestamp": at, "type": "gemini", "content": "on it", "toolCalls": calls}
    (chats / session).mkdir(parents=True)
    document = {"sessionId": session, "projectHash": "0" * 64, "startTime": at, "messages": [answer]}
    (chats / "session-2026-11-16T09-00-0b5c1d3e.json").write_text(json.dumps(document))
    for call, prompt in prompts.items():
        told = {"id": f"q{call}", "timestamp": at, "type": "user", "content": [{"text": prompt}]}
        below = {"sessionId": f"of{call}", "startTime": at, "messages": [told], "kind": "subagent"}
        (chats / session / f"of{call}.json").write_text(json.dumps(below))
    (found,) = recollect.Home(tmp_path / ".gemini", data=tmp_path / "data", index=False).sessions()
    tied = {agent.id: (agent.tool_use_id, agent.agent_type) for agent in agents_of(found)}
    nothing = (None, None)
    assert tied == {"ofc1": ("c1", "helper"), "ofc2": ("c2", "helper"), "ofc3": nothing, "ofc4": nothing}


def test_an_unknown_rewind_drops_everything(tmp_path: Path) -> None:
    home = tmp_path / ".gemini"
    file = home / "tmp" / "proj" / "chats" / "session-2026-11-16T09-00-0e48df2f.jsonl"
    meta = {"sessionId": "0e48df2f-82dd-4e38-99ce-1e24bcfef5d7", "projectHash": "x"}
    write(file, meta, said("q1", "user", "one"), {"$rewindTo": "nowhere"}, said("q2", "user", "two"))
    live, everything = texts(home, tmp_path / "data")
    assert live == ["two"]
    assert "one" in everything


def test_a_result_that_was_too_large_is_kept_shown_and_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client deletes it with its session."""
    home, name = tmp_path / ".gemini", "0e48df2f-82dd-4e38-99ce-1e24bcfef5d7"
    project = home / "tmp" / "proj"
    write(
        project / "chats" / "session-2026-11-16T09-00-0e48df2f.jsonl",
        {"sessionId": name, "projectHash": "x", "startTime": "2026-11-16T09:00:00.000Z"},
        said("q1", "user", "one"),
    )
    spilled = project / "tool-outputs" / f"session-{name}" / "call_1.txt"
    spilled.parent.mkdir(parents=True)
    spilled.write_text("begin\nquokka\nend\n")
    places = ["--home", str(home), "--data", str(tmp_path / "data")]
    assert main([*places, "list"]) == 0
    shutil.rmtree(project / "tool-outputs")
    next(project.glob("chats/*")).unlink()
    capsys.readouterr()
    assert main([*places, "show", name, "--tools", "full"]) == 0
    place = Path(capsys.readouterr().err.rpartition(" whole in ")[2].strip())
    assert [one.read_text() for one in place.iterdir()] == ["begin\nquokka\nend\n"]
    assert main([*places, "search", "quokka"]) == 0
    assert name[:8] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (None, True),
        ({"general": {"sessionRetention": {"enabled": True}}}, True),
        ({"general": {"sessionRetention": {"enabled": False}}}, False),
    ],
)
def test_resuming_warns_that_the_client_deletes_what_it_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: object, warned: bool
) -> None:
    """0.61 does so at its next start, unless its settings forbid it."""
    home = tmp_path / ".gemini"
    tiny_homes.gemini_lines(home)
    if settings is not None:
        (home / "settings.json").write_text(json.dumps(settings))
    assert main(["--home", str(home), "--data", str(tmp_path / "data"), "resume", "@last", "--print"]) == 0
    told = "deletes a session that it resumed when it starts again; recollect's mirror keeps it"
    assert warned == (told in capsys.readouterr().err)


def test_a_file_of_which_no_record_can_be_read_is_no_session_yet(tmp_path: Path) -> None:
    """Its first record names the session: taken for one of another name, it would stay in the mirror as damage."""
    home, data = tmp_path / "home", tmp_path / "data"
    file = tiny_homes.gemini_lines(home)
    whole = file.read_bytes()
    file.write_bytes(whole.splitlines()[0][:-9])
    os.utime(file, (1_700_000_000, 1_700_000_000))
    mirror = AgentMirror("gemini", home, data)
    mirror.refresh()
    assert [(one.path, one.reason) for one in mirror.problems] == [(str(file), "half written, or no session")]
    file.write_bytes(whole)
    mirror.refresh()
    assert not mirror.problems
    logs = {log.stem for log in mirror.root.rglob("projects/**/*.jsonl")}
    assert logs == {tiny_homes.CHANGED, tiny_homes.UNTOUCHED}
