"""Where the client puts and finds sessions, what it skips, and what it keeps: as we do."""

from __future__ import annotations

import json
import os
import unicodedata
import uuid
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.model.lines import draft
from recollect.model.project_key import project_key
from recollect.store.home import ClaudeHome
from recollect.store.logs.log import Log
from recollect.store.store import Store
from tests.oracle.client_runner import Client, running_stub
from tests.oracle.conftest import TORTURE, command_of
from tests.oracle.recorded import recorded
from tests.oracle.what_is_sent import NEW_PROMPT, Messages, as_blocks, before_the_prompt
from tests.talk import assistant, encoded, link, user

VERSION = "2.1.325"
SESSION = "5f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c22"
RIVAL = "6f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c33"
TALK = [
    user("u1", None, 0, "Q1"),
    assistant("a1", "u1", 1, "A1"),
    user("u2", "a1", 2, "Q2"),
    assistant("a2", "u2", 3, "A2"),
]


NAMES = [
    "dots.and spaces_and-hyphens",
    "emoji 🙂 and CJK 日本語",
    unicodedata.normalize("NFC", "é composed"),
    unicodedata.normalize("NFD", "é decomposed"),
    "UPPER and lower",
    "long-" + "x" * 120 + "/" + "y" * 120,
]


@pytest.mark.clients
# One directory whose name has all of it says as much as one for each.
@pytest.mark.parametrize(
    "name", [*NAMES, " ".join(NAMES[:-1])] if TORTURE else [" ".join(NAMES[:-1]), NAMES[-1]]
)
def test_project_directories_are_named_as_the_client_names_them(name: str, tmp_path: Path) -> None:
    """E9: the directory a first prompt makes below projects/ is the key we compute."""
    with running_stub() as stub:
        client = Client(VERSION, command_of(VERSION), tmp_path, stub)
        client.cwd = client.cwd / name
        client.cwd.mkdir(parents=True)
        client.ask("Hello")
    made = [path.name for path in (tmp_path / "home/.claude/projects").iterdir()]

    assert [project_key(str(client.cwd))] == made


@pytest.mark.clients
def test_a_linked_directory_has_the_key_of_what_it_leads_to(tmp_path: Path) -> None:
    """E9: symlinks are followed before the key is made, and our lookup follows them too."""
    with running_stub() as stub:
        client = Client(VERSION, command_of(VERSION), tmp_path, stub)
        link_to = tmp_path / "link"
        link_to.symlink_to(client.cwd)
        real, client.cwd = client.cwd, link_to
        client.ask("Hello")
    home = ClaudeHome(tmp_path / "home/.claude")

    assert [project_key(str(real))] == [project.name for project in home.projects()]
    assert home.latest_session(str(link_to)) is not None


RIVALS: dict[str, list[dict[str, object]]] = {
    "empty": [],
    "metadata only": [{"type": "tag", "tag": "x", "sessionId": RIVAL}],
    "sidechain only": [user("s", None, 9, "S", isSidechain=True)],
    "another talk": [user("n", None, 9, "Newer")],
}


def continued(client: Client) -> list[str]:
    """Which of the sessions ``--continue`` goes on with."""
    client._command = command_of(VERSION)
    logs = list(client.config.glob("projects/*/*.jsonl"))
    sizes = {path: path.stat().st_size for path in logs}
    client.ask(NEW_PROMPT, "--continue")
    return [path.stem for path, size in sizes.items() if path.stat().st_size > size]


def put_beside(client: Client, rival: list[dict[str, object]]) -> None:
    """The talk, and a log that was written to later."""
    talk = client.put(SESSION, encoded(TALK).split(b"\n")[:-1])
    client.put(RIVAL, encoded(rival).split(b"\n")[:-1])
    os.utime(talk, (1_000_000, 1_000_000))


@pytest.mark.parametrize("name", RIVALS)
def test_continue_takes_the_session_we_say_it_takes(name: str, tmp_path: Path) -> None:
    """E6: with a newer rival beside it, ``--continue`` and ``Home.latest`` choose the same log."""
    with running_stub() as stub:
        client = Client(VERSION, [], tmp_path, stub)
        put_beside(client, RIVALS[name])
        latest = Home(client.config).latest(client.cwd)
        taken = recorded(f"continue: {name}", json.dumps(RIVALS[name]), lambda: continued(client))

    assert latest is not None
    assert [latest.path.stem] == taken


@pytest.mark.parametrize(
    ("directories", "is_there"),
    [
        (("twin",), True),
        (("twin",), False),
        ((None, "twin"), True),
        (("twin", "own"), True),
        (("own", "twin"), True),
        (("moved", "twin"), True),
    ],
)
def test_continue_passes_over_a_neighbour_with_the_same_key(
    directories: tuple[str | None, ...], is_there: bool, tmp_path: Path
) -> None:
    """E6: the first directory a log names decides, only where its key is that of this one, and while it is there."""
    with running_stub() as stub:
        client = Client(VERSION, [], tmp_path, stub)
        twin = client.cwd.parent.parent / f"{client.cwd.parent.name}-{client.cwd.name}"
        if is_there:
            twin.mkdir()
        where = {"own": client.cwd, "twin": twin, "moved": tmp_path / "moved"}
        rival = [user(f"n{i}", f"n{i - 1}" if i else None, 9 + i, "Newer") for i in range(len(directories))]
        for one, place in zip(rival, directories, strict=True):
            one.pop("cwd", None)
            one.update({"cwd": str(where[place])} if place else {})
        put_beside(client, rival)
        latest = Home(client.config).latest(client.cwd)
        given = json.dumps([directories, is_there])
        taken = recorded(f"continue beside {given}", given, lambda: continued(client))

    assert latest is not None
    assert project_key(str(twin)) == project_key(str(client.cwd))
    assert [latest.path.stem] == taken


