"""Pulling: into the store byte for byte, into a home so that the client goes on, and never over anything."""

from __future__ import annotations

import contextlib
import json
import os
import random
from pathlib import Path

import pytest

from recollect.ask.sessions.projects import identity_of, normalised
from recollect.errors import InvalidId
from recollect.model.project_key import project_key
from recollect.share.sync import install as exchange_install
from recollect.share.sync.lines import Sealer
from recollect.share.sync.selection import place_of
from recollect.share.sync.wire import START, SessionDescription, key_of, names_of
from recollect.store.changes.journal import ChangeJournal
from tests import secret_home
from tests.share.sync.machines import Machine, remote_log, repository
from tests.share.sync.memory_remote import MemoryRemote
from tests.small_home import ONE, TWO, open_in_this_process, state
from tests.store.archive.kept_sessions import KEY, SESSION
from tests.store.archive.test_bundle_tricks import ALLOWED, NAMES

FIRST = [
    "flat",
    "subagents",
    "tool-results",
    "custom-title.json",
    "file-history",
    "tasks",
    "todos",
    "plans",
    "session-env",
]
URL = "git@github.com:acme/shop.git"


def two_machines(tmp_path: Path) -> tuple[MemoryRemote, Machine, Machine, Path, Path]:
    """Two machines with one repository under different paths, each with a session in it."""
    remote = MemoryRemote()
    one, two = (Machine(tmp_path / name, lambda: remote) for name in "ab")
    there = repository(tmp_path / "alice" / "shop", URL)
    here = repository(tmp_path / "bob" / "work" / "shop-copy", "https://GitHub.com/acme/shop")
    (there / "sub").mkdir()
    (here / "sub").mkdir()
    return remote, one, two, there, here


def test_pulled_logs_grow_line_by_line(tmp_path: Path) -> None:
    """First all of it, then only what is new; the same bytes as on the other machine."""
    remote = MemoryRemote()
    one, two = (Machine(tmp_path / name, lambda: remote) for name in "ab")
    secret_home.make(one.home)
    one.push()
    first = two.pull()
    assert (first.lines, first.problems) == (6 + 1 + 1 + 2, [])
    one.add(6)
    one.push()
    assert two.pull().lines == 1
    assert two.pulled() == one.log().read_bytes()
    side = one.log().with_suffix("")
    name = f"subagents/agent-{secret_home.AGENT}"
    assert two.pulled(ONE, name) == (side / f"{name}.jsonl").read_bytes()
    result = next(two.store.glob("projects/*/*/tool-results/toolu_1.txt"))
    assert result.read_bytes() == (side / "tool-results" / "toolu_1.txt").read_bytes()


def test_what_this_machine_sent_is_not_pulled(tmp_path: Path) -> None:
    """Only when somebody else went on with it."""
    remote = MemoryRemote()
    machine = Machine(tmp_path, lambda: remote)
    machine.talk()
    machine.push()
    assert machine.pull().sessions == []
    head = remote.head(ONE, "")
    assert head is not None
    remote.append(ONE, "", head, b'{"by":"another"}\n', SessionDescription())
    assert machine.pull().sessions == [ONE]
    assert machine.pulled() == machine.log().read_bytes() + b'{"by":"another"}\n'


def test_a_store_that_was_written_to_is_not_written_over(tmp_path: Path) -> None:
    """A pulled log that somebody changed stays; the remote's is stored beside it."""
    remote = MemoryRemote()
    one, two = (Machine(tmp_path / name, lambda: remote) for name in "ab")
    one.talk()
    one.push()
    two.pull()
    place = Path(two.kept.load().pulled[ONE][""].path)
    place.write_bytes(b'{"mine":1}\n')
    one.add(5)
    one.push()
    [(session, other)] = two.pull().moved
    assert (session, place.read_bytes()) == (ONE, b'{"mine":1}\n')
    assert Path(other).read_bytes() == one.log().read_bytes()


