"""Archive files by content: written once, never changed, named after the hash of their raw bytes.

An object is a seekable compressed file at ``objects/<2 hex>/<sha256 of the raw bytes>.zst``. Equal files of
any number of sessions are one object. A log that grew becomes a new object that reuses the full frames of the
old one; only new bytes are compressed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from recollect.errors import DamagedData, StorageError
from recollect.storage.archive.seekable import (
    FRAME_BYTES,
    Compression,
    SeekableReader,
    SeekableWriter,
    cut_frames,
)
from recollect.system import fsops

_CHUNK = 1 << 20
NAME = re.compile(r"[0-9a-f]{64}")
# What reading never fails with: the trouble is here, not with the file that is stored.
_ONLY_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


class StoredObject(Struct, frozen=True, omit_defaults=True):
    """One object: its contents and how it is stored.

    ``frames`` are the hashes of each frame's raw bytes; an object of one frame uses its own hash.
    """

    sha256: str
    size: int
    stored_bytes: int
    stored_sha256: str
    frames: tuple[str, ...] = ()

    def frame_hashes(self) -> tuple[str, ...]:
        """The hash of each frame's raw bytes."""
        return self.frames or (() if self.size == 0 else (self.sha256,))


class ObjectStore:
    """The objects below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._packing: Compression | None = None

    def path(self, sha256: str) -> Path:
        """The path of the object with these raw bytes, whether it exists or not."""
        if not NAME.fullmatch(sha256):
            raise DamagedData(
                f"{sha256!a} is not the name of an object",
                hint="the manifest is damaged: restore it from a copy",
            )
        return self.root / sha256[:2] / f"{sha256}.zst"

    def store(
        self, source: Path, *, size: int | None = None, before: StoredObject | None = None
    ) -> StoredObject:
        """Store a file, or its first ``size`` bytes. ``before`` is an earlier state whose frames may be
        reused.

        What is stored is read back and compared before anything refers to it.
        """
        fd = fsops.open_nofollow(source)
        try:
            length = os.fstat(fd).st_size if size is None else size
            return self._store(fd, length, before)
        except OSError as cause:
            where = self.root if cause.errno in _ONLY_WRITING else source
            hint = f"what was written is not used; {fsops.next_step(cause, 'archive again')}"
            raise StorageError("archive", where, cause, hint=hint) from cause
        finally:
            fsops.close_quietly(fd)

    @contextlib.contextmanager
    def reading(self, sha256: str) -> Iterator[SeekableReader]:
        """Read an object and close it."""
        path = self.path(sha256)
        try:
            fd = fsops.open_nofollow(path)
        except OSError as cause:
            raise StorageError(
                "open", path, cause, hint="`recollect archive verify` lists what is missing"
            ) from cause
        try:
            yield SeekableReader(fd, path)
        finally:
            fsops.close_quietly(fd)

    def verify(self, stored: StoredObject) -> list[str]:
        """What is wrong with an object; every bit is checked."""
        path = self.path(stored.sha256)
        try:
            if _hash_file(path) != (stored.stored_sha256, stored.stored_bytes):
                return [f"{path.name}: its bytes are not those that were stored"]
            with self.reading(stored.sha256) as reader:
                wrong = _wrong_frames(reader, stored)
                if wrong is not None:
                    return [f"{path.name}: it does not unpack to what was archived: {wrong}"]
        except (DamagedData, StorageError, OSError) as problem:
            return [f"{path.name}: {problem}"]
        return []

    def discard(self, sha256: str) -> None:
        """Remove an unreferenced object."""
        fsops.unlink(self.path(sha256))

    def names(self) -> Iterator[str]:
        """Every object that is there."""
        if not self.root.is_dir():
            return
        for directory in sorted(self.root.iterdir()):
            if directory.is_dir():
                yield from sorted(
                    path.stem
                    for path in directory.iterdir()
                    if NAME.fullmatch(path.stem) and path.suffix == ".zst"
                )

    def _store(self, fd: int, length: int, before: StoredObject | None) -> StoredObject:
        hashes = _FileHashes()
        temporary = self.root / f".{os.urandom(8).hex()}.tmp"
        fsops.make_directories(self.root)
        target = fsops.open_append(temporary).fd
        try:
            self._packing = self._packing or Compression()
            writer = SeekableWriter(target, self._packing)
            done = self._reused(fd, length, before, writer, hashes) if before is not None else 0
            for frame in cut_frames(_chunks(fd, done, length)):
                hashes.update(frame)
                writer.add(frame)
            writer.finish()
            fsops.sync_file(target)
            return self._published(temporary, target, writer, hashes)
        except BaseException:
            with contextlib.suppress(OSError):
                fsops.unlink(temporary)
            raise
        finally:
            fsops.close(target)

    def _published(
        self, temporary: Path, target: int, writer: SeekableWriter, hashes: _FileHashes
    ) -> StoredObject:
        # Every frame was read back when it was written; this reads the table.
        if SeekableReader(target, temporary).frames != writer.frames:
            raise DamagedData(
                f"archive: the table of {temporary.name} is not what was written",
                hint="check memory and disk, then try again",
            )
        sha256 = hashes.whole.hexdigest()
        path = self.path(sha256)
        size = sum(frame.raw for frame in writer.frames)
        frames = tuple(hashes.frames) if len(hashes.frames) > 1 else ()
        stored = StoredObject(sha256, size, writer.size, writer.digest.hexdigest(), frames)
        fsops.make_directories(path.parent)
        fsops.rename_over(temporary, path)
        fsops.sync_dir(path.parent)
        return stored

    def discard_unfinished(self) -> None:
        """Remove what an interrupted addition left behind. The caller must hold the archive's lock."""
        with contextlib.suppress(OSError):
            for path in self.root.glob(".*.tmp"):
                fsops.unlink(path)

    def _reused(
        self, fd: int, length: int, before: StoredObject, writer: SeekableWriter, hashes: _FileHashes
    ) -> int:
        """Reuse the frames of an earlier state that the file still begins with; returns how many bytes they
        cover.
        """
        done = 0
        with contextlib.suppress(DamagedData, StorageError), self.reading(before.sha256) as old:
            for number, frame in enumerate(old.frames):
                # The last frame may have grown; a full one ends where it would be cut again.
                if frame.raw < FRAME_BYTES or done + frame.raw > length:
                    break
                data = old.frame(number)
                if fsops.pread(fd, frame.raw, done) != data:
                    break
                writer.copy(old.packed(number), frame.raw)
                hashes.update(data)
                done += frame.raw
        return done


