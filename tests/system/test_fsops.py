"""The calls that make bytes durable."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recollect.system import fsops

MOUNTS = """\
23 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 23 0:27 / /dev/shm rw - tmpfs tmpfs rw
40 23 0:45 / /home rw,relatime shared:12 - nfs4 server:/home rw,vers=4.2
41 23 0:46 / /media/a\\040b rw - fuse.sshfs me@host: rw
"""


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=["umask000", "umask022", "umask777"])
def any_umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run the test under an open, a usual and a closed umask."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def raising(number: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_new_file_is_private_under_any_umask(tmp_path: Path, any_umask: int) -> None:
    """A file we create has mode 0600, whatever the umask gives or takes."""
    opened = fsops.open_append(tmp_path / "log")
    os.close(opened.fd)

    assert (True, 0o600) == (opened.created, mode(tmp_path / "log"))


def test_new_directories_are_private_under_any_umask(tmp_path: Path, any_umask: int) -> None:
    """Directories we create have mode 0700, also those in the middle of the path."""
    fsops.make_directories(tmp_path / "a" / "b")

    assert [0o700, 0o700] == [mode(tmp_path / "a"), mode(tmp_path / "a" / "b")]


def test_the_mode_of_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    """Only a file we created is given our mode; somebody chose the other one."""
    path = tmp_path / "log"
    path.touch()
    path.chmod(0o640)

    opened = fsops.open_append(path)
    os.close(opened.fd)

    assert (False, 0o640) == (opened.created, mode(path))


def test_made_directories_are_named_outermost_first(tmp_path: Path) -> None:
    """What was missing is returned in the order it was made; what was there is not."""
    (tmp_path / "there").mkdir()

    created = fsops.make_directories(tmp_path / "there" / "a" / "b")

    assert [tmp_path / "there" / "a", tmp_path / "there" / "a" / "b"] == created


def test_the_parent_is_synced_before_anything_goes_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new directory's name is durable before the next one is made in it (S5)."""
    seen: list[tuple[str, bool]] = []
    monkeypatch.setattr(fsops, "sync_dir", lambda p: seen.append((p.name, (tmp_path / "a" / "b").exists())))

    fsops.make_directories(tmp_path / "a" / "b")

    assert [(tmp_path.name, False), ("a", True)] == seen


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path) -> None:
    """Making a directory where a file stands fails as "not a directory"."""
    (tmp_path / "a").touch()

    with pytest.raises(NotADirectoryError):
        fsops.make_directories(tmp_path / "a")


@pytest.mark.parametrize("opener", [fsops.open_append, fsops.open_lock_file, fsops.open_nofollow])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, opener: Callable[[Path], object]) -> None:
    """Whoever can plant a link must not choose the file we write to."""
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")

    with pytest.raises(OSError, match="symbolic links") as caught:
        opener(tmp_path / "link")

    assert errno.ELOOP == caught.value.errno


@pytest.mark.parametrize("opener", [fsops.open_append, fsops.open_lock_file, fsops.open_nofollow])
def test_a_pipe_is_refused_at_once(tmp_path: Path, opener: Callable[[Path], object]) -> None:
    """A planted pipe neither hangs the open nor is written to."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="not a regular file"):
        opener(tmp_path / "pipe")


def test_a_descriptor_does_not_survive_an_exec(tmp_path: Path) -> None:
    """Programs we start must not inherit the log or its lock."""
    opened = fsops.open_append(tmp_path / "log")

    inheritable = os.get_inheritable(opened.fd)
    os.close(opened.fd)

    assert inheritable is False


def test_short_writes_go_on_where_they_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten bytes through a system that takes three at a time are ten bytes in the file (S2)."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
    fd = fsops.open_append(tmp_path / "log").fd

    fsops.write_all(fd, b"0123456789")
    os.close(fd)

    assert b"0123456789" == (tmp_path / "log").read_bytes()


def test_a_system_that_takes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that makes no progress ends in an error, not in an endless loop."""
    monkeypatch.setattr(os, "write", lambda fd, data: 0)
    fd = fsops.open_append(tmp_path / "log").fd

    with pytest.raises(OSError, match="no more bytes"):
        fsops.write_all(fd, b"x")
    os.close(fd)