def test_a_pull_without_its_memory_stores_nothing_twice(tmp_path: Path) -> None:
    """The files are there and are a start of the remote's: they are taken as they are."""
    remote = MemoryRemote()
    one, two = (Machine(tmp_path / name, lambda: remote) for name in "ab")
    one.talk()
    one.push()
    two.pull()
    two.kept.path.unlink()
    one.add(5)
    one.push()
    two.pull()
    assert two.pulled() == one.log().read_bytes()
    assert len(list(two.store.glob("projects/*/*"))) == 1


@pytest.mark.parametrize("key", ["tool-results/._2E", "tool-results/a_2Fb", "elsewhere/x", "plans/x.md"])
def test_a_remote_cannot_write_outside_a_session(tmp_path: Path, key: str) -> None:
    """A key that would lead out of its directory, or to something that is no session's, makes no file."""
    remote = MemoryRemote()
    remote.append(ONE, "", START, b"{}\n", SessionDescription())
    remote.put_file(ONE, key, b"evil", None)
    machine = Machine(tmp_path, lambda: remote)
    done = machine.pull()
    assert [session for session, _ in done.problems] == [ONE]
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes() == b"evil"] == []


def test_every_key_leads_to_a_file_of_the_session_or_nowhere(tmp_path: Path) -> None:
    """Over generated keys: the place lies in the home, and is one that a bundle may name too."""
    rng, project, taken = random.Random(2), tmp_path / "projects" / KEY, 0
    for _ in range(20_000):
        names = [rng.choice(FIRST), *rng.choices(NAMES, k=rng.randint(0, 3))]
        with contextlib.suppress(InvalidId):
            place = place_of(key_of(*names), tmp_path, project, SESSION, is_log=rng.random() < 0.5)
            assert ALLOWED.fullmatch(place.relative_to(tmp_path).as_posix()), names
            taken += 1
    assert taken > 500


def test_an_agent_of_another_session_is_not_installed(tmp_path: Path) -> None:
    """A log beside the session's belongs to the session that its lines name: the whole session is left out."""
    remote, one, two, there, here = two_machines(tmp_path)
    one.talk(ONE, str(there))
    one.push()
    foreign = json.dumps({"type": "user", "sessionId": TWO, "cwd": str(there)}).encode() + b"\n"
    remote.append(ONE, "flat/agent-x", START, foreign, SessionDescription())
    two.talk("11111111-0000-4000-8000-000000000001", str(here))
    two.pull()
    planned = two.install(apply=False)

    assert ([], [(ONE, "has an agent that is not its own")]) == (planned.sessions, planned.left)


def test_names_become_keys_and_come_back() -> None:
    """Whatever a file is called; what would leave its directory is refused on the way back."""
    for name in ("a@v1", "a_b", "a_40", "x.", "a..b", "ü ", "_", "__4", "_4@", "\udc80"):
        assert names_of(key_of("dir", name)) == ["dir", name]
    with pytest.raises(InvalidId):
        names_of(key_of("dir", ".."))


# --- into a home ----------------------------------------------------------------------------------


def test_a_session_goes_to_the_same_repository_here(tmp_path: Path) -> None:
    """The project directory and every cwd are those of this machine's copy, below it too."""
    _, one, two, there, here = two_machines(tmp_path)
    one.talk(ONE, str(there / "sub"))
    one.push()
    two.talk("11111111-0000-4000-8000-000000000001", str(here))
    two.pull()
    planned = two.install()
    [installed] = planned.sessions
    assert (installed.how, installed.directory) == ("new", str(here / "sub"))
    assert installed.path == two.home / "projects" / project_key(str(here / "sub")) / f"{ONE}.jsonl"
    directories = {json.loads(line)["cwd"] for line in installed.path.read_bytes().splitlines()}
    assert directories == {str(here / "sub")}


