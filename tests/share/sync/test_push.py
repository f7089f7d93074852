"""Pushing: only what is new, nothing twice, nothing that is not a session's, nothing that is secret."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from recollect.errors import Busy
from recollect.share.sync import push
from recollect.share.sync.http_remote import LIMITS, HttpRemote
from recollect.share.sync.selection import PushScan, place_of
from recollect.share.sync.wire import START, Position, SessionDescription, SessionGone
from recollect.store.own_settings import SyncProjects
from tests import secret_home
from tests.share.sync.machines import Machine, remote_log
from tests.share.sync.memory_remote import MemoryRemote
from tests.small_home import ONE, TWO, lines, prompt, state


class Counting(MemoryRemote):
    """Remembers every byte that was handed over."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[bytes] = []

    def append(self, session: str, key: str, at: Position, data: bytes, told: SessionDescription) -> Position:
        self.taken.append(repr(told).encode() + data)
        return super().append(session, key, at, data, told)

    def put_file(self, session: str, key: str, data: bytes, known: str | None):  # type: ignore[no-untyped-def]
        self.taken.append(key.encode() + b"\n" + data)
        return super().put_file(session, key, data, known)


def test_a_second_push_sends_the_new_line_and_nothing_else(tmp_path: Path) -> None:
    """Four lines, then one: the remote was given five in all, and has the very bytes of the log."""
    remote = Counting()
    machine = Machine(tmp_path, lambda: remote)
    machine.talk()
    assert machine.push().lines == 4
    machine.add(5)
    assert machine.push().lines == 1
    assert len(remote.taken) == 2
    assert remote_log(remote) == machine.log().read_bytes()


class Asked(MemoryRemote):
    """Remembers which logs it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def head(self, session: str, key: str) -> Position | None:
        self.asked.append(key)
        return super().head(session, key)


def with_agents(machine: Machine, *names: str) -> list[Path]:
    """A session with sub-agents; their logs."""
    log = machine.talk()
    found = [log.with_suffix("") / "subagents" / f"agent-{name}.jsonl" for name in names]
    for path in found:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lines([prompt(number, number - 1, path.stem) for number in (1, 2)]))
    return found


def test_a_remote_without_the_session_is_asked_for_its_own_log_only(tmp_path: Path) -> None:
    """It has no sub-agent of it either. One that has the session is asked for each."""
    remote = Asked()
    agents = with_agents(machine := Machine(tmp_path, lambda: remote), "1", "2", "3")
    machine.push()
    assert [""] == remote.asked
    assert [path.read_bytes() for path in agents] == [
        remote_log(remote, key=f"subagents/{path.stem}") for path in agents
    ]
    machine.kept.path.unlink()
    remote.asked.clear()
    assert (machine.push().lines, len(remote.asked)) == (0, 4)


@pytest.mark.parametrize("is_longer", [False, True])
def test_a_sub_agent_that_the_remote_has_without_its_session_is_kept(is_longer: bool, tmp_path: Path) -> None:
    """Its lines are there once, and what is new of it is appended, in either home."""
    remote = Asked()
    machine = Machine(tmp_path, lambda: remote)
    [agent] = with_agents(machine, "1")
    whole, key = agent.read_bytes(), "subagents/agent-1"
    first = whole[: whole.index(b"\n") + 1]
    there = whole + b'{"by":"another"}\n' if is_longer else first
    remote.append(ONE, key, START, there, SessionDescription())
    done = machine.push()

    assert (done.branches, done.problems) == ([], [])
    assert (there if is_longer else whole) == remote_log(remote, key=key)
    assert machine.log().read_bytes() == remote_log(remote)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
def test_no_batch_has_more_lines_than_the_remote_accepts(most: int, tmp_path: Path) -> None:
    """And all lines arrive."""

    class Small(Counting):
        def limits(self) -> Mapping[str, int]:
            return LIMITS | {"lines": most}

    remote = Small()
    machine = Machine(tmp_path, lambda: remote)
    machine.talk()
    for number in range(5, 12):
        machine.add(number)
    assert machine.push().lines == 11
    assert -(-11 // most) == len(remote.taken)
    assert remote_log(remote) == machine.log().read_bytes()


def test_a_push_with_nothing_new_makes_no_connection(tmp_path: Path) -> None:
    """The walk through the home decides alone."""
    remote = MemoryRemote()
    machine = Machine(tmp_path, lambda: remote)
    machine.talk()
    machine.push()

    def refused() -> HttpRemote:
        raise AssertionError("connected")

    machine.connect = refused
    assert (machine.push().sessions, machine.push().lines) == (0, 0)


def test_a_line_without_its_newline_waits(tmp_path: Path) -> None:
    """The newline is the commit: half a line is not sent, and comes whole later."""
    remote = MemoryRemote()
    machine = Machine(tmp_path, lambda: remote)
    log = machine.talk()
    whole = log.read_bytes()
    with log.open("ab") as file:
        file.write(b'{"type":"user","uu')
    machine.push()
    assert remote_log(remote) == whole
    with log.open("ab") as file:
        file.write(b'id":"x"}\n')
    assert machine.push().lines == 1
    assert remote_log(remote) == log.read_bytes()


def test_without_its_memory_a_push_stores_nothing_twice(tmp_path: Path) -> None:
    """The state is lost: the remote's position is found in the log, and only what is behind it is sent."""
    remote = Counting()
    machine = Machine(tmp_path, lambda: remote)
    machine.talk()
    machine.push()
    machine.add(5)
    machine.kept.path.unlink()
    done = machine.push()
    assert (done.lines, done.branches) == (1, [])
    assert remote_log(remote) == machine.log().read_bytes()