class _FileHashes:
    """Hashes of a file and of each of its frames, with little repeated hashing."""

    def __init__(self) -> None:
        self.whole = hashlib.sha256()
        self.frames: list[str] = []

    def update(self, frame: bytes) -> None:
        self.whole.update(frame)
        # So far the whole file is the first frame.
        one = hashlib.sha256(frame) if self.frames else self.whole.copy()
        self.frames.append(one.hexdigest())


def _wrong_frames(reader: SeekableReader, stored: StoredObject) -> str | None:
    """What is wrong, if anything: a frame, their number, or the whole."""
    hashes = _FileHashes()
    for number in range(len(reader.frames)):
        hashes.update(reader.frame(number))
    expected = stored.frame_hashes()
    wrong = [
        number for number, pair in enumerate(zip(hashes.frames, expected, strict=False)) if len(set(pair)) > 1
    ]
    if wrong:
        return f"frame {wrong[0]} of {len(expected)}"
    if len(hashes.frames) != len(expected) or reader.size != stored.size:
        return "its length is wrong"
    return "its hash is wrong" if hashes.whole.hexdigest() != stored.sha256 else None


def _chunks(fd: int, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        chunk = fsops.pread(fd, min(_CHUNK, end - start), start)
        if not chunk:
            return
        yield chunk
        start += len(chunk)


def _hash_file(path: Path) -> tuple[str, int]:
    fd = fsops.open_nofollow(path)
    digest, size = hashlib.sha256(), os.fstat(fd).st_size
    try:
        for chunk in _chunks(fd, 0, size):
            digest.update(chunk)
    finally:
        fsops.close_quietly(fd)
    return digest.hexdigest(), size