def test_short_reads_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read in pieces returns what one read would have."""
    (tmp_path / "log").write_bytes(b"0123456789")
    real = os.pread
    monkeypatch.setattr(fsops, "_pread", lambda fd, length, offset: real(fd, min(length, 2), offset))
    fd = fsops.open_nofollow(tmp_path / "log")

    data = fsops.pread(fd, 5, 3)
    os.close(fd)

    assert b"34567" == data


def test_a_read_past_the_end_returns_what_there_is(tmp_path: Path) -> None:
    """Only the end of the file makes a read shorter than asked."""
    (tmp_path / "log").write_bytes(b"0123456789")
    fd = fsops.open_nofollow(tmp_path / "log")

    data = fsops.pread(fd, 5, 8)
    os.close(fd)

    assert b"89" == data


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_sync_directories_is_tolerated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """EINVAL and ENOTSUP mean "there is no such thing here"."""
    asked: list[int] = []

    def cannot(fd: int) -> None:
        asked.append(fd)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", cannot)

    fsops.sync_dir(tmp_path)

    assert 1 == len(asked)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_failed_directory_sync_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Every other answer means that the name may not be durable."""
    monkeypatch.setattr(os, "fsync", raising(number))

    with pytest.raises(OSError, match=r".") as caught:
        fsops.sync_dir(tmp_path)

    assert number == caught.value.errno


def test_replace_file_syncs_renames_and_syncs_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order that makes a rename safe: bytes, name, directory (S5)."""
    steps: list[str] = []
    rename = Path.replace

    def renamed(self: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(self, target)

    monkeypatch.setattr(fsops, "sync_file", lambda fd: steps.append("bytes"))
    monkeypatch.setattr(fsops, "sync_dir", lambda path: steps.append("directory"))
    monkeypatch.setattr(Path, "replace", renamed)

    fsops.replace_file(tmp_path / "small.json", b"{}")

    assert ["bytes", "rename", "directory"] == steps


def test_replace_file_leaves_only_the_new_content(tmp_path: Path) -> None:
    """Afterwards there is one file, with the new bytes and mode 0600."""
    path = tmp_path / "small.json"
    path.write_bytes(b"old")

    fsops.replace_file(path, b"new")

    assert ([path], b"new", 0o600) == (list(tmp_path.iterdir()), path.read_bytes(), mode(path))


def test_a_failed_replace_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the sync fails the old file stands, and nothing lies beside it."""
    path = tmp_path / "small.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(fsops, "sync_file", raising(errno.EIO))

    with pytest.raises(OSError, match="Input/output error"):
        fsops.replace_file(path, b"new")

    assert ([path], b"old") == (list(tmp_path.iterdir()), path.read_bytes())


def test_an_identity_changes_with_the_file_behind_a_name(tmp_path: Path) -> None:
    """A path that names another file now has another identity than the open descriptor (S6)."""
    path = tmp_path / "log"
    fd = fsops.open_append(path).fd
    before = fsops.identity_at(str(path)) == fsops.identity_of(fd)
    path.rename(tmp_path / "old")
    gone = fsops.identity_at(str(path))
    path.touch()

    after = fsops.identity_at(str(path)) == fsops.identity_of(fd)
    os.close(fd)

    assert (True, None, False) == (before, gone, after)


@pytest.mark.parametrize(
    ("major", "minor", "expected"),
    [(254, 0, "ext4"), (0, 27, "tmpfs"), (0, 45, "nfs4"), (0, 46, "fuse.sshfs"), (8, 1, None)],
)
def test_the_type_of_a_mount_is_found_by_device(major: int, minor: int, expected: str | None) -> None:
    """proc(5): third field the device, first field after the lone dash the type."""
    assert expected == fsops.type_of_device(MOUNTS, major, minor)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("nfs4", "nfs4"), ("cifs", "cifs"), ("9p", "9p"), ("fuse.sshfs", "fuse.sshfs")]
    + [(kind, None) for kind in ("ext4", "tmpfs", "xfs", "btrfs", "overlay", "fuse.gocryptfs", None)],
)
def test_network_file_systems_are_known_by_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None, expected: str | None
) -> None:
    """NFS, SMB, 9p and the network kinds of FUSE count; local and unknown ones do not (S1)."""
    monkeypatch.setattr(fsops, "_file_system_type", lambda device: kind)

    assert expected == fsops.network_file_system(tmp_path)