def test_only_what_belongs_to_a_session_is_sent(tmp_path: Path) -> None:
    """A home with every kind of file: logs, agents, results, title, backups, tasks, todos go; nothing else is read."""
    remote = Counting()
    machine = Machine(tmp_path, lambda: remote)
    secret_home.make(machine.home)
    machine.push()
    detail = remote.session(ONE)
    assert detail is not None
    agent, flat = secret_home.AGENT, secret_home.FLAT_AGENT
    assert [log.key for log in detail.logs] == ["", f"flat/agent-{flat}", f"subagents/agent-{agent}"]
    assert [file.key for file in detail.files] == [
        "custom-title.json",
        "file-history/0123456789abcdef_40v1",
        f"subagents/agent-{agent}.meta.json",
        "tasks/1.json",
        f"todos/{ONE}-agent-{ONE}.json",
        "tool-results/toolu_1.txt",
    ]
    sent = b"".join(remote.taken)
    for place in ("settings", "plan", "shell", "config copy", "memory", "paste", "other prompt"):
        assert secret_home.token(place).encode() not in sent
    assert secret_home.token("credentials", "anthropic-oauth-token").encode() not in sent
    assert (
        secret_home.token("prompt").encode() in sent
    )  # it was --no-redact: what is a session's goes as it is


def test_no_secret_leaves_by_default(tmp_path: Path) -> None:
    """A secret in every place of a session: none of them is in any byte that was handed over."""
    remote = Counting()
    machine = Machine(tmp_path, lambda: remote)
    secret_home.make(machine.home)
    done = machine.push(redact=True)
    sent = b"".join(remote.taken)
    places = ["prompt", "thought", "input", "agent", "meta", "flat agent", "tool result", "title"]
    places += ["backup", "task", "todo"]
    assert [place for place in places if secret_home.token(place).encode() in sent] == []
    for place, kind in (("env", "secret"), ("result", "aws-access-key-id")):
        assert secret_home.token(place, kind).encode() not in sent
    assert secret_home.PEM.splitlines()[1].encode() not in sent
    assert done.replaced >= len(places)
    assert b"[redacted:github-pat:" in sent


