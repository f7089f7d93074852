"""The calls that make bytes durable."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recollect.system import fsops


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
    os.close(fsops.open_append(tmp_path / "log"))

    assert 0o600 == mode(tmp_path / "log")


def test_new_directories_are_private_under_any_umask(tmp_path: Path, any_umask: int) -> None:
    """Directories we create have mode 0700, also those in the middle of the path."""
    fsops.make_directories(tmp_path / "a" / "b")

    assert [0o700, 0o700] == [mode(tmp_path / "a"), mode(tmp_path / "a" / "b")]


def test_the_mode_of_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    """Only a file we created is given our mode; somebody chose the other one."""
    path = tmp_path / "log"
    path.touch()
    path.chmod(0o640)

    os.close(fsops.open_append(path))

    assert 0o640 == mode(path)


def test_the_parent_is_synced_before_anything_goes_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new directory's name is durable before the next one is made in it (S5)."""
    seen: list[tuple[str, bool]] = []
    monkeypatch.setattr(fsops, "sync_dir", lambda p: seen.append((p.name, (tmp_path / "a" / "b").exists())))

    fsops.make_directories(tmp_path / "a" / "b")

    assert [(tmp_path.name, False), ("a", True)] == seen


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
    fd = fsops.open_append(tmp_path / "log")

    inheritable = os.get_inheritable(fd)
    os.close(fd)

    assert inheritable is False


def test_short_writes_go_on_where_they_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten bytes through a system that takes three at a time are ten bytes in the file (S2)."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
    fd = fsops.open_append(tmp_path / "log")

    fsops.write_all(fd, b"0123456789")
    os.close(fd)

    assert b"0123456789" == (tmp_path / "log").read_bytes()


def test_a_system_that_takes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that makes no progress ends in an error, not in an endless loop."""
    monkeypatch.setattr(os, "write", lambda fd, data: 0)
    fd = fsops.open_append(tmp_path / "log")

    with pytest.raises(OSError, match="no more bytes"):
        fsops.write_all(fd, b"x")
    os.close(fd)


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
