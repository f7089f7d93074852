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
import struct
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import zstandard
from msgspec import Struct

from recollect.errors import DamagedData, StorageError
from recollect.system import fsops
from recollect.system.whole_files import digest_at, pieces

# Measured on generated and on real logs (docs/design/keeping.md): frames of 1 MiB are 3 % and 11 % larger at
# the same level, because distant repetitions are in different frames; level 9 takes half as long again for 3
# % less.
FRAME_BYTES = 3 << 19
LEVEL = 6
_SKIPPABLE = 0x184D2A5E
_FOOTER_MAGIC = 0x8F92EAB1
_HEADER = struct.Struct("<II")
_ENTRY = struct.Struct("<II")
_FOOTER = struct.Struct("<IBI")
_LONGEST_TABLE = 64 << 20
# A frame holds whole lines, so a single huge line makes it larger than usual.
LONGEST_FRAME = (64 << 20) + (2 << 20)
_KEPT_FRAMES = 4


class FrameSize(NamedTuple):
    """The length of one frame, packed and unpacked."""

    stored: int
    raw: int


def cut_frames(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut raw bytes near ``FRAME_BYTES``, after a newline where there is one.

    The cuts depend only on the bytes from the start, so a log that grew has the same frames as before, except
    for its last one.
    """
    pending = bytearray()
    for chunk in chunks:
        pending += chunk
        while len(pending) >= FRAME_BYTES:
            end = pending.find(b"\n", FRAME_BYTES - 1) + 1
            if not end:
                if len(pending) < LONGEST_FRAME - FRAME_BYTES:
                    break
                end = LONGEST_FRAME - FRAME_BYTES
            yield bytes(pending[:end])
            del pending[:end]
    if pending:
        yield bytes(pending)


class SeekableWriter:
    """Writes frames, then the table. The caller provides an empty readable file, syncs it and names it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True)
        self._unpacker = zstandard.ZstdDecompressor()
        self.frames: list[FrameSize] = []
        self.raw_digest = hashlib.sha256()
        self.digest = hashlib.sha256()
        self.size = 0

    def add(self, raw: bytes) -> None:
        """Compress and write one frame, and read it back: an unverified copy is not a backup."""
        start = self.size
        self.copy(self._compressor.compress(raw), raw)
        written = fsops.pread(self._fd, self.size - start, start)
        if self._unpacker.decompress(written, max_output_size=len(raw)) != raw:
            raise DamagedData(
                f"archive: frame {len(self.frames) - 1} does not unpack to what was read",
                hint="check memory and disk, then try again",
            )

    def copy(self, packed: bytes, raw: bytes) -> None:
        """Write a frame that is already compressed."""
        self._write(packed)
        self.raw_digest.update(raw)
        self.frames.append(FrameSize(len(packed), len(raw)))

    def finish(self) -> None:
        self._write(seek_table(self.frames))

    def _write(self, data: bytes) -> None:
        fsops.write_all(self._fd, data)
        self.digest.update(data)
        self.size += len(data)