def test_our_own_store_never_leaves_a_log_that_captures_continue(tmp_path: Path) -> None:
    """E6: creating a session without saying anything makes no file at all."""
    store = Store(tmp_path)
    store.create("/srv/app").close()
    with store.create("/srv/app") as log:
        log.append(draft.user("Hello"))

    assert [log.path] == list(tmp_path.rglob("*.jsonl"))


DAMAGED = {
    "torn last line": lambda data: data[:-40],
    "no final newline": lambda data: data[:-1],
    "NUL block": lambda data: data + b"\0" * 512 + b"\n",
    "broken line off the chain": lambda data: data + b'{"type":"user","uuid":"x"\n',
    "blank lines and CRLF": lambda data: data.replace(b"\n", b"\r\n\r\n"),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "lines that are no objects": lambda data: data + b"null\n42\n[]\n{}\n",
    "bad UTF-8": lambda data: data.replace(b"A1", b"A\xff1"),
    "lone surrogate": lambda data: data.replace(b"A1", rb"A\ud800"),
    "two objects on a line": lambda data: data + b'{"a":1}{"b":2}\n',
}


def resumed(client: Client) -> Messages:
    """What the client sends of the session."""
    client._command = command_of(VERSION)
    client.ask(NEW_PROMPT, "--resume", SESSION)
    return before_the_prompt(client.stub.conversations()[0])


@pytest.mark.parametrize("how", list(DAMAGED))
def test_damage_costs_the_client_and_us_the_same_lines(how: str, tmp_path: Path) -> None:
    """We read what it reads; and after our append to the log it still loads everything."""
    with running_stub() as stub:
        client = Client(VERSION, [], tmp_path, stub)
        log = client.put(SESSION, [])
        log.write_bytes(DAMAGED[how](encoded(TALK)))
        with Log(log, lock_path=tmp_path / "lock") as ours:
            ours.append(b'{"type":"custom-title","customTitle":"T","sessionId":"%s"}' % SESSION.encode())
        expected = as_blocks(Home(client.config).session(SESSION).conversation().to_api())
        sent = recorded(f"damage: {how}", log.read_bytes().decode("latin-1"), lambda: resumed(client))

    assert expected == sent
    assert len(sent) >= (3 if how == "torn last line" else 4)


@pytest.mark.clients
def test_types_from_the_future_survive_in_both(tmp_path: Path) -> None:
    """Invented types, fields and metadata load, are not sent, and stay in the file byte for byte."""
    future = [
        TALK[0],
        link("f1", "u1", 0.5, type="hologram", data={"x": [1]}),
        {**TALK[1], "parentUuid": "f1", "madeOf": {"quarks": 3}},
        {"type": "time-travel", "to": "yesterday", "sessionId": SESSION},
        *TALK[2:],
    ]
    with running_stub() as stub:
        client = Client(VERSION, command_of(VERSION), tmp_path, stub)
        log = client.put(SESSION, encoded(future).split(b"\n")[:-1])
        before = log.read_bytes()
        ours = as_blocks(Home(tmp_path / "home/.claude").session(SESSION).conversation().to_api())
        client.ask(NEW_PROMPT, "--resume", SESSION)
        sent = before_the_prompt(stub.conversations()[0])

    assert ours == sent
    assert 4 == len(sent)
    assert log.read_bytes().startswith(before)


@pytest.mark.clients
def test_what_a_file_puts_into_the_system_prompt_is_told_apart(tmp_path: Path) -> None:
    """A prompt snapshot and rendered notes reach the model as the client's own words; we name such entries."""
    from recollect.model.conversation.conversation import influences
    from recollect.store.logs.reader import LogReader

    snapshot = {"type": "prompt_snapshot", "systemPrompt": ["You are a pirate."]}
    lines = [
        TALK[0],
        link("p", "u1", 0.2, type="attachment", attachment=snapshot),
        link(
            "n",
            "p",
            0.3,
            type="attachment",
            attachment={"type": "x"},
            rendered=[{"content": "Obey."}],
            renderedRole="system",
        ),
        {**TALK[1], "parentUuid": "n"},
        *TALK[2:],
    ]
    with running_stub() as stub:
        client = Client(VERSION, command_of(VERSION), tmp_path, stub)
        log = client.put(SESSION, encoded(lines).split(b"\n")[:-1])
        named = [(one.uuid, one.what) for one in influences(LogReader(log))]
        client.ask(NEW_PROMPT, "--resume", SESSION)
        asked = json.dumps(next(body for body in stub.asked if body.get("tools")))

    assert [("p", "prompt_snapshot"), ("n", "rendered")] == named
    assert "You are a pirate." in asked
    assert "Obey." in asked


def test_ids_are_made_as_the_client_makes_them() -> None:
    """Lower case and random, since an upper-case id is not found."""
    name = Store("unused").new_id()

    assert name == str(uuid.UUID(name))
    assert name == name.lower()
