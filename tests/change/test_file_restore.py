"""Restoring a file: exact bytes, the directory that was chosen and nothing else, and an undo for all of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.change import undo
from recollect.change.rewind import planned_restoration
from recollect.change.rewind import restore as carry_out
from recollect.errors import NotFound, UsageError
from recollect.model.files.history import FileVersion, VersionSource

SESSION = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def chosen(tmp_path: Path) -> Path:
    """The directory a user named."""
    directory = tmp_path / "chosen"
    directory.mkdir()
    return directory


def version_of(content: str | bytes | None, path: str = "/w/a.txt", **more: Any) -> FileVersion:
    return FileVersion(path=path, source=VersionSource.WRITE, content=content, **more)


def restore(version: FileVersion, directory: Path, *, overwrite: bool = False) -> str | None:
    data = directory.parent / "data"
    return carry_out(*planned_restoration(version, directory, SESSION, 1, overwrite=overwrite), data)


def everything(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("path", "name"), [("/w/x/a.txt", "a.txt"), (r"D:\\p\\b.go", "b.go")], ids=["posix", "windows"]
)
def test_it_is_written_under_its_own_name_with_its_own_bytes(chosen: Path, path: str, name: str) -> None:
    restore(version_of("caf\u00e9\n", path), chosen)

    assert {name: "caf\u00e9\n".encode()} == everything(chosen)
    assert (
        planned_restoration(version_of("caf\u00e9\n", path), chosen, SESSION, 1, overwrite=False)[1] is None
    )


def test_a_new_file_follows_the_umask(chosen: Path) -> None:
    """It is a person's project file, not our secret."""
    old = os.umask(0o027)
    try:
        restore(version_of("x"), chosen)
    finally:
        os.umask(old)

    assert 0o640 == stat.S_IMODE((chosen / "a.txt").stat().st_mode)


def test_a_file_in_the_way_stays_unless_asked_and_comes_back_with_its_mode(chosen: Path) -> None:
    mine = chosen / "a.txt"
    mine.write_bytes(b"mine")
    mine.chmod(0o754)
    with pytest.raises(UsageError, match="it was not changed"):
        restore(version_of("x"), chosen)
    assert {"a.txt": b"mine"} == everything(chosen)

    change = restore(version_of("x"), chosen, overwrite=True)
    assert ({"a.txt": b"x"}, 0o754) == (everything(chosen), stat.S_IMODE(mine.stat().st_mode))
    assert change is not None
    undo.journal_at(chosen.parent / "data").undo(change)
    assert ({"a.txt": b"mine"}, 0o754) == (everything(chosen), stat.S_IMODE(mine.stat().st_mode))


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (version_of(None, existed=False), "did not exist"),
        (version_of(None), "not recorded"),
        (FileVersion(path="/a", source=VersionSource.BACKUP, backup_name="x@v1"), "was not read"),
    ],
)
def test_what_is_not_known_is_not_restored(chosen: Path, version: FileVersion, reason: str) -> None:
    """No empty file stands in for a lost one, and nothing is deleted."""
    with pytest.raises(UsageError, match=reason):
        restore(version, chosen)

    assert {} == everything(chosen)


def test_the_directory_is_there_absolute_and_may_be_reached_through_a_link(
    chosen: Path, tmp_path: Path
) -> None:
    with pytest.raises(NotFound):
        restore(version_of("x"), tmp_path / "nowhere")
    with pytest.raises(UsageError, match="absolute"):
        restore(version_of("x"), Path("chosen"))
    (tmp_path / "way").symlink_to(chosen)
    restore(version_of("x"), tmp_path / "way")

    assert {"a.txt": b"x"} == everything(chosen)


@pytest.mark.parametrize("path", ["/w/..", "..", ".", "", "/", "a\0b"])
def test_no_name_leads_out_of_the_directory(chosen: Path, tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError):
        restore(version_of("x", path), chosen)

    assert ([chosen], []) == (list(tmp_path.iterdir()), list(chosen.iterdir()))


def _link(file: Path, outside: Path) -> None:
    file.symlink_to(outside / "precious")


def _dangling(file: Path, outside: Path) -> None:
    file.symlink_to(outside / "not-yet")


def _directory(file: Path, _: Path) -> None:
    file.mkdir()


def _pipe(file: Path, _: Path) -> None:
    os.mkfifo(file)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("plant", [_link, _dangling, _directory, _pipe])
def test_nothing_is_written_through_what_was_planted(
    tmp_path: Path, chosen: Path, plant: Callable[[Path, Path], None], overwrite: bool
) -> None:
    """Attack C02: a link as the file, a dangling one, and things that are no files."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious")
    plant(chosen / "a.txt", outside)
    kind = stat.S_IFMT((chosen / "a.txt").lstat().st_mode)

    with pytest.raises(UsageError, match="never written through"):
        restore(version_of("x"), chosen, overwrite=overwrite)

    assert {"precious": b"precious"} == everything(outside)
    assert kind == stat.S_IFMT((chosen / "a.txt").lstat().st_mode)