def test_every_expected_refusal_has_a_next_step_of_its_own() -> None:
    """A full disk, a quota, a size limit, a read-only disk and a forbidden one need different things."""
    numbers = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO, errno.ELOOP]

    steps = {fsops.next_step(OSError(number, "")) for number in numbers}

    assert len(numbers) == len(steps - {fsops.next_step(None)})


def test_the_next_step_is_in_the_words_of_who_asks() -> None:
    """An append says append again, a repair says what it is asked to say."""
    full = OSError(errno.ENOSPC, "")

    assert (
        "free space on that disk, then append again",
        "free space on that disk, then run it again",
        "run it again once the cause is gone",
    ) == (fsops.next_step(full), fsops.next_step(full, "run it again"), fsops.next_step(None, "run it again"))


def test_create_new_is_private_and_never_takes_over(tmp_path: Path, any_umask: int) -> None:
    """Mode 0600 under any umask; a file, a link or a directory of that name is in the way."""
    os.close(fsops.create_new(tmp_path / "new"))
    (tmp_path / "link").symlink_to("nowhere")

    for name in ("new", "link", "."):
        with pytest.raises(FileExistsError):
            fsops.create_new(tmp_path / name)

    assert 0o600 == mode(tmp_path / "new")


def test_link_gives_a_second_name_to_the_file_itself(tmp_path: Path) -> None:
    """Bytes added under one name are there under the other; a link is linked, not what it leads to."""
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")

    linked = (
        fsops.link(tmp_path / "file", tmp_path / "second"),
        fsops.link(tmp_path / "link", tmp_path / "third"),
    )
    with (tmp_path / "second").open("ab") as file:
        file.write(b"2")

    assert ((True, True), b"12", True) == (
        linked,
        (tmp_path / "file").read_bytes(),
        (tmp_path / "third").is_symlink(),
    )


def test_link_is_never_over_something(tmp_path: Path) -> None:
    """A name that is taken is an error, not an answer."""
    (tmp_path / "file").touch()
    (tmp_path / "taken").touch()

    with pytest.raises(FileExistsError):
        fsops.link(tmp_path / "file", tmp_path / "taken")


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK])
def test_where_there_are_no_links_the_answer_is_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Another file system, one without links, a file that has too many: the caller copies instead."""
    monkeypatch.setattr(os, "link", raising(number))

    assert fsops.link(tmp_path / "a", tmp_path / "b") is False


@pytest.mark.skipif(not fsops._syncfs(), reason="this system cannot sync a file system")
def test_a_local_file_system_is_synced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsops, "_file_system_type", lambda _: "ext4")

    assert fsops.sync_file_system(tmp_path) is True


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "fuseblk", None])
def test_a_file_system_that_may_only_pass_bytes_on_is_not_synced_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None
) -> None:
    """The caller syncs each file: only that asks the other side to keep it."""
    monkeypatch.setattr(fsops, "_file_system_type", lambda _: kind)

    assert fsops.sync_file_system(tmp_path) is False


def test_a_kernel_that_hides_errors_of_writing_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 5.8, syncfs succeeds also where a disk took nothing."""
    monkeypatch.setattr(fsops, "_kernel", lambda: (5, 7))
    monkeypatch.setattr(fsops, "_syncfs", fsops._syncfs.__wrapped__)

    assert fsops.sync_file_system(tmp_path) is False


def test_a_file_system_that_could_not_be_synced_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fsops, "_file_system_type", lambda _: "ext4")
    monkeypatch.setattr(fsops, "_syncfs", lambda: lambda _: errno.EIO)

    with pytest.raises(OSError, match="Input/output error"):
        fsops.sync_file_system(tmp_path)


def test_what_was_written_before_is_synced_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it was moved away since, there is nothing to do."""
    (tmp_path / "file").write_text("written")
    synced: list[int] = []
    monkeypatch.setattr(fsops, "sync_data", lambda fd: synced.append(fsops.size_of(fd)))

    fsops.sync_written(tmp_path / "file")
    fsops.sync_written(tmp_path / "gone")

    assert synced == [len("written")]


@pytest.mark.skipif(not fsops._renameat2(), reason="this system cannot swap two names")
def test_exchange_swaps_two_files(tmp_path: Path) -> None:
    """Each has the other's name, the files themselves stay what they are."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    inodes = [(tmp_path / name).stat().st_ino for name in ("a", "b")]

    swapped = fsops.exchange(tmp_path / "a", tmp_path / "b")

    assert (True, "b", "a", inodes[::-1]) == (
        swapped,
        (tmp_path / "a").read_text(),
        (tmp_path / "b").read_text(),
        [(tmp_path / name).stat().st_ino for name in ("a", "b")],
    )


