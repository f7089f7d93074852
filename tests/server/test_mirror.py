"""A mirror is what the remote keeps, whatever happened to its files."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.errors import StorageError
from recollect.server.page.mirror import Mirror
from recollect.share.sync.wire import START, Position, SessionDescription, SessionDetail
from recollect.system import fsops
from tests.share.sync.memory_remote import MemoryRemote
from tests.small_home import ONE, TALK, TWO, lines, prompt

FOUR, FIFTH = lines(TALK), lines([prompt(5, 4, "Q3")])
SHOP = SessionDescription(project="/srv/shop")


class Noting(MemoryRemote):
    """Remembers which bytes were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.read_from: list[tuple[str, str, int]] = []

    def session(self, session: str) -> SessionDetail | None:
        self.asked.append(session)
        return super().session(session)

    def read(self, session: str, key: str, after: Position) -> Iterator[bytes]:
        self.read_from.append((session, key, after.lines))
        return super().read(session, key, after)


def kept(
    remote: MemoryRemote,
    session: str = ONE,
    data: bytes = FOUR,
    key: str = "",
    told: SessionDescription = SHOP,
) -> None:
    remote.append(session, key, remote.head(session, key) or START, data, told)


def look(mirror: Mirror, remote: MemoryRemote) -> None:
    """Look at every session, and for those that are gone."""
    mirror.remove_gone()
    for one in list(remote.sessions()):
        mirror.look_at(one.id)


def mirrored(remote: MemoryRemote, place: Path) -> Mirror:
    made = Mirror(place, remote, rest=0)
    look(made, remote)
    return made


def files(mirror: Mirror) -> dict[str, bytes]:
    home = mirror.home
    found = {path.relative_to(home).as_posix(): path for path in home.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items()}


def test_a_mirror_is_a_home_with_the_same_bytes(tmp_path: Path) -> None:
    """Logs, agents and side files lie where a client would put them; a flat agent lies below its session."""
    remote = MemoryRemote()
    kept(remote)
    kept(remote, data=b'{"isSidechain":true}\n', key="subagents/agent-1")
    kept(remote, data=b"no json at all\xff\n", key="flat/agent-2")
    remote.put_file(ONE, "tool-results/a.txt", b"\x00out", None)
    remote.put_file(ONE, "file-history/0a_40v1", b"old", None)
    remote.put_file(ONE, f"todos/{ONE}-agent-{ONE}.json", b"[]", None)
    remote.put_file(ONE, f"todos/{ONE}.json", b"[1]", None)
    assert files(mirrored(remote, tmp_path)) == {
        f"projects/-srv-shop/{ONE}.jsonl": FOUR,
        f"projects/-srv-shop/{ONE}/subagents/agent-1.jsonl": b'{"isSidechain":true}\n',
        f"projects/-srv-shop/{ONE}/subagents/agent-2.jsonl": b"no json at all\xff\n",
        f"projects/-srv-shop/{ONE}/tool-results/a.txt": b"\x00out",
        f"file-history/{ONE}/0a@v1": b"old",
        f"todos/{ONE}-agent-{ONE}.json": b"[]",
        f"todos/{ONE}.json": b"[1]",
    }


def test_only_new_lines_are_fetched(tmp_path: Path) -> None:
    """Of a session that did not change no line is read; one that did is read from where the mirror ends."""
    remote = Noting()
    kept(remote)
    kept(remote, TWO)
    mirror = mirrored(remote, tmp_path)
    before = (tmp_path / "home/projects/-srv-shop" / f"{ONE}.jsonl").stat().st_ino
    remote.read_from.clear()
    kept(remote, data=FIFTH)
    look(mirror, remote)
    log = tmp_path / "home/projects/-srv-shop" / f"{ONE}.jsonl"
    assert remote.read_from == [(ONE, "", 4)]
    assert (log.read_bytes(), log.stat().st_ino) == (FOUR + FIFTH, before)


@pytest.mark.parametrize("gone", ["log", "directory"])
def test_a_copy_that_somebody_removed_is_fetched_anew(tmp_path: Path, gone: str) -> None:
    remote = MemoryRemote()
    kept(remote)
    mirror = mirrored(remote, tmp_path)
    if gone == "log":
        (tmp_path / "home/projects/-srv-shop" / f"{ONE}.jsonl").unlink()
    else:
        shutil.rmtree(tmp_path / "home")
    look(mirror, remote)
    assert files(mirror) == {f"projects/-srv-shop/{ONE}.jsonl": FOUR}


def test_half_a_line_that_a_full_disk_left_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = MemoryRemote()
    kept(remote)
    mirror = mirrored(remote, tmp_path)
    kept(remote, data=FIFTH)
    whole = fsops.write_all

    def full(fd: int, data: bytes) -> None:
        whole(fd, data[:20])
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(fsops, "write_all", full)
        with pytest.raises(StorageError):
            look(mirror, remote)
    look(mirror, remote)
    assert list(files(mirror).values()) == [FOUR + FIFTH]


def test_a_log_that_began_anew_is_replaced(tmp_path: Path) -> None:
    """Purged and pushed again, also where the new one has as many lines."""
    remote = MemoryRemote()
    kept(remote)
    mirror = mirrored(remote, tmp_path)
    remote.delete(ONE)
    remote._deleted.clear()
    kept(remote, data=FOUR.replace(b"Q1", b"R1"))
    look(mirror, remote)
    assert list(files(mirror).values()) == [FOUR.replace(b"Q1", b"R1")]