def test_redaction_gives_the_same_lines_at_every_try(tmp_path: Path) -> None:
    """Sent, forgotten, sent again: the remote recognises every line, and there is no branch."""
    remote = MemoryRemote()
    machine = Machine(tmp_path, lambda: remote)
    secret_home.make(machine.home)
    machine.push(redact=True)
    before = remote_log(remote)
    machine.kept.path.unlink()
    done = machine.push(redact=True)
    assert (done.lines, done.branches, done.problems) == (0, [], [])
    assert remote_log(remote) == before


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A result that is a link to a credentials file is not sent, nor is a linked log."""
    remote = Counting()
    machine = Machine(tmp_path, lambda: remote)
    log = machine.talk()
    secret = tmp_path / ".credentials.json"
    secret.write_text("never")
    results = log.with_suffix("") / "tool-results"
    results.mkdir(parents=True)
    (results / "x.txt").symlink_to(secret)
    (log.parent / f"{TWO}.jsonl").symlink_to(secret)
    machine.push()
    assert remote.session(TWO) is None
    assert b"never" not in b"".join(remote.taken)


def test_an_agent_that_names_no_session_stays_here(tmp_path: Path) -> None:
    """A flat sub-agent's log whose lines lead out of the directory, or name nobody, belongs to no session."""
    remote = Counting()
    machine = Machine(tmp_path, lambda: remote)
    log = machine.talk()
    for number, session in enumerate(("../../x", "..", "", "a/b", "nul")):
        line = json.dumps({"type": "user", "sessionId": session, "isSidechain": True})
        (log.parent / f"agent-{number}.jsonl").write_text(line + "\n")
    done = machine.push()
    assert (done.problems, [one.id for one in remote.sessions()]) == ([], [ONE])


def test_the_lists_hold_sessions_back(tmp_path: Path) -> None:
    """deny wins over allow; what is held back is counted and not sent."""
    remote = MemoryRemote()
    machine = Machine(tmp_path, lambda: remote)
    machine.talk(ONE, "/srv/app/sub")
    machine.talk(TWO, "/srv/app/private/x")
    done = machine.push(projects=SyncProjects(("/srv",), ("/srv/*/private",)))
    assert done.denied == 1
    assert [one.id for one in remote.sessions()] == [ONE]
    assert machine.push(projects=SyncProjects(("/home",))).denied == 1


@pytest.mark.parametrize(
    ("entry", "directory", "covered"),
    [
        ("/srv", "/srv", True),
        ("/srv/", "/srv/a/b", True),
        ("/srv/app", "/srv/app-old", False),
        ("/srv/*/x", "/srv/a/x/deep", True),
        ("/srv", "", False),
    ],
)
def test_an_entry_of_a_list_covers_all_below_it(entry: str, directory: str, covered: bool) -> None:
    """By parts of the path, so that app-old is not below app."""
    assert SyncProjects((entry,)).allows(directory) is covered
    assert SyncProjects((), (entry,)).allows(directory) is not covered


def test_two_machines_that_went_on_differently_lose_nothing(tmp_path: Path) -> None:
    """The second to push gets a session of its own with every line, the same one at every try."""
    remote = MemoryRemote()
    one, two = (Machine(tmp_path / name, lambda: remote) for name in "ab")
    for machine in (one, two):
        machine.talk()
        machine.push()
    one.add(5, "by one")
    two.add(5, "by two")
    assert one.push().branches == []
    done = two.push()
    [(session, branch)] = done.branches
    assert session == ONE
    assert remote_log(remote) == one.log().read_bytes()
    # Under its own name it is a session of its own, also by what its lines say.
    renamed = two.log().read_bytes().replace(ONE.encode(), branch.encode())
    assert remote_log(remote, branch) == renamed
    two.add(6, "by two again")
    again = two.push()
    assert (again.lines, again.branches) == (1, [])
    two.kept.path.unlink()
    assert [name for _, name in two.push().branches] == [branch]
    assert len(list(remote.sessions())) == 2


def test_a_log_that_somebody_else_went_on_with_is_left_to_pull(tmp_path: Path) -> None:
    """Ours is the start of theirs: nothing is sent, nothing branches."""
    remote = MemoryRemote()
    one, two = (Machine(tmp_path / name, lambda: remote) for name in "ab")
    for machine in (one, two):
        machine.talk()
    one.push()
    one.add(5)
    one.push()
    done = two.push()
    assert (done.lines, done.branches, done.ahead) == (0, [], [ONE])