def test_taking_turns_on_two_machines_is_one_session(tmp_path: Path) -> None:
    """One, then the other, then the first again: one log on the remote, no branch, each sees its own directory."""
    remote, one, two, there, here = two_machines(tmp_path)
    one.talk(ONE, str(there))
    one.push()
    two.talk("11111111-0000-4000-8000-000000000001", str(here))
    two.pull()
    two.install()
    two.add(5, "by two")
    done = two.push()
    assert (done.lines, done.branches) == (1 + 4, [])
    assert str(here).encode() not in remote_log(remote)
    one.pull()
    assert [each.how for each in one.install(there).sessions if each.session == ONE] == ["longer"]
    assert one.log().read_bytes() == remote_log(remote)
    one.add(6, "by one")
    assert one.push().branches == []
    two.pull()
    assert [each.how for each in two.install().sessions] == ["longer"]
    assert two.log().read_bytes().replace(str(here).encode(), str(there).encode()) == remote_log(remote)


def test_a_session_both_went_on_with_becomes_two_in_the_home(tmp_path: Path) -> None:
    """The home's own log keeps every byte; the other is a session of its own, by its lines too."""
    _, one, two, there, here = two_machines(tmp_path)
    one.talk(ONE, str(there))
    one.push()
    two.talk("11111111-0000-4000-8000-000000000001", str(here))
    two.pull()
    two.install()
    two.add(5, "by two")
    own = two.log().read_bytes()
    one.add(5, "by one")
    one.push()
    two.pull()
    [branch] = two.install().sessions
    assert (branch.how, two.log().read_bytes()) == ("branch", own)
    entries = [json.loads(line) for line in branch.path.read_bytes().splitlines()]
    assert {entry["sessionId"] for entry in entries} == {branch.path.stem}
    assert "by one" == entries[-1]["message"]["content"]
    assert two.install().sessions == []


def test_a_crash_behind_the_change_makes_no_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are in the home, what was to be remembered of them is not: a push finds its lines there all the same."""
    _, one, two, there, here = two_machines(tmp_path)
    one.talk(ONE, str(there))
    one.push()
    two.pull()

    def crashed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(exchange_install, "_remember", crashed)
    with pytest.raises(KeyboardInterrupt):
        two.install(here)
    done = two.push()
    assert (done.lines, done.branches) == (0, [])


def test_a_session_that_was_copied_by_hand_is_not_stored_twice(tmp_path: Path) -> None:
    """The home has every line of it, and more: there is nothing to put in."""
    _, one, two, there, _ = two_machines(tmp_path)
    one.talk(ONE, str(there))
    one.push()
    two.talk(ONE, str(there))
    two.add(5)
    two.pull()
    planned = two.install(there)
    assert (planned.sessions, planned.left) == ([], [])


def test_a_log_with_an_unfinished_line_is_not_made_longer(tmp_path: Path) -> None:
    """What a crash left at its end was never sent: the pulled lines would be glued to it."""
    _, one, two, there, here = two_machines(tmp_path)
    one.talk(ONE, str(there))
    one.push()
    two.pull()
    two.install(here)
    with two.log().open("ab") as log:
        log.write(b'{"type":"us')
    two.push()
    own = two.log().read_bytes()
    one.add(5)
    one.push()
    two.pull()
    assert [each.how for each in two.install(here).sessions] == ["branch"]
    assert two.log().read_bytes() == own


def test_a_home_without_the_repository_is_told_so(tmp_path: Path) -> None:
    """Nothing is guessed: the session stays in the store until somebody names a directory."""
    _, one, two, there, here = two_machines(tmp_path)
    one.talk(ONE, str(there))
    one.push()
    two.pull()
    planned = two.install()
    assert planned.sessions == []
    assert "github.com/acme/shop" in planned.left[0][1]
    assert [each.directory for each in two.install(here).sessions] == [str(here)]


def test_a_plan_changes_nothing_and_an_undo_takes_it_back(tmp_path: Path) -> None:
    """Without --apply the home stays as it is; afterwards one undo removes everything again."""
    _, one, two, _, here = two_machines(tmp_path)
    secret_home.make(one.home)
    one.push()
    two.pull()
    before = state(two.home)
    assert len(two.install(here, apply=False).sessions) == 2
    assert state(two.home) == before
    two.install(here)
    assert (two.home / "file-history" / ONE / "0123456789abcdef@v1").is_file()
    journal = ChangeJournal(two.data / "undo")
    journal.undo(journal.changes()[0].id)
    assert [path for path in two.home.rglob("*") if path.is_file()] == []


def test_what_a_client_has_open_is_left_alone(tmp_path: Path) -> None:
    """A session that is open here is neither made longer nor branched."""
    _, one, two, there, here = two_machines(tmp_path)
    one.talk(ONE, str(there))
    one.push()
    two.pull()
    two.install(here)
    one.add(5)
    one.push()
    two.pull()
    open_in_this_process(two.home, ONE)
    before = two.log().read_bytes()
    planned = two.install(here)
    assert (planned.sessions, planned.left) == ([], [(ONE, "a client has it open")])
    assert two.log().read_bytes() == before


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("git@github.com:acme/shop.git", "github.com/acme/shop"),
        ("https://user:secret@GitHub.com/acme/shop.git/", "github.com/acme/shop"),
        ("ssh://git@example.org:2222/acme/shop", "example.org/acme/shop"),
        ("/srv/git/shop.git", None),
        ("file:///srv/git/shop.git", None),
        ("", None),
    ],
)
def test_an_address_is_one_name_however_it_is_written(address: str, name: str | None) -> None:
    """Scheme, user, password, port and ending do not count; a path of one machine is no name."""
    assert normalised(address) == name


def test_a_repository_without_a_remote_is_known_by_its_first_commit(tmp_path: Path) -> None:
    """As git's journal has it; without one it has no name."""
    (tmp_path / ".git" / "logs").mkdir(parents=True)
    assert identity_of(str(tmp_path)) is None
    line = f"{'0' * 40} {'ab' * 20} A <a@b> 1700000000 +0000\tcommit (initial): start\n"
    (tmp_path / ".git" / "logs" / "HEAD").write_text(line)
    assert identity_of(str(tmp_path)) == f"commit:{'ab' * 20}"