def test_what_was_deleted_disappears_with_all_it_had(tmp_path: Path) -> None:
    """By name where the list has it no more, and when it is looked at; the other session stays."""
    remote = MemoryRemote()
    kept(remote)
    kept(remote, TWO)
    kept(remote, data=b"{}\n", key="subagents/agent-1")
    todos = (f"todos/{ONE}-agent-{ONE}.json", f"todos/{ONE}.json")
    for key in ("file-history/0a_40v1", *todos, "tasks/1.json"):
        remote.put_file(ONE, key, b"x", None)
    mirror, other = mirrored(remote, tmp_path / "one"), mirrored(remote, tmp_path / "other")
    remote.delete(ONE)
    mirror.remove_gone({TWO})
    other.look_at(ONE)
    for one in (mirror, other):
        assert sorted(files(one)) == [f"projects/-srv-shop/{TWO}.jsonl"]
        assert one.log_of(ONE) is None


def test_a_side_file_that_was_deleted_or_changed_follows(tmp_path: Path) -> None:
    """By its bytes: the same name with other bytes is fetched again."""
    remote = MemoryRemote()
    kept(remote)
    remote.put_file(ONE, "tool-results/a.txt", b"one", None)
    first = remote.put_file(ONE, "tool-results/b.txt", b"one", None)
    mirror = mirrored(remote, tmp_path)
    remote._sessions[ONE].files.pop("tool-results/a.txt")
    remote.put_file(ONE, "tool-results/b.txt", b"two", first.sha256)
    look(mirror, remote)
    found = {name: data for name, data in files(mirror).items() if "tool-results" in name}
    assert found == {f"projects/-srv-shop/{ONE}/tool-results/b.txt": b"two"}


def test_names_that_no_home_has_a_place_for_are_left_out(tmp_path: Path) -> None:
    """They are counted, stand nowhere, and do not keep the rest from being shown."""
    remote = MemoryRemote()
    kept(remote)
    kept(remote, data=b"{}\n", key="elsewhere/log")
    kept(remote, "agent-1", b"{}\n")
    remote.put_file(ONE, f"todos/{TWO}-agent-{TWO}.json", b"[]", None)
    mirror = mirrored(remote, tmp_path)
    assert files(mirror) == {f"projects/-srv-shop/{ONE}.jsonl": FOUR}
    assert mirror.left_out == {(ONE, "elsewhere/log"), (ONE, f"todos/{TWO}-agent-{TWO}.json")}


def test_no_name_leads_out_of_the_mirror(tmp_path: Path) -> None:
    """Sessions, keys and projects that somebody made to be paths: nothing lies outside the home, nothing is overwritten."""
    remote = MemoryRemote()
    kept(remote)
    for key in (
        "../x",
        "subagents/../../agent-1",
        "subagents/agent-_2F_2E_2E_2Fx",
        "flat/agent-_00",
        "flat/..",
    ):
        kept(remote, data=b"{}\n", key=key)
    for key in (
        "tool-results/_2E_2E_2F_2E_2E_2Fsettings.json",
        "file-history/_2E_2E",
        "settings.json",
        "tasks/a/b",
    ):
        remote.put_file(ONE, key, b"x", None)
    for session in ("..", "../other", ".hidden/x", ""):
        kept(remote, session)
    kept(remote, TWO, told=SessionDescription(project="/../../etc"))
    place = tmp_path / "place"
    mirror = mirrored(remote, place)
    assert sorted(files(mirror)) == [
        f"projects/-------etc/{TWO}.jsonl",
        f"projects/-srv-shop/{ONE}.jsonl",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["place"]
    assert [path.name for path in place.iterdir()] == ["home"]


def test_one_that_is_not_listed_is_asked_for_by_name(tmp_path: Path) -> None:
    """A list read in pages can miss a session that changes meanwhile, and a member does not see all: it is not removed, nor
    asked for again at once."""
    remote = Noting()
    kept(remote)
    kept(remote, TWO)
    mirror = mirrored(remote, tmp_path)
    remote.asked.clear()
    mirror.remove_gone({TWO}, every=60)
    mirror.remove_gone({TWO}, every=60)
    assert (remote.asked, len(files(mirror))) == ([ONE], 2)


def test_the_copies_that_were_looked_at_longest_ago_go_first(tmp_path: Path) -> None:
    """Beyond the bound, with all they have, and never the one that is looked at."""
    remote, third = Noting(), "third"
    for session in (ONE, TWO):
        kept(remote, session)
        kept(remote, session, data=b"{}\n", key="subagents/agent-1")
    kept(remote, third, FOUR * 2)
    mirror = Mirror(tmp_path, remote, rest=0, most_bytes=3 * len(FOUR) + 6)
    for session in (TWO, ONE, TWO, third):
        mirror.look_at(session)
    left = {name.partition("/")[2].split("/")[1].removesuffix(".jsonl") for name in files(mirror)}
    remote.read_from.clear()
    mirror.look_at(ONE)
    assert left == {TWO, third}
    assert remote.read_from == [(ONE, "", 0), (ONE, "subagents/agent-1", 0)]


def test_many_who_look_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """All lines, once, in order."""
    remote = MemoryRemote()
    kept(remote)
    mirror = Mirror(tmp_path, remote, rest=0)

    def look_on() -> None:
        for _ in range(40):
            mirror.look_at(ONE)

    others = [threading.Thread(target=look_on) for _ in range(2)]
    for other in others:
        other.start()
    for number in range(40):
        kept(remote, data=lines([prompt(100 + number, 4, f"Q{number}")]), told=SessionDescription())
        mirror.look_at(ONE)
    for other in others:
        other.join()
    assert list(files(mirror).values()) == [b"".join(remote._sessions[ONE].logs[""])]