def test_a_file_that_another_machine_changed_stands_beside_ours(tmp_path: Path) -> None:
    """Tasks are written over and over; neither version is lost."""
    remote = MemoryRemote()
    one, two = (Machine(tmp_path / name, lambda: remote) for name in "ab")
    for machine, text in ((one, "one"), (two, "two")):
        machine.talk()
        task = machine.home / "tasks" / ONE / "1.json"
        task.parent.mkdir(parents=True)
        task.write_text(json.dumps({"id": "1", "subject": text}))
        machine.push()
    assert b"one" in (remote.file(ONE, "tasks/1.json") or b"")
    assert b"two" in (remote.file(ONE, f"tasks/1.json.of-{two.id[:8]}") or b"")


def test_what_was_deleted_there_is_not_sent_again(tmp_path: Path) -> None:
    """A deletion on the remote holds; it is told once."""
    remote = MemoryRemote()
    machine = Machine(tmp_path, lambda: remote)
    machine.talk()
    machine.push()
    remote.delete(ONE)
    machine.add(5)
    assert machine.push().gone == [ONE]
    machine.add(6)
    assert (machine.push().gone, remote.session(ONE)) == ([], None)
    with pytest.raises(SessionGone):
        remote.append(ONE, "", START, b"x\n", SessionDescription())


@pytest.mark.parametrize("in_place", [False, True])
def test_a_log_written_anew_becomes_a_branch(tmp_path: Path, in_place: bool) -> None:
    """What was sent before stays there, the new one is beside it; also in the same file, longer than before."""
    remote = MemoryRemote()
    machine = Machine(tmp_path, lambda: remote)
    log = machine.talk()
    machine.push()
    before = remote_log(remote)
    another = lines([prompt(n, None, "another") for n in range(10)])
    if in_place:
        with log.open("r+b") as file:
            file.write(another)
    else:
        new = log.with_suffix(".new")
        new.write_bytes(another)
        os.replace(new, log)
    [(_, branch)] = machine.push().branches
    assert remote_log(remote) == before
    assert b"another" in remote_log(remote, branch)


def test_what_was_cut_off_between_two_batches_is_sent_by_the_next_push(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remote goes away after the first of several appends; the next push sends the rest and nothing twice."""

    class Leaving(MemoryRemote):
        left = 1

        def append(
            self, session: str, key: str, at: Position, data: bytes, told: SessionDescription
        ) -> Position:
            if not self.left:
                raise Busy("away", hint="later")
            self.left -= 1
            return super().append(session, key, at, data, told)

    monkeypatch.setattr(push, "_BATCH", 700)
    remote = Leaving()
    machine = Machine(tmp_path, lambda: remote)
    machine.talk()
    with pytest.raises(Busy):
        machine.push()
    sent = len(remote_log(remote).splitlines())
    assert 0 < sent < 4
    remote.left = 100
    assert machine.push().lines == 4 - sent
    assert remote_log(remote) == machine.log().read_bytes()


def test_every_file_of_a_session_finds_its_way_back(tmp_path: Path) -> None:
    """The place that a key gives in a home is the place the file came from."""
    secret_home.make(tmp_path)
    found = [one for one in PushScan(tmp_path).files() if one.session == ONE]
    places = [
        str(place_of(one.key, tmp_path, Path(one.owner).parent, ONE, is_log=one.is_log)) for one in found
    ]
    assert places == [one.path for one in found]
    assert len(places) == 8


def test_a_home_is_only_read(tmp_path: Path) -> None:
    """A push changes no byte, mode or time in the home."""
    remote = MemoryRemote()
    machine = Machine(tmp_path, lambda: remote)
    secret_home.make(machine.home)
    before = state(machine.home)
    machine.push(redact=True)
    assert state(machine.home) == before


def test_files_that_a_deleted_session_left_are_no_session(tmp_path: Path) -> None:
    """They are sent, and the number of sessions is that of `list`."""
    remote = Counting()
    machine = Machine(tmp_path, lambda: remote)
    log = machine.talk()
    left = log.with_name(TWO) / "tool-results"
    left.mkdir(parents=True)
    (left / "x.txt").write_text("left")
    done = machine.push()

    assert (1, 1) == (done.sessions, done.files)
