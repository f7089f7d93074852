"""Real clients and the changes we make in their home: titles, forks, removals, lines beside a running client."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.ask.sessions.session import Session
from recollect.change import fork, keeping, label, undo
from recollect.model.lines.damage import Line
from recollect.model.project_key import project_key
from recollect.model.views.facts import usage_facts
from recollect.model.views.ledger import Ledger
from recollect.store.logs.reader import read_lines
from tests.oracle.client_runner import ANSWER, Client
from tests.oracle.conftest import old_and_new
from tests.oracle.test_real_clients import (
    PROMPT,
    SESSION,
    TALKS,
    Message,
    loaded,
    resumed,
    said,
    without_additions,
    written,
)
from tests.small_home import call, outcome, prompt, reply
from tests.small_home import said as text

# Each result hangs off its own call, and the talk goes on from one of them: 2.0.76 loses the other call.
FAN_OUT = [
    prompt(1, None, "Q"),
    reply(2, 1, call("toolu_1"), answer="msg_a"),
    outcome(3, 2, "toolu_1", "one"),
    reply(4, 2, call("toolu_2"), answer="msg_a"),
    outcome(5, 4, "toolu_2", "two"),
    reply(6, 5, text("Done")),
    prompt(7, 6, "A dead end"),
    prompt(8, 6, "Other"),
    reply(9, 8, text("Fine")),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Our own directory."""
    return tmp_path / "data"


def session_of(path: Path) -> Session:
    """A session that was put into a client's home."""
    return Home(path.parents[2]).session(path.stem)


def put_entries(client: Client, entries: list[dict[str, Any]]) -> Path:
    moved = [{**entry, "cwd": str(client.cwd), "sessionId": SESSION} for entry in entries]
    return client.put(SESSION, [json.dumps(entry).encode() for entry in moved])


def spent(*logs: Path) -> tuple[int, int]:
    """Tokens in and out over several files, each response once."""
    ledger = Ledger()
    for log in logs:
        for line in read_lines(log):
            ledger.add(usage_facts(line.data) if isinstance(line, Line) else None)
    tokens = ledger.total().tokens
    return tokens.input, tokens.output


def test_a_session_we_renamed_is_found_by_its_title(client: Client, data: Path) -> None:
    """E7: ``--resume <title>`` in any case; our tag does not disturb it."""
    if client.version == "2.0.76":
        pytest.skip("2.0.76 resumes by id only")
    drafts, messages = TALKS["plain talk"]
    path = client.put(SESSION, written(client, drafts))
    label.apply(label.titled(session_of(path), "Späte Fehler"), data)
    label.apply(label.tagged(session_of(path), "urgent"), data)

    assert loaded(messages) == resumed(client, path, "späte fehler")


def test_a_title_we_cleared_is_not_found(client: Client, data: Path) -> None:
    """E7: the empty title takes the old one back."""
    if client.version == "2.0.76":
        pytest.skip("2.0.76 resumes by id only")
    drafts, _ = TALKS["plain talk"]
    path = client.put(SESSION, written(client, drafts))
    for title in ("Temporary", ""):
        label.apply(label.titled(session_of(path), title), data)
    run = client.ask(PROMPT, "--resume", "Temporary")

    assert (1, []) == (run.returncode, client.stub.conversations())


@pytest.mark.parametrize("client", ["2.1.325"], indirect=True)
@pytest.mark.parametrize("title", ["New", ""])
def test_our_line_beats_the_title_file(client: Client, data: Path, title: str) -> None:
    """E7: the file that 2.1.325 writes beside its own title line needs no change from us."""
    drafts, _ = TALKS["plain talk"]
    path = client.put(SESSION, written(client, drafts))
    path.with_suffix("").mkdir()
    (path.with_suffix("") / "custom-title.json").write_text('{"customTitle":"Old"}')
    label.apply(label.titled(session_of(path), title), data)
    codes = [client.ask(PROMPT, "--resume", name).returncode for name in ("Old", "New")]

    assert [1, 0 if title else 1] == codes


def test_a_client_keeps_title_and_tag(client: Client, data: Path) -> None:
    """E7: after it has gone on with the session, both are still what we said."""
    drafts, _ = TALKS["plain talk"]
    path = client.put(SESSION, written(client, drafts))
    label.apply(label.titled(session_of(path), "Mine"), data)
    label.apply(label.tagged(session_of(path), "urgent"), data)
    client.ask(PROMPT, "--resume", SESSION)
    seen = session_of(path).glance

    assert ("Mine", "urgent") == (seen.custom_title, seen.tag)


def test_a_fork_of_ours_is_resumed(client: Client) -> None:
    """E8: the client goes on in the fork, the original stays as it was, usage counts once.

    Two answers of 10 + 20 tokens in the original and 5 + 6 for the client's turn.
    """
    drafts, messages = TALKS["plain talk"]
    path = client.put(SESSION, written(client, drafts))
    original = path.read_bytes()
    before = spent(path)
    copy = fork.apply(fork.planned_fork(session_of(path)))

    assert loaded(messages) == resumed(client, copy, copy.stem)
    assert original == path.read_bytes()
    assert (before[0] + 5, before[1] + 6) == spent(path, copy)


