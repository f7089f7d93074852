"""A trash for files of a Claude home: removed completely, restored byte for byte.

A batch is a directory below our data directory. It holds the removed files under ``files/``, at the same
relative paths as in the home, and ``manifest.json`` with size, hash, mode and time of each. The manifest is
on disk before the first file moves, so a crash in the middle leaves a batch that can be listed and restored:
what moved comes back, what did not is still there.

No byte is destroyed (law 3). Within one file system moving is a rename, and bytes a client adds meanwhile
move along. To another file system it is a copy, which is synced and compared before the original is deleted;
an original that changes meanwhile stays. Nothing is ever overwritten. A failed move is reverted.

Links are moved as links; their targets are not touched. The caller checks whether a session may be removed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from recollect.errors import DamagedData, NotFound, StorageError, UsageError
from recollect.system import fsops, openat

_MANIFEST, _FILES = "manifest.json", "files"
_CHUNK = 1 << 20


class TrashedFile(Struct, frozen=True):
    """One file of a batch. ``path`` is relative to the home; a link has a ``target`` instead of bytes."""

    path: str
    kind: Literal["file", "directory", "link"]
    mode: int
    mtime_ns: int
    size: int = 0
    sha256: str = ""
    target: str = ""


class TrashBatch(Struct, frozen=True):
    """The result of one removal. ``items`` are the files and directories that were moved as a whole."""

    batch: str
    session: str
    title: str
    home: str
    at: str
    items: tuple[str, ...]
    files: tuple[TrashedFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def targets(self) -> list[Path]:
        """The original paths of its items."""
        return [Path(self.home, *openat.components(item)) for item in self.items]


class Trash:
    """The batches below one of our directories."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(
        self, home: Path, items: Sequence[Path], *, session: str, title: str, at: dt.datetime
    ) -> TrashBatch:
        """Move items out of a home; afterwards either all are in the new batch, or none."""
        names = [item.relative_to(home).as_posix() for item in items]
        with _as_storage_error("move to the trash", home):
            files = tuple(file for item in items for file in _described(item, home))
            name = f"{at.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(4)}"
            batch = TrashBatch(name, session, title, str(home), at.isoformat(), tuple(names), files)
            fsops.make_directories(self.root / name)
            self._write(batch)
            try:
                _move_all([(item, self._place(batch, name)) for item, name in zip(items, names, strict=True)])
            except BaseException:
                self._dissolve(batch)
                raise
            return self._confirmed(batch)

    def batches(self) -> list[TrashBatch]:
        """What can be restored, newest first. A directory without a readable manifest is not listed."""
        try:
            names = sorted((entry.name for entry in self.root.iterdir()), reverse=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = (self._read(name) for name in names)
        return [batch for batch in found if batch is not None]

    def find(self, name: str) -> TrashBatch:
        """The batch with this name, or the only one whose name or session has this prefix."""
        batches = self.batches()
        found = [
            one for one in batches if name and (one.batch.startswith(name) or one.session.startswith(name))
        ]
        exact = [one for one in found if one.batch == name] or found
        if len(exact) == 1:
            return exact[0]
        problem = f"fits {len(exact)} batches" if exact else "is not in the trash"
        raise NotFound(f"batch {name!r}: {problem}", hint="`recollect rm --list` shows what there is")

    def restore(self, batch: TrashBatch) -> list[Path]:
        """Move everything back; refused where a file is in the way."""
        present = self._present(batch)
        if not present:
            raise DamagedData(
                f"batch {batch.batch}: its files are missing", hint=f"look at {self.root / batch.batch}"
            )
        for _, target in present:
            if os.path.lexists(target):
                raise UsageError(
                    f"restore {batch.batch}: {target} exists again",
                    hint="move that one away first; nothing was changed",
                )
        with _as_storage_error("restore", Path(batch.home)):
            self._verify(batch)
            # The log comes last: a client must not find a session whose other files are still missing.
            _move_all(present[::-1])
            self._dissolve(batch)
        return [target for _, target in present]

    def destroy(self, batch: TrashBatch) -> None:
        """Delete a batch permanently.

        The files go first: a manifest without them can be recognised, files without it cannot.
        """
        directory = self.root / batch.batch
        with _as_storage_error("empty the trash", directory):
            _discard(directory / _FILES)
            self._dissolve(batch)

    def obstacles(self, batch: TrashBatch) -> list[Path]:
        """Files in the way of a restore."""
        return [target for _, target in self._present(batch) if os.path.lexists(target)]

    # --- one batch ----------------------------------------------------------------------------

    def _place(self, batch: TrashBatch, item: str) -> Path:
        return self.root / batch.batch / _FILES / Path(*openat.components(item))

    def _present(self, batch: TrashBatch) -> list[tuple[Path, Path]]:
        places = [self._place(batch, item) for item in batch.items]
        pairs = zip(places, batch.targets(), strict=True)
        return [(place, target) for place, target in pairs if os.path.lexists(place)]

    def _write(self, batch: TrashBatch) -> None:
        text = msgspec.json.format(msgspec.json.encode(batch), indent=2)
        fsops.replace_file(self.root / batch.batch / _MANIFEST, text + b"\n")

    def _read(self, name: str) -> TrashBatch | None:
        try:
            data = openat.read_file(self.root, (name, _MANIFEST))
            batch = msgspec.json.decode(data, type=TrashBatch)
        except (NotFound, StorageError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return batch if batch.batch == name else None

    def _confirmed(self, batch: TrashBatch) -> TrashBatch:
        """The manifest updated from the moved files: a client may have written until the last moment."""
        known = {(file.path, file.size, file.mtime_ns): file for file in batch.files}
        root = self.root / batch.batch / _FILES
        moved = [place for place, _ in self._present(batch)]
        files = tuple(file for place in moved for file in _described(place, root, known))
        if files == batch.files:
            return batch
        items = tuple(place.relative_to(root).as_posix() for place in moved)
        batch = structs.replace(batch, items=items, files=files)
        self._write(batch)
        return batch

    def _verify(self, batch: TrashBatch) -> None:
        root = self.root / batch.batch / _FILES
        wanted = {file.path: file for file in batch.files}
        for place, _ in self._present(batch):
            for file in _described(place, root):
                known = wanted.get(file.path)
                if known is None or (file.kind, file.size, file.sha256) != (
                    known.kind,
                    known.size,
                    known.sha256,
                ):
                    raise DamagedData(
                        f"batch {batch.batch}: {file.path} was changed in the trash",
                        hint=f"look at {root}; nothing was changed",
                    )

    def _dissolve(self, batch: TrashBatch) -> None:
        """Remove an emptied batch. If anything is left in it, it and its manifest stay."""
        directory = self.root / batch.batch
        _remove_empty(directory / _FILES)
        if not (directory / _FILES).exists():
            with contextlib.suppress(FileNotFoundError):
                (directory / _MANIFEST).unlink()
            with contextlib.suppress(OSError):
                directory.rmdir()


# ---- looking ---------------------------------------------------------------------------------------------


def _described(
    path: Path, root: Path, known: dict[tuple[str, int, int], TrashedFile] | None = None
) -> Iterator[TrashedFile]:
    """A file, or a directory with its contents. An unchanged ``known`` file is not hashed again."""
    name, found = path.relative_to(root).as_posix(), path.lstat()
    mode, mtime = stat.S_IMODE(found.st_mode), found.st_mtime_ns
    if stat.S_ISLNK(found.st_mode):
        yield TrashedFile(name, "link", mode, mtime, target=str(path.readlink()))
    elif stat.S_ISDIR(found.st_mode):
        yield TrashedFile(name, "directory", mode, mtime)
        for inner in sorted(path.iterdir()):
            yield from _described(inner, root, known)
    elif stat.S_ISREG(found.st_mode):
        same = (known or {}).get((name, found.st_size, mtime))
        yield same or TrashedFile(name, "file", mode, mtime, found.st_size, _hash(path))
    else:
        raise OSError(errno.EINVAL, "neither a file nor a directory", str(path))


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(path: Path) -> Iterator[bytes]:
    fd = fsops.open_nofollow(path)
    try:
        offset = 0
        while chunk := fsops.pread(fd, _CHUNK, offset):
            offset += len(chunk)
            yield chunk
    finally:
        fsops.close_quietly(fd)


# ---- moving ----------------------------------------------------------------------------------------------


def _move_all(pairs: Iterable[tuple[Path, Path]]) -> None:
    """Move everything, or revert and raise."""
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in pairs:
            _move(source, target)
            done.append((source, target))
    except BaseException:
        for source, target in reversed(done):
            with contextlib.suppress(OSError):  # the batch then keeps its manifest and can be restored
                _move(target, source)
        raise


def _move(source: Path, target: Path) -> None:
    try:
        fsops.move(source, target)
    except OSError as cause:
        if cause.errno != errno.EXDEV:
            raise
        _carry_over(source, target)


def _carry_over(source: Path, target: Path) -> None:
    """Move to another file system: a complete, synced and compared copy first, then the originals are
    deleted.
    """
    doomed = source.with_name(f".{source.name[:200]}.{secrets.token_hex(4)}.moved")
    try:
        before = list(_described(source, source))
        _copy(source, target)
        # The client opens a log by its path for every write: after a rename it adds nothing more.
        source.rename(doomed)
        _require_same(before, doomed, target)
    except BaseException:
        if os.path.lexists(doomed) and not os.path.lexists(source):
            doomed.rename(source)
        _discard(target)
        raise
    _discard(doomed)
    fsops.sync_dir(source.parent)


def _require_same(before: list[TrashedFile], original: Path, copy: Path) -> None:
    unchanged = list(_described(original, original)) == before
    if not unchanged or _contents(copy) != _contents(original):
        raise OSError(errno.EBUSY, "it changed while it was copied", str(original))


def _contents(path: Path) -> list[tuple[str, str, int, str, str]]:
    """A tree without modes and times, which some file systems round."""
    return [(file.path, file.kind, file.size, file.sha256, file.target) for file in _described(path, path)]


def _copy(source: Path, target: Path) -> None:
    found = source.lstat()
    if stat.S_ISLNK(found.st_mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISDIR(found.st_mode):
        fsops.make_directories(target)
        for inner in source.iterdir():
            _copy(inner, target / inner.name)
        fsops.sync_dir(target)
    else:
        _copy_file(source, target)
    _copy_times(found, target)
    fsops.sync_dir(target.parent)


def _copy_file(source: Path, target: Path) -> None:
    fd, created = fsops.open_append(target)
    try:
        if not created:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        for chunk in _chunks(source):
            fsops.write_all(fd, chunk)
        fsops.sync_file(fd)
    finally:
        fsops.close(fd)


def _copy_times(found: os.stat_result, target: Path) -> None:
    times = (found.st_atime_ns, found.st_mtime_ns)
    if not stat.S_ISLNK(found.st_mode):
        os.utime(target, ns=times)
        target.chmod(stat.S_IMODE(found.st_mode))
    elif os.utime in os.supports_follow_symlinks:
        os.utime(target, ns=times, follow_symlinks=False)


def _discard(path: Path) -> None:
    """Remove a copy, or an original whose copy is verified."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_empty(directory: Path) -> None:
    """Remove the empty directories of a tree."""
    if directory.is_dir() and not directory.is_symlink():
        for inner in list(directory.iterdir()):
            _remove_empty(inner)
        with contextlib.suppress(OSError):
            directory.rmdir()


@contextlib.contextmanager
def _as_storage_error(operation: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        place = Path(cause.filename) if isinstance(cause.filename, str) else path
        hint = "nothing is lost; `recollect rm --list` shows what is in the trash"
        raise StorageError(operation, place, cause, hint=hint) from cause