def test_a_server_cannot_bring_an_id_that_a_client_takes_for_an_option(tmp_path: Path) -> None:
    """Such a session is not stored; the others are."""
    remote, one, two, there, _ = two_machines(tmp_path)
    one.talk(ONE, str(there))
    one.push()
    hostile = "--dangerously-skip-permissions"
    remote._sessions[hostile] = remote._sessions[ONE]
    two.pull()
    assert two.pulled() == one.log().read_bytes()
    assert [path for path in two.data.rglob("*") if hostile in path.name] == []


# --- sealed ---------------------------------------------------------------------------------------


def test_a_sealed_session_is_opaque_there_and_whole_here(tmp_path: Path) -> None:
    """Nothing readable leaves, not even the directory; whoever has the key gets the very bytes."""
    pytest.importorskip("cryptography")
    sealer = Sealer(os.urandom(64))
    remote = MemoryRemote()
    one, two, three = (Machine(tmp_path / name, lambda: remote) for name in "abc")
    secret_home.make(one.home)
    one.push(sealer=sealer)
    detail = remote.session(ONE)
    assert detail is not None
    assert (detail.session.project, detail.session.encrypted) == (None, True)
    everything = b"".join(remote_log(remote, ONE, log.key) for log in detail.logs)
    everything += b"".join(remote.file(ONE, file.key) or b"" for file in detail.files)
    assert [word for word in (b"/srv/app", b"uuid", b"Use ", b"customTitle") if word in everything] == []
    assert two.pull(sealer).problems == []
    assert two.pulled() == one.log().read_bytes()
    assert len(three.pull(None).problems) == 2
    one.kept.path.unlink()
    assert one.push(sealer=sealer).lines == 0  # the same bytes again: its own lines are found there


def test_a_sealed_line_opens_in_its_own_place_only(tmp_path: Path) -> None:
    """Moved to another line, log or session it is refused."""
    pytest.importorskip("cryptography")
    from recollect.errors import DamagedData

    sealer = Sealer(b"k" * 64)
    sealed = sealer.seal(b"words\n", ONE, "", 3)
    assert sealer.open(sealed, ONE, "", 3) == b"words\n"
    for place in ((ONE, "", 4), (ONE, "x", 3), ("other", "", 3)):
        with pytest.raises(DamagedData):
            sealer.open(sealed, *place)