def test_a_fork_at_an_inner_entry_ends_there(client: Client) -> None:
    """E8: only what led to that entry is sent."""
    drafts, messages = TALKS["plain talk"]
    lines = written(client, drafts)
    path = client.put(SESSION, lines)
    copy = fork.apply(fork.planned_fork(session_of(path), json.loads(lines[1])["uuid"]))

    assert loaded(messages[:2]) == resumed(client, copy, copy.stem)


@old_and_new
def test_a_fork_straightens_what_old_clients_lose(client: Client) -> None:
    """E8: parallel calls that fanned out reach every client whole, 2.0.76 too."""
    path = put_entries(client, FAN_OUT)
    copy = fork.apply(fork.planned_fork(session_of(path)))
    uses = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": "Read", "input": {"file_path": "/a"}} for n in (1, 2)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": word}
        for n, word in ((1, "one"), (2, "two"))
    ]
    messages: list[Message] = [
        ("user", [said("Q")]),
        ("assistant", uses),
        ("user", results),
        ("assistant", [said("Done")]),
        ("user", [said("Other")]),
        ("assistant", [said("Fine")]),
    ]

    assert loaded(messages) == resumed(client, copy, copy.stem)._replace(
        sent=[(role, [without_error_flag(block) for block in blocks]) for role, blocks in sent_by(client)]
    )


def without_error_flag(block: dict[str, Any]) -> dict[str, Any]:
    """Some versions say of a good result that it is no error."""
    return {name: value for name, value in block.items() if (name, value) != ("is_error", False)}


def sent_by(client: Client) -> list[Message]:
    return without_additions(client.stub.conversations()[-1])


@pytest.mark.parametrize("sample", ["2.1.197-print", "2.1.325-print"])
def test_a_fork_of_a_compacted_session_sends_the_same(client: Client, transcripts: Path, sample: str) -> None:
    """E8: summary and preserved lines arrive as from the original."""
    if client.version == "2.0.76":
        pytest.skip("2.0.76 knows no preserved segment")
    logs = (transcripts / "samples" / "claude-home" / sample / ".claude" / "projects").glob(
        "*compact/*.jsonl"
    )
    log = next(log for log in sorted(logs) if b"preservedSegment" in log.read_bytes())
    path = client.put(log.stem, log.read_bytes().splitlines())
    copy = fork.apply(fork.planned_fork(session_of(path)))
    client.ask(PROMPT, "--resume", log.stem)
    original = sent_by(client)
    client.ask(PROMPT, "--resume", copy.stem)

    assert original == sent_by(client)
    assert len(original) > 1


def test_a_session_we_removed_is_gone_until_it_is_restored(client: Client, data: Path) -> None:
    """The client says "No conversation found", and after the restore the client goes on as if nothing had been."""
    drafts, messages = TALKS["plain talk"]
    path = client.put(SESSION, written(client, drafts))
    batch = keeping.remove(session_of(path), data)
    gone = client.ask(PROMPT, "--resume", SESSION)
    undo.undo(data, undo.found_change(data, batch.batch))

    assert (1, True) == (gone.returncode, "No conversation found" in gone.stdout + gone.stderr)
    assert loaded(messages) == resumed(client, path, SESSION)


def test_a_session_the_client_made_leaves_nothing_behind(client: Client, data: Path) -> None:
    """No path below the client's home names the session any more."""
    client.ask("Hello", "--session-id", SESSION)
    home = client.cwd.parent / "home" / ".claude"
    path = home / "projects" / project_key(str(client.cwd)) / f"{SESSION}.jsonl"
    assert path.is_file()
    keeping.remove(session_of(path), data)
    shutil.rmtree(home / "debug", ignore_errors=True)  # a debug log is the client's, not the session's

    assert [] == [found for found in home.rglob("*") if SESSION in found.name]


def test_a_hundred_lines_beside_a_running_client(client: Client, data: Path) -> None:
    """Every line is whole, all of ours and the client's turn are there, and the next resume has all."""
    drafts, messages = TALKS["plain talk"]
    path = client.put(SESSION, written(client, drafts))
    runs: list[int] = []
    running = threading.Thread(target=lambda: runs.append(client.ask(PROMPT, "--resume", SESSION).returncode))
    running.start()
    session = session_of(path)
    for number in range(100):
        label.apply(label.tagged(session, f"tag-{number}"), data)
        running.join(0.02)  # spread over the second and a half that a run takes
    running.join()
    lines = path.read_bytes().splitlines()
    entries = [json.loads(line) for line in lines]
    ours = {entry["tag"] for entry in entries if entry["type"] == "tag"}

    assert ([0], {f"tag-{number}" for number in range(100)}) == (runs, ours)
    assert resumed(client, path, SESSION).sent == [
        *messages,
        ("user", [said(PROMPT)]),
        ("assistant", [said(ANSWER)]),
        ("user", [said(PROMPT)]),
    ]