def seek_table(frames: Iterable[FrameSize]) -> bytes:
    """The table as written at the end of a file."""
    entries = b"".join(_ENTRY.pack(frame.stored, frame.raw) for frame in frames)
    footer = _FOOTER.pack(len(entries) // _ENTRY.size, 0, _FOOTER_MAGIC)
    return _HEADER.pack(_SKIPPABLE, len(entries) + len(footer)) + entries + footer


class SeekableReader:
    """Raw bytes of a compressed file by position. Caches a few unpacked frames. Not thread-safe."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd, self._path = fd, path
        self.frames = self._read_table()
        self._raw_starts = _running(frame.raw for frame in self.frames)
        self._stored_starts = _running(frame.stored for frame in self.frames)
        self.size = self._raw_starts[-1] + self.frames[-1].raw if self.frames else 0
        self._unpacker = zstandard.ZstdDecompressor()
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def read(self, size: int, offset: int) -> bytes:
        """At most ``size`` raw bytes from ``offset``, from one frame; empty at the end."""
        if not 0 <= offset < self.size:
            return b""
        number = bisect_right(self._raw_starts, offset) - 1
        start = offset - self._raw_starts[number]
        return self.frame(number)[start : start + size]

    def raw(self) -> Iterator[bytes]:
        """All frames, unpacked, one after the other."""
        return (self.frame(number) for number in range(len(self.frames)))

    def frame(self, number: int) -> bytes:
        """One frame, unpacked."""
        known = self._kept.get(number)
        if known is None:
            known = self._unpacked(number)
            self._kept[number] = known
            if len(self._kept) > _KEPT_FRAMES:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(number)
        return known

    def packed(self, number: int) -> bytes:
        """One frame as it is stored."""
        data = fsops.pread(self._fd, self.frames[number].stored, self._stored_starts[number])
        if len(data) != self.frames[number].stored:
            raise self._damaged(f"frame {number} is cut short")
        return data

    def _unpacked(self, number: int) -> bytes:
        expected = self.frames[number].raw
        packed = self.packed(number)
        try:
            claimed = zstandard.frame_content_size(packed)
            # Checked before unpacking: a few bytes may claim to become gigabytes.
            if claimed != expected:
                raise self._damaged(f"frame {number} has another length than the table says")
            data = self._unpacker.decompress(packed, max_output_size=expected, allow_extra_data=False)
        except zstandard.ZstdError as problem:
            raise self._damaged(f"frame {number}: {problem}") from problem
        if len(data) != expected:
            raise self._damaged(f"frame {number} has another length than the table says")
        return data

    def _read_table(self) -> list[FrameSize]:
        size = os.fstat(self._fd).st_size
        footer = fsops.pread(self._fd, _FOOTER.size, max(size - _FOOTER.size, 0))
        if len(footer) < _FOOTER.size:
            raise self._damaged("it is too short")
        count, flags, magic = _FOOTER.unpack(footer)
        length = _HEADER.size + count * _ENTRY.size + _FOOTER.size
        if magic != _FOOTER_MAGIC or flags or length > min(size, _LONGEST_TABLE):
            raise self._damaged("it has no seek table")
        table = fsops.pread(self._fd, length, size - length)
        entries = table[_HEADER.size : -_FOOTER.size]
        frames = [FrameSize(*_ENTRY.unpack_from(entries, at * _ENTRY.size)) for at in range(count)]
        if table != seek_table(frames) or sum(frame.stored for frame in frames) != size - length:
            raise self._damaged("its seek table does not describe it")
        if any(frame.raw > LONGEST_FRAME for frame in frames):
            raise self._damaged("a frame is larger than any we write")
        return frames

    def _damaged(self, problem: str) -> DamagedData:
        return DamagedData(
            f"{self._path.name}: {problem}", hint="`recollect protect verify` checks every byte"
        )


def _running(lengths: Iterable[int]) -> list[int]:
    starts, total = [], 0
    for length in lengths:
        starts.append(total)
        total += length
    return starts


NAME = re.compile(r"[0-9a-f]{64}")
# What reading never fails with: the trouble is here, not with the file that is stored.
_ONLY_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


class StoredObject(Struct, frozen=True):
    """One object: its contents and how it is stored."""

    sha256: str
    size: int
    stored_bytes: int
    stored_sha256: str


class ObjectStore:
    """The objects below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

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
        hint = "`recollect protect verify` lists what is missing"
        with contextlib.ExitStack() as held:
            with fsops.as_storage_error("open", path, hint):
                fd = held.enter_context(fsops.reading(path))
            yield SeekableReader(fd, path)

    def verify(self, stored: StoredObject) -> list[str]:
        """What is wrong with an object; every bit is checked."""
        path = self.path(stored.sha256)
        try:
            size = path.lstat().st_size
            if (digest_at(path, size), size) != (stored.stored_sha256, stored.stored_bytes):
                return [f"{path.name}: its bytes are not those that were stored"]
            raw = hashlib.sha256()
            with self.reading(stored.sha256) as reader:
                for frame in reader.raw():
                    raw.update(frame)
                if (raw.hexdigest(), reader.size) != (stored.sha256, stored.size):
                    return [f"{path.name}: it does not unpack to what was archived"]
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
        temporary = self.root / f".{os.urandom(8).hex()}.tmp"
        fsops.make_directories(self.root)
        target = fsops.open_append(temporary)
        try:
            writer = SeekableWriter(target)
            done = self._reused(fd, length, before, writer) if before is not None else 0
            for frame in cut_frames(pieces(fd, length, done)):
                writer.add(frame)
            writer.finish()
            fsops.sync_file(target)
            return self._published(temporary, target, writer)
        except BaseException:
            with contextlib.suppress(OSError):
                fsops.unlink(temporary)
            raise
        finally:
            fsops.close(target)

    def _published(self, temporary: Path, target: int, writer: SeekableWriter) -> StoredObject:
        # Every frame was read back when it was written; this reads the table.
        if SeekableReader(target, temporary).frames != writer.frames:
            raise DamagedData(
                f"archive: the table of {temporary.name} is not what was written",
                hint="check memory and disk, then try again",
            )
        sha256 = writer.raw_digest.hexdigest()
        path = self.path(sha256)
        size = sum(frame.raw for frame in writer.frames)
        stored = StoredObject(sha256, size, writer.size, writer.digest.hexdigest())
        fsops.make_directories(path.parent)
        fsops.rename_over(temporary, path)
        fsops.sync_dir(path.parent)
        return stored

    def discard_unfinished(self) -> None:
        """Remove what an interrupted addition left behind. The caller must hold the archive's lock."""
        with contextlib.suppress(OSError):
            for path in self.root.glob(".*.tmp"):
                fsops.unlink(path)

    def _reused(self, fd: int, length: int, before: StoredObject, writer: SeekableWriter) -> int:
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
                writer.copy(old.packed(number), data)
                done += frame.raw
        return done