@pytest.mark.parametrize(
    "answer", [errno.ENOSYS, errno.EINVAL, None], ids=["old kernel", "file system", "no such call"]
)
def test_exchange_says_no_where_the_system_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int | None
) -> None:
    """Then nothing has happened, and the caller takes another way."""
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    call = None if answer is None else lambda *_: answer
    monkeypatch.setattr(fsops, "_renameat2", lambda: call)

    assert fsops.exchange(tmp_path / "a", tmp_path / "b") is False


@pytest.mark.parametrize("helped", [True, False], ids=["with renameat2", "without"])
@pytest.mark.parametrize("target", ["file", "directory", "link"])
def test_rename_new_is_never_over_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helped: bool, target: str
) -> None:
    """Neither over a file, nor an empty directory, nor a link that leads nowhere; the source stays."""
    if not helped:
        monkeypatch.setattr(fsops, "_renameat2", lambda: None)
    source = tmp_path / "source"
    source.mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("nowhere")

    with pytest.raises(FileExistsError):
        fsops.rename_new(source, tmp_path / target)

    assert source.is_dir()


@pytest.mark.parametrize("helped", [True, False], ids=["with renameat2", "without"])
def test_rename_new_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helped: bool) -> None:
    """Where the name is free."""
    if not helped:
        monkeypatch.setattr(fsops, "_renameat2", lambda: None)
    (tmp_path / "a").write_text("a")

    fsops.rename_new(tmp_path / "a", tmp_path / "b")

    assert ([tmp_path / "b"], "a") == (list(tmp_path.iterdir()), (tmp_path / "b").read_text())


def test_rename_over_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    """The target of the link keeps its bytes."""
    for name in ("new", "led to"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("led to")

    fsops.rename_over(tmp_path / "new", tmp_path / "link")

    assert (False, "new", "led to") == (
        (tmp_path / "link").is_symlink(),
        (tmp_path / "link").read_text(),
        (tmp_path / "led to").read_text(),
    )


def test_unlink_takes_a_name_away(tmp_path: Path) -> None:
    """And a missing one is an error: somebody else was here."""
    (tmp_path / "file").touch()

    fsops.unlink(tmp_path / "file")

    assert [] == list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        fsops.unlink(tmp_path / "file")


def test_only_an_empty_directory_is_removed(tmp_path: Path) -> None:
    """One with something in it, a file and nothing at all are left as they are, without an error."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "full" / "inner").mkdir(parents=True)
    (tmp_path / "file").touch()

    removed = [fsops.remove_directory(tmp_path / name) for name in ("empty", "full", "file", "missing")]

    assert ([True, False, False, False], {"full", "file"}) == (
        removed,
        {path.name for path in tmp_path.iterdir()},
    )


def test_a_mode_a_time_and_an_owner_can_be_given(tmp_path: Path) -> None:
    """Exactly those; an owner that we may not give is no failure."""
    fd = fsops.create_new(tmp_path / "file")
    owner = os.fstat(fd)

    fsops.give_mode(fd, 0o604)
    fsops.give_owner(fd, owner.st_uid, owner.st_gid)
    fsops.give_time(tmp_path / "file", 1_500_000_000_123_456_789)
    os.close(fd)

    found = (tmp_path / "file").stat()
    assert (0o604, 1_500_000_000_123_456_789, owner.st_uid) == (
        mode(tmp_path / "file"),
        found.st_mtime_ns,
        found.st_uid,
    )


@pytest.mark.skipif(not hasattr(os, "fchown"), reason="there are no owners of this kind on Windows")
def test_an_owner_that_cannot_be_given_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user may not give files away; the file is then theirs, and the change goes on."""
    fd = fsops.create_new(tmp_path / "file")
    monkeypatch.setattr(os, "fchown", raising(errno.EPERM))

    fsops.give_owner(fd, 12345, 12345)
    owner = os.fstat(fd).st_uid
    os.close(fd)

    assert os.geteuid() == owner
